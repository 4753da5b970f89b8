"""Profiles `reviewed` and `audited`: from decisions in reviews.jsonl to scores with intervals."""

from __future__ import annotations

import json
import random

import numpy as np
import pytest

from runs.reviews.reviewed_runs import ALONE, BIRDS, JUDGED, SECRET, N, answer, decide
from snellen import load_run
from snellen.benchmarks import registry
from snellen.cli import main
from snellen.runs.judge.verdicts import Verdicts
from snellen.runs.reviews.audit_sample import draw, save_audit_sample
from snellen.runs.reviews.cases import drawable, read_cases, shown_digest
from snellen.scoring.statistics import prediction_powered


@pytest.fixture(autouse=True)
def registered(monkeypatch, tmp_path):
    monkeypatch.setitem(registry.BUILT_IN, "birds", "runs.reviews.reviewed_runs:BIRDS")
    monkeypatch.setitem(registry.BUILT_IN, "lone-birds", "runs.reviews.reviewed_runs:ALONE")
    monkeypatch.setitem(registry.BUILT_IN, "judged-birds", "runs.reviews.reviewed_runs:JUDGED")
    monkeypatch.setitem(registry.BUILT_IN, "secret-birds", "runs.reviews.reviewed_runs:SECRET")
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def run(tmp_path):
    """Every fourth reply is C, which is wrong: 300 of 400 are right."""
    return answer(tmp_path / "run", {f"q{number}": "C" for number in range(3, N, 4)})


def scores(run, capsys, *options):
    assert main(["score", str(run), *options, "--json"]) == 0
    return {profile["profile"]: profile for profile in json.loads(capsys.readouterr().out)["profiles"]}


def metric(profile, name="accuracy"):
    return next(metric for metric in profile["metrics"] if metric["name"] == name)


def test_decided_samples_are_replaced_and_both_figures_are_shown(run, capsys):
    decide(
        run,
        {"q0": "wrong", "q3": "wrong", "q7": "wrong", "q1": "right", "q2": "gold-wrong", "q11": "ambiguous"},
        design="queue",
    )
    before = (run / "summary.json").read_bytes()
    profiles = scores(run, capsys, "--profile", "reviewed")
    assert list(profiles) == ["reviewed", "strict"]
    assert (metric(profiles["strict"])["value"], metric(profiles["strict"])["n"]) == (300 / 400, 400)
    # q0 lost, q3 and q7 won; q2 and q11, one right and one wrong, are left out.
    assert metric(profiles["reviewed"])["value"] == pytest.approx((300 - 1 + 2 - 1) / 398)
    assert (metric(profiles["reviewed"])["n"], metric(profiles["reviewed"])["coverage"]) == (398, 398 / 400)
    assert profiles["reviewed"]["review"]["replies"] == {
        "confirmed": 1,
        "overturned": 3,
        "corrected": 0,
        "omitted": 2,
        "unknown": 0,
        "undecided": 0,
    }
    assert (run / "summary.json").read_bytes() == before

    kept = scores(run, capsys, "--profile", "reviewed", "--wrong-gold", "keep", "--ambiguous", "wrong")
    assert metric(kept["reviewed"])["value"] == pytest.approx(301 / 400)


def test_a_wrong_gold_answer_is_corrected_by_the_reviewer_or_by_a_file(run, capsys, tmp_path):
    decide(run, {"q3": "gold-wrong"}, correction="finch")
    decide(run, {"q0": "gold-wrong", "q4": "gold-wrong"})
    corrected = scores(run, capsys, "--profile", "reviewed", "--wrong-gold", "correct")
    assert (metric(corrected["reviewed"])["value"], metric(corrected["reviewed"])["n"]) == (
        pytest.approx(299 / 398),
        398,
    )
    (tmp_path / "gold.csv").write_text("sample_id,gold\nq0,B\nq4,A\n")
    corrected = scores(run, capsys, "--profile", "reviewed", "--gold", "gold.csv")
    assert (metric(corrected["reviewed"])["value"], metric(corrected["reviewed"])["n"]) == (
        pytest.approx(300 / 400),
        400,
    )
    (tmp_path / "gold.csv").write_text("sample_id,gold\nq0,eagle\n")
    assert main(["score", str(run), "--profile", "reviewed", "--gold", "gold.csv"]) == 0
    assert "q0 ('eagle' is no option; there are A, B, C)" in capsys.readouterr().err


