"""`snellen run` and `snellen rerun`, from the words on the line to the files and the exit status."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from servers.fast import MODEL
from snellen.models.base import ModelOptions


def test_a_run_prints_one_table_and_says_where_it_is(snellen):
    said = snellen("run", "lights", "-m", "pixels")
    assert said.status == 0
    assert "lights · pixels · strict" in said.out
    assert "accuracy/green" in said.out and "0.839 – 1.000" in said.out
    assert "60 answered" in said.out and "results/lights-pixels" in said.out
    assert Path("results/lights-pixels/summary.json").is_file()


def test_json_is_one_object_on_stdout_and_progress_lines_on_stderr(snellen):
    said = snellen("run", "lights", "-m", "pixels", "--json")
    (run,) = json.loads(said.out)["runs"]
    assert run["path"] == "results/lights-pixels" and run["benchmark"] == "lights" and run["model"] == "pixels"
    assert run["state"] == "complete" and run["totals"]["ok"] == 60 and len(run["fingerprint"]) == 16
    (profile,) = run["profiles"]
    assert profile["profile"] == "strict"
    assert profile["metrics"][0] == {
        "name": "accuracy",
        "value": 1.0,
        "n": 60,
        "ci95": pytest.approx([0.9398, 1.0], abs=1e-3),
        "unit": "fraction",
        "coverage": 1.0,
        "chance": None,
        "interval": {"method": "Wilson", "level": 0.95, "cluster": None, "clusters": 60, "effective": None},
        "lower_is_better": False,
    }
    assert all(json.loads(line)["event"] == "progress" for line in said.err.splitlines())


def test_a_limited_run_cannot_pass_for_a_whole_one(snellen):
    said = snellen("run", "lights", "-m", "pixels", "--limit", 6, "--out", "smoke")
    assert "only the first 6 of 60" in said.out and "10.0%" in said.out
    meta = json.loads(Path("smoke/run_meta.json").read_text())
    assert meta["coverage"] == {"limit": 6, "of": 60}


def test_replies_that_cannot_be_read_are_said_at_the_end_of_the_run(snellen, tmp_path):
    table = tmp_path / "sums.csv"
    table.write_text("question,answer\n" + "".join(f"What is {n} and {n}?,{2 * n + 1}\n" for n in range(4)))
    said = snellen("run", str(table), "-m", "embedded", "--out", "sums")
    assert "of 4 replies: snellen score sums says why" in said.out


def test_quiet_shows_no_progress(snellen):
    assert snellen("run", "lights", "-m", "pixels", "--quiet").err == ""


def test_several_models_get_a_folder_each_and_one_table(snellen, stub):
    said = snellen("run", "lights", "-m", "pixels", "-m", f"api:{MODEL}", "--base-url", stub.url, "--out", "both")
    assert said.status == 0
    assert said.out.count("metric") == 1
    assert "1.000 [0.940 – 1.000]" in said.out and "0.000 [0.000 – 0.060]" in said.out
    assert sorted(path.name for path in Path("both").iterdir()) == ["lights-pixels", f"lights-{MODEL}"]


def test_the_embedded_model_stands_beside_one_behind_an_endpoint_and_is_the_same_as_alone(snellen, stub, monkeypatch):
    monkeypatch.setenv("STUB_KEY", "sk-of-the-stub")
    behind = ["--base-url", stub.url, "--key-env", "STUB_KEY", "--extra-body", '{"top_k": 1}']
    said = snellen(
        "run", "chart", "-m", "embedded", "-m", f"api:{MODEL}", *behind, "--limit", 2, "--out", "both", "--json"
    )
    beside, other = json.loads(said.out)["runs"]
    assert (beside["model"], beside["totals"]["ok"]) == ("embedded", 2)
    assert (other["model"], other["totals"]["ok"]) == (f"api:{MODEL}", 2)
    alone = snellen("run", "chart", "-m", "embedded", "--limit", 2, "--out", "alone", "--json")
    assert json.loads(alone.out)["runs"][0]["fingerprint"] == beside["fingerprint"]
    refused = snellen("run", "chart", "-m", "embedded", *behind, "--limit", 2, "--out", "refused")
    assert refused.status == 2 and "--base-url is for models behind an endpoint" in refused.err


def test_one_model_that_fails_does_not_stop_the_others(snellen):
    address = ("--base-url", "http://127.0.0.1:9/v1", "--patience", "0")
    said = snellen("run", "lights", "-m", "api:nobody", "-m", "pixels", *address)
    assert said.status == 4
    assert "snellen: " in said.err and "60 answered" in said.out


def test_patience_at_its_default_is_told_apart_from_the_same_patience_that_a_user_sets(snellen):
    recorded = {}
    for name, words in {"unset": (), "set": ("--patience", "900")}.items():
        assert snellen("run", "lights", "-m", "pixels", "--limit", 1, *words, "--out", name).status == 0
        options = json.loads(Path(name, "run_meta.json").read_text())["spec"]["options"]
        recorded[name] = msgspec.convert(options, ModelOptions)
    assert (recorded["unset"].sample_patience_s(), recorded["unset"].start_patience_s()) == (900.0, 30.0)
    assert (recorded["set"].sample_patience_s(), recorded["set"].start_patience_s()) == (900.0, 900.0)


def test_failed_samples_make_exit_status_9_and_a_rerun_mends_them(snellen, hostile):
    url = hostile.url("500", times=2)
    words = ("run", "lights", "-m", f"api:{MODEL}", "--base-url", url, "--limit", 5, "--max-attempts", 1, "-c", 1)
    said = snellen(*words, "--out", "broken")
    assert said.status == 9
    assert "2 without an answer (asked again by `snellen rerun broken`)" in said.out
    again = snellen("rerun", "broken")
    assert again.status == 0 and "5 answered" in again.out
    assert sum('"status":"ok"' in line for line in Path("broken/results.jsonl").read_text().splitlines()) == 5


def test_a_rerun_into_another_folder_asks_everything_again(snellen):
    snellen("run", "lights", "-m", "pixels", "--limit", 4, "--out", "one", "--seed", 3)
    said = snellen("rerun", "one", "--out", "two", "--json")
    (run,) = json.loads(said.out)["runs"]
    assert run["totals"]["ok"] == 4 and run["path"] == "two"
    one, two = (json.loads(Path(name, "run_meta.json").read_text()) for name in ("one", "two"))
    assert one["fingerprint"] == two["fingerprint"] and one["spec"] == two["spec"]


def test_other_settings_in_the_same_folder_are_refused_line_by_line(snellen):
    snellen("run", "lights", "-m", "pixels", "--out", "here")
    said = snellen("run", "lights", "-m", "pixels", "--out", "here", "--max-long-side", 64)
    assert said.status == 5
    assert "media.max_long_side" in said.err and "(none)  ->  64" in said.err
    assert "snellen rerun here" in said.err and "--out here-2" in said.err


def test_every_setting_reaches_the_request(snellen, hostile):
    words = ["--temperature", 0.5, "--top-p", 0.9, "--max-new-tokens", 7, "--stop", "END", "--seed", 11]
    said = snellen(
        *("run", "lights", "-m", f"api:{MODEL}", "--base-url", hostile.url("ok"), "--limit", 1, "--out", "set"),
        *words,
        *(
            "--extra-body",
            '{"reasoning_effort": "low"}',
            "--image-format",
            "jpeg",
            "--quality",
            80,
            "--max-pixels",
            400,
        ),
    )
    assert said.status == 0
    spec = json.loads(Path("set/run_meta.json").read_text())["spec"]["options"]
    assert spec["generation"] == {"max_tokens": 7, "temperature": 0.5, "top_p": 0.9, "stop": ["END"]}
    assert spec["media"] == {"max_pixels": 400, "format": "jpeg", "quality": 80}
    assert spec["extra_body"] == {"reasoning_effort": "low"} and spec["seed"] == 11
    trace = next(Path("set/traces").iterdir()).read_text()
    for piece in ('"temperature":0.5', '"top_p":0.9', "END", '"reasoning_effort":"low"'):
        assert piece in trace.replace(": ", ":"), piece


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("-o", "size"), "not of the form key=value"),
        (("-o", "size=3"), "has no option 'size'"),
        (("--extra-body", "[1]"), "--extra-body is not a JSON object"),
        (("--extra-body", "@missing.json"), "cannot read the file"),
        (("--profile", "lenient"), "no scoring profile 'lenient'"),
    ],
)
def test_a_wrong_option_is_exit_status_2_with_the_reason(snellen, words, complaint):
    said = snellen("run", "lights", "-m", "pixels", *words)
    assert said.status == 2
    assert said.err.count("snellen: ") == 1 and complaint in said.err
    assert "Traceback" not in said.err


def test_a_report_is_written_when_asked_for(snellen):
    said = snellen("run", "lights", "-m", "pixels", "--limit", 6, "--out", "seen", "--report")
    assert said.status == 0 and "report seen/report.html" in said.out
    assert "<html" in Path("seen/report.html").read_text()


def test_a_bound_on_dollars_without_prices_is_refused_before_anything_is_asked(snellen, stub):
    asked = ["run", "lights", "-m", f"api:{MODEL}", "--base-url", stub.url, "--max-cost", 1, "--out", "run"]
    said = snellen(*asked)
    assert said.status == 2 and "--prices FILE" in said.err and "--max-tokens-total" in said.err
    assert stub.stats()["served"] == 0 and not Path("run").exists()
    Path("prices.toml").write_text(f'["{MODEL}"]\ninput = 1.0\noutput = 1.0\n')
    assert snellen(*asked, "--prices", "prices.toml").status == 0
    assert stub.stats()["served"] == 60


def test_a_bound_on_dollars_is_nothing_to_a_model_that_nobody_is_paid_for(snellen):
    said = snellen("run", "lights", "-m", "embedded", "--max-cost", 1)
    assert said.status == 2 and "has no price" in said.err and "--prices" not in said.err


def test_json_of_a_single_run_that_breaks_off_says_how_far_it_came_and_why(snellen, stub):
    asked = ["run", "lights", "-m", f"api:{MODEL}", "--base-url", stub.url, "-c", 1, "--out", "run", "--json"]
    said = snellen(*asked, "--max-tokens-total", 1)
    (run,) = json.loads(said.out)["runs"]
    assert said.status == 7 and run["error"]["exit_code"] == 7 and "used up" in run["error"]["message"]
    assert (run["path"], run["benchmark"], run["model"], run["state"]) == ("run", "lights", f"api:{MODEL}", "failed")
    assert run["totals"]["ok"] == stub.stats()["served"] == 1 and run["coverage"] == {"limit": None, "of": 60}
    assert "snellen: the budget is used up" in said.err and " of 1 tokens, $" in said.err


def test_json_of_a_refused_run_counts_nothing_of_the_run_that_was_there_before(snellen, stub):
    assert snellen("run", "lights", "-m", "pixels", "--out", "run").status == 0
    said = snellen("run", "lights", "-m", f"api:{MODEL}", "--base-url", stub.url, "--out", "run", "--json")
    (run,) = json.loads(said.out)["runs"]
    assert said.status == run["error"]["exit_code"] == 5 and "totals" not in run and "fingerprint" not in run
    assert "model" in run["error"]["message"]


def test_json_of_a_rerun_and_of_a_judge_that_fail_is_an_object_too(snellen, monkeypatch):
    for name in ("JUDGE_MODEL", "JUDGE_API_KEY", "JUDGE_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    said = snellen("rerun", "nothing", "--json")
    (run,) = json.loads(said.out)["runs"]
    assert said.status == run["error"]["exit_code"] == 5 and run["path"] == "nothing" and run["benchmark"] is None
    assert snellen("run", "lights", "-m", "pixels", "--out", "run").status == 0
    said = snellen("judge", "run", "-m", "api:judge", "--json")
    (run,) = json.loads(said.out)["runs"]
    assert said.status == run["error"]["exit_code"] == 4 and run["path"] == "run_judged" and run["model"] == "api:judge"


@pytest.mark.parametrize("models", [1, 2])
def test_json_of_an_interrupted_run_has_what_was_there_before_and_its_exit_status(snellen, monkeypatch, models):
    from snellen.errors import InterruptedRunError
    from snellen.runs import perform as performing

    perform = performing.perform

    def interrupted(spec, folder, **rest):
        if spec.model == "pixels" and models == 2:
            return perform(spec, folder, **rest)
        raise InterruptedRunError("stopped after 3 of 60 answers", "Run the same command again to go on.")

    monkeypatch.setattr(performing, "perform", interrupted)
    said = snellen("run", "lights", *["-m", "pixels", "-m", "replay:none.jsonl"][2 * (2 - models) :], "--json", "-q")
    found = json.loads(said.out)["runs"]
    assert said.status == 130 and "stopped after 3" in said.err
    assert [run["state"] for run in found] == ["complete", "failed"][2 - models :]
    assert found[-1]["error"]["exit_code"] == 130
