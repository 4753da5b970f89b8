"""`snellen power`: what a benchmark can show, before a run and from two stored ones."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import snellen
from snellen.cli import main
from snellen.runs.power import power
from snellen.scoring.statistics import smallest_detectable
from snellen.scoring.statistics.paired import mcnemar_power
from snellen.types import MediaSettings


class Always(snellen.Model):
    """A model with one reply."""

    async def answer(self, prompt):
        return snellen.Response("1")


def test_without_runs_the_exact_power_of_an_assumed_share_of_differing_answers_is_printed(capsys, tmp_path):
    assert (
        main(["power", "--samples", "1000", "--difference", "0.03", "--json", "--plot", str(tmp_path / "p.svg")]) == 0
    )
    told = json.loads(capsys.readouterr().out)
    assert told["power"] == pytest.approx(mcnemar_power(1000, 0.2, 0.03))
    assert told["smallest_detectable"] == pytest.approx(smallest_detectable(1000, 0.2))
    assert told["assumed"].endswith("assumed") and (tmp_path / "p.svg").read_text().startswith("<?xml")
    assert main(["power", "chart/digits", "--difference", "0.05"]) == 0
    printed = capsys.readouterr()
    assert "found with a chance of" in printed.out and "20.0 % of the questions, assumed" in printed.err


def test_repeats_raise_the_power_and_more_questions_do():
    one, four = (power(difference=0.03, samples=500, repeats=count).power for count in (1, 4))
    more = power(difference=0.03, samples=2_000).power
    assert one < four < more


def test_two_stored_runs_give_the_differing_answers_and_the_clusters(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, blank in (("sees", False), ("blind", True)):
        snellen.evaluate("chart", "embedded", limit=600, out=name, media=MediaSettings(blank=blank))
    found = power(difference=0.1, runs=[Path("sees"), Path("blind")], draws=50)
    assert found.test == "paired t" and found.clusters < found.n and "stored runs" in found.assumed
    assert 0.0 < found.power <= 1.0 and found.curve[0][1] <= found.curve[-1][1]


@pytest.mark.parametrize(
    ("given", "words"),
    [({"difference": 2.0, "samples": 5}, "between 0 and 1"), ({"difference": 0.1}, "--samples N")],
)
def test_a_number_out_of_range_or_no_number_of_questions_is_refused(given, words):
    with pytest.raises(snellen.errors.UsageError) as refused:
        power(**given)
    assert words in refused.value.hint


@pytest.mark.parametrize("plot", ["p.unknown", "no-such-folder/p.svg"])
def test_a_plot_that_cannot_be_written_is_an_error_of_the_user(plot, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["power", "--samples", "100", "--plot", plot]) == 2
    assert "cannot be written" in capsys.readouterr().err


def test_runs_of_other_questions_are_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("digits", "creatures"):
        snellen.evaluate(f"chart/{name}", "embedded", limit=8, out=name)
    with pytest.raises(snellen.errors.SnellenError):
        power(difference=0.1, runs=["digits", "creatures"])


@settings(max_examples=50)
@given(questions=st.integers(100, 10**6), difference=st.floats(0.001, 0.9), repeats=st.integers(2, 64))
def test_power_with_repeats_is_a_chance_that_grows_with_the_difference(questions, difference, repeats):
    found = power(difference=difference, samples=questions, repeats=repeats)
    chances = [chance for _, chance in found.curve]
    assert all(0.0 <= chance <= 1.0 + 1e-12 for chance in [found.power, *chances])
    assert chances == pytest.approx(sorted(chances), abs=1e-9)
    assert len({step for step, _ in found.curve}) == len(found.curve)


def test_power_with_repeats_is_that_of_the_noncentral_t_where_its_far_tail_is_not_a_number():
    # 10,000 questions, 20 % differ, half of that by chance: a standard error of sqrt(0.125 / 10,000), a shift of 14.1
    assert power(difference=0.05, samples=10_000, repeats=4).power == pytest.approx(1.0)


def test_stored_runs_that_do_not_differ_or_are_not_two_are_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sums.csv").write_text("question,answer\n" + "".join(f"{n} + 1?,{n + 1}\n" for n in range(12)))
    for name in ("one", "two"):
        snellen.evaluate("sums.csv", Always(), out=name)
    with pytest.raises(snellen.errors.DataError, match="same score on each of 12 questions"):
        power(difference=0.1, runs=[Path("one"), Path("two")])
    with pytest.raises(snellen.errors.UsageError, match="names 1 run; two were expected"):
        power(difference=0.1, runs=[Path("one")])
