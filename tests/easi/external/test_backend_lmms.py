"""lmms-eval driven: stand-ins write its files, well or badly, and each outcome is what was really there."""

from __future__ import annotations

import json
import re

import pytest

from easi.external import drawn_answers as drawn
from snellen.easi.external import HarnessOutcome, run_backend
from snellen.easi.external.lmms_eval import model_folder
from snellen.errors import MissingExtraError, UsageError
from snellen.reports.runs import report
from snellen.runs.run import load_run


@pytest.fixture
def ask(tmp_path, monkeypatch):
    """Ask benchmarks of a stand-in with a plan: the outcomes, and the calls it got."""

    def asked(plan, names, **changes):
        calls = drawn.environment(tmp_path, monkeypatch, plan)
        outcomes = run_backend("lmms-eval", drawn.lmms_settings(tmp_path, **changes), names)
        return outcomes, drawn.called(calls)

    return asked


def test_answers_become_a_run_whose_figure_is_the_harness_s(ask):
    outcomes, _ = ask({"embspatial": drawn.embspatial()}, ["embspatial"])
    outcome = outcomes["embspatial"]
    assert (outcome.state, outcome.rows, outcome.expected) == ("complete", 4, 4)
    assert (outcome.theirs, outcome.ours, outcome.difference) == (50.0, 50.0, 0.0)
    assert outcome.differences == ()
    run = load_run(outcome.folder)
    assert run.metric("overall", "lmms-eval").value == 0.5
    assert run.metric("mp3d_accuracy", "lmms-eval").value == 0.5
    assert [row["sample_id"] for row in run.records().to_pylist()] == ["ai2thor_0", "mp3d_1", "scannet_2", "mp3d_3"]
    page = report([run], outcome.folder / "report.html").read_text()
    assert "The answer is D" in page and "lmms-eval:org/model" in page


def test_the_command_is_the_one_that_easi_gives(ask, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "secret-of-the-user")
    extra = ("--gen_kwargs", "max_new_tokens=2048")
    _, calls = ask(
        {"embspatial": drawn.embspatial()}, ["embspatial"], accelerate=True, nproc=4, extra=extra, verbose=True
    )
    (call,) = calls
    launch, told = call["argv"][:8], call["argv"][8:]
    port = re.fullmatch(r"--main_process_port=(\d+)", launch[5])
    assert port is not None and int(port[1]) > 1023
    assert launch[:5] == [
        "launch",
        "--num_processes=4",
        "--num_machines=1",
        "--mixed_precision=no",
        "--dynamo_backend=no",
    ]
    assert launch[6:] == ["-m", "lmms_eval"]
    out = told.pop(told.index("--output_path") + 1)
    assert told == [
        *("--model", "qwen3_vl", "--model_args=pretrained=org/model", "--tasks", "embspatial", "--batch_size", "1"),
        *("--output_path", "--log_samples", "--verbosity", "DEBUG", *extra),
    ]
    assert out.endswith("/1")
    assert call["hf_transfer"] == "0" and call["key"] is True


def test_what_was_complete_is_not_asked_again_and_other_settings_are(ask):
    plan = {"embspatial": drawn.embspatial()}
    first, _ = ask(plan, ["embspatial"])
    again, calls = ask(plan, ["embspatial"])
    assert len(calls) == 1 and again["embspatial"].reused
    assert again["embspatial"].difference == first["embspatial"].difference == 0.0
    other, calls = ask(plan, ["embspatial"], extra=("--gen_kwargs", "temperature=1"))
    assert len(calls) == 2 and not other["embspatial"].reused
    assert "embspatial.before-1" in " ".join(other["embspatial"].notes)
    _, calls = ask(plan, ["embspatial"], extra=("--gen_kwargs", "temperature=1"), rerun=True)
    assert len(calls) == 3


