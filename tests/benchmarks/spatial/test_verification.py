"""EASI's verification table and the published rows: the rule recomputed over every figure, the tables as printed."""

from __future__ import annotations

import pytest

from snellen.benchmarks import registry
from snellen.benchmarks.spatial.reference import published
from snellen.benchmarks.spatial.reference.verification import (
    VerificationRow,
    checks,
    same_model,
    status,
    verification_rows,
)
from snellen.benchmarks.spatial.tasks import EIGHT, EVERY, TASKS

EACH = [(check, harness) for check in checks() for harness in check.measured]


def named(one: tuple[VerificationRow, str]) -> str:
    check, harness = one
    return f"{check.data}-{check.model}-{harness}"


@pytest.mark.parametrize("one", [one for one in EACH if one[0].target is not None], ids=named)
def test_the_rule_gives_each_mark_that_the_table_prints(one):
    check, harness = one
    assert status(check.delta(check.measured[harness])) == check.marked[harness]


def test_only_the_two_misprinted_differences_are_not_those_of_their_figures():
    printed = {
        (check.data, check.model, harness): (shown, check.delta(check.measured[harness]))
        for check, harness in EACH
        if (shown := check.printed_delta.get(harness)) is not None
    }
    assert printed == {
        ("SiteBench", "Qwen2.5-VL-7B-Instruct", "vlmevalkit"): (5.3, 6.2),
        ("ERIQ", "Qwen2.5-VL-7B-Instruct", "vlmevalkit"): (0.56, 0.46),
    }


def test_the_authors_code_run_by_easi_is_the_target_where_it_is_there_and_the_paper_else():
    (both,) = [one for one in checks() if one.data == "SpatialVizBench" and one.model.startswith("Qwen2.5-VL-3B")]
    assert (both.paper, both.target, both.target_from) == (26.10, 25.00, "other")
    (paper,) = verification_rows("mindcube-tiny", None)
    assert (paper.target, paper.target_from) == (37.81, "paper")
    unpublished = [one for one in checks() if one.target is None]
    assert {one.data for one in unpublished} == {"OSI-Bench_32frame, visual first"}
    assert all(one.marked == {} and one.target_from == "" and one.delta(20.0) is None for one in unpublished)


@pytest.mark.parametrize(
    ("delta", "wanted"),
    [
        (0.0, "strong"),
        (-2.5, "strong"),
        (28.6 - 26.1, "strong"),
        (2.5001, "acceptable"),
        (-5.0, "acceptable"),
        (5.0001, "beyond"),
        (-60.0, "beyond"),
    ],
)
def test_the_limits_are_within_either_way(delta, wanted):
    assert status(delta) == wanted


def test_every_row_is_there_once_and_names_data_that_snellen_has():
    keys = [(check.data, check.model) for check in checks()]
    assert len(keys) == len(set(keys)) == 82
    assert {check.benchmark for check in checks()} - {""} <= set(EVERY) and set(TASKS) <= {
        check.benchmark for check in checks()
    }
    assert {check.metric for check in checks()} == {"overall", "circ_eval_overall"}
    assert all(0 <= value <= 100 for check in checks() for value in check.measured.values())


def test_frames_tell_rows_of_the_same_videos_apart():
    assert {check.frames for check in verification_rows("vsi-bench", 32)} == {32}
    assert {check.data for check in verification_rows("vsi-bench", 128)} == {"VSI-Bench_128frame"}
    assert verification_rows("vsi-bench", 64) == []
    assert len(verification_rows("vsi-bench", None)) == 8
    assert len(verification_rows("blink", 32)) == 4  # nothing moves there: frames do not matter


