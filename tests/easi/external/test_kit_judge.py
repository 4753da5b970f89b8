"""A judge of VLMEvalKit is credited only where its own files and the log show that it graded replies."""

from __future__ import annotations

import json

import pytest

from easi.external import drawn_answers as drawn
from snellen.easi.external import run_all, run_backend
from snellen.easi.log_file import line
from snellen.easi.status import entry
from snellen.engine.run_folder import RunFolder

MMSI = "MMSIBench_wo_circular"
JUDGE = "gpt-4o-1120"
FALLBACKS = [
    "UserWarning: OPENAI_API_KEY is not set properly, fallback to rule-based MCQ scoring.",
    "UserWarning: LLM judge is not working properly, fallback to rule-based MCQ scoring.",
    "UserWarning: OPENAI API is not working properly, will use exact matching for evaluation",
    "ERROR - OPENAI_API_KEY is not set properly, will use exact matching for evaluation",
    "Failed to build judge model (gpt-4o-1120): 401. Will use exact matching.",
]


@pytest.fixture
def judged(tmp_path, monkeypatch):
    """Run the stand-in with a judge: the outcome of MMSI-Bench or BLINK, and its row as `snellen easi` shows it."""
    monkeypatch.delenv("DIST_TIMEOUT", raising=False)
    monkeypatch.setenv("OPENAI_API_KEY", "stub-key-0001")
    drawn.kit_table(tmp_path, MMSI, len(drawn.MMSI))
    drawn.kit_table(tmp_path, "BLINK", len(drawn.MMSI))

    def ask(plan, name="mmsi-bench"):
        drawn.environment(tmp_path, monkeypatch, plan)
        settings = drawn.kit_settings(tmp_path, judge_model=JUDGE)
        board = run_all.plan("vlmevalkit", settings, (name,))
        run_all.work("vlmevalkit", settings, board, Silent(), tmp_path / "log.txt")
        return run_backend("vlmevalkit", settings, [name])[name], board.rows[0]

    return ask


class Silent:
    def said(self, text): ...

    def changed(self, row): ...

    def moved(self, row): ...


def graded(grades, extracted="N/A"):
    plan = drawn.kit_rows()
    plan["judged"] = [
        {**row, "hit": float(grade == "A"), "judge_grade": grade, "pred_extracted": extracted}
        for row, grade in zip(plan["scored"], grades, strict=True)
    ]
    plan["judged_acc"] = {"overall": 25.0}
    return plan


@pytest.mark.parametrize("words", FALLBACKS)
def test_a_kit_that_falls_back_to_rules_is_said_to_be_not_judged(judged, words):
    plan = drawn.kit_rows() | {"judge_files": "rules", "judge_says": [words]}
    outcome, row = judged({MMSI: plan})
    assert (outcome.judge, outcome.judged, outcome.exit_status or 0) == ("", None, 0)
    assert outcome.judging.startswith("not judged: ") and words[-40:] in outcome.judging
    assert outcome.state == "complete" and outcome.theirs == 50.0
    written = entry(row)
    assert written["judging"].startswith("not judged") and written["harness_judge"] is None
    assert f"judged by {JUDGE}" not in json.dumps(written) + line(row)
    assert "not judged" in line(row)


def test_without_any_judges_file_a_silent_fallback_is_not_judged_either(judged):
    outcome, _ = judged({MMSI: drawn.kit_rows() | {"judge_files": "rules"}})
    assert outcome.judge == "" and "wrote no judge's file" in outcome.judging


def test_a_table_under_the_judges_name_that_rules_filled_is_not_a_judges(judged):
    plan = drawn.kit_rows()
    log = "Match Log: Failed in Prefetch, no GPT-based answer matching under `exact_matching` policy.. "
    plan |= {
        "acc_name": "Qwen3-VL_BLINK_acc.csv",
        "comma": True,
        "acc": {"Overall": 0.5},
        "judge_files": "result",
        "judged": [
            {**row, "log": f"Match Log: {row['prediction']}. " if at < 2 else log}
            for at, row in enumerate(plan["scored"])
        ],
        "judged_acc": {"Overall": 0.5},
    }
    outcome, _ = judged({"BLINK": plan}, "blink")
    assert (outcome.judge, outcome.judged) == ("", None)
    assert "no verdict on any of 2 replies" in outcome.judging