def test_the_audit_is_combined_with_all_automatic_verdicts_as_the_statistics_say(run, capsys):
    names = [f"q{number}" for number in random.Random(1).sample(range(N), 80)]
    wrong = set(names[:6])
    decide(run, {name: "wrong" if name in wrong else "right" for name in names})
    queue = [f"q{number}" for number in range(0, N, 4) if f"q{number}" not in names]
    decide(run, dict.fromkeys(queue[:30], "wrong"), reviewer="bob", design="queue")
    decide(run, dict.fromkeys(names[10:30], "wrong"), reviewer="eve", design="queue")

    profile = scores(run, capsys, "--profile", "audited")["audited"]
    automatic = np.array([0.0 if number % 4 == 3 else 1.0 for number in range(N)])
    rows = np.array([int(name[1:]) for name in names])
    truth = np.array([1 - automatic[row] if f"q{row}" in wrong else automatic[row] for row in rows])
    expected = prediction_powered(automatic, rows, truth, group=np.arange(N) // 2)
    assert metric(profile)["value"] == pytest.approx(expected.value)
    assert metric(profile)["ci95"] == pytest.approx(list(expected.ci95))
    assert metric(profile)["interval"]["cluster"] == "image"
    assert metric(profile, "extractor_error")["value"] == pytest.approx(6 / 80)
    assert metric(profile, "gold_error")["value"] == 0.0 < metric(profile, "gold_error")["ci95"][1]
    audit = profile["audit"]
    assert (audit["reviewed"], audit["used"], audit["reviewers"], audit["of"]) == (80, 80, ["ada"], "strict")
    assert audit["errors"]["extractor"]["n"] == 80 and audit["errors"]["judge"]["n"] == 0
    assert audit["to_halve"]["width"] == pytest.approx(expected.ci95[1] - expected.ci95[0])
    slices = [row["name"] for row in profile["metrics"] if row["name"].startswith("accuracy/")]
    assert slices == ["accuracy/forest", "accuracy/garden"]


def test_the_audited_interval_covers_the_share_of_truly_right_replies(tmp_path, capsys):
    """Audits of one run whose own truth is known, so that the interval over the run's samples is tested too."""
    rng = random.Random(4)
    truly_right = [rng.random() < 0.8 for _ in range(N)]
    marked_right = [right if rng.random() < 0.9 else not right for right in truly_right]
    names = {f"q{number}": "A" if marked else "C" for number, marked in enumerate(marked_right)}
    folder = answer(tmp_path / "run", names, benchmark=ALONE)
    truth = sum(truly_right) / N
    covered = covered_wide = 0
    for _ in range(60):
        (folder / "reviews.jsonl").unlink(missing_ok=True)
        rows = rng.sample(range(N), 60)
        decide(folder, {f"q{row}": "right" if marked_right[row] == truly_right[row] else "wrong" for row in rows})
        summary = load_run(folder).summarize("audited", save=False)
        narrow = summary.details["audited"]["audit"]["estimate"]["ci95_of_run"]
        wide = summary.metrics["audited"][0].ci95
        covered += narrow[0] <= truth <= narrow[1]
        covered_wide += wide[0] <= truth <= wide[1]
    assert covered >= 53 and covered_wide >= covered  # 95 % of 60 is 57; 52 or fewer has a chance of 2 %


def test_errors_of_a_judge_and_of_the_rules_are_told_apart(tmp_path):
    folder = answer(tmp_path / "run", {}, benchmark=JUDGED)  # every fourth reply is a judge's, and all are right
    verdicts = Verdicts({f"q{number}": "Score: 1" for number in range(0, N, 4)}, "a judge", model="api:judge")
    names = [f"q{number}" for number in random.Random(3).sample(range(N), 120)]
    judged = [name for name in names if int(name[1:]) % 4 == 0]
    read = [name for name in names if name not in judged]
    decide(folder, {name: "wrong" if name in (*judged[:6], *read[:3]) else "right" for name in names})
    summary = load_run(folder).summarize("audited", save=False, verdicts=verdicts)
    errors = summary.details["audited"]["audit"]["errors"]
    assert errors["judge"]["value"] == pytest.approx(6 / len(judged)) and errors["judge"]["n"] == len(judged)
    assert errors["extractor"]["value"] == pytest.approx(3 / len(read)) and errors["extractor"]["n"] == len(read)
    assert all(
        errors[name]["ci95"][0] < errors[name]["value"] < errors[name]["ci95"][1] for name in ("judge", "extractor")
    )


def test_a_run_without_an_audit_is_refused_with_the_commands_that_make_it(run, capsys):
    assert main(["score", str(run), "--profile", "reviewed"]) == 5
    assert "no reviews" in capsys.readouterr().err
    decide(run, {"q0": "right"}, design="queue")
    assert main(["score", str(run), "--profile", "audited"]) == 5
    error = capsys.readouterr().err
    assert "no decision with design audit; its decisions are of the queue" in error
    assert f"snellen reviews sample {run} --size" in error and "snellen view" in error
    population, excluded = drawable(read_cases(load_run(run)))
    save_audit_sample(run, draw(population, 20, 0, excluded=excluded))
    assert main(["score", str(run), "--profile", "audited"]) == 5
    assert "A sample is drawn (20 of 400 replies" in capsys.readouterr().err


def test_a_stratified_sample_is_weighted_and_what_is_not_in_it_does_not_count(run, capsys):
    population, excluded = drawable(read_cases(load_run(run), by=["category"]))
    sample = draw(population, 40, 3, by=("category",), excluded=excluded)
    save_audit_sample(run, sample)
    drawn = [case.sample_id for case in sample.cases]
    decide(run, dict.fromkeys(drawn[:30], "right"))
    outside = next(f"q{number}" for number in range(N) if f"q{number}" not in drawn)
    decide(run, {outside: "wrong"})
    assert main(["score", str(run), "--profile", "audited", "--json"]) == 0
    output = capsys.readouterr()
    audit = json.loads(output.out)["profiles"][0]["audit"]
    assert (audit["design"], audit["drawn"], audit["reviewed"]) == ("stratified", 40, 30)
    assert f"1 audited reply is not in audit_sample.json, without effect on the estimate: {outside}" in output.err
    assert "10 of 40 replies of the audit sample are not reviewed yet" in output.err


def test_stale_decisions_are_named_and_do_not_count(run, capsys):
    sample, record = next(iter(load_run(run).answers()))
    decide(run, {sample.id: "wrong"}, digest=shown_digest(sample, record))
    decide(run, {"q1": "wrong"}, digest="blake2b:" + "0" * 32)
    decide(run, {"q2": "wrong"}, profile="letter")
    decide(run, {"q4": "wrong"}, verdict="wrong")
    decide(run, {"q5": "wrong"}, digest="sha256:of another program")
    decide(run, {"nowhere": "wrong"})
    assert main(["score", str(run), "--profile", "reviewed", "--json"]) == 0
    output = capsys.readouterr()
    review = json.loads(output.out)["profiles"][0]["review"]
    assert (review["replies"]["overturned"], review["stale"]) == (2, 4)
    for text in (
        "q1 by ada is about another question or reply",
        "of letter, not of strict (--of letter)",
        "verdict wrong, which is correct now",
        "nowhere by ada is about no reply",
    ):
        assert text in output.err
    assert scores(run, capsys, "--profile", "reviewed", "--of", "letter")["reviewed"]["review"]["of"] == "letter"


def test_several_reviewers_are_settled_by_adjudication_then_by_majority_and_ties_are_named(run, capsys):
    for reviewer, words in {
        "ada": ["wrong", "wrong", "wrong", "cannot-tell"],
        "bob": ["wrong", "right", "right", "wrong"],
        "eve": ["right", "right"],
    }.items():
        decide(run, zip(["q0", "q1", "q2", "q4"], words, strict=False), reviewer=reviewer, design="queue")
    decide(run, {"q1": "wrong"}, reviewer="zoe", design="queue", adjudicates=True)
    assert main(["score", str(run), "--profile", "reviewed", "--json"]) == 0
    output = capsys.readouterr()
    review = json.loads(output.out)["profiles"][0]["review"]
    # q0 by two of three, q1 by the adjudicator, q4 by the only vote; q2 is a tie.
    assert (review["replies"]["overturned"], review["replies"]["undecided"], review["ties"]) == (3, 1, 1)
    assert "1 reply is undecided" in output.err and "q2" in output.err


def test_a_partial_verdict_that_is_wrong_widens_the_interval_to_both_sides(tmp_path, capsys):
    folder = answer(tmp_path / "run", {f"q{number}": "B" for number in range(0, N, 2)})
    names = [f"q{number}" for number in random.Random(2).sample(range(N), 60)]
    decide(folder, dict.fromkeys(names, "right"))
    sure = metric(scores(folder, capsys, "--profile", "audited", "--of", "half")["audited"], "accuracy")
    decide(folder, dict.fromkeys([name for name in names if int(name[1:]) % 2 == 0][:10], "wrong"))
    output = scores(folder, capsys, "--profile", "audited", "--of", "half")["audited"]
    unsure = metric(output, "accuracy")
    assert unsure["ci95"][0] < sure["ci95"][0] and unsure["ci95"][1] > sure["ci95"][1]


def test_reviewed_runs_are_compared_and_audited_ones_are_refused_with_the_reason(run, tmp_path, capsys):
    other = answer(tmp_path / "other", {f"q{number}": "C" for number in range(3, N, 4)})
    decide(run, {"q3": "wrong", "q7": "wrong"})
    decide(other, {"q0": "wrong"})
    assert main(["compare", str(run), str(other), "--profile", "reviewed", "--json"]) == 0
    part = json.loads(capsys.readouterr().out)["comparisons"][0]["parts"][0]
    assert (part["baseline"], part["other"]) == (pytest.approx(302 / 400), pytest.approx(299 / 400))
    assert main(["compare", str(run), str(other), "--profile", "audited"]) == 2
    assert "audited is an estimate for a whole run" in capsys.readouterr().err


def test_options_of_reviews_without_their_profile_are_refused(run, capsys):
    assert main(["score", str(run), "--of", "letter"]) == 2
    assert "for the profiles reviewed and audited" in capsys.readouterr().err
    decide(run, {"q3": "wrong"})
    assert main(["score", str(run), "--profile", "reviewed", "--wrong-gold", "guess"]) == 2
    assert "--wrong-gold guess: expected omit, correct, keep" in capsys.readouterr().err
    assert main(["score", str(run), "--profile", "reviewed", "--of", "loose"]) == 2
    assert BIRDS.name in capsys.readouterr().err


def test_a_report_names_the_figures_of_both_profiles(run, tmp_path):
    decide(run, {"q3": "wrong", **{f"q{number}": "right" for number in range(0, 120, 3) if number != 3}})
    assert main(["report", str(run), "--out", str(tmp_path / "report.html")]) == 0
    page = (tmp_path / "report.html").read_text()
    assert "ccuracy under reviewed: 0.7525" in page and "automatic (strict): 0.7500" in page
    assert "ccuracy under audited: 0.7" in page


def test_corrected_gold_of_a_restricted_benchmark_stays_out_of_messages_and_files(tmp_path, capsys):
    folder = answer(tmp_path / "run", {"q0": "B"}, benchmark=SECRET)
    decide(folder, {"q0": "gold-wrong"}, correction="wren")
    decide(folder, {"q1": "gold-wrong"}, correction="a kestrel")
    rows = tmp_path / "rows.jsonl"
    options = ["--profile", "reviewed", "--wrong-gold", "correct", "--per-sample", str(rows)]
    assert main(["score", str(folder), *options]) == 0
    output = capsys.readouterr()
    assert "kestrel" not in output.out + output.err + rows.read_text()
    assert "q1 (no answer to its question)" in output.err
    assert json.loads(rows.read_text().splitlines()[0])["value"] == 1.0