@pytest.mark.parametrize(
    ("asked", "listed", "wanted"),
    [
        ("local:Qwen/Qwen3-VL-8B-Instruct", "Qwen3-VL-8B-Instruct", True),
        ("api:qwen3-vl-8b-instruct", "Qwen3-VL-8B-Instruct", True),
        ("local:/models/InternVL3_5-8B/", "InternVL3_5-8B", True),
        ("InternVL3-8B", "InternVL3-8B", True),
        ("local:Qwen/Qwen3-VL-8B-Thinking", "Qwen3-VL-8B-Instruct", False),
        ("local:my/InternVL3-8B-tuned", "InternVL3-8B", False),
    ],
)
def test_a_model_is_the_tables_by_the_last_part_of_its_name(asked, listed, wanted):
    assert same_model(asked, listed) is wanted


def test_eighteen_rows_have_all_eight_figures_and_one_has_five():
    table = published.table()
    assert table.metrics == tuple(f"{name}/overall" for name in EIGHT)
    known = [sum(value is not None for value in row.values) for row in table.rows]
    assert sorted(known) == [5] + [8] * 18
    by_name = {row.name: row.values for row in table.rows}
    assert by_name["GPT-5-2025-08-07"] == (0.55, 0.418, 0.563, 0.455, 0.618, 0.68, 0.603, 0.816)
    assert by_name["MindCube-3B-RawQA-SFT"][6] == 0.028


def test_published_rows_are_those_of_the_check_but_for_models_whose_own_authors_say_more():
    """Two tables typed from two places, to the tenth of a point: a slip of a digit in either would show."""
    rows = {row.name: dict(zip(EIGHT, row.values, strict=True)) for row in published.table().rows}
    shared = {
        (check.model, check.benchmark): check.measured["vlmevalkit"] - 100 * rows[check.model][check.benchmark]
        for check in checks()
        if check.model in rows and check.benchmark in EIGHT and check.metric == "overall"
    }
    assert len(shared) == 9
    assert {pair for pair, away in shared.items() if abs(away) > 0.05 + 1e-9} == {
        ("Cambrian-S-3B", "vsi-bench"),
        ("Cambrian-S-7B", "vsi-bench"),
        ("Cambrian-S-7B", "3dsrbench"),
        ("SenseNova-SI-1.2-InternVL3-8B", "vsi-bench"),
    }


@pytest.mark.parametrize("name", TASKS)
def test_a_run_of_one_of_the_eight_stands_beside_its_column(name):
    benchmark = registry.find(name)
    people = [column for column in benchmark.published if column.title == "EASI, people"]
    assert bool(people) == (f"{name}/overall" in published.tables()[1].metrics)
    assert all(column.profile in benchmark.score for column in people)
    if name not in EIGHT:
        assert benchmark.published == tuple(people)
        return
    (table,) = (column for column in benchmark.published if column not in people)
    assert (table.metrics, table.profile) == (("overall",), "easi")
    assert table.profile in benchmark.score
    assert len(table.rows) == (19 if name in EIGHT[:5] else 18)
    assert all(member.published == () for member in benchmark.members)


def test_rows_of_sets_without_a_place_in_the_payload_are_those_of_the_runs_options() -> None:
    def data(name: str, **options: str) -> set[str]:
        return {row.data for row in verification_rows(name, None, options)}

    assert data("stare") == set() and data("stare", prompting="cot") == {"StareBench_CoT"}
    assert data("stare", prompting="vlmevalkit-cot") == {"StareBench_CoT"}
    assert data("spatialviz") == {"SpatialVizBench"} and data("spatialviz", prompting="lmms-eval") == set()
    assert data("refspatial", subset="placement, location") == {"RefSpatial_wo_unseen"} and data("refspatial") == set()
    assert data("osi-bench", prompting="visual-first") == {"OSI-Bench_32frame, visual first"}
    assert data("mindcube-full") == {"MindCubeBench_raw_qa"} and data("spar-bench-tiny") == {"SparBench_tiny"}
    assert all(row.benchmark for row in checks())
    assert all(row.benchmark in EVERY for row in checks() if row.benchmark)
