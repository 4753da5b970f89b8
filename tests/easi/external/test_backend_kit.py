"""VLMEvalKit driven: a stand-in writes its tables, well or badly, and each outcome is what was really there."""

from __future__ import annotations

import json
import shutil

import pytest

from easi.external import drawn_answers as drawn
from snellen.easi.external import run_backend, vlmevalkit
from snellen.errors import DataError, JudgeError, MissingExtraError, UsageError
from snellen.runs.run import load_run

MMSI = "MMSIBench_wo_circular"


@pytest.fixture
def ask(tmp_path, monkeypatch):
    """Ask benchmarks of a stand-in with a plan: the outcomes, and the calls it got."""
    monkeypatch.delenv("DIST_TIMEOUT", raising=False)
    drawn.kit_table(tmp_path, MMSI, len(drawn.MMSI))

    def asked(plan, names, **changes):
        calls = drawn.environment(tmp_path, monkeypatch, plan)
        outcomes = run_backend("vlmevalkit", drawn.kit_settings(tmp_path, **changes), names)
        return outcomes, drawn.called(calls)

    return asked


def test_predictions_become_a_run_whose_figure_is_the_kit_s(ask):
    outcomes, _ = ask({MMSI: drawn.kit_rows()}, ["mmsi_bench"])
    outcome = outcomes["mmsi-bench"]
    assert (outcome.state, outcome.rows, outcome.expected) == ("complete", 4, 4)
    assert (outcome.theirs, outcome.ours, outcome.difference, outcome.differences) == (50.0, 50.0, 0.0, ())
    run = load_run(outcome.folder)
    assert run.metric("overall", "vlmevalkit").value == 0.5
    assert run.metric("msr_accuracy", "vlmevalkit").value == 0.5


def test_one_command_asks_all_data_sets_as_easi_has_it(ask, tmp_path):
    plan = {MMSI: drawn.kit_rows(), "BLINK": blink()}
    outcomes, calls = ask(plan, ["blink", "mmsi-bench"], verbose=True, extra=("--api-nproc", "4"))
    (call,) = calls
    argv = call["argv"]
    work = argv.pop(argv.index("--work-dir") + 1)
    assert argv == [
        *("--data", MMSI, "BLINK", "--model", "Qwen3-VL", "--work-dir", "--reuse", "--judge", "exact_matching"),
        *("--verbose", "--api-nproc", "4"),
    ]
    assert (call["tables"], call["waits"]) == (str(tmp_path / "LMUData"), "36000")
    assert str(tmp_path / "out" / "vlmevalkit-Qwen3-VL" / "vlmevalkit") in work
    assert list(outcomes) == ["mmsi-bench", "blink"]


def blink():
    plan = drawn.kit_rows()
    rows = [{**row, "category": "Counting"} for row in plan["rows"]]
    scored = [{**row, "hit": hit} for row, (_, _, hit) in zip(rows, drawn.MMSI, strict=True)]
    return {
        "rows": rows,
        "scored": scored,
        "acc": {"Overall": 0.5},
        "acc_name": "Qwen3-VL_BLINK_acc.csv",
        "comma": True,
    }


def test_several_processes_are_started_by_torchrun(tmp_path):
    settings = drawn.kit_settings(tmp_path, nproc=4)
    (tmp_path / "VLMEvalKit").mkdir()
    run = tmp_path / "VLMEvalKit" / "run.py"
    run.touch()
    argv = vlmevalkit.command(settings, [MMSI], tmp_path)
    at = argv.index("--nproc-per-node=4")
    assert argv[at + 1] == str(run)
    assert argv[at - 1].endswith(("torchrun", "torch.distributed.run"))


def test_exit_status_0_with_missing_rows_is_no_whole_run(ask, tmp_path):
    drawn.kit_table(tmp_path, MMSI, 6)
    outcomes, _ = ask({MMSI: drawn.kit_rows()}, ["mmsi-bench"])
    outcome = outcomes["mmsi-bench"]
    assert (outcome.state, outcome.exit_status, outcome.rows, outcome.expected) == ("partial", 0, 4, 6)
    assert load_run(outcome.folder).metric("overall", "vlmevalkit").coverage == pytest.approx(4 / 6)


def test_without_the_kit_s_table_the_known_number_of_questions_counts(ask, tmp_path):
    shutil.rmtree(tmp_path / "LMUData")
    outcomes, _ = ask({MMSI: drawn.kit_rows()}, ["mmsi-bench"])
    outcome = outcomes["mmsi-bench"]
    assert (outcome.state, outcome.rows, outcome.expected) == ("partial", 4, 1000)


