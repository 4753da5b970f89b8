"""Declarations of boxes and points: what holds without reports and without a prompt, and figures that hang on no id."""

from __future__ import annotations

import csv
import itertools
import json
from pathlib import Path

import pytest
from PIL import Image

import snellen
from snellen.benchmarks import registry
from snellen.engine.run_folder import RunSpec
from snellen.errors import UsageError
from snellen.reports.runs import report
from snellen.runs.coordinates import with_coordinates
from snellen.types import Text

BOXES = [(400, 300, 620, 470), (20, 200, 300, 460), (300, 50, 590, 380), (5, 6, 600, 400)]
POINTS = [box[:2] for box in BOXES]
HEAD = 'name = "dogs"\n[source]\ncsv = "dogs.csv"\n[rows]\nid = "id"\nimage = "image"\nquestion = "question"\nanswer = "gold"\n'
REPORT = '[[report]]\nmetric = "accuracy"\nheadline = true\n'


def declared(folder: Path, read: str, more: str = "", golds=None) -> Path:
    rows = []
    for at, gold in enumerate(golds or (BOXES if read.startswith("box") else POINTS)):
        Image.new("RGB", (640, 480), (at, 0, 0)).save(folder / f"{at}.png")
        rows.append((f"r{at}", f"{at}.png", "Where is the dog?", json.dumps([gold] if read == "boxes" else gold)))
    with (folder / "dogs.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("id", "image", "question", "gold"), *rows])
    (folder / "dogs.toml").write_text(f'{HEAD}{more}\n[score]\nread = "{read}"\n')
    return folder / "dogs.toml"


def run_of(path: Path, replies: dict[str, object], out: str = "run"):
    answers = path.parent / f"{out}.jsonl"
    lines = (json.dumps({"id": name, "reply": json.dumps(reply)}) for name, reply in replies.items())
    answers.write_text("\n".join(lines))
    return snellen.evaluate(str(path), f"replay:{answers}", out=path.parent / out)


def asked(run) -> str:
    sample = next(iter(run.benchmark.samples(run.meta.spec.data)))
    return "".join(part.text for part in sample.prompt.parts if isinstance(part, Text))


@pytest.mark.parametrize("prompt", ["", '[prompt]\nstyle = "question"\n', '[prompt]\nafter = "\\n{request}"\n'])
@pytest.mark.parametrize("reports", ["", REPORT])
@pytest.mark.parametrize(
    ("read", "golds", "first", "form"),
    [
        ("box", BOXES, "accuracy@0.5", "the box as [x1, y1, x2, y2]"),
        ("boxes", [[box] for box in BOXES], "accuracy", "all boxes as [[x1, y1, x2, y2], …]"),
        ("point", POINTS, "accuracy", "the point as [x, y]"),
    ],
)
def test_kind_request_and_figures_hold_without_reports_and_without_a_prompt(
    tmp_path, read, golds, first, form, reports, prompt
):
    path = declared(tmp_path, read, f'[answer]\nspace = "pixel"\ngold = "pixel"\n{prompt}{reports}')
    run = run_of(path, {f"r{at}": gold for at, gold in enumerate(golds)})
    assert asked(run) == f"Where is the dog?\nAnswer with {form}. Coordinates are pixels of the image."
    figures = run.figures("strict")["strict"]
    assert (figures[0].name, figures[0].value) == ("accuracy" if reports else first, 1.0)
    assert {sample.kind for sample in run.benchmark.samples(run.meta.spec.data)} == {read}
    if not reports:
        own = {"box": "iou", "boxes": "f1@0.5", "point": "distance_px"}[read]
        assert own in [figure.name for figure in figures]


def test_a_gold_space_that_is_open_stops_a_declared_set_too(tmp_path):
    path = declared(tmp_path, "box", golds=[(100, 150, 300, 200), (50, 60, 200, 150)])
    spec = RunSpec(benchmark=str(path), model="api:gpt-5")
    with pytest.raises(UsageError, match="could be thousand:xyxy and thousand:xywh and pixel:xyxy and pixel:xywh"):
        with_coordinates(spec, registry.find(str(path)))


def test_words_of_its_own_are_sent_as_they_are_and_the_space_is_said_to_be_the_default(tmp_path):
    path = declared(
        tmp_path, "box", f'[prompt]\nstyle = "question"\nafter = " As a box."\n[answer]\ngold = "pixel"\n{REPORT}'
    )
    run = run_of(path, {f"r{at}": box for at, box in enumerate(BOXES)})
    assert asked(run) == "Where is the dog? As a box."
    assert any("read as thousand:xyxy: by the default, since the prompt's own words" in note for note in run.notes())


def test_a_request_stands_in_the_prompts_of_a_columns_values(tmp_path):
    values = '[prompt]\nby = "id"\n[prompt.values.r0]\nstyle = "question"\nbefore = "{request} "\n'
    run = run_of(declared(tmp_path, "point", f'{values}[answer]\ngold = "pixel"\n{REPORT}'), {"r0": [1, 1]})
    assert asked(run).startswith("Answer with the point as [x, y].") and asked(run).endswith(" Where is the dog?")


def test_points_alone_have_no_order_of_a_box(tmp_path):
    reading = registry.find(str(declared(tmp_path, "point", '[answer]\ngold = "pixel"\n'))).reading(snellen.Data())
    assert reading is not None and "gold coordinates are pixel:xy (" in reading.text


@pytest.mark.parametrize("metric", ["", '[[report]]\nmetric = "coco-map"\nheadline = true\n'])
def test_average_precision_hangs_on_no_id_and_on_no_order_of_rows(tmp_path, metric):
    pytest.importorskip("pycocotools")
    replies = [[BOXES[0]], [(0, 0, 9, 9), BOXES[1]], [(5, 5, 30, 30)], [(1, 1, 20, 20), BOXES[3]]]
    found = set()
    for number, order in enumerate(itertools.islice(itertools.permutations(range(4)), 0, 24, 5)):
        folder = tmp_path / str(number)
        folder.mkdir()
        path = declared(
            folder, "boxes", f'[answer]\nspace = "pixel"\ngold = "pixel"\n{metric}', [BOXES[at] for at in order]
        )
        path.with_suffix(".csv").write_text(path.with_suffix(".csv").read_text().replace("\nr", f"\n{number}r"))
        run = run_of(path, {f"{number}r{at}": replies[row] for at, row in enumerate(order)})
        found.add(run.metric("coco-map" if metric else "coco_map").value)
    assert len(found) == 1 and 0 < found.pop() < 1


@pytest.mark.parametrize("pair", [("centre-in-box", "centre_in_box"), ("accuracy", "accuracy@0.5")])
def test_a_metric_has_the_name_that_reports_print(tmp_path, pair):
    own = f'[answer]\nspace = "pixel"\ngold = "pixel"\n{REPORT}[[report]]\nmetric = ["{pair[1]}"]\n'
    path = declared(tmp_path, "box", own + (f'[[report]]\nmetric = "{pair[0]}"\n' if pair[0] != "accuracy" else ""))
    run = run_of(path, {"r0": BOXES[0], "r1": [0, 0, 9, 9], "r2": BOXES[2], "r3": BOXES[3]})
    assert run.metric(pair[0]).value == run.metric(pair[1]).value == 0.75


def test_boxes_have_no_confusion_matrix(tmp_path):
    run = run_of(declared(tmp_path, "box", '[answer]\ngold = "pixel"\n'), {f"r{at}": BOXES[at] for at in range(4)})
    page = report([run.path], tmp_path / "report.html").read_text(encoding="utf-8")
    assert "dogs" in page and "Confusion" not in page
