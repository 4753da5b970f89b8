"""The frame of the command line: quick help, lazy imports, errors with a way out, no keys anywhere."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from engine.stubs import ARITHMETIC
from servers import fast
from snellen import exit_signals
from snellen.benchmarks import registry
from snellen.benchmarks.base import Data
from snellen.cli import app, main
from snellen.cli.app import COMMANDS
from snellen.cli.console import show_json
from snellen.errors import DataError, SnellenError

KEY = "sk-test-4f9aQ81mZ0c7LxYv2Wb6"
OWN_MODULES, MODULES = 150, 800
"""Modules at most that a run of one question imports: those of Snellen, and all."""
HEAVY = ("torch", "transformers", "pyarrow", "duckdb", "matplotlib")


def modules(folder: Path, *words: str) -> set[str]:
    """Names of all modules that a command imports."""
    code = (
        "import sys; from snellen.cli import main; main(sys.argv[1:]); "
        "print(*sorted(sys.modules), file=open('modules', 'w'))"
    )
    subprocess.run([sys.executable, "-c", code, *words], cwd=folder, check=True, capture_output=True, timeout=600)
    return set((folder / "modules").read_text().split())


def test_help_imports_no_command(tmp_path):
    ours = ("snellen.cli.run", "snellen.runs.evaluate", "snellen.runs.perform")
    assert not modules(tmp_path, "--help") & {"numpy", "aiohttp", "msgspec", *HEAVY, *ours}


def test_a_run_over_an_endpoint_imports_nothing_heavy_and_few_modules_of_our_own(lights, tmp_path, stub):
    """How long the start takes is measured by bench/startup.py: seconds depend on the machine, modules do not."""
    words = ["run", "lights", "-m", f"api:{fast.MODEL}", "--base-url", stub.url, "--limit", "1"]
    loaded = modules(tmp_path, *words)
    assert stub.stats()["served"] == 1
    assert not set(HEAVY) & loaded
    assert not {name for name in loaded if name.startswith(("snellen.reports", "snellen.easi", "snellen.viewer"))}
    assert len([name for name in loaded if name.partition(".")[0] == "snellen"]) <= OWN_MODULES
    assert len(loaded) <= MODULES


COUNTED_ROWS = """
import sys
from snellen.benchmarks.table import rows
from snellen.cli import main
opened, parsed, placed = [], [], rows._placed

def counted(*arguments):
    for row in placed(*arguments):
        parsed.append(row)
        yield row