def test_a_smoke_test_never_passes_for_a_whole_run(ask):
    plan = {"embspatial": drawn.embspatial(drawn.EMBSPATIAL[:2], score=1.0)}
    outcomes, _ = ask(plan, ["embspatial"], extra=("--limit", "2"))
    outcome = outcomes["embspatial"]
    assert (outcome.state, outcome.rows, outcome.expected) == ("partial", 2, 4)
    assert load_run(outcome.folder).metric("overall", "lmms-eval").coverage == 0.5
    _, calls = ask(plan, ["embspatial"], extra=("--limit", "2"))
    assert len(calls) == 2


def test_stale_files_of_an_earlier_attempt_are_not_results(ask):
    ask({"embspatial": drawn.embspatial()}, ["embspatial"])
    crash = {
        "embspatial": {"say": ["torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 9 GiB"], "status": 1}
    }
    outcomes, _ = ask(crash, ["embspatial"], rerun=True)
    outcome = outcomes["embspatial"]
    assert (outcome.state, outcome.exit_status, outcome.theirs) == ("failed", 1, None)
    assert outcome.errors[0] == "exit status 1"
    assert outcome.errors[1].startswith("out of memory: ")


def test_an_error_that_ends_with_status_0_is_a_failure_all_the_same(ask):
    say = [
        "Traceback (most recent call last):",
        '  File "evaluator.py", line 1, in f',
        "    docs = load()",
        "ValueError: BuilderConfig 'Relative_Depth' not found. Available: ['default']",
        "2026 | ERROR | lmms_eval.__main__:cli_evaluate:614 - Error during evaluation: RetryError. Please set",
    ]
    outcomes, _ = ask({"embspatial": {"say": say}}, ["embspatial"])
    outcome = outcomes["embspatial"]
    assert (outcome.state, outcome.exit_status) == ("failed", 0)
    assert outcome.errors[0].startswith("task or data not found: ValueError: BuilderConfig")
    assert "Error during evaluation" in outcome.errors[1]


def test_a_benchmark_that_fails_does_not_stop_the_others(ask):
    plan = {"embspatial": {"status": 137}, "vsibench_multiimage": vsi()}
    outcomes, _ = ask(plan, ["embspatial", "vsi_bench"])
    assert list(outcomes) == ["vsi-bench", "embspatial"]
    assert outcomes["vsi-bench"].complete
    assert outcomes["embspatial"].errors[0].startswith("killed: by SIGKILL")


def vsi(figures=None):
    rows = drawn.vsi_rows()
    told = figures or {"vsibench_overall,none": 0.633333, "object_counting_mra,none": 0.9}
    return {
        "samples": {"vsibench_multiimage": rows},
        "results": {"vsibench_multiimage": told},
        "original": {"vsibench_multiimage": 3},
    }


@pytest.mark.parametrize(
    "figures",
    [
        {"vsibench_overall,none": 0.633333, "object_counting_mra,none": 0.9},
        {"vsibench_score,none": {"overall": 63.3333, "object_counting_mra": 90.0}},
    ],
    ids=["scalars", "one-object"],
)
def test_both_shapes_of_vsi_bench_s_figures_are_read(ask, figures):
    outcomes, _ = ask({"vsibench_multiimage": vsi(figures)}, ["vsi-bench"])
    assert outcomes["vsi-bench"].theirs == 63.3333
    assert outcomes["vsi-bench"].differences == ()


def test_site_is_pooled_over_the_samples_of_both_halves(ask):
    plan = {
        "site_bench_image": drawn.site("site_bench_image", drawn.SITE_IMAGE),
        "site_bench_video_multiimage": drawn.site("site_bench_video_multiimage", drawn.SITE_VIDEO),
    }
    outcomes, calls = ask(plan, ["site_image", "site"])
    outcome = outcomes["site"]
    assert len(calls) == 2
    assert (outcome.state, outcome.rows, outcome.theirs, outcome.ours) == ("complete", 3, 50.0, 50.0)
    assert [one["sample_id"] for one in load_run(outcome.folder).records().to_pylist()] == [
        "image/0",
        "image/1",
        "video/0",
    ]


