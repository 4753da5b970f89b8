"""MMSI-Video-Bench's four tagged parts: metrics of a run, and VLMEvalKit's table of them."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from benchmarks.spatial import official_drawn as drawn
from snellen import evaluate
from snellen.benchmarks.base import Data
from snellen.benchmarks.registry import find
from snellen.benchmarks.spatial.sources.rows import tags
from snellen.runs.export import export
from snellen.runs.score import score

TAGS = [
    {"Easy2hard": "easy", "Robot": "arm"},
    {"Easy2hard": "hard", "Grounding": "temporal"},
    {"Easy2hard": "easy", "Indoor_Scene_Perception": "static"},
    {"Easy2hard": None, "Grounding": "", "Robot": "nan"},
    {},
]


def test_a_cell_without_a_tag_is_none_and_names_are_compared_without_case() -> None:
    assert tags({"easy2hard": "Hard ", "Grounding": float("nan"), "robot": None, "Indoor Scene Perception": "x"}) == {
        "Easy2hard": "Hard",
        "Indoor_Scene_Perception": "x",
    }
    assert tags({}) == {}


@pytest.fixture
def run(tmp_path: Path):
    data = drawn.draw("mmsi-video-bench", tmp_path / "data")
    file = next(data.rglob("mmsivideo.json"))
    rows = json.loads(file.read_text())
    file.write_text(json.dumps([{**row, **TAGS[at % len(TAGS)]} for at, row in enumerate(rows)]))
    samples = list(find("mmsi-video-bench").samples(Data(data)))
    right = [at % 2 == 0 for at in range(len(samples))]
    replies = tmp_path / "replies.jsonl"
    other = {"A": "B", "B": "C", "C": "D", "D": "A"}
    lines = [
        {"id": sample.id, "reply": gold if good else other[gold]}
        for sample, good in zip(samples, right, strict=True)
        for gold in [str(sample.meta["gold"])]
    ]
    replies.write_text("".join(json.dumps(line) + "\n" for line in lines))
    made = evaluate("mmsi-video-bench", f"replay:{replies}", data=data, out=tmp_path / "run")
    expected: dict[str, list[bool]] = {}
    for sample, good in zip(samples, right, strict=True):
        for part in ("Easy2hard", "Grounding", "Indoor_Scene_Perception", "Robot"):
            if tag := sample.meta.get(part):
                expected.setdefault(part, []).append(good)
                expected.setdefault(f"{part}/{tag}", []).append(good)
    return made, {name: sum(values) / len(values) for name, values in expected.items()}


def test_each_part_and_each_tag_has_its_mean_over_its_own_rows(run) -> None:
    made, expected = run
    metrics = {m.name: m.value for m in made.summarize("vlmevalkit", save=False).metrics["vlmevalkit"]}
    found = {name.removeprefix("subset/"): value for name, value in metrics.items() if name.startswith("subset/")}
    assert found == pytest.approx(expected) and len(found) == 4 + 5


def test_the_kits_table_of_parts_is_written_and_its_workbook_gives_them_again(run, tmp_path: Path) -> None:
    made, expected = run
    files = export(made, "vlmevalkit", out=tmp_path / "out").files
    (table,) = [path for path in files if path.name.endswith("_subset_acc.csv")]
    with table.open() as text:
        (line,) = csv.DictReader(text, delimiter="\t")
    named = {name if "/" in name else f"{name}/Avg": 100 * value for name, value in expected.items()}
    columns = {"({}){}".format(*name.split("/")): value for name, value in named.items()}
    assert {name: float(value) for name, value in line.items()} == pytest.approx(columns)
    workbook = next(path for path in files if path.name.endswith("_50frame.xlsx"))
    again, _ = score(workbook, "mmsi-video-bench", profile="vlmevalkit")
    read = {m.name: m.value for m in again.metrics["vlmevalkit"] if m.name.startswith("subset/")}
    assert read == pytest.approx({f"subset/{name}": value for name, value in expected.items()})


def test_rows_without_tags_have_no_parts(tmp_path: Path) -> None:
    data = drawn.draw("mmsi-video-bench", tmp_path / "data")
    made = evaluate("mmsi-video-bench", "embedded", data=data, out=tmp_path / "run")
    assert not [m for m in made.summarize("all").metrics["easi"] if m.name.startswith("subset/")]
    assert not [p for p in export(made, "vlmevalkit", out=tmp_path / "out").files if "subset" in p.name]
