"""snellen reviews: sample, export, import and status, as a user types them."""

from __future__ import annotations

import json

import pytest

from snellen.runs.reviews.decisions import VerdictReview
from snellen.runs.reviews.journal import ReviewJournal

pytestmark = pytest.mark.usefixtures("printed_as_schema")


@pytest.fixture
def run(snellen):
    assert snellen("run", "chart", "--model", "embedded", "--limit", 30, "--out", "results/a", "--quiet").status == 0
    return "results/a"


def test_sample_draws_extends_and_refuses_another_draw(snellen, run):
    drawn = snellen("reviews", "sample", run, "--size", 10, "--seed", 4)
    assert drawn.status == 0 and "10 of 30 replies, random, seed 4: written to results/a/audit_sample.json" in drawn.out
    again = json.loads(snellen("reviews", "sample", run, "--size", 10, "--seed", 4, "--json").out)
    assert again["written"] is False and len(again["cases"]) == 10
    larger = json.loads(snellen("reviews", "sample", run, "--size", 20, "--seed", 4, "--json").out)
    assert {case["sample_id"] for case in again["cases"]} < {case["sample_id"] for case in larger["cases"]}
    other = snellen("reviews", "sample", run, "--size", 20, "--seed", 5)
    assert other.status == 2 and "--seed 4" in other.err
    many = snellen("reviews", "sample", run, "--size", 31)
    assert many.status == 2 and "the run has 30 replies" in many.err


def test_decisions_go_to_label_studio_and_back_and_status_counts_them(snellen, run, tmp_path):
    assert snellen("reviews", "export", run, "--out", "tasks.json", "--cases", "all", "--limit", 4).status == 0
    rows = json.loads((tmp_path / "tasks.json").read_text())
    assert len(rows) == 4 and (tmp_path / "tasks.xml").read_text().startswith("<View>")
    for number, row in enumerate(rows):
        for reviewer in (1, 2):
            word = "wrong" if number == 0 and reviewer == 2 else ("right" if number < 2 else "ambiguous")
            row["annotations"].append(
                {
                    "id": 10 * number + reviewer,
                    "completed_by": reviewer,
                    "result": [{"from_name": "decision", "type": "choices", "value": {"choices": [word]}}],
                }
            )
    (tmp_path / "done.json").write_text(json.dumps(rows))
    added = snellen("reviews", "import", run, "done.json", "--reviewer", "1=ada", "--reviewer", "2=bob")
    assert added.status == 0 and "8 decisions added to results/a/reviews.jsonl" in added.out
    again = snellen("reviews", "import", run, "done.json", "--reviewer", "1=ada", "--reviewer", "2=bob", "--json")
    assert json.loads(again.out)["imported"] == 0
    state = json.loads(snellen("reviews", "status", run, "--json").out)["runs"][0]
    assert state["cases"] == 4 and state["reviewers"] == {"ada": 4, "bob": 4}
    assert state["decisions"] == {"right": 1, "ambiguous": 2}
    assert len(state["disputed"]) == 1 and state["pairs"][0]["reviewers"] == ["ada", "bob"]
    # Observed 3 of 4; by chance (2 * 1 + 2 * 2 + 0 * 1) / 16: kappa (0.75 - 0.375) / 0.625.
    assert state["pairs"][0]["kappa"]["value"] == pytest.approx(0.6)
    text = snellen("reviews", "status", run).out
    assert "ada and bob: Cohen's kappa 0.60 [" in text and "disputed: 1, adjudicated: 0" in text


def test_status_names_damage_and_a_folder_without_a_run_is_refused(snellen, run, tmp_path):
    journal = ReviewJournal(tmp_path / run)
    journal.append(VerdictReview(sample_id="q", reviewer="ada", decision="right", design="queue"))
    with (tmp_path / run / "reviews.jsonl").open("a") as file:
        file.write('{"sample_id": "torn')
    state = snellen("reviews", "status", run)
    assert state.status == 0 and "1 torn line" in state.err
    (tmp_path / "results/empty").mkdir()
    missing = snellen("reviews", "status", "results/empty")
    assert missing.status == 5 and "Traceback" not in missing.err


def test_an_export_without_cases_says_which_there_are(snellen, run):
    nothing = snellen("reviews", "export", run, "--out", "tasks.json", "--cases", "audit")
    assert nothing.status == 2 and "snellen reviews sample results/a --size N" in nothing.err
    disputed = snellen("reviews", "export", run, "--out", "tasks.json", "--cases", "disputed")
    assert disputed.status == 2 and "no disputed replies" in disputed.err
    own = snellen("reviews", "export", run, "--out", "results/a/summary.json", "--cases", "all")
    assert own.status == 2 and "file of a run" in own.err