def test_half_of_site_is_never_a_whole(ask):
    plan = {
        "site_bench_image": drawn.site("site_bench_image", drawn.SITE_IMAGE),
        "site_bench_video_multiimage": {"say": ["NCCL error: unhandled system error"], "status": 1},
    }
    outcomes, _ = ask(plan, ["sitebench", "site"][1:])
    outcome = outcomes["site"]
    assert outcome.state == "partial"
    assert outcome.errors[1].startswith("between the GPUs: ")
    assert load_run(outcome.folder).metric("overall", "lmms-eval").coverage < 0.001
    assert any("site_bench_video_multiimage: 0 replies" in note for note in outcome.notes)


def test_a_difference_is_explained_sample_by_sample(ask):
    rows = [*drawn.EMBSPATIAL[:3], drawn.embspatial_row(3, "The answer is D", 3, "mp3d", True)]
    outcomes, _ = ask({"embspatial": drawn.embspatial(rows, score=0.75)}, ["embspatial"])
    outcome = outcomes["embspatial"]
    assert outcome.difference == -25.0
    assert outcome.differences[0] == "overall: theirs 75.0000, ours 50.0000 (-25.0000)"
    assert outcome.differences[1] == "1 of 4 samples are scored otherwise:"
    assert outcome.differences[2].startswith("  mp3d_3: theirs 1, ours 0, read 'T'")


def test_the_draw_of_a_reply_without_a_letter_is_told_as_such(ask):
    drawn_right = [*drawn.SITE_IMAGE, drawn.site_row(2, "no idea", "B", 4, 1.0)]
    plan = {
        "site_bench_image": drawn.site("site_bench_image", drawn_right),
        "site_bench_video_multiimage": drawn.site("site_bench_video_multiimage", drawn.SITE_VIDEO),
    }
    outcomes, _ = ask(plan, ["site"])
    lines = outcomes["site"].differences
    (line,) = [one for one in lines if one.startswith("  image/2: ")]
    assert "theirs 1, ours 0.25" in line


def test_blink_s_fourteen_files_are_one_benchmark(ask):
    def row(at, reply, gold, kind, right):
        kept = {"id": f"val_{kind}_{at}", "gt_content": gold, "pred_parsed": reply, "pred": reply, "sub_task": kind}
        asked = "Which?\n(A) left\n(B) right"
        return {
            "doc_id": at,
            "target": f"({gold})",
            "filtered_resps": reply,
            "blink_acc": {**kept, "is_correct": right},
            "input": asked,
        }

    samples = {
        "blink_counting": [row(0, "A", "A", "Counting", True), row(1, "B", "A", "Counting", False)],
        "blink_jigsaw": [row(0, "B", "B", "Jigsaw", True)],
    }
    plan = {
        "samples": samples,
        "results": {"blink": {"blink_acc,none": 0.75}, "blink_counting": {"blink_acc,none": 0.5}},
        "groups": {"blink": ["blink_groups"], "blink_groups": ["blink_counting", "blink_jigsaw"]},
        "original": {"blink_counting": 2, "blink_jigsaw": 1},
    }
    outcomes, _ = ask({"blink": plan}, ["blink"])
    outcome = outcomes["blink"]
    assert (outcome.state, outcome.rows, outcome.expected) == ("complete", 3, 3)
    assert (outcome.theirs, outcome.ours) == (75.0, 75.0)


def test_rows_that_say_nothing_of_their_question_are_told_and_make_it_partial(ask):
    rows = [*drawn.EMBSPATIAL[:3], {"doc_id": 3, "target": "3", "filtered_resps": "D"}]
    outcomes, _ = ask({"embspatial": drawn.embspatial(rows)}, ["embspatial"])
    outcome = outcomes["embspatial"]
    assert (outcome.state, outcome.rows) == ("partial", 3)
    assert any("line 4: there is no doc" in note for note in outcome.notes)


def test_where_it_is_not_installed_the_hint_says_how_to(ask, monkeypatch):
    monkeypatch.setenv("STAND_IN_MISSING", "1")
    with pytest.raises(MissingExtraError) as raised:
        ask({}, ["embspatial"])
    assert raised.value.exit_code == 3
    assert "pip install lmms-eval" in raised.value.hint and "--backend-python" in raised.value.hint


