"""Replies with the values that VLMEvalKit, lmms-eval and authors' scripts gave them on invented rows, and figures of invented tables.

Source: VLMEvalKit at e8e78f0 with latex2sympy2-extended 1.11, lmms-eval 0.7.3 and the scripts that the rules name. Most replies are
those that `strict` scores otherwise. METEOR ran without WordNet's words.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from card_sets_drawn import empty_wordnet
from catalogue_drawn import draw_card_set
from clip_sets_drawn import CLIP_SETS, draw_clip_set

import snellen
from snellen.benchmarks import registry
from snellen.benchmarks.table.entries import entry
from snellen.benchmarks.table.scorers import scorers
from snellen.scoring.scores import ScoreBuilder
from snellen.types import Prompt, Sample, Score, Text

DATA = Path(__file__).parent / "data"
LINES, TABLES = (
    [json.loads(line) for line in (DATA / name).read_text("utf-8").splitlines()]
    for name in ("harness_vectors.jsonl", "harness_figures.jsonl")
)
VALUES = json.loads((DATA / "harness_values.json").read_text("utf-8"))
"""Lists of replies, and each rule's values on one of them, a sign a reply: 1, 0, a blank where it was not asked, and - where Snellen
has another one: some rules drop white space around a reply, and Python's numbers and some forms of LaTeX are not read."""
ATTEMPTS = {"correct": "correct", "wrong": "incorrect", "invalid": "not attempted"}
"""Verdict to the label of the rubric `attempted`."""


def of_list(line: dict[str, Any]) -> dict[str, Any]:
    """Return a line of values as one of replies, each with its value."""
    pairs = zip(VALUES["replies"][line["replies"]], line["values"], strict=False)
    return {**line, "values": [(reply, float(value)) for reply, value in pairs if value in "01"]}


LISTED, OF_SAMPLES = ([of_list(line) for line in VALUES[name]] for name in ("lines", "samples"))


def test_the_lists_hold_enough_replies_of_each_rule() -> None:
    counted = Counter(
        key for line in [*LISTED, *OF_SAMPLES] for key in [(line["set"], line["profile"])] * len(line["values"])
    )
    assert (
        min(counted.values()) >= 36 and counted["logicvista", "authors"] == 36
    )  # its script leaves the others to a model


@pytest.mark.parametrize(
    "line", [*LINES, *LISTED], ids=lambda line: f"{line['set']}-{line['profile']}-{line['row'].get('answer', '')[:20]}"
)
def test_a_profile_gives_the_value_that_its_harness_gave(
    line: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nltk.data.path", empty_wordnet(tmp_path / "nltk"))
    row = line["row"] | ({"index": 0} if entry(line["set"]).source.tsv else {})
    benchmark = registry.find(line["set"])
    if line["set"] in CLIP_SETS:
        monkeypatch.setitem(CLIP_SETS, line["set"], [(row, "")])
        data = snellen.Data(path=draw_clip_set(line["set"], tmp_path))
    else:
        drawn = draw_card_set(entry(line["set"]), tmp_path, [row])
        data = snellen.Data(path=drawn.path, images=drawn.images)
    (sample,) = benchmark.samples(data)
    found = [(reply, benchmark.score[line["profile"]](sample, reply).value) for reply, _ in line["values"]]
    assert found == [(reply, pytest.approx(value)) for reply, value in line["values"]]


@pytest.mark.parametrize("line", OF_SAMPLES, ids=lambda line: f"{line['set']}-{line['profile']}-{line['target']}")
def test_a_profile_gives_a_sample_the_value_that_its_harness_gave(line: dict[str, Any]) -> None:
    target = tuple(line["target"]) if isinstance(line["target"], list) else line["target"]
    sample = Sample(
        "1",
        Prompt((Text(line.get("text", "q")),)),
        target,
        line["kind"],
        line.get("options", {}),
        meta=line.get("meta", {}),
    )
    score = scorers(entry(line["set"]).score)[line["profile"]]
    found = [(reply, score(sample, reply).value) for reply, _ in line["values"]]
    assert found == line["values"]


def score_of(value: float | str) -> Score:
    if isinstance(value, str):
        return Score(float(value == "correct"), "", value, None, {"judge_verdict": ATTEMPTS[value]})  # type: ignore[arg-type]
    return Score(value, "", "correct" if value == 1 else "partial" if value else "wrong")


@pytest.mark.parametrize("table", TABLES, ids=lambda table: f"{table['set']}-{table['profile']}")
def test_a_table_has_the_figures_that_its_harness_gave(
    table: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nltk.data.path", empty_wordnet(tmp_path / "nltk"))
    cells = zip(*table["columns"].values(), strict=True)
    rows = [table["constant"] | dict(zip(table["columns"], row, strict=True)) for row in cells]
    drawn, benchmark = draw_card_set(entry(table["set"]), tmp_path, rows), registry.find(table["set"])
    builder = ScoreBuilder()
    samples = benchmark.samples(snellen.Data(path=drawn.path, images=drawn.images))
    for sample, value in zip(samples, table["values"], strict=True):
        builder.add(sample, score_of(value))
    figures = {metric.name: metric.value for metric in benchmark.summarize(builder.build(len(rows)), table["profile"])}
    assert {name: figures[name] for name in table["figures"]} == pytest.approx(
        table["figures"], abs=1e-4
    )  # SimpleVQA rounds


def test_vlmevalkits_figures_of_mm_vet_are_those_of_the_authors_with_questions_of_one_capability_counted_twice() -> (
    None
):
    (table,) = (table for table in TABLES if table["set"] == "mm-vet")
    rows = [*zip(table["columns"]["category"], table["values"], strict=True)]
    twice = [*rows, *((category, grade) for category, grade in rows if "," not in category)]
    of_kit = {"rec": 0.594118, "ocr": 0.570833, "know": 0.71875, "gen": 0.6375, "spat": 0.672727, "math": 0.6625}
    for capability, value in of_kit.items():
        for counted, expected in ((twice, value), (rows, table["figures"][f"total/{capability}"])):
            grades = [grade for category, grade in counted if capability in category.split(",")]
            assert sum(grades) / len(grades) == pytest.approx(expected, abs=1e-6)
