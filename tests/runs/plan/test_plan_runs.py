"""Plans: models × benchmarks × settings as one thing, within limits, resumable, and no cell ends another."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from runs.judge.judge_server import JudgeServer
from servers import fast
from snellen.cli import main
from snellen.runs.plan.document import is_plan
from snellen.runs.run import load_run


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PLAN_KEY", "sk-plan-0123456789abcdef")
    return tmp_path


def write(text: str, name: str = "plan.toml") -> str:
    Path(name).write_text(text)
    return name


def model(url: str, label: str, more: str = "") -> str:
    return f'[[model]]\nname = "api:stub-vlm"\nlabel = "{label}"\nbase_url = "{url}"\nkey_env = "PLAN_KEY"\n{more}\n'


DIGITS = 'benchmarks = ["chart/digits", { name = "chart/creatures", limit = 30 }]\n'


def json_of(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(capsys.readouterr().out)
    return answer


def test_runs_go_side_by_side_within_the_limits_of_each_endpoint_and_of_all(capsys):
    with fast.running(latency_s=0.5) as first, fast.running(latency_s=0.5) as second:

        def hurry() -> None:
            """Have the servers answer at once when each run has an answer, so that none ends before another begins."""
            while sum(path.stat().st_size > 0 for path in Path("sweep").glob("*/results.jsonl")) < 4:
                time.sleep(0.02)
            first.set_latency(0.02), second.set_latency(0.02)

        threading.Thread(target=hurry, daemon=True).start()
        limits = "[limits]\nconcurrency = 7\nper_endpoint = 5\n"
        plan = write(DIGITS + "[defaults]\nlimit = 60\n" + limits + model(first.url, "a") + model(second.url, "b"))
        assert main(["run", plan, "--json", "--out", "sweep"]) == 0
        answer = json_of(capsys)
        stats = [server.stats() for server in (first, second)]
    assert [stat["served"] for stat in stats] == [90, 90]
    most = [stat["most_in_flight"] for stat in stats]
    assert all(2 <= count <= 5 for count in most), most
    assert [(cell["benchmark"], cell["model"], cell["state"]) for cell in answer["cells"]] == [
        (benchmark, label, "limited") for label in "ab" for benchmark in ("chart/digits", "chart/creatures")
    ]
    assert all(
        cell["metric"]["ci95"] or cell["metric"]["interval"]["method"].startswith("no interval")
        for cell in answer["cells"]
    )
    runs = [load_run(path) for path in Path("sweep").iterdir() if path.is_dir()]
    spans = [
        (min(r.started_at for r in run.folder.records()), max(r.finished_at for r in run.folder.records()))
        for run in runs
    ]
    assert max(start for start, _ in spans) < min(end for _, end in spans), "all four ran at the same time"


def test_the_limit_of_all_holds_over_two_endpoints():
    with fast.running(latency_s=0.02) as first, fast.running(latency_s=0.02) as second:
        plan = write(
            DIGITS
            + "[defaults]\nlimit = 40\n[limits]\nconcurrency = 3\n"
            + model(first.url, "a")
            + model(second.url, "b")
        )
        began = time.monotonic()
        assert main(["run", plan, "--quiet"]) == 0
        seconds = time.monotonic() - began
        most = [server.stats()["most_in_flight"] for server in (first, second)]
    assert all(count <= 3 for count in most) and seconds >= 140 * 0.02 / 3


def test_a_plan_goes_on_where_it_stopped_and_says_what_has_changed(capsys):
    with fast.running() as server:
        first = 'benchmarks = ["chart/digits"]\n[defaults]\nlimit = 10\n' + model(server.url, "a")
        assert main(["run", write(first), "--quiet"]) == 0
        assert server.stats()["served"] == 10
        assert main(["run", write(first), "--quiet"]) == 0
        assert server.stats()["served"] == 10, "nothing is asked twice"
        more = first.replace('["chart/digits"]', '["chart/digits", "chart/creatures"]').replace("= 10", "= 15")
        capsys.readouterr()
        assert main(["run", write(more), "--quiet"]) == 0
        printed = capsys.readouterr().err
        assert server.stats()["served"] == 30
        assert "new in the plan: chart-creatures-a" in printed and "limit  10  ->  15" in printed
        other = more + "temperature = 0.5\n"
        assert main(["run", write(other), "--quiet"]) == 5
        printed = capsys.readouterr().err
        assert "chart/digits × a" in printed and "generation.temperature  (none)  ->  0.5" in printed
        assert server.stats()["served"] == 30, "a changed plan sends nothing"
        assert main(["run", write(other.replace('"a"', '"warm"')), "--quiet"]) == 0
        assert "no longer in the plan: chart-digits-a; its run is kept" in capsys.readouterr().err


def test_a_cell_that_fails_does_not_end_the_others_and_the_exit_status_says_so(capsys):
    with fast.running() as server:
        plan = DIGITS + "[defaults]\nlimit = 5\n" + model(server.url, "good")
        plan += model("http://127.0.0.1:9/v1", "dead", "patience_s = 0.1")
        plan += '[[model]]\nname = "local:./no-such-folder"\nlabel = "gone"\n'
        assert main(["run", write(plan), "--json"]) != 0
        cells = json_of(capsys)["cells"]
    states = {(cell["model"], cell["benchmark"]): cell["state"] for cell in cells}
    assert states["good", "chart/digits"] == states["good", "chart/creatures"] == "limited"
    assert states["dead", "chart/digits"] == states["gone", "chart/creatures"] == "failed"
    assert all(cell["error"]["message"] for cell in cells if cell["state"] == "failed")
    assert main(["run", "plan.toml", "--quiet"]) == 4
    printed = capsys.readouterr()
    assert "failed" in printed.out and " –" in printed.out and "no-such-folder" in printed.err


def test_settings_are_a_dimension_and_a_local_model_is_loaded_once(capsys, monkeypatch):
    from snellen.models.embedded import path
    from snellen.models.local import checkpoint

    loads: list[object] = []
    real = checkpoint.load
    monkeypatch.setattr(checkpoint, "load", lambda *words: loads.append(words) or real(*words))
    settings = '[[settings]]\nname = "plain"\n[[settings]]\nname = "blind"\nblank-images = true\n'
    settings += '[[settings]]\nname = "short"\nmax_tokens = 1\n'
    local = f"local:{path()}"
    plan = write(DIGITS + f'[defaults]\nlimit = 8\n[[model]]\nname = "{local}"\n' + settings)
    assert main(["run", plan, "--json"]) == 0
    cells = json_of(capsys)["cells"]
    assert len(cells) == 6 and len(loads) == 1
    values = {(cell["benchmark"], cell["setting"]): cell["metric"]["value"] for cell in cells}
    assert values["chart/digits", "plain"] > values["chart/digits", "blind"]
    places = {cell["setting"]: cell["path"] for cell in cells if cell["benchmark"] == "chart/digits"}
    run = load_run(places["short"])
    assert run.meta.spec.options.generation.max_tokens == 1 and run.meta.spec.limit == 8
    assert (
        main(["run", "chart/digits", "-m", local, "--limit", "8", "--blank-images", "--out", "alone", "--quiet"]) == 0
    )
    alone, of_plan = load_run("alone"), load_run(places["blind"])
    assert alone.meta.fingerprint == of_plan.meta.fingerprint and alone.figures() == of_plan.figures()


def test_a_dry_run_shows_the_cells_and_counts_the_requests_and_sends_nothing(capsys, monkeypatch):
    monkeypatch.delenv("PLAN_KEY")
    with fast.running() as server:
        plan = write(DIGITS + model(server.url, "a") + model(server.url, "b"))
        assert main(["run", plan, "--dry-run"]) == 0
        printed = capsys.readouterr().out
        assert "4 runs, 700 requests" in printed and server.stats()["served"] == 0
        assert main(["run", plan, "--dry-run", "--json"]) == 0
        answer = json_of(capsys)
    assert answer["requests"] == 700 and [cell["requests"] for cell in answer["cells"]] == [320, 30] * 2
    assert not Path("results").exists()


def test_a_stopped_plan_goes_on_with_the_same_command(tmp_path):
    with fast.running(latency_s=1.0) as server:
        plan = write(DIGITS + "[limits]\nper_endpoint = 4\n" + model(server.url, "a") + model(server.url, "b"))
        command = [sys.executable, "-m", "snellen", "run", plan, "--quiet"]
        running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=os.environ)
        until = time.monotonic() + 600
        while server.stats()["served"] < 20 and time.monotonic() < until:
            time.sleep(0.05)
        running.send_signal(signal.SIGINT)
        _, err = running.communicate(timeout=600)
        assert running.returncode == 130, err.decode()
        assert b"Run the same command" in err and b"Traceback" not in err
        before = server.stats()["served"]
        assert before < 200
        server.set_latency(0.0)
        done = subprocess.run(command, capture_output=True, timeout=600, check=False, env=os.environ)
        assert done.returncode == 0, done.stderr.decode()
        assert server.stats()["served"] == 700, "every question once"


WRONG = {
    'models = ["embedded"]\n': "benchmarks is missing",
    'models = ["embedded"]\nbenchmarks = []\n': "benchmarks is empty",
    'models = ["embedded"]\nbenchmarks = ["chart/digitz"]\n': "no benchmark 'chart/digitz'",
    'models = ["embeded"]\nbenchmarks = ["chart"]\n': "embeded",
    'models = [{ name = "embedded", temprature = 1 }]\nbenchmarks = ["chart"]\n': "temprature",
    'models = [{ name = "embedded", temperature = "hot" }]\nbenchmarks = ["chart"]\n': "float",
    'models = [{ name = "api:x", api_key = "abc" }]\nbenchmarks = ["chart"]\n': "key_env",
    'models = [{ name = "api:x", key_env = "sk-abcdefghijklmnopqrstuvwxyz0123456789" }]\nbenchmarks = ["chart"]\n': "",
    'models = ["embedded", "embedded"]\nbenchmarks = ["chart"]\n': (
        "two of the models are called 'embedded'\n  Give one of them a label of its own: label ="
    ),
    'models = ["embedded"]\nbenchmarks = ["chart"]\n[limits]\nruns = 0\n': "limits.runs",
    'models = ["embedded"]\nbenchmarks = ["chart"]\n[limits]\nspeed = 3\n': "speed",
    'models = [{ name = "embedded", batch-size = 0 }]\nbenchmarks = ["chart"]\n': "a value from 1",
    'models = [{ name = "embedded", corrupt = "tea" }]\nbenchmarks = ["chart"]\n': "tea",
    'models = [{ name = "embedded", temperature = nan }]\nbenchmarks = ["chart"]\n': "a value of at least 0",
    'models = [3]\nbenchmarks = ["chart"]\n': "a table was expected",
    'models = [{ label = "x" }]\nbenchmarks = ["chart"]\n': "name is missing",
    'models = ["embedded"]\nbenchmarks = [{ name = "chart", options = { nothing = "1" } }]\n': "nothing",
    'models = ["embedded"]\nbenchmarks = ["chart"]\n[defaults]\nlimit = 0\n': "at least 1",
    'models = ["embedded"]\nbenchmarks = ["chart"]\n[defaults]\nrepeats = 0\n': "from 1 to 1,000,000",
    'models = ["embedded"]\nmodel = ["embedded"]\nbenchmarks = ["chart"]\n': "twice",
    'models = ["a:b"]\nbenchmarks = ["chart", "chart/digits"]\nout = 3\n': "out",
    'models = ["embedded"]\nbenchmarks = [{ name = "chart", label = "a/b" }, { name = "chart", label = "a-b" }]\n': "share",
}


@pytest.mark.parametrize("text", WRONG)
def test_a_wrong_word_in_a_plan_is_named_before_anything_is_sent(text, capsys):
    status = main(["run", write(text)])
    printed = capsys.readouterr().err
    assert status in (2, 3, 4) and WRONG[text] in printed and "Traceback" not in printed
    assert not Path("results").exists() and "sk-abcdef" not in printed


def test_a_users_own_table_beside_the_plan_is_a_benchmark_like_any_other(capsys):
    Path("set").mkdir()
    lines = ["id,question,A,B,answer"] + [f"q{i},Is {i} even?,yes,no,{'AB'[i % 2]}" for i in range(12)]
    Path("set/my.csv").write_text("\n".join(lines) + "\n")
    with fast.running() as server:
        plan = 'benchmarks = ["my.csv", { name = "chart/digits", limit = 5 }]\n' + model(server.url, "a")
        assert main(["run", write(plan, "set/plan.toml"), "--json"]) == 0
        first = json_of(capsys)["cells"][0]
        assert first["state"] == "complete" and first["metric"]["value"] == 0.5
        assert main(["run", "set/plan.toml", "--quiet"]) == 0 and server.stats()["served"] == 17


def test_a_benchmark_without_its_data_fails_alone_and_columns_are_mapped(capsys):
    lines = ["nr,asked,first,second,right"] + [f"q{i},Is {i} even?,yes,no,{'AB'[i % 2]}" for i in range(6)]
    Path("odd.csv").write_text("\n".join(lines) + "\n")
    mapped = '{ name = "odd.csv", map = { question = "asked", options = "first+second", answer = "right" } }'
    with fast.running() as server:
        plan = f'benchmarks = [{mapped}, {{ name = "mmsi-bench", data = "nowhere" }}]\n' + model(server.url, "a")
        assert main(["run", write(plan), "--dry-run", "--json"]) == 0
        printed = capsys.readouterr()
        assert json.loads(printed.out)["requests"] == 6 and "mmsi-bench × a will fail" in printed.err
        assert main(["run", "plan.toml", "--json"]) == 3
        printed = capsys.readouterr()
        assert "question ← `asked`" in printed.err
        states = [(cell["benchmark"], cell["state"]) for cell in json.loads(printed.out)["cells"]]
        assert states == [("odd.csv", "complete"), ("mmsi-bench", "failed")] and server.stats()["served"] == 6


def test_a_key_in_a_plan_is_written_nowhere():
    with fast.running() as server:
        assert main(["run", write(DIGITS + "[defaults]\nlimit = 3\n" + model(server.url, "a")), "--quiet"]) == 0
    for path in Path("results").rglob("*"):
        assert path.is_dir() or b"sk-plan-0123456789abcdef" not in path.read_bytes(), path


def test_plans_are_told_from_declarations_and_options_that_a_plan_says_are_refused(capsys):
    assert is_plan(write('models = ["embedded"]\nbenchmarks = ["chart"]\n'))
    assert not is_plan(write('name = "mine"\n[source]\nfile = "my.csv"\n', "mine.toml"))
    assert not is_plan(write("[" * 50_000, "deep.toml")) and not is_plan("missing.toml")
    assert main(["run", "plan.toml", "-m", "embedded", "--temperature", "1"]) == 2
    printed = capsys.readouterr().err
    assert "--model, --temperature" in printed
    assert main(["run", "plan.toml", "chart"]) == 2


def test_a_misspelt_key_is_answered_with_the_right_one(capsys):
    path = write('benchmarks = ["chart/digits"]\nmodels = ["embedded"]\n[defaults]\nlimt = 3\n')
    assert main(["run", path, "--dry-run"]) == 2
    printed = " ".join(capsys.readouterr().err.split())
    assert "defaults has no key 'limt' Did you mean limit? Keys: " in printed


def test_a_judge_that_its_server_does_not_have_ends_a_plan_before_a_model_is_asked(capsys, monkeypatch):
    Path("scenes.csv").write_text("question,answer\nWhat goes on?,A man in a red coat feeds the birds in the park.\n")
    with fast.running() as server, JudgeServer() as judge:
        monkeypatch.setenv("JUDGE_BASE_URL", judge.url)
        monkeypatch.setenv("JUDGE_API_KEY", "a-key")
        plan = write('benchmarks = ["scenes.csv"]\n[defaults]\njudge = "api:oracle"\n' + model(server.url, "a"))
        assert main(["run", plan, "--json", "--out", "sweep"]) != 0
        assert "stub-judge" in capsys.readouterr().err
        assert server.stats()["served"] == len(judge.asked) == 0
    assert not Path("sweep").exists()


def test_a_plan_with_a_judge_for_nothing_is_refused(capsys, monkeypatch):
    monkeypatch.setenv("JUDGE_API_KEY", "a-key")
    with fast.running() as server:
        plan = write('benchmarks = ["chart/digits"]\n[defaults]\njudge = "api:oracle"\n' + model(server.url, "a"))
        assert main(["run", plan, "--out", "sweep"]) == 2
        assert server.stats()["served"] == 0
    assert "a judge is named, and chart/digits is scored by rules" in " ".join(capsys.readouterr().err.split())


def test_a_schema_is_a_setting_of_a_plan_and_a_file_of_it_lies_beside_the_plan(tmp_path: Path):
    (tmp_path / "plans").mkdir()
    schema = {"type": "object", "properties": {"answer": {"enum": ["A", "B"]}}}
    (tmp_path / "plans" / "ab.json").write_text(json.dumps(schema))
    with fast.running() as server:
        settings = '[settings.auto]\nschema = "auto"\n[settings.own]\nschema = "ab.json"\n[settings.plain]\n'
        plan = write(
            "benchmarks = ['chart/digits']\n[defaults]\nlimit = 2\n" + settings + model(server.url, "m"), "plans/p.toml"
        )
        assert main(["run", plan, "--json", "--out", "sweep"]) in (0, 9)
    found = {path.name: load_run(path).meta.spec.schema for path in Path("sweep").iterdir() if path.is_dir()}
    assert {name.rpartition("-")[2]: spec for name, spec in found.items()} == {
        "auto": "auto",
        "own": schema,
        "plain": None,
    }