rows._placed = counted
sys.addaudithook(lambda event, what: event == "open" and str(what[0]).endswith("my.csv") and opened.append(what))
status = main(sys.argv[1:])
print(len(opened), len(parsed), status, file=open("counts", "w"))
"""


@pytest.mark.parametrize("words", [("run", "my.csv", "-m", "embedded", "--report"), ("check", "my.csv")])
def test_a_small_table_is_opened_three_times_at_most_and_each_row_is_parsed_once(words, tmp_path):
    """Questions, digest and report of a run, and its check, go by one survey and by the rows that it has read."""
    rows = "".join(f"q{at},Which colour has the sky on day {at}?,red,blue,B\n" for at in range(3))
    (tmp_path / "my.csv").write_text(f"id,question,A,B,answer\n{rows}")
    subprocess.run(
        [sys.executable, "-c", COUNTED_ROWS, *words], cwd=tmp_path, check=True, capture_output=True, timeout=600
    )
    opened, parsed, status = (tmp_path / "counts").read_text().split()
    assert int(opened) <= 3 and (parsed, status) == ("3", "0")


@pytest.mark.parametrize(
    ("words", "status", "complaint"),
    [
        (("run", "lihgts", "-m", "pixels"), 2, "Did you mean lights?"),
        (("run", "VSI-Bench", "-m", "pixels"), 2, "Did you mean vsi-bench?"),
        (("run", "MMSIBench_circular", "-m", "pixels"), 2, "Did you mean mmsi-bench?"),
        (("run", "chart", "-m", "embeded"), 2, "Did you mean embedded?"),
        (("runn",), 2, "there is no command 'runn'"),
        (("run", "lights"), 2, "no model is named"),
        (("score", "nothing"), 3, "no such file or folder: nothing"),
        (("score", "nothing.jsonl", "--benchmark", "chart"), 3, "no such file or folder: nothing.jsonl"),
        (("run", "lights", "-m", "nokind:x"), 2, "there is no model kind 'nokind'"),
        (("rerun", "nowhere"), 5, "there is no run in nowhere"),
        (("report", "nowhere"), 5, "there is no run in nowhere"),
    ],
)
def test_an_error_says_what_to_do_and_shows_no_traceback(snellen, words, status, complaint):
    said = snellen(*words)
    assert said.status == status
    assert said.err.startswith("snellen: ") and complaint in said.err
    assert "Traceback" not in said.err and said.out == ""


def test_a_traceback_is_there_for_those_who_ask(snellen, monkeypatch):
    monkeypatch.setenv("SNELLEN_DEBUG", "1")
    assert "Traceback" in snellen("rerun", "nowhere").err


def test_a_fault_in_the_program_says_so_and_keeps_keys_to_itself(snellen, monkeypatch):
    source = f"def broken(_): raise ZeroDivisionError('with {KEY}')"
    defined: dict[str, object] = {}
    exec(compile(source, app.__file__, "exec"), defined)  # a function of a test is a user's code
    monkeypatch.setattr("snellen.cli.app.build", defined["broken"])
    said = snellen("version")
    assert said.status == 70
    assert "this is a fault in snellen" in said.err and "snellen doctor" in said.err
    assert KEY not in said.err and "[redacted]" in said.err


def test_no_command_takes_a_key_as_an_argument(snellen, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")  # no name of an option is cut
    for name in COMMANDS:
        assert not re.search(r"--(api-)?key\b(?!-env)", snellen(name, "--help").out)


def test_a_key_in_an_error_reaches_neither_terminal_nor_disk(snellen, hostile, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    said = snellen("run", "lights", "-m", "api:m", "--base-url", hostile.url("echo_key"), "--limit", 3, "--out", "run")
    assert KEY not in said.out + said.err
    for path in Path("run").rglob("*"):
        assert path.is_dir() or KEY.encode() not in path.read_bytes(), path


def test_doctor_says_whether_a_key_is_set_and_never_what_it_is(snellen, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    said = snellen("doctor", "--json")
    assert KEY not in said.out and '"OPENAI_API_KEY","state":"ok"' in said.out


def test_doctor_asks_an_endpoint_only_when_told_to(snellen, stub):
    assert f"serves {fast.MODEL}" in snellen("doctor", "--base-url", stub.url).out
    dead = snellen("doctor", "--base-url", "http://127.0.0.1:9/v1")
    assert dead.status == 1 and "FAULT  endpoint" in dead.out


ENDS_ITSELF = """
import os, signal, sys
from {module} import {where} as place
before = place.{name}
def ended(*words, **named):
    os.kill(os.getpid(), signal.{number})
    return before(*words, **named)