def test_empty_predictions_are_no_answers_to_be_relied_on(ask):
    answers = [*drawn.MMSI[:3], (None, "A", 0.0)]
    outcomes, _ = ask({MMSI: drawn.kit_rows(answers)}, ["mmsi-bench"])
    outcome = outcomes["mmsi-bench"]
    assert (outcome.state, outcome.empty, outcome.difference) == ("partial", 1, 0.0)
    assert any(note.startswith("1 predictions are empty") for note in outcome.notes)
    assert load_run(outcome.folder).meta.state == "partial"


def test_a_data_set_that_failed_is_told_by_the_log_and_stops_no_other(ask):
    outcomes, _ = ask({MMSI: drawn.kit_rows()}, ["mmsi-bench", "embspatial"])
    assert outcomes["mmsi-bench"].complete and outcomes["mmsi-bench"].errors == ()
    failed = outcomes["embspatial"]
    assert (failed.state, failed.exit_status, failed.folder) == ("failed", 0, None)
    assert failed.errors[0].startswith("out of memory: ") and "EmbSpatialBench" in failed.errors[0]


def test_half_of_site_is_never_a_whole(ask):
    outcomes, _ = ask({"SiteBenchImage": site()}, ["site"])
    outcome = outcomes["site"]
    assert (outcome.state, outcome.rows) == ("partial", 2)
    assert load_run(outcome.folder).metric("overall", "easi").coverage < 0.001


def site():
    rows = [
        {
            "index": at,
            "question": "How many?",
            "options": "['one', 'two']",
            "category": "counting & existence",
            "dataset": "x",
            "answer": "A",
            "prediction": reply,
        }
        for at, reply in enumerate(("A", "B"))
    ]
    scored = [{**row, "hit": float(row["prediction"] == "A")} for row in rows]
    return {"rows": rows, "scored": scored, "acc": {"overall": 0.0}}


def test_site_is_pooled_over_both_tables(ask, tmp_path):
    for name in ("SiteBenchImage", "SiteBenchVideo"):
        drawn.kit_table(tmp_path, name, 2)
    right = site()
    for key in ("rows", "scored"):
        right[key] = [{**row, "prediction": "A"} | ({"hit": 1.0} if key == "scored" else {}) for row in right[key]]
    outcomes, _ = ask({"SiteBenchImage": site(), "SiteBenchVideo_32frame": right}, ["site"])
    outcome = outcomes["site"]
    assert (outcome.state, outcome.rows, outcome.expected) == ("complete", 4, 4)
    assert (outcome.theirs, outcome.ours) == (50.0, 50.0)  # (0.5 - 0.5 + 0.5 + 0.5) / (4 * 0.5)


def test_what_was_complete_is_not_asked_again(ask):
    plan = {MMSI: drawn.kit_rows()}
    ask(plan, ["mmsi-bench"])
    again, calls = ask(plan, ["mmsi-bench"])
    assert len(calls) == 1 and again["mmsi-bench"].reused and again["mmsi-bench"].theirs == 50.0
    fresh, calls = ask(plan, ["mmsi-bench"], rerun=True)
    assert len(calls) == 2 and "--reuse" not in calls[1]["argv"]
    assert fresh["mmsi-bench"].complete and not fresh["mmsi-bench"].reused


def test_a_rerun_that_writes_nothing_does_not_take_the_old_files_for_its_own(ask):
    ask({MMSI: drawn.kit_rows()}, ["mmsi-bench"])
    outcomes, _ = ask({}, ["mmsi-bench"], rerun=True)
    assert outcomes["mmsi-bench"].state == "failed"
    assert outcomes["mmsi-bench"].theirs is None


def test_too_many_unread_replies_are_judged_where_a_judge_is_named(ask, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "stub-key-0001")
    plan = drawn.kit_rows()
    plan |= {"judged": [{**row, "hit": 1.0} for row in plan["scored"]], "judged_acc": {"overall": 75.0}}
    outcomes, calls = ask({MMSI: plan}, ["mmsi-bench"], judge_model="gpt-4o-1120")
    outcome = outcomes["mmsi-bench"]
    assert (outcome.theirs, outcome.ours, outcome.judged, outcome.judge) == (50.0, 50.0, 75.0, "gpt-4o-1120")
    assert calls[1]["argv"][-3:] == ["--reuse", "--judge", "gpt-4o-1120"]
    assert "stub-key-0001" not in json.dumps(calls)
    again, calls = ask({MMSI: plan}, ["mmsi-bench"], judge_model="gpt-4o-1120")
    assert (again["mmsi-bench"].judged, len(calls)) == (75.0, 2)
    readable = drawn.kit_rows(drawn.MMSI[:3] * 2)
    outcomes, calls = ask({MMSI: readable}, ["mmsi-bench"], judge_model="gpt-4o-1120", rerun=True)
    assert outcomes["mmsi-bench"].judged is None
    assert outcomes["mmsi-bench"].judging.startswith("not judged")
    assert len(calls) == 3


