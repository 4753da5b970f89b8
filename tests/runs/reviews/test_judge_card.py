"""Judge cards: automatic verdicts against people's decisions, by slice, by model, with intervals."""

from __future__ import annotations

import json

import pytest

from runs.reviews.reviewed_runs import N, answer, decide
from snellen.benchmarks import registry
from snellen.cli import main
from snellen.scoring.statistics import wilson

pytestmark = pytest.mark.usefixtures("printed_as_schema")


@pytest.fixture(autouse=True)
def registered(monkeypatch, tmp_path):
    monkeypatch.setitem(registry.BUILT_IN, "birds", "runs.reviews.reviewed_runs:BIRDS")
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def run(tmp_path):
    """Every fourth reply is C, which is marked wrong, and every eighth names nothing."""
    replies = {f"q{number}": "C" if number % 8 == 3 else "no idea" for number in range(3, N, 4)}
    folder = answer(tmp_path / "run", replies)
    # Rows of different images: 40 marked right, 10 wrong, 10 unparseable.
    decide(folder, {f"q{8 * number}": "wrong" if number < 4 else "right" for number in range(40)})
    decide(folder, {f"q{8 * number + 3}": "wrong" if number < 2 else "right" for number in range(10)})
    decide(folder, {f"q{8 * number + 7}": "wrong" if number < 1 else "right" for number in range(10)})
    decide(folder, {"q330": "gold-wrong", "q338": "ambiguous", "q346": "cannot-tell"})
    return folder


def cards(capsys, *arguments):
    assert main(["reviews", "card", *map(str, arguments), "--json"]) == 0
    return json.loads(capsys.readouterr().out)["cards"]


def test_a_card_counts_verdicts_against_people_and_gives_rates_with_intervals(run, capsys):
    (card,) = cards(capsys, run)
    assert (card["judge"], card["design"], card["reviewers"]) == ("rules of strict", "audit", ["ada"])
    part = card["parts"][0]
    assert part["counts"] == {
        "right": {"correct": 36, "incorrect": 4, "gold-wrong": 1, "ambiguous": 1, "cannot-tell": 1},
        "wrong": {"correct": 2, "incorrect": 8},
        "unparseable": {"correct": 1, "incorrect": 9},
    }
    rates = {metric["name"]: metric for metric in part["metrics"]}
    expected = {
        "error": (7, 60),
        "false_right": (4, 40),
        "false_wrong": (3, 20),
        "sensitivity": (36, 39),
        "specificity": (17, 21),
        "gold_error": (1, 62),
    }
    assert {name: (rate["value"], rate["n"]) for name, rate in rates.items()} == {
        name: (pytest.approx(count / n), n) for name, (count, n) in expected.items()
    }
    assert rates["false_right"]["ci95"] == pytest.approx(list(wilson(0.1, 40)))
    # Observed agreement 53 of 60; by chance (40 * 39 + 20 * 21) / 60^2.
    assert part["kappa"]["value"] == pytest.approx((53 / 60 - 1_980 / 3_600) / (1 - 1_980 / 3_600))
    assert [part["name"] for part in card["parts"]] == ["all", "category=forest", "category=garden"]


def test_a_card_is_sliced_by_meta_and_by_model_or_run(run, tmp_path, capsys):
    other = answer(tmp_path / "other", {})
    decide(other, {f"q{number}": "right" for number in range(0, 40, 2)})
    (card,) = cards(capsys, run, other, "--by", "category")
    parts = {part["name"]: part for part in card["parts"]}
    models = [
        next(name for name in parts if name.startswith("model=") and f"/{run}." in name) for run in ("other", "run")
    ]
    assert list(parts) == ["all", *models, "category=forest", "category=garden"]
    assert parts["category=forest"]["n"] + parts["category=garden"]["n"] == parts["all"]["n"] == 83
    assert main(["reviews", "card", str(run), "--by", "colour"]) == 2
    assert "has the meta field 'colour'" in capsys.readouterr().err


def test_queue_decisions_make_no_rates_of_an_audit(run, capsys):
    decide(run, {f"q{number}": "wrong" for number in range(1, 81, 8)}, reviewer="bob", design="queue")
    (card,) = cards(capsys, run)
    assert card["parts"][0]["n"] == 63
    (card,) = cards(capsys, run, "--design", "all")
    assert card["parts"][0]["n"] == 73
    assert "queue of doubtful replies" in card["notes"][0]


def test_a_page_of_cards_escapes_hostile_names_and_asks_no_network(run, tmp_path, capsys):
    decide(run, {"q1": "right"}, reviewer="<img src=x onerror=alert(1)>")
    assert main(["reviews", "card", str(run), "--by", "category", "--out", str(tmp_path / "card.html")]) == 0
    page = (tmp_path / "card.html").read_text()
    assert "<img" not in page and "&lt;img src=x" in page
    assert "http://" not in page.replace("http://www.w3.org/2000/svg", "") and "<script>alert" not in page
    assert "category=garden" in page


def test_runs_without_reviews_are_refused_with_the_command_that_makes_them(tmp_path, capsys):
    folder = answer(tmp_path / "bare", {}, n=4)
    assert main(["reviews", "card", str(folder)]) == 5
    assert "snellen view" in capsys.readouterr().err