place.{name} = ended
from snellen.cli import main
sys.exit(main(sys.argv[1:]))
"""
MOMENTS = {
    "while the command is imported": ("snellen.cli", "app", "load"),
    "before the model is loaded": ("snellen.runs", "perform", "open_model"),
    "while the summary is written": ("snellen.runs.run", "Run", "save_collected"),
}


@pytest.mark.parametrize(
    ("number", "status", "name"),
    [
        ("SIGTERM", 143, "SIGTERM"),
        ("SIGINT", 130, "Ctrl-C"),
        ("SIGHUP", 129, "SIGHUP"),
        ("SIGUSR2", 128 + signal.SIGUSR2, "SIGUSR2"),
    ],
)
@pytest.mark.parametrize("moment", MOMENTS)
def test_whoever_ends_a_command_while_nothing_is_asked_gets_the_signals_status_and_one_line(
    moment, number, status, name, tmp_path
):
    module, where, function = MOMENTS[moment]
    code = ENDS_ITSELF.format(module=module, where=where, name=function, number=number)
    words = ["run", "chart", "--model", "embedded", "--limit", "2", "--quiet", "--out", "run"]
    done = subprocess.run(
        [sys.executable, "-c", code, *words], cwd=tmp_path, capture_output=True, text=True, timeout=600
    )
    assert (done.returncode, done.stderr) == (status, f"snellen: stopped by {name}\n")


def test_a_hangup_that_nohup_sets_aside_ends_nothing(tmp_path):
    code = ENDS_ITSELF.format(module="snellen.runs", where="perform", name="open_model", number="SIGHUP")
    ignoring = f"import signal; signal.signal(signal.SIGHUP, signal.SIG_IGN)\n{code}"
    words = ["run", "chart", "--model", "embedded", "--limit", "2", "--quiet", "--out", "run"]
    done = subprocess.run(
        [sys.executable, "-c", ignoring, *words], cwd=tmp_path, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("number", "status"),
    [
        (signal.SIGINT, 130),
        (signal.SIGTERM, 143),
        (signal.SIGHUP, 129),
        *((number, 128 + number) for number in (signal.SIGUSR1, signal.SIGUSR2)),
    ],
)
def test_a_run_in_the_middle_of_its_questions_ends_with_the_signals_status(lights, tmp_path, number, status):
    with fast.running(latency_s=0.2) as server:
        words = [
            "run",
            "lights",
            "-m",
            f"api:{fast.MODEL}",
            "--base-url",
            server.url,
            "-c",
            "2",
            "--out",
            "run",
            "--json",
        ]
        with subprocess.Popen(
            [sys.executable, "-m", "snellen", *words],
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            while server.stats()["served"] < 4:
                assert process.poll() is None
                time.sleep(0.05)
            process.send_signal(number)
            out, err = process.communicate()
        kept = (tmp_path / "run" / "results.jsonl").read_bytes()
        words[words.index("-c") + 1] = "32"
        subprocess.run([sys.executable, "-m", "snellen", *words], cwd=tmp_path, check=True, capture_output=True)
        assert server.stats()["served"] == 60
    assert process.returncode == status, err
    assert (tmp_path / "run" / "results.jsonl").read_bytes().startswith(kept)
    error = json.loads(out)["runs"][0]["error"]
    assert error["exit_code"] == status
    assert f"stopped by {'Ctrl-C' if number == signal.SIGINT else number.name} after" in error["message"]
    assert "Run the same command again to resume" in err and "Traceback" not in err


@pytest.mark.parametrize("first", [signal.SIGUSR1, signal.SIGTERM])
def test_a_second_signal_gives_up_what_is_in_flight(lights, tmp_path, first):
    with fast.running(latency_s=3600) as server:
        words = [
            "run",
            "lights",
            "-m",
            f"api:{fast.MODEL}",
            "--base-url",
            server.url,
            "--out",
            "run",
            "--timeout",
            "9999",
        ]
        with subprocess.Popen(
            [sys.executable, "-m", "snellen", *words], cwd=tmp_path, stderr=subprocess.PIPE, text=True
        ) as process:
            while server.stats()["in_flight"] < 4:
                assert process.poll() is None
                time.sleep(0.05)
            process.send_signal(first)
            with pytest.raises(subprocess.TimeoutExpired):
                process.wait(1.0)  # it waits for what is in flight
            process.send_signal(signal.SIGTERM)
            _, err = process.communicate(timeout=600)
    assert process.returncode == 128 + first
    assert f"stopped by {first.name} after 0 of" in err and "Traceback" not in err


def test_a_program_keeps_its_own_handler_of_a_users_signal():
    before = signal.signal(signal.SIGUSR1, lambda number, frame: None)
    try:
        free = exit_signals.free_to_end()
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert signal.SIGUSR1 not in free and signal.SIGUSR1 in exit_signals.free_to_end()


def test_sigterm_ends_a_job_in_the_background_whose_shell_has_it_ignore_ctrl_c(tmp_path):
    code = ENDS_ITSELF.format(module="snellen.runs", where="perform", name="open_model", number="SIGTERM")
    ignoring = f"import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\n{code}"
    words = ["run", "chart", "--model", "embedded", "--limit", "2", "--quiet", "--out", "run"]
    done = subprocess.run(
        [sys.executable, "-c", ignoring, *words], cwd=tmp_path, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 143 and not (tmp_path / "run").exists()


def test_a_program_that_calls_a_command_has_its_own_handler_again():
    before = signal.getsignal(signal.SIGTERM)
    main(["version"])
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_folder_in_the_place_of_a_benchmark_is_told_from_it_where_runs_are_listed(snellen, lights):
    snellen("run", "lights", "-m", "pixels", "--limit", "1", "--out", "kept here/one")
    said = snellen("list", "--runs", "kept here")
    assert "snellen list --runs --results 'kept here'" in said.err
    assert "kept here/one" in snellen("list", "--runs", "--results", "kept here").out


@pytest.mark.parametrize("columns", [40, 60, 80])
def test_a_narrow_terminal_breaks_words_and_never_a_figure(columns, snellen, lights, tmp_path):
    snellen("run", "chart", "-m", "embedded", "--limit", "5", "--quiet", "--out", "results/run")
    main_end, end = pty.openpty()
    environment = {**os.environ, "COLUMNS": str(columns), "TERM": "xterm"}
    for words in (["score", "results/run"], ["list", "--runs"]):
        words = [sys.executable, "-m", "snellen", *words]
        subprocess.run(
            words, cwd=tmp_path, stdout=end, stderr=subprocess.DEVNULL, env=environment, timeout=600, check=True
        )
    os.close(end)
    written = b""
    with contextlib.suppress(OSError):  # the other end is closed
        while read := os.read(main_end, 1 << 16):
            written += read
    os.close(main_end)
    shown = written.decode()
    figures = json.loads((tmp_path / "results" / "run" / "run_meta.json").read_text())["fingerprint"]
    assert figures in shown and "5 of 2,160" in shown and "1.0000" in shown and "…" not in shown


def test_the_version_is_said_by_the_command_and_by_the_option(snellen):
    assert snellen("version").out == snellen("--version").out != ""


def test_list_names_benchmarks_profiles_and_kinds_of_models(snellen):
    said = snellen("list", "--long")
    assert said.status == 0
    for word in ("lights", "chart", "strict", "api", "local", "embedded", "replay", "pixels"):
        assert word in said.out
    assert '"name":"lights"' in snellen("list", "--json").out


def test_list_runs_shows_what_is_in_the_results_folder(snellen):
    assert "no runs under results/" in snellen("list", "--runs").out
    snellen("run", "lights", "-m", "pixels", "--limit", 3)
    said = snellen("list", "--runs")
    assert "results/lights-pixels" in said.out and "3 of 60" in said.out
    assert '"state":"limited"' in snellen("list", "--runs", "--json").out


def test_every_error_has_an_exit_status_of_its_own_kind():
    def below(kind: type[SnellenError]) -> list[type[SnellenError]]:
        return [kind, *(one for child in kind.__subclasses__() for one in below(child))]

    assert all(0 < kind.exit_code < 256 for kind in below(SnellenError))
    assert main(["--help"]) == 0


def test_a_terminal_without_utf_8_shows_what_it_can_and_json_stays_whole(tmp_path: Path):
    def said(*words: str) -> bytes:
        env = {**os.environ, "PYTHONIOENCODING": "ascii"}
        command = [sys.executable, "-m", "snellen", *words]
        return subprocess.run(command, cwd=tmp_path, env=env, check=True, capture_output=True, timeout=600).stdout

    assert b"?/v1" in said("list") and b"api:NAME" in said("run", "--help")
    assert "https://…/v1" in json.loads(said("list", "--json"))["models"]["api"]


def test_json_names_a_path_that_is_not_text(capsys: pytest.CaptureFixture[str]):
    path = os.fsdecode(b"caf\xe9")
    show_json({"path": Path(path)})
    assert json.loads(capsys.readouterr().out) == {"path": path}


def test_a_broken_benchmark_and_one_whose_data_is_not_here_do_not_hide_the_others(
    snellen, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setitem(registry.BUILT_IN, "broken", "no.such.module:BENCHMARK")
    monkeypatch.setitem(registry.BUILT_IN, "elsewhere", f"{__name__}:ELSEWHERE")
    said = snellen("list", "--json")
    found = {one["name"]: one["size"] for one in json.loads(said.out)["benchmarks"]}
    assert said.status == 0 and "no.such.module" in said.err
    assert found["elsewhere"] is None and found["chart"] == 2160 and "broken" not in found
    assert "elsewhere" in snellen("list", "--long").out


def _not_here(data: Data) -> int:
    raise DataError("there is no file of questions", "Give --data.")


ELSEWHERE = replace(ARITHMETIC, name="elsewhere", size=_not_here)


def test_a_comparison_fits_into_80_columns_and_loses_no_figure(snellen):
    for name in ("first", "second"):
        assert snellen("run", "lights", "-m", "pixels", "--quiet", "--out", name, "--seed", "1").status == 0
    said = snellen("compare", "first", "second").out
    assert "…" not in said and "baseline" in said and "difference" in said and "better / worse" in said
    assert max(map(len, said.splitlines())) <= 80
    (part,) = json.loads(snellen("compare", "first", "second", "--json").out)["comparisons"][0]["parts"]
    rows = [line.split("│") for line in said.splitlines() if line.startswith("│ all")]
    figures = {cell.strip() for row in rows for cell in row[2:]}
    assert len(rows) > 1 and {f"{part['n']}", f"{part['baseline']:.4f}", f"{part['difference']:+.4f}"} <= figures
    assert f"{part['wins']} / {part['losses']}" in figures
