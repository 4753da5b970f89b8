"""Variants of prompting ask the same questions: their runs are compared, and what differs is named."""

from __future__ import annotations

import csv
from pathlib import Path

import drawn
import pytest
from test_breakdown import Parrot

from snellen import Run, evaluate, report
from snellen.benchmarks.vlm2.layout import BY_NAME
from snellen.errors import DifferentSamplesError
from snellen.runs.compare import compare
from snellen.runs.compared_runs import ComparedRun
from snellen.runs.metric_differences import unit_differences


def asked(root: Path, name: str, data: Path, **options: str) -> Run:
    return evaluate("vlm2/gc-mat", Parrot(), data=data, out=root / name, benchmark_options=options, concurrency=1)


def test_variants_of_prompting_are_compared_in_the_benchmarks_own_unit_where_it_is_named(tmp_path: Path) -> None:
    data = drawn.draw(tmp_path / "d.zip", groups=6)
    runs = [asked(tmp_path, name or "plain", data, **({"prompting": name} if name else {})) for name in ("", "cot")]
    (pairing,) = compare(*runs)
    assert any(note == "prompting: none in the baseline, cot in the other" for note in pairing.notes)
    assert any("--metric pair_accuracy" in note and "6 groups" in note for note in pairing.notes)
    (named,) = compare(*runs, metric="pair_accuracy")
    assert named.metric is not None and not any("--metric" in note for note in named.notes)
    elsewhere = asked(tmp_path, "elsewhere", drawn.draw(tmp_path / "other.zip", groups=5), prompting="cot")
    with pytest.raises(DifferentSamplesError, match="data"):
        compare(runs[0], elsewhere)


def test_the_report_draws_the_gain_of_each_prompting_in_pairs_and_the_score_of_each_cue(tmp_path: Path) -> None:
    data = drawn.draw(tmp_path / "d.zip", groups=12)
    plain, cot, grid = (
        asked(tmp_path, name or "plain", data, **({"prompting": name} if name else {}))
        for name in ("", "cot", "vp-grid")
    )
    page = report([plain, cot, grid], tmp_path / "page.html", figures=tmp_path / "figures").read_text()
    with (tmp_path / "figures/figures.csv").open(newline="") as file:
        titles = {row["file"]: row["title"] for row in csv.DictReader(file)}
    assert titles["difference-plain"] == "Difference from plain" and titles["by-cue"] == "Scores by cue"
    (named,) = compare(plain, cot, metric="pair_accuracy")
    (unit,) = unit_differences(ComparedRun(plain), ComparedRun(cot), "official")
    assert unit == named.metric
    assert (
        unit.difference is not None and f"{100 * unit.difference:+.1f}" in page and "pair_accuracy · official" in page
    )


def test_members_of_a_suite_are_compared_each_alone_and_its_means_are_left_out(tmp_path: Path) -> None:
    data = drawn.draw(tmp_path / "d.zip", groups=4)
    runs = [evaluate("vlm2", Parrot(), data=data, out=tmp_path / str(number), concurrency=1) for number in range(2)]
    sides = [ComparedRun(run) for run in runs]
    units = unit_differences(sides[0], sides[1], "official")
    assert {unit.name.partition("/")[0] for unit in units} <= set(BY_NAME)
    assert {"gc-mat/pair_accuracy", "oc-grp/grouping_accuracy"} <= {unit.name for unit in units}