@pytest.mark.parametrize(
    "changes",
    [
        {"model_args": "model=x,api_key=abcdefgh"},
        {"model_args": "model=x,OPENAI_API_KEY=abcdefgh"},
        {"extra": ("--hf_hub_log_args", "hub_token=hf_abcdefghijklmnopqrst")},
        {"extra": ("--token", "abcdefgh")},
        {"model": "sk-abcdefghijklmnopqrst"},
    ],
)
def test_keys_are_refused_among_arguments_before_anything_is_written(ask, changes, tmp_path):
    with pytest.raises(UsageError, match="arguments"):
        ask({}, ["embspatial"], **changes)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "args", ["pretrained=a/b,max_new_tokens=16", "pretrained=a/b,use_auth_token=True", "tokenizer=x,pretrained=y"]
)
def test_what_only_looks_like_a_key_is_let_through(ask, args):
    outcomes, _ = ask({"embspatial": drawn.embspatial()}, ["embspatial"], model_args=args)
    assert outcomes["embspatial"].complete


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"model_args": ""}, "model-args"),
        ({"nproc": 2}, "no-accelerate"),
        ({"judge_model": "gpt-4o"}, "by rules only"),
        ({"time_limit_s": 0.0}, "above 0"),
    ],
)
def test_settings_without_sense_are_refused_before_anything_runs(ask, changes, says):
    with pytest.raises(UsageError, match=says):
        ask({}, ["embspatial"], **changes)


@pytest.mark.parametrize(
    ("args", "folder"),
    [
        ("pretrained=Qwen/Qwen3-VL-8B,device_map=auto", "Qwen__Qwen3-VL-8B"),
        ("pretrained=/data/models/ours/step-100", "ours__step-100"),
        ("pretrained=base/model,peft=/a/b/adapter", "b__adapter"),
        ("model_version=gpt-4o", "gpt-4o"),
        ("device=cuda", "qwen3_vl"),
    ],
)
def test_the_model_s_folder_is_called_as_lmms_eval_calls_it(tmp_path, args, folder):
    assert model_folder(drawn.lmms_settings(tmp_path, model_args=args)) == folder


def test_the_log_holds_what_it_said_and_no_key(ask, monkeypatch):
    monkeypatch.setenv("SOME_API_KEY", "very-secret-key-0001")
    plan = drawn.embspatial() | {"say": ["using very-secret-key-0001 now", "and hf_abcdefghijklmnopqrst"]}
    outcomes, _ = ask({"embspatial": plan}, ["embspatial"])
    text = outcomes["embspatial"].log.read_text()
    assert "using [redacted] now" in text and "hf_abc" not in text
    note = json.loads(next(outcomes["embspatial"].log.parent.rglob("command.json")).read_text())
    assert (note["state"], note["exit_status"]) == ("ended", 0)


def test_an_outcome_s_difference_needs_both_figures():
    assert HarnessOutcome(benchmark="x", state="partial", theirs=1.0).difference is None


def test_failures_written_in_the_place_of_replies_are_no_replies(ask):
    failed = "[LMMS_EVAL_REQUEST_FAILED after 5 retries] Connection error."
    rows = [*drawn.EMBSPATIAL[:3], drawn.embspatial_row(3, failed, 3, "mp3d", False)]
    outcomes, _ = ask({"embspatial": drawn.embspatial(rows)}, ["embspatial"])
    outcome = outcomes["embspatial"]
    assert (outcome.state, outcome.rows, outcome.lost) == ("partial", 4, 1)
    assert load_run(outcome.folder).meta.totals.error == 1
    rows = [drawn.embspatial_row(at, failed, 3, "mp3d", False) for at in range(4)]
    outcomes, _ = ask({"embspatial": drawn.embspatial(rows, score=0.0)}, ["embspatial"], rerun=True)
    assert outcomes["embspatial"].state == "failed"
    assert outcomes["embspatial"].errors[0].startswith("none of 4 requests was answered; the first: line 1: ")
