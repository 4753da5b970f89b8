"""Figures of declared benchmarks against outcomes of the harnesses: a few quoted here, all that a folder holds where it is given."""

from __future__ import annotations

import json
import os
import tracemalloc
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from snellen.benchmarks.table.declaration import Declaration, declaration, read_declaration
from snellen.benchmarks.table.meta import group_meta, values_reader
from snellen.benchmarks.table.reports import summary
from snellen.errors import DataError
from snellen.scoring.scores import ScoreBuilder
from snellen.types import Metric, Prompt, Sample, Score, Text

Rows = Sequence[Mapping[str, Any]]


def entry(name: str) -> Declaration:
    with_path = Path(str(files("snellen.benchmarks.table") / "catalogue" / f"{name}.toml"))
    return read_declaration(with_path)


def row_meta(declared: Declaration, rows: Rows) -> list[dict[str, str]]:
    """Return the meta of every row: its declared values and its groups."""
    groups = group_meta(declared, rows) if declared.group else [{} for _ in rows]
    read = values_reader(declared)
    return [read(row, number) | groups[number] for number, row in enumerate(rows)]


def figures(
    declared: Declaration, rows: Rows, values: Sequence[float], read: Sequence[str] = (), **more: Any
) -> dict[str, Metric]:
    """Score rows as a run would, and sum them up."""
    metas = row_meta(declared, rows)
    words = {"Yes": "yes", "No": "no"}
    builder = ScoreBuilder()
    for number, (meta, score) in enumerate(zip(metas, values, strict=True)):
        if read:
            meta = {**meta, "target": words.get(str(rows[number]["answer"]), "")}
        sample = Sample(str(number), Prompt((Text("?"),)), None, "open", meta={**meta, **more})
        detail = {"reply": words.get(read[number], "")} if read else {}
        builder.add(sample, Score(score, None, "correct" if score == 1 else "wrong", detail=detail))
    return {metric.name: metric for metric in summary(declared)(builder.build(), "vlmevalkit")}


def yes_no(name: str, rows: Rows) -> dict[str, Metric]:
    alike = str.lower if name == "amber" else str
    hits = [float(alike(str(row["answer"])) == alike(str(row["extracted"]))) for row in rows]
    return figures(entry(name), rows, hits, [str(row["extracted"]) for row in rows])


