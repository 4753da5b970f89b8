"""Cost per correct answer in every table, and score against cost in reports of several runs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from servers import fast
from snellen import evaluate
from snellen.cli import main
from snellen.engine.run_folder import Totals
from snellen.reports.collect import RunTally
from snellen.reports.plots.base import Series
from snellen.reports.plots.costs import CostPoint, comparable, cost_plots, name_places, unbeaten
from snellen.reports.plots.headlines import HeadlineScore
from snellen.reports.plots.svg import page_style
from snellen.runs.costs import cost_per_correct, cost_text
from snellen.types import Metric


def point(name: str, score: float, cost: float, *, n: int = 100) -> CostPoint:
    metric = Metric("accuracy", score, n)
    return CostPoint(
        HeadlineScore(Series(name, name, "strict", (metric,), RunTally(name), 1), "b", metric, False), cost
    )


def test_the_line_joins_the_runs_that_no_other_beats_at_the_same_or_a_lower_cost():
    points = [point("dear", 0.8, 3.0), point("cheap", 0.5, 1.0), point("worse", 0.4, 2.0), point("twin", 0.5, 1.0)]
    points.append(point("half", 0.9, 0.5, n=50))
    assert [each.headline.series.label for each in unbeaten(comparable(points))] == ["cheap", "dear"]


def test_names_of_dots_do_not_lie_on_each_other_or_on_other_dots():
    """Dots that stand apart have their names above them; of a crowd only some have room."""
    apart = {(0.1, 0.5): "run-a", (0.5, 0.6): "run-b", (0.97, 0.9): "run-c"}
    assert name_places(apart) == {(0.1, 0.5): (True, True), (0.5, 0.6): (True, True), (0.97, 0.9): (False, True)}
    crowd = {(0.3 + 0.002 * number, 0.5): f"run-{number}" for number in range(20)}
    placed = name_places(crowd)
    assert 1 <= len(placed) <= 4
    assert (0.3, 0.5) in placed, "the first has room"


@pytest.mark.parametrize(
    ("costs", "words"), [((0.01, 0.5), "logarithmic"), ((0.0, 0.5), "dollars"), ((0.4, 0.5), "dollars")]
)
def test_costs_of_several_decades_are_on_a_logarithmic_axis(costs, words):
    points = [point(f"run-{cost}", 0.5 + cost / 2, cost) for cost in costs]
    with page_style():
        (plot,) = cost_plots(points)
    assert words in plot.svg
    assert ("logarithmic" in plot.svg) == (words == "logarithmic")
    assert "run-0.5" in plot.svg


def test_the_cost_of_a_correct_answer_counts_failures_and_is_unknown_without_one():
    totals = Totals(ok=80, error=20, cost=2.0)
    assert cost_per_correct(totals, Metric("accuracy", 0.4, 100)) == pytest.approx(0.05)
    assert cost_text(totals, Metric("accuracy", 0.4, 100)) == "$2.0000, $0.05 per correct answer"
    cheap = Totals(ok=100, cost=0.00112)
    assert cost_text(cheap, Metric("accuracy", 0.5, 100)) == "$0.0011, $0.0000224 per correct answer"
    assert cost_per_correct(totals, Metric("accuracy", 0.0, 100)) is None
    assert cost_per_correct(totals, Metric("threshold", 3.0, 100, unit="px")) is None
    assert cost_per_correct(totals, None) is None
    assert cost_per_correct(Totals(ok=5), Metric("accuracy", 0.4, 100)) is None
    assert cost_text(Totals(ok=5), None) == ""


def test_cost_per_correct_answer_stands_in_every_table(stub, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for name, price in (("cheap", 1.0), ("dear", 9.0)):
        Path(f"{name}.toml").write_text(f'["{fast.MODEL}"]\ninput = {price}\noutput = {price}\n')
        evaluate(
            "chart", f"api:{fast.MODEL}", out=f"results/{name}", base_url=stub.url, limit=60, prices=f"{name}.toml"
        )
    assert main(["list", "--runs", "--json"]) == 0
    listed = {Path(run["path"]).name: run for run in json.loads(capsys.readouterr().out)["runs"]}
    share = listed["cheap"]["cost_per_correct"]
    right = listed["cheap"]["headline"]["value"] * 60
    assert right > 0, "the stub answers some questions of the chart"
    assert share == pytest.approx(60 * 124e-6 / right)
    assert main(["list", "--runs"]) == 0
    assert "per" in capsys.readouterr().out
    assert main(["compare", "results/cheap", "results/dear"]) == 0
    assert capsys.readouterr().out.count("per correct answer") == 2
    assert main(["query", "SELECT cost_per_correct FROM runs WHERE path LIKE '%cheap'", "--json"]) == 0
    assert f"{share:.3g}"[:4] in capsys.readouterr().out
    assert main(["score", "results/cheap"]) == 0
    assert "per correct answer" in " ".join(capsys.readouterr().err.split())
    assert main(["report", "results/cheap", "results/dear", "--out", "both.html"]) == 0
    page = Path("both.html").read_text()
    assert "Score against cost" in page and "per correct answer" in page
    assert main(["report", "results/cheap", "--out", "one.html"]) == 0
    assert "Score against cost" not in Path("one.html").read_text()
