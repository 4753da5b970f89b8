"""Several runs are ranked with groups that cannot be told apart, every pair adjusted for the number of pairs."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from engine.stubs import ARITHMETIC
from snellen import evaluate
from snellen.benchmarks import registry
from snellen.cli import main
from snellen.errors import DataError, DifferentSamplesError
from snellen.runs.compared_runs import ComparedRun, open_runs
from snellen.runs.ranking import Ranking, rank_runs
from snellen.scoring import statistics


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(registry.BUILT_IN, "arithmetic", "engine.stubs:ARITHMETIC")
    monkeypatch.chdir(tmp_path)


def run(out: str, wrong: set[int], *, n: int = 400, limit: int | None = None) -> str:
    """A run that is wrong where `wrong` says."""
    rows = [{"id": f"q{i}", "reply": "?" if i in wrong else str(i % 7)} for i in range(n)]
    Path(f"{out}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    evaluate(ARITHMETIC, f"replay:{out}.jsonl", out=out, benchmark_options={"n": str(n)}, limit=limit)
    return out


def ranked(*folders: str) -> Ranking:
    opened, profile = open_runs(folders, None)
    return rank_runs([ComparedRun(each) for each in opened], profile)


def four_runs() -> list[str]:
    """A best, two that are equally good on other samples, and a worst."""
    return [
        run("second", set(range(0, 80))),
        run("last", set(range(0, 300))),
        run("first", set(range(0, 20))),
        run("third", set(range(10, 92))),
    ]


def test_runs_are_ranked_by_their_mean_and_groups_share_letters() -> None:
    ranking = ranked(*four_runs())
    assert [(each.rank, each.run, each.score) for each in ranking.runs] == [
        (1, "first", 0.95),
        (2, "second", 0.8),
        (3, "third", 0.795),
        (4, "last", 0.25),
    ]
    assert [each.groups for each in ranking.runs] == ["a", "b", "b", "c"]
    assert (ranking.n, ranking.clusters, ranking.left_out, len(ranking.pairs)) == (400, 400, 0, 6)
    assert all(each.ci95 and each.ci95[0] < each.score < each.ci95[1] for each in ranking.runs)


def test_the_p_values_are_those_of_the_pairs_after_holm() -> None:
    ranking = ranked(*four_runs())
    wrong = {"second": set(range(80)), "last": set(range(300)), "first": set(range(20)), "third": set(range(10, 92))}
    values = {name: np.array([float(i not in rows) for i in range(400)]) for name, rows in wrong.items()}
    expected = [
        statistics.compare(values[pair.higher], values[pair.lower], np.arange(400)).p_value for pair in ranking.pairs
    ]
    assert [pair.p_value for pair in ranking.pairs] == pytest.approx(expected)
    assert [pair.p_adjusted for pair in ranking.pairs] == pytest.approx(statistics.holm(expected))


def test_one_difference_among_many_equal_runs_needs_more_evidence_than_alone() -> None:
    run("base", set(range(40)))
    run("lower", set(range(47)))  # 7 losses and no win: p = 0.016 alone
    assert [each.groups for each in ranked("base", "lower").runs] == ["a", "b"]
    many = ["base", "lower", *(run(f"same{i}", set(range(40))) for i in range(4))]
    ranking = ranked(*many)
    assert {each.groups for each in ranking.runs} == {"a"}
    assert [each.rank for each in ranking.runs] == [1, 1, 1, 1, 1, 6]


def test_drawn_flips_do_not_limit_how_small_an_adjusted_p_value_can_be() -> None:
    # of 3 repeats only some are right, so that scores are graded and the test is by flips
    for name, right in (("high", 3), ("low", 1)):
        rows = [
            {"id": f"q{i}", "repeat": k, "reply": str(i % 7) if k < right or (i % 5 == 0 and k == 1) else "?"}
            for i in range(400)
            for k in range(3)
        ]
        Path(f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        evaluate(ARITHMETIC, f"replay:{name}.jsonl", out=name, repeats=3, benchmark_options={"n": "400"})
    (pair,) = ranked("high", "low").pairs
    assert pair.test == "cluster sign flips" and pair.p_value < 1e-20


def test_samples_that_some_run_lacks_are_left_out_and_counted() -> None:
    run("a", {1})
    run("b", {2}, limit=100)
    run("c", {3})
    ranking = ranked("a", "b", "c")
    assert (ranking.n, ranking.left_out) == (100, 300)


def test_other_questions_or_none_in_common_are_errors() -> None:
    run("a", set(), n=50)
    run("b", set(), n=51)
    with pytest.raises(DifferentSamplesError):
        ranked("a", "b")
    run("c", set(), n=50)
    journal = Path("c/results.jsonl")
    lines = journal.read_text().splitlines(keepends=True)
    journal.write_text("".join(lines[:20]))
    other = Path(run("d", set(), n=50)) / "results.jsonl"
    other.write_text("".join(other.read_text().splitlines(keepends=True)[20:]))
    with pytest.raises(DataError, match="no scored sample in common"):
        ranked("a", "c", "d")


def test_the_command_prints_the_ranking_and_has_every_pair_in_json(capsys: pytest.CaptureFixture[str]) -> None:
    folders = four_runs()
    assert main(["compare", *folders]) == 0
    printed = capsys.readouterr().out
    assert "Ranking · strict · 400 samples" in printed and "p against 3" in printed
    assert "Runs that share a letter cannot be told apart at 0.05 over all pairs (p after Holm)." in printed
    assert main(["compare", *folders, "--json"]) == 0
    ranking = json.loads(capsys.readouterr().out)["ranking"]
    assert [each["groups"] for each in ranking["runs"]] == ["a", "b", "b", "c"]
    assert len(ranking["pairs"]) == 6 and {"p_value", "p_adjusted", "ci95"} < set(ranking["pairs"][0])


def test_runs_that_share_no_sample_are_compared_in_pairs_and_not_ranked(capsys: pytest.CaptureFixture[str]) -> None:
    for name, part in (("whole", slice(0, 50)), ("head", slice(0, 20)), ("tail", slice(20, 50))):
        journal = Path(run(name, set(), n=50)) / "results.jsonl"
        journal.write_text("".join(journal.read_text().splitlines(keepends=True)[part]))
    assert main(["compare", "whole", "head", "tail"]) == 0
    printed = capsys.readouterr()
    assert "head against whole" in printed.out and "tail against whole" in printed.out
    assert (
        "Ranking" not in printed.out and "note: no ranking: the 3 runs have no scored sample in common" in printed.err
    )


def test_of_two_runs_the_table_of_the_pair_is_enough(capsys: pytest.CaptureFixture[str]) -> None:
    run("a", {1})
    run("b", {2})
    assert main(["compare", "a", "b"]) == 0
    assert "Ranking" not in capsys.readouterr().out