def test_replies_that_the_judge_failed_on_are_counted_out(judged):
    plan = drawn.kit_rows()
    logs = [
        "Match Log: A. ",
        "Match Log: B. ",
        "Match Log: The best fit is D. ",
        "Match Log: Failed to predict, thus randomly generate one. . ",
    ]
    plan |= {
        "acc_name": "Qwen3-VL_BLINK_acc.csv",
        "comma": True,
        "acc": {"Overall": 0.5},
        "judge_files": "result",
        "judged": [{**row, "log": log} for row, log in zip(plan["scored"], logs, strict=True)],
        "judged_acc": {"Overall": 0.75},
    }
    outcome, row = judged({"BLINK": plan}, "blink")
    # The second reply is "`B`": its log holds other words, so that the judge was asked about it.
    assert outcome.judging == f"judged by {JUDGE}: 2 of 3 replies" and outcome.judged == 75.0
    assert entry(row)["harness_judge"] == {"model": JUDGE, "verdicts": 2, "replies": 3, "score_percent": 75.0}


def test_a_graded_table_counts_its_grades_without_those_that_every_attempt_failed_for(judged):
    plan = graded("ABCC") | {
        "judge_says": ["WARNING - LLM extract failed after max_retry, fallback to INVALID."],
    }
    outcome, row = judged({MMSI: plan})
    assert outcome.judging == f"judged by {JUDGE}: 3 of 4 replies"
    assert (outcome.judged, outcome.verdicts, outcome.for_judge) == (25.0, 3, 4)
    assert "judged by gpt-4o-1120: 3 of 4 replies" in line(row)


def test_a_judge_that_answers_nothing_is_not_credited(judged):
    says = ["WARNING - LLM extract failed after max_retry, fallback to INVALID."] * 4
    outcome, _ = judged({MMSI: graded("CCCC") | {"judge_says": says}})
    assert outcome.judge == "" and "no verdict on any of 4 replies" in outcome.judging


def test_a_table_that_grades_every_reply_as_invalid_is_no_evidence_of_a_judge(judged):
    outcome, _ = judged({MMSI: graded("CCCC")})
    assert (outcome.judge, outcome.judged) == ("", None)
    assert "every grade in" in outcome.judging and outcome.judging.startswith("not judged")


def test_a_judge_that_grades_every_reply_as_invalid_is_known_by_what_it_extracted(judged):
    outcome, _ = judged({MMSI: graded("CCCC", "the left one")})
    assert outcome.judging.startswith("judged by") and "4 of 4" in outcome.judging


def test_a_table_that_lost_what_was_extracted_is_no_evidence_of_a_judge(judged):
    outcome, _ = judged({MMSI: graded("CCCC", None)})
    assert outcome.judging.startswith("not judged")


def test_a_judges_file_of_an_earlier_command_is_no_evidence_for_this_one(judged, tmp_path):
    good, _ = judged({MMSI: graded("ABAB")})
    assert good.judge == JUDGE
    meta = RunFolder(good.folder).meta()
    meta.environment["outcome"] |= {"judge": "", "judged": None, "verdicts": 0}
    RunFolder(good.folder).write_meta(meta)
    later, _ = judged({MMSI: drawn.kit_rows() | {"judge_files": "rules"}})
    assert later.judge == "" and later.judging.startswith("not judged")


def test_a_claim_of_an_older_version_is_looked_into_again(judged):
    fallen = {MMSI: drawn.kit_rows() | {"judge_files": "rules", "judge_says": FALLBACKS[:1]}}
    first, _ = judged(fallen)
    meta = RunFolder(first.folder).meta()
    old = {
        "judge": JUDGE,
        "judged": 50.0,
        "notes": [f"25.0% of the replies could not be read by rules: judged by {JUDGE}"],
    }
    meta.environment["outcome"] |= old
    del meta.environment["outcome"]["verdicts"]
    RunFolder(first.folder).write_meta(meta)
    again, _ = judged(fallen)
    assert again.judge == "" and again.judging.startswith("not judged")
    assert not any(": judged by" in note for note in again.notes)
