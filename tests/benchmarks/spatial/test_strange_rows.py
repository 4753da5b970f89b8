"""Rows whose columns hold anything at all: each is a question or costs itself, and none ends the run."""

from __future__ import annotations

import base64
import json
import math
from pathlib import Path
from typing import Any

import pytest

from benchmarks.spatial import official_drawn as drawn
from snellen.benchmarks.base import Benchmark, Data
from snellen.benchmarks.spatial import SPATIAL
from snellen.benchmarks.spatial.sources.official import OfficialFiles
from snellen.benchmarks.spatial.tasks import TASKS
from snellen.sources import salvaged
from snellen.types import Sample

HALVES = {half.name: half for half in SPATIAL["site"].members}
BY_NAME: dict[str, Benchmark] = {**{name: one for name, one in SPATIAL.items() if name != "site"}, **HALVES}
STRANGE: list[Any] = [
    *(None, "", " ", "A", "7", "-1", 0, -3, 10**30, 2.5, math.nan, math.inf, True),
    *([], [None], [[]], ["A"], [1, 2.5], [{"path": None}], [{"path": "../x.png"}], [["a.png", None], []]),
    *({}, {"bytes": None, "path": None}, {"bytes": "x"}, "[", "['a', 'b']", "[1, {}, [None]]", "(" * 300),
    *(
        "../../etc/passwd",
        "/",
        "a\0b.png",
        "x" * 5000,
        "\ud800".encode("utf-8", "replace").decode(),
        "<image><video>" * 50,
    ),
]


def rows_of(name: str, path: Path) -> list[dict[str, Any]]:
    """The drawn rows as JSON has them: pictures as base64."""
    benchmark, _, part = name.partition("/")
    from snellen.benchmarks.spatial.sources.locate import source

    files = source(TASKS[benchmark], part, Data(path))
    assert isinstance(files, OfficialFiles)
    found = [row for file in files.files for _, row in salvaged(file)]
    return [json.loads(json.dumps(row, default=written)) for row in found if isinstance(row, dict)]


def written(value: Any) -> Any:
    return base64.b64encode(value).decode("ascii")


@pytest.mark.parametrize("name", BY_NAME)
def test_whatever_a_column_holds_every_row_is_a_sample(name: str, tmp_path: Path) -> None:
    row, other = rows_of(name, drawn.draw(name, tmp_path))[:2]
    strange = [{**row, column: value} for column in row for value in STRANGE]
    strange += [{key: value for key, value in row.items() if key != column} for column in row]
    file = tmp_path / "rows.jsonl"
    drawn.jsonl(file, [*strange, other])
    data = Data(file, tmp_path / name.partition("/")[0])
    if name == "vsi-debiased":
        strange = [one for one in strange if isinstance(one.get("pruned"), bool) and not one["pruned"]]
        other = {**other, "pruned": False}
        drawn.jsonl(file, [*strange, other])
    samples: list[Sample] = list(BY_NAME[name].samples(data))
    least = len({json.dumps(one.get("id")) for one in strange}) if name.startswith("vsi-") else len(strange) + 1
    assert len(samples) >= least
    assert len({sample.id for sample in samples}) == len(samples)
    assert all(sample.prompt.parts for sample in samples)
    for score in BY_NAME[name].score.values():
        for sample in samples:
            score(sample, "The answer is B.")
    assert BY_NAME[name].notices(data)