def table(case: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [dict(zip(case["columns"], row, strict=True)) for row in case["rows"]]


def close(metrics: Mapping[str, Metric], expected: Mapping[str, float | None], scale: float = 100.0) -> None:
    for name, number in expected.items():
        found = metrics[name].value
        assert found is not None, name
        assert found * scale == pytest.approx(number), name


def compare_pope(case: Mapping[str, Any], expected: Mapping[str, Any]) -> None:
    metrics = yes_no("pope", table(case))
    for part, numbers in expected.items():
        end = "" if part == "Overall" else f"/{part}"
        names = {"Overall": "f1", "acc": "accuracy", "precision": "precision", "recall": "recall"}
        close(metrics, {names[key] + end: number for key, number in numbers.items()})


def compare_mme(case: Mapping[str, Any], expected: Mapping[str, Any]) -> None:
    metrics = yes_no("mme", table(case))
    if "raises" in expected:
        heads = [metrics["perception"], metrics["reasoning"]]
        assert any(head.value is None or head.coverage < 1 for head in heads)
        return
    close(
        metrics,
        {name if name in ("perception", "reasoning") else f"score/{name}": n for name, n in expected.items()},
        1.0,
    )


def compare_hallusion(case: Mapping[str, Any], expected: Mapping[str, Any]) -> None:
    metrics = yes_no("hallusionbench", table(case))
    for part, numbers in expected.items():
        end = "" if part == "Overall" else f"/{part}"
        close(metrics, {name + end: number for name, number in numbers.items()})


def compare_amber(case: Mapping[str, Any], expected: Mapping[str, Any]) -> None:
    metrics = yes_no("amber", table(case))
    if expected:
        close(metrics, {name if name == "Avg ACC" else f"accuracy/{name}": number for name, number in expected.items()})


def compare_mmvp(case: Mapping[str, Any], expected: Mapping[str, Any]) -> None:
    rows = [{**row, "index": at} for at, row in enumerate(table(case))]
    if "raises" in expected:
        return  # tested apart: an odd number of rows is incomplete here, and no reason to stop
    metrics = figures(entry("mmvp"), rows, [float(row["hit"]) for row in rows])
    close(metrics, {"pairs": expected["Overall"], "accuracy": expected["Average"]}, 1.0)


def compare_natural_bench(case: Mapping[str, Any], expected: Mapping[str, Any]) -> None:
    hits = [
        float(a == b) for group in case["groups_q0i0_q0i1_q1i0_q1i1"] for a, b in zip(group, (1, 0, 0, 1), strict=True)
    ]
    rows = [{"index": at, "type": "yes_no"} for at in range(len(hits))]
    close(figures(entry("naturalbench"), rows, hits), expected, 1.0)


COMPARISONS = {
    "pope_metrics": compare_pope,
    "mme_metrics": compare_mme,
    "hallusionbench_metrics": compare_hallusion,
    "amber_metrics": compare_amber,
    "pair_accuracy_mmvp": compare_mmvp,
    "naturalbench_scores": compare_natural_bench,
}


@pytest.mark.parametrize("name", COMPARISONS)
def test_the_catalogue_gives_the_figures_of_the_harness(name: str) -> None:
    folder = os.environ.get("SNELLEN_TEST_VECTORS")
    if folder is None:
        pytest.skip("SNELLEN_TEST_VECTORS names no folder with generic/NAME.json")
    cases = json.loads(Path(folder, "generic", f"{name}.json").read_text(encoding="utf-8"))["cases"]
    for case in cases:
        COMPARISONS[name](case["input"], case["expected"])
    assert cases


def test_pope_counts_a_row_of_three_categories_in_each_of_them() -> None:
    rows = [["Yes", "Yes", "popular"], ["Yes", "Yes", "adversarial"], ["No", "Yes", "random,popular"]]
    expected = {"Overall": 200 / 3, "acc": 50.0, "precision": 50.0, "recall": 100.0}
    compare_pope(
        {"columns": ["answer", "extracted", "category"], "rows": rows}, {"Overall": expected, "popular": expected}
    )


def test_a_figure_of_hallusionbench_is_right_where_all_of_its_questions_are() -> None:
    rows = [["VD_map_1_0_0_0", "VD", "map", "Yes", "Yes"], ["VD_map_1_0_1_0", "VD", "map", "No", "Yes"]]
    columns = ["index", "category", "l2-category", "answer", "extracted"]
    compare_hallusion({"columns": columns, "rows": rows}, {"Overall": {"aAcc": 50.0, "fAcc": 50.0, "qAcc": 0.0}})


def test_a_pair_whose_second_answer_is_missing_lowers_the_coverage_and_counts_for_nothing() -> None:
    rows = [{"index": at, "question": f"q{at // 2}"} for at in range(4)]
    declared = entry("mmvp")
    metas = row_meta(declared, rows)
    builder = ScoreBuilder()
    for number in range(3):  # a run with --limit 3
        sample = Sample(str(number), Prompt((Text("?"),)), None, "open", meta=metas[number])
        builder.add(sample, Score(1.0, None, "correct"))
    pairs = summary(declared)(builder.build(expected=4), "strict")[0]
    assert (pairs.name, pairs.value, pairs.n, pairs.coverage) == ("pairs", 1.0, 1, 0.5)


def test_chance_of_a_pair_is_the_product_of_the_chances_of_its_rows() -> None:
    rows = [{"index": at, "question": f"q{at // 2}"} for at in range(8)]
    metrics = figures(entry("mmvp"), rows, [1, 1, 0, 1, 1, 1, 0, 0], chance="0.5")
    assert metrics["pairs"].chance == pytest.approx(0.25)
    assert metrics["accuracy"].chance == 0.5
    assert metrics["pairs"].ci95 is not None
    assert metrics["pairs"].value == 0.5


def test_a_mean_of_figures_has_a_bootstrap_interval() -> None:
    rows = [
        {"index": f"VD_map_0_{at // 4}_{at % 2}_{at % 4}", "category": "VD", "l2-category": "map", "answer": "Yes"}
        for at in range(40)
    ]
    metrics = figures(entry("hallusionbench"), rows, [float(at % 3 > 0) for at in range(40)])
    mean = metrics["mean"]
    assert mean.value == pytest.approx(sum(metrics[name].value or 0.0 for name in ("aAcc", "fAcc", "qAcc")) / 3)
    assert mean.interval is not None
    assert "bootstrap" in mean.interval.method
    assert mean.ci95 is not None
    assert mean.ci95[0] < mean.value < mean.ci95[1]


@given(st.lists(st.sampled_from(("right", "wrong", "unread")), min_size=1, max_size=9), st.floats(-2, 2))
def test_a_reply_that_is_not_read_is_worth_in_each_figure_what_the_report_says(
    replies: list[str], worth: float
) -> None:
    reports = [
        {"name": "plain", "headline": True},
        {"name": "worth", "unread": {"authors": worth}},
        {"name": "read", "unread": {"authors": "omitted"}},
        {"name": "both", "average": ["worth", "read"]},
        {"name": "by part", "mean_of": "part", "unread": {"authors": "omitted"}},
    ]
    rows = {"question": "q", "answer": "a", "part": "p"}
    table = {"name": "x", "source": {"file": "x.csv"}, "rows": rows, "report": reports}
    declared = declaration({**table, "score": {"profiles": {"authors": {"read": "whole"}}}}, "x.toml")
    with pytest.raises(DataError, match="has unread for 'authors'; one of strict, vlmevalkit, lmms-eval was expected"):
        declaration(table, "x.toml")
    builder = ScoreBuilder()
    for number, reply in enumerate(replies):
        part = "ab"[number % 2]
        sample = Sample(str(number), Prompt((Text("?"),)), None, "open", meta={"part": part})
        builder.add(sample, Score(None if reply == "unread" else float(reply == "right"), None, VERDICTS[reply]))
    by_profile = {
        profile: {metric.name: metric.value for metric in summary(declared)(builder.build(), profile)}
        for profile in ("authors", "strict")
    }
    right, unread, total = replies.count("right"), replies.count("unread"), len(replies)
    authors, plain = by_profile["authors"], right / total
    assert authors["plain"] == pytest.approx(plain)
    assert authors["worth"] == pytest.approx((right + worth * unread) / total)
    assert authors["read"] == (pytest.approx(right / (total - unread)) if unread < total else None)
    assert authors["both"] == (
        None if authors["read"] is None else pytest.approx((authors["worth"] + authors["read"]) / 2)
    )
    parts = [[reply for reply in replies[at::2] if reply != "unread"] for at in (0, 1)]
    shares = [part.count("right") / len(part) for part in parts if part]
    assert authors["by part"] == (pytest.approx(sum(shares) / len(shares)) if shares else None)
    assert {by_profile["strict"][name] for name in ("worth", "read", "both")} == {by_profile["strict"]["plain"]}


@pytest.mark.parametrize("worth", [float("nan"), float("inf"), -float("inf")])
def test_a_reply_is_worth_a_finite_number(worth: float) -> None:
    report = {"name": "x", "headline": True, "unread": {"authors": worth}}
    rows = {"question": "q", "answer": "a"}
    with pytest.raises(DataError, match="a finite number or 'omitted' was expected"):
        declaration({"name": "x", "source": {"file": "x.csv"}, "rows": rows, "report": [report]}, "x.toml")


VERDICTS = {"right": "correct", "wrong": "wrong", "unread": "invalid"}


def test_pairs_of_two_different_questions_are_refused_with_both_rows() -> None:
    rows = [{"index": 1, "question": "Open?"}, {"index": 2, "question": "Open ?"}]
    with pytest.raises(DataError, match=r"rows 1 and 2 form a group by index, and 'question' is 'Open\?' in one"):
        row_meta(entry("mmvp"), rows)


def test_a_mean_over_thousands_of_classes_needs_little_memory_and_an_id_gives_no_slices() -> None:
    values = {
        "name": "many",
        "source": {"csv": "many.csv"},
        "rows": {"question": "q", "answer": "a", "label": "label", "number": "number"},
        "report": [
            {"name": "by class", "mean_of": "label", "headline": True},
            {"name": "sum", "metric": "count", "sum_over": "label"},
            {"by": "number"},
        ],
    }
    rows = [{"label": f"class {at % 4000}", "number": str(at)} for at in range(20_000)]
    tracemalloc.start()
    metrics = figures(
        declaration(values, "many.toml"), rows, [float(at % 4000 < 1000) for at in range(20_000)], chance="0.25"
    )
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert metrics["by class"].value == pytest.approx(0.25)
    assert metrics["by class"].chance == pytest.approx(0.25)
    assert metrics["sum"].value is None
    assert not any(name.startswith("accuracy/") for name in metrics)
    assert peak < 100e6