def test_a_judge_named_later_judges_what_is_complete(ask, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "stub-key-0001")
    plan = drawn.kit_rows()
    plan |= {"judged": [{**row, "hit": 1.0} for row in plan["scored"]], "judged_acc": {"overall": 75.0}}
    ask({MMSI: plan}, ["mmsi-bench"])
    outcomes, calls = ask({MMSI: plan}, ["mmsi-bench"], judge_model="gpt-4o")
    assert [call["argv"][-1] for call in calls] == ["exact_matching", "gpt-4o"]
    assert outcomes["mmsi-bench"].judged == 75.0 and outcomes["mmsi-bench"].reused


def test_a_judge_without_a_key_is_refused_rather_than_replaced_by_rules(ask, monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(JudgeError, match="OPENAI_API_KEY"):
        ask({MMSI: drawn.kit_rows()}, ["mmsi-bench"], judge_model="gpt-4o")
    with pytest.raises(UsageError, match="has no judge"):
        ask({MMSI: drawn.kit_rows()}, ["mmsi-bench"], judge_model="my-own")


def test_without_a_checkout_the_hint_says_how_to_have_one(tmp_path, monkeypatch):
    monkeypatch.delenv("VLMEVALKIT_HOME", raising=False)
    settings = drawn.kit_settings(tmp_path, home=tmp_path / "nowhere")
    with pytest.raises(MissingExtraError) as raised:
        run_backend("vlmevalkit", settings, ["blink"])
    assert "git clone" in raised.value.hint and "--backend-home" in raised.value.hint
    assert not (tmp_path / "out").exists()


def test_files_are_found_in_dated_folders_with_and_without_links(tmp_path):
    settings = drawn.kit_settings(tmp_path)
    older, newer = (tmp_path / "Qwen3-VL" / name for name in ("T20261119_Gaaaaaaaa", "T20261121_Gbbbbbbbb"))
    for folder in (newer, older):
        folder.mkdir(parents=True)
        for ending in ("BLINK.xlsx", "BLINK_exact_matching_result.xlsx", "BLINK_acc.csv", "BLINK_circular.xlsx"):
            (folder / f"Qwen3-VL_{ending}").touch()
    (newer / "exact_matching_backup").mkdir()
    (newer / "exact_matching_backup" / "Qwen3-VL_BLINK_acc.csv").touch()
    (tmp_path / "Qwen3-VL" / "Qwen3-VL_BLINK.xlsx").symlink_to(newer / "Qwen3-VL_BLINK.xlsx")
    found = vlmevalkit.written(tmp_path, settings, "BLINK")
    assert found.answers is not None and found.answers.resolve() == newer / "Qwen3-VL_BLINK.xlsx"
    assert found.scored == newer / "Qwen3-VL_BLINK_exact_matching_result.xlsx"
    assert found.figures == newer / "Qwen3-VL_BLINK_acc.csv"
    assert found.judged is None


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("m_VSI-Bench_32frame_extract_matching_acc.csv", "figures"),
        ("m_VSI-Bench_32frame_llm_gpt-4o-1120_acc.csv", "judged_figures"),
        ("m_VSI-Bench_32frame_llm_gpt-4o-1120.xlsx", "judged"),
        ("m_VSI-Bench_32frame_extract_matching.xlsx", "scored"),
        ("m_VSI-Bench_32frame.tsv", "answers"),
    ],
)
def test_each_name_of_the_kit_s_has_its_meaning(tmp_path, name, kind):
    (tmp_path / name).touch()
    found = vlmevalkit.written(tmp_path, drawn.kit_settings(tmp_path, model="org/m"), "VSI-Bench_32frame")
    assert getattr(found, kind) == tmp_path / name
    assert sum(getattr(found, field) is not None for field in found.__struct_fields__) == 1


def test_3dsrbench_s_table_with_all_settings_goes_before_the_short_one(tmp_path):
    for name in ("m_3DSRBench_acc.csv", "m_3DSRBench_full_acc.csv"):
        (tmp_path / name).touch()
    found = vlmevalkit.written(tmp_path, drawn.kit_settings(tmp_path, model="m"), "3DSRBench")
    assert found.figures == tmp_path / "m_3DSRBench_full_acc.csv"


def test_files_of_other_models_are_not_taken(tmp_path):
    for model in ("a", "b"):
        (tmp_path / f"{model}_BLINK.xlsx").touch()
    found = vlmevalkit.written(tmp_path, drawn.kit_settings(tmp_path, model="a"), "BLINK")
    assert found.answers == tmp_path / "a_BLINK.xlsx"
    with pytest.raises(DataError, match="several models"):
        vlmevalkit.written(tmp_path, drawn.kit_settings(tmp_path, model="c"), "BLINK")
