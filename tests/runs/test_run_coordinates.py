"""Runs of questions for boxes: in which space they are asked and read, what is recorded, and what a second reading changes."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import msgspec
import pytest
from PIL import Image

import snellen
from snellen.benchmarks.table.benchmark import open_table
from snellen.benchmarks.table.gold_regions import GoldRegions
from snellen.engine.run_folder import RunFolder, RunSpec
from snellen.errors import DataError, UsageError
from snellen.models.coordinates import families, family_of
from snellen.reports.runs import report
from snellen.runs.coordinates import odd_line, with_coordinates
from snellen.scoring.coordinates import parse_coordinates
from snellen.types import Text

SIZES = [(640, 480), (320, 480), (800, 600), (640, 427)]
BOXES = [(400, 300, 620, 470), (20, 200, 300, 460), (300, 50, 790, 580), (5, 6, 600, 400), (410, 10, 630, 60)]


def table(folder: Path, cells=None, header=("image", "question", "answer"), rows=None) -> Path:
    """Write images of several sizes and a table of boxes in pixels."""
    (folder / "images").mkdir()
    written = []
    for at, box in enumerate(BOXES):
        Image.new("RGB", SIZES[at % 4]).save(folder / "images" / f"{at}.png")
        written.append((f"{at}.png", "Where is the dog?", *(cells(box) if cells else (json.dumps(box),))))
    with (folder / "boxes.csv").open("w", newline="") as file:
        csv.writer(file).writerows([header, *(rows or written)])
    return folder / "boxes.csv"


def replies(folder: Path, scale) -> Path:
    """Write replies that are the gold boxes in another space."""
    lines = []
    for at, box in enumerate(BOXES):
        width, height = SIZES[at % 4]
        numbers = [scale(number, (width, height)[side % 2]) for side, number in enumerate(box)]
        lines.append(json.dumps({"id": str(at), "reply": json.dumps({"bbox_2d": numbers, "label": "dog"})}))
    path = folder / "replies.jsonl"
    path.write_text("\n".join(lines))
    return path


def thousandths(number: int, side: int) -> int:
    return round(1000 * number / side)


def run_of(tmp_path: Path, scale=thousandths, **options):
    path = table(tmp_path)
    settings = {"images": tmp_path / "images", "benchmark_options": options, "out": tmp_path / "run"}
    return snellen.evaluate(str(path), f"replay:{replies(tmp_path, scale)}", **settings)


def value(run, name: str) -> float | None:
    return run.metric(name).value


def test_a_table_of_boxes_is_asked_and_read_in_thousandths(tmp_path):
    run = run_of(tmp_path)
    assert run.meta.spec.data.options == {"coordinates": "thousand:xyxy", "coordinates_by": "the prompt"}
    sample = next(run.benchmark.samples(run.meta.spec.data))
    text = next(part.text for part in sample.prompt.parts if isinstance(part, Text))
    assert text.endswith(
        "Answer with the box as [x1, y1, x2, y2]. Coordinates run from 0 to 1000 over the width and the height of the image."
    )
    names = [metric.name for metric in run.figures()["strict"]]
    assert names[:6] == ["accuracy@0.5", "iou", "accuracy@0.25", "accuracy@0.75", "accuracy@0.9", "centre_in_box"]
    assert value(run, "accuracy@0.9") == 1.0 and 0.97 < value(run, "iou") < 1.0
    assert any("read as thousand:xyxy: the prompt asks for it" in note for note in run.notes())


def test_a_second_reading_is_kept_until_the_next_one(tmp_path):
    run = run_of(tmp_path, lambda number, side: number)
    assert value(run, "accuracy@0.5") < 1.0
    summary, notes = snellen.score(
        run.path, benchmark_options={"coordinates": "pixel", "coordinates_by": "--coordinates"}
    )
    assert (
        summary.metrics["strict"][0].value == 1.0
        and "boxes and points are read as pixel:xyxy: by --coordinates" in notes
    )
    again = snellen.load_run(run.path, trust=True)
    assert again.summary_is_current() and again.figures()["strict"][0].value == 1.0
    assert RunFolder(run.path).meta().fingerprint == run.meta.fingerprint


def test_the_same_command_resumes_a_run_and_another_space_is_another_run(tmp_path):
    run = run_of(tmp_path)
    settings = {"images": tmp_path / "images", "out": tmp_path / "run"}
    model = f"replay:{tmp_path / 'replies.jsonl'}"
    assert snellen.evaluate(str(tmp_path / "boxes.csv"), model, **settings).meta.fingerprint == run.meta.fingerprint
    with pytest.raises(snellen.errors.FingerprintError, match="coordinates"):
        snellen.evaluate(str(tmp_path / "boxes.csv"), model, benchmark_options={"coordinates": "unit"}, **settings)


def test_a_run_begun_before_spaces_were_recorded_keeps_its_reading(tmp_path):
    run = run_of(tmp_path, lambda number, side: number)
    path = run.path / "run_meta.json"
    meta = json.loads(path.read_text())
    for options in (meta["spec"]["data"]["options"], meta["identity"]["data_options"]):
        options.clear()
    path.write_text(json.dumps(meta))
    snellen.score(run.path)
    old = snellen.load_run(run.path, trust=True)
    assert [metric.name for metric in old.figures()["strict"]] == ["accuracy", "invalid", "error"]
    assert old.figures()["strict"][0].value == 1.0
    assert snellen.score(run.path, benchmark_options={"coordinates": "thousand"})[0].metrics["strict"][0].value < 1.0
    assert old.figures()["strict"][0].value == 1.0 and "coordinates" not in json.loads(
        (run.path / "summary.json").read_text()
    )
    spec = old.meta.spec
    assert with_coordinates(spec, old.benchmark, old.folder) == spec


@pytest.mark.parametrize(
    ("model", "settings", "expected"),
    [
        ("api:gpt-5", {}, ("thousand:xyxy", "the prompt")),
        ("api:gemini-2.5-pro", {}, ("thousand:yxyx", "family gemini")),
        ("api:allenai/Molmo-7B", {}, ("percent:xyxy", "family molmo")),
        ("api:Qwen/Qwen2.5-VL-7B-Instruct", {}, ("sent-pixel:xyxy", "family qwen2_5-vl")),
        ("api:gemini-2.5-pro", {"coordinates": "pixel:xywh"}, ("pixel:xywh", "--coordinates")),
    ],
)
def test_option_then_family_then_prompt_decide(tmp_path, model, settings, expected):
    path = table(tmp_path)
    data = snellen.benchmarks.base.Data(images=tmp_path / "images", options=settings)
    options = with_coordinates(RunSpec(benchmark=str(path), model=model, data=data), open_table(str(path))).data.options
    assert (options["coordinates"], options["coordinates_by"]) == expected
    if model.endswith("Instruct"):
        assert json.loads(options["sent_size"])["resize"]["factor"] == 28


def test_a_declared_space_comes_before_that_of_the_family(tmp_path):
    table(tmp_path)
    toml = tmp_path / "dogs.toml"
    toml.write_text(
        'name = "dogs"\n[source]\nfile = "boxes.csv"\n[rows]\nimage = "image"\nquestion = "question"\nanswer = "answer"\n'
        '[answer]\nspace = "percent"\n'
    )
    from snellen.benchmarks.registry import find

    subject = find(str(toml))
    data = snellen.benchmarks.base.Data(images=tmp_path / "images")
    options = with_coordinates(RunSpec(benchmark=str(toml), model="api:gemini", data=data), subject).data.options
    assert (options["coordinates"], options["coordinates_by"]) == ("percent:xyxy", "the benchmark's prompt")


def test_a_space_for_a_table_without_boxes_is_refused(tmp_path):
    (tmp_path / "words.csv").write_text("question,answer\nWhat is it?,dog\nAnd this?,cat\n")
    spec = RunSpec(
        benchmark="words", model="api:gpt-5", data=snellen.benchmarks.base.Data(options={"coordinates": "unit"})
    )
    with pytest.raises(UsageError, match="no answer is a box or a point"):
        with_coordinates(spec, open_table(str(tmp_path / "words.csv")))


def test_sent_pixels_without_a_known_size_are_refused(tmp_path):
    path = table(tmp_path)
    data = snellen.benchmarks.base.Data(images=tmp_path / "images", options={"coordinates": "sent-pixel"})
    with pytest.raises(UsageError, match="resizes images"):
        with_coordinates(RunSpec(benchmark=str(path), model="api:gpt-5", data=data), open_table(str(path)))


@pytest.mark.parametrize(
    ("header", "cells"),
    [
        (("x1", "y1", "x2", "y2"), lambda box: box),
        (("xmin", "ymin", "xmax", "ymax"), lambda box: box),
        (("left", "top", "width", "height"), lambda box: (box[0], box[1], box[2] - box[0], box[3] - box[1])),
        (("bbox",), lambda box: (json.dumps([box[0], box[1], box[2] - box[0], box[3] - box[1]]),)),
        (("y_min", "x_min", "y_max", "x_max"), lambda box: (box[1], box[0], box[3], box[2])),
    ],
)
def test_gold_boxes_are_read_from_every_layout(tmp_path, header, cells):
    path = table(tmp_path, cells, ("image", "question", *header))
    run = snellen.evaluate(
        str(path), f"replay:{replies(tmp_path, thousandths)}", images=tmp_path / "images", out=tmp_path / "run"
    )
    assert value(run, "accuracy@0.9") == 1.0


@pytest.mark.parametrize(
    ("cell", "right"),
    [
        ([[110, 10], [300, 20], [300, 300], [110, 300]], 0.8),
        ({"size": [10, 10], "counts": [20, 20, 60]}, 1.0),
    ],
)
def test_a_table_of_points_has_polygons_or_masks_as_gold(tmp_path, cell, right):
    path = table(tmp_path, lambda box: (json.dumps(cell),))
    lines = [json.dumps({"id": str(at), "reply": '{"point_2d": [250, 250]}'}) for at in range(len(BOXES))]
    (tmp_path / "replies.jsonl").write_text("\n".join(lines))
    settings = {"images": tmp_path / "images", "benchmark_options": {"kind": "point"}, "out": tmp_path / "run"}
    assert value(snellen.evaluate(str(path), f"replay:{tmp_path / 'replies.jsonl'}", **settings), "accuracy") == right


def test_a_mask_in_an_image_file_is_the_place_where_points_are_right(tmp_path):
    path = table(tmp_path, lambda box: ("mask.png",))
    mask = Image.new("L", (640, 480))
    mask.paste(255, (0, 0, 320, 240))
    mask.save(tmp_path / "images" / "mask.png")
    lines = [json.dumps({"id": str(at), "reply": json.dumps([[499, 498], [0, 0], [600, 100]][at])}) for at in range(3)]
    (tmp_path / "replies.jsonl").write_text("\n".join(lines))
    settings = {
        "images": tmp_path / "images",
        "benchmark_options": {"kind": "point", "map": "image=image,answer=answer"},
        "out": tmp_path / "run",
    }
    run = snellen.evaluate(str(path), f"replay:{tmp_path / 'replies.jsonl'}", limit=3, **settings)
    assert [row["value"] for row in run.scores().to_pylist()] == [1.0, 1.0, 0.0]


def test_models_of_different_spaces_are_compared(tmp_path):
    first = run_of(tmp_path)
    lines = replies(tmp_path, lambda number, side: number)
    settings = {"images": tmp_path / "images", "benchmark_options": {"coordinates": "pixel"}, "out": tmp_path / "other"}
    second = snellen.evaluate(str(tmp_path / "boxes.csv"), f"replay:{lines}", **settings)
    assert snellen.compare(first, second)


def test_a_column_that_fits_two_orders_is_asked_for(tmp_path):
    path = table(tmp_path, lambda box: (json.dumps([110, 120, 160, 180]),))
    data = snellen.benchmarks.base.Data(images=tmp_path / "images")
    spec = RunSpec(benchmark=str(path), model="api:gpt-5", data=data)
    with pytest.raises(UsageError, match="could be pixel:xyxy and pixel:xywh"):
        with_coordinates(spec, open_table(str(path)))
    named = snellen.benchmarks.base.Data(images=tmp_path / "images", options={"gold-space": "pixel:xywh"})
    decided = with_coordinates(msgspec.structs.replace(spec, data=named), open_table(str(path)))
    assert decided.data.options["coordinates"] == "thousand:xyxy"


@pytest.mark.parametrize(
    "space", ["unit:xyxy", "unit:cxcywh", "thousand:xyxy", "percent:xywh", "pixel:xywh", "pixel:xyxy"]
)
def test_the_space_of_a_column_is_told_from_all_of_it(space):
    import random

    draw, where, regions = random.Random(1), parse_coordinates(space), GoldRegions()
    for _ in range(60):
        size = draw.choice([(640, 480), (1920, 1080), (480, 640)])
        (x1, x2), (y1, y2) = (sorted(draw.sample(range(1, 1000), 2)) for _ in range(2))
        extent = where.extent(size)
        left, top, right, bottom = (
            x1 * extent[0] / 1000,
            y1 * extent[1] / 1000,
            x2 * extent[0] / 1000,
            y2 * extent[1] / 1000,
        )
        cell = {
            "xyxy": [left, top, right, bottom],
            "xywh": [left, top, right - left, bottom - top],
            "cxcywh": [(left + right) / 2, (top + bottom) / 2, right - left, bottom - top],
        }[where.order]
        regions.add(cell, lambda size=size: size)
    assert list(map(str, regions.fits())) == [space]


def test_a_wrong_space_is_warned_of(tmp_path):
    run = run_of(tmp_path, lambda number, side: number / side)
    line = odd_line(run.figures()["strict"])
    assert line.startswith("coordinates-odd: 100% of the replies")
    assert not odd_line(run_of_again(tmp_path).figures()["strict"])


def run_of_again(tmp_path):
    path = replies(tmp_path, thousandths)
    return snellen.evaluate(
        str(tmp_path / "boxes.csv"), f"replay:{path}", images=tmp_path / "images", out=tmp_path / "again"
    )


def test_every_family_has_a_source_and_a_space_that_can_be_read():
    for name, family in families().items():
        assert family.source and family.form.space, name
        assert (family.form.space == "sent-pixel") == (family.resize is not None)
        assert all(family_of(f"api:someone/{part}-7b")[0] == name for part in family.names)


def test_boxes_are_not_scored_without_the_images_whose_sizes_they_need(tmp_path):
    """Otherwise a run of right answers would fall to 0 in silence, and its summary with it."""
    run = run_of(tmp_path)
    (tmp_path / "images").rename(tmp_path / "away")
    with pytest.raises((DataError, UsageError)):
        snellen.load_run(run.path).summarize()
    (tmp_path / "away").rename(tmp_path / "images")
    assert value(snellen.load_run(run.path), "accuracy@0.9") == 1.0


def test_the_space_is_asked_for_where_a_gold_box_reaches_over_its_image(tmp_path):
    path = table(tmp_path, cells=lambda box: [json.dumps((-50, *box[1:]) if box == BOXES[0] else box)])
    settings = {"images": tmp_path / "images", "out": tmp_path / "run"}
    model = f"replay:{replies(tmp_path, thousandths)}"
    with pytest.raises(UsageError, match="fit no space: some reach over the edges"):
        snellen.evaluate(str(path), model, **settings)
    run = snellen.evaluate(str(path), model, benchmark_options={"gold-space": "pixel:xyxy"}, **settings)
    assert value(run, "accuracy@0.5") == pytest.approx(4 / 5)


@pytest.mark.parametrize(
    ("space", "found"),
    [
        ("unit:xyxy", "5 of 5 reach over their images"),
        ("percent", "5 of 5 reach over their images"),
        ("thousand:xywh", "3 of 5 reach over their images or are inverted"),
    ],
)
def test_a_named_space_that_the_gold_boxes_cannot_be_in_is_refused(tmp_path, space, found):
    path = table(tmp_path)
    with pytest.raises(UsageError, match=found) as refused:
        run = {"images": tmp_path / "images", "benchmark_options": {"gold-space": space}, "out": tmp_path / "run"}
        snellen.evaluate(str(path), f"replay:{replies(tmp_path, thousandths)}", **run)
    assert f"--gold-space {space}" in str(refused.value) and "was expected" in str(refused.value)
    assert "The column fits pixel:xyxy: --gold-space pixel:xyxy." in str(refused.value.hint)


def test_shares_are_no_pixels_even_though_they_lie_in_every_image(tmp_path):
    path = table(tmp_path, lambda box: (json.dumps([0.1, 0.2, 0.5, 0.75]),))
    with pytest.raises(UsageError, match="no number is above 1"):
        data = snellen.benchmarks.base.Data(images=tmp_path / "images", options={"gold-space": "pixel"})
        open_table(str(path)).table.survey(data)


@pytest.mark.parametrize("cell", ["[NaN, 20, 300, 460]", "[20, nan, 300, 460]", "[[20, 20, Infinity, 460]]"])
@pytest.mark.parametrize("others", [True, False])
def test_a_gold_box_without_a_number_leaves_its_row_out(tmp_path, cell, others):
    path = table(tmp_path, lambda box: (json.dumps(box) if others and box != BOXES[1] else cell,))
    data = snellen.benchmarks.base.Data(images=tmp_path / "images")
    if not others:
        with pytest.raises(DataError, match=r"none of its 5 rows can be asked.*(is no number|is not a box)"):
            open_table(str(path)).table.survey(data)
        return
    surveyed = open_table(str(path)).table.survey(data)
    assert surveyed.kinds == {"box": 4}
    (omitted,) = surveyed.omitted.values()
    assert omitted.reason.endswith("a coordinate is no number") or "is not a box of four numbers" in omitted.reason
    assert cell in omitted.reason


def test_a_gold_box_in_columns_names_the_one_without_a_number(tmp_path):
    path = table(
        tmp_path,
        lambda box: (*box[:3], "NaN" if box == BOXES[1] else box[3]),
        ("image", "question", "x1", "y1", "x2", "y2"),
    )
    surveyed = open_table(str(path)).table.survey(snellen.benchmarks.base.Data(images=tmp_path / "images"))
    assert [row.reason for row in surveyed.omitted.values()] == ["its box has no number as 'y2': 'NaN'"]


CORNERS = [[110, 10], [300, 20], [300, 300], [110, 300]]


@pytest.mark.parametrize(
    ("cell", "options"),
    [
        (CORNERS, {"kind": "region"}),
        ([number for corner in CORNERS for number in corner], {"kind": "region"}),
        ({"polygon": CORNERS}, {}),
        ([CORNERS, [[0, 0], [5, 0], [5, 5]]], {"kind": "region"}),
        ({"size": [480, 320], "counts": [20, 20, 480 * 320 - 40]}, {}),
    ],
)
def test_a_table_of_outlines_and_masks_is_asked_for_regions(tmp_path, cell, options):
    path = table(tmp_path, lambda box: (json.dumps(cell),))
    scale = lambda point, size: [1000 * point[0] / size[0], 1000 * point[1] / size[1]]  # noqa: E731
    reply = lambda at: json.dumps([scale(point, SIZES[at % 4]) for point in CORNERS])  # noqa: E731
    if isinstance(cell, dict) and "size" in cell:
        reply = lambda at: json.dumps(cell)  # noqa: E731
    lines = [json.dumps({"id": str(at), "reply": reply(at)}) for at in range(len(BOXES))]
    (tmp_path / "replies.jsonl").write_text("\n".join(lines))
    settings = {"images": tmp_path / "images", "benchmark_options": options, "out": tmp_path / "run"}
    run = snellen.evaluate(str(path), f"replay:{tmp_path / 'replies.jsonl'}", **settings)
    assert run.benchmark.table.survey(run.meta.spec.data).kinds == {"region": 5}
    names = [metric.name for metric in run.figures()["strict"]]
    assert names[:5] == ["accuracy@0.5", "iou", "accuracy@0.25", "accuracy@0.75", "accuracy@0.9"]
    assert value(run, "accuracy@0.5") == 1.0 and value(run, "iou") > 0.95


def test_a_mask_in_an_image_file_is_a_region(tmp_path):
    path = table(tmp_path, lambda box: ("mask.png",))
    mask = Image.new("L", (640, 480))
    mask.paste(255, (0, 0, 320, 240))
    mask.save(tmp_path / "images" / "mask.png")
    reply = json.dumps({"id": "0", "reply": "[[0, 0], [500, 0], [500, 500], [0, 500]]"})
    (tmp_path / "replies.jsonl").write_text(reply)
    options = {"kind": "region", "map": "image=image,answer=answer"}
    settings = {"images": tmp_path / "images", "benchmark_options": options, "out": tmp_path / "run"}
    run = snellen.evaluate(str(path), f"replay:{tmp_path / 'replies.jsonl'}", limit=1, **settings)
    assert value(run, "iou") == 1.0


def test_lists_of_three_points_are_asked_about(tmp_path):
    path = table(tmp_path, lambda box: (json.dumps(CORNERS),))
    with pytest.raises(UsageError, match="an outline, or each a point of its own"):
        open_table(str(path)).table.survey(snellen.benchmarks.base.Data(images=tmp_path / "images"))


def test_the_report_warns_of_a_wrong_space_and_no_longer_after_another_reading(tmp_path):
    run = run_of(tmp_path, lambda number, side: number / side)
    assert "Coordinates-odd: 100% of the replies with coordinates" in report(run, tmp_path / "odd.html").read_text(
        "utf-8"
    )
    snellen.score(run.path, benchmark_options={"coordinates": "unit", "coordinates_by": "--coordinates"})
    again = snellen.load_run(run.path, trust=True)
    assert "oordinates-odd" not in report(again, tmp_path / "sound.html").read_text("utf-8")


@pytest.mark.parametrize("sign", ["outside", "inverted"])
def test_answers_of_another_tool_are_warned_of_too(tmp_path, sign):
    path, file = table(tmp_path), replies(tmp_path, lambda number, side: 5000 + number)
    if sign == "inverted":
        file.write_text("\n".join(json.dumps({"id": str(at), "reply": "[900, 900, 10, 10]"}) for at in range(5)))
    options = {"coordinates": "thousand", "coordinates_by": "--coordinates"}
    settings = {"images": tmp_path / "images", "benchmark_options": options}
    _, lines = snellen.score(file, str(path), **settings)
    assert any(line.startswith("coordinates-odd: 100% of the replies") for line in lines)


def test_one_odd_reply_of_five_is_not_warned_of(tmp_path):
    file = replies(table(tmp_path).parent, thousandths)
    lines = file.read_text().splitlines()
    file.write_text("\n".join([json.dumps({"id": "0", "reply": "[900, 900, 10, 10]"}), *lines[1:]]))
    run = snellen.evaluate(
        str(tmp_path / "boxes.csv"), f"replay:{file}", images=tmp_path / "images", out=tmp_path / "run"
    )
    assert not odd_line(run.figures()["strict"])


def test_the_check_warns_of_gold_boxes_outside_of_the_space_that_was_named(tmp_path):
    path = table(tmp_path, cells=lambda box: [json.dumps((-50, *box[1:]) if box in BOXES[:2] else box)])
    data = snellen.benchmarks.base.Data(images=tmp_path / "images", options={"gold-space": "pixel"})
    notes = open_table(str(path)).table.survey(data).notes
    assert "coordinates-odd: of the gold boxes or points 2 of 5 reach over their images or are inverted in it" in notes
