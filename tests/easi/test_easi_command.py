"""`snellen easi` as the shell calls it: all twelve by the embedded model, killed and gone on with; what it shows."""

from __future__ import annotations

import json
import os
import pty
import shlex
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from benchmarks.spatial import kit_drawn
from benchmarks.spatial import official_drawn as drawn
from snellen.benchmarks.spatial.tasks import EIGHT, TASKS
from snellen.cli import main

pytestmark = pytest.mark.usefixtures("printed_as_schema")

SNELLEN = (sys.executable, "-m", "snellen", "easi", "--model", "embedded")
QUICK = ("--max-tokens", "4", "-o", "sample-frames=2")
LONGEST_S = 1800


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("data")
    for name in TASKS:
        drawn.draw(name, root)
    return root


def answers(folder: Path) -> dict[str, Counter[str]]:
    """By run, how often each sample is in the journal; a torn last line is none."""
    found = {}
    for path in sorted(folder.glob("*/results.jsonl")):
        ids: Counter[str] = Counter()
        for line in path.read_bytes().split(b"\n")[:-1]:
            record = json.loads(line)
            assert record["status"] == "ok", record
            ids[record["sample_id"]] += 1
        found[path.parent.name] = ids
    return found


def killed_at(command: list[str], folder: Path, least: int) -> int:
    """Kill the command once so many answers are recorded; how many there then are."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        end = time.monotonic() + LONGEST_S
        while (count := sum(ids.total() for ids in answers(folder).values())) < least:
            assert process.poll() is None, f"it ended by itself with {count} answers"
            assert time.monotonic() < end, f"only {count} answers came"
            time.sleep(0.01)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    return sum(ids.total() for ids in answers(folder).values())


def test_all_twelve_killed_in_mid_run_end_with_each_sample_once_and_one_load_a_start(data, tmp_path, capsys):
    out = tmp_path / "out put"
    words = ["--include-extra", "--dataset-dir", str(data), "--output-dir", str(out), "--batch-size", "2", *QUICK]
    command = [*SNELLEN, *words, "--no-rich"]
    folder = out / "embedded"
    assert killed_at(command, folder, 60) < sum(map(drawn.count, TASKS))
    ended = subprocess.run(command, capture_output=True, text=True, timeout=LONGEST_S)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    found = answers(folder)
    assert {name: ids.total() for name, ids in found.items()} == {name: drawn.count(name) for name in TASKS}
    assert all(count == 1 for ids in found.values() for count in ids.values())
    logs = [path.read_text() for path in sorted(folder.glob("easi_*.log"))]
    assert len(logs) == 2 and [log.count("embedded: ready after") for log in logs] == [1] * 2
    assert main([*command[3:], "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["average"]["benchmarks"] == len(EIGHT)
    assert {row["state"] for row in told["benchmarks"].values()} == {"complete"} and "go_on" not in told
    assert "ready after" not in Path(told["log"]).read_text(), "what is complete loads no model"


def easi(*words: object) -> int:
    return main(["easi", "--model", "embedded", *map(str, words), *QUICK])


def test_what_is_left_is_told_with_a_command_that_goes_on(data: Path, tmp_path: Path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    where = (
        "--dataset-dir",
        data,
        "--output-dir",
        "two words",
        "--no-rich",
        "--benchmarks",
        " embspatial , omnispatial_(manual_cot)",
    )
    assert easi(*where, "--limit", 2, "--rerun") == 9
    said = capsys.readouterr().out
    command = said.splitlines()[-1].strip()
    words = shlex.split(command)
    assert words[:2] == ["snellen", "easi"] and "--rerun" not in words
    assert words[words.index("--output-dir") + 1] == "two words" and "--no-rich" in words
    assert words[words.index("--benchmarks") + 1] == " embspatial , omnispatial_(manual_cot)"
    assert words[words.index("--benchmark-option") + 1] == "sample-frames=2"
    assert "--limit" not in words, "with it the command would end where it ended"
    assert main(words[1:]) == 0
    assert "not complete" not in capsys.readouterr().out


def test_beside_a_failure_the_limit_is_kept(data: Path, tmp_path: Path, capsys):
    mine = tmp_path / "data"
    (mine / "blink").mkdir(parents=True)
    (mine / "embspatial").symlink_to(data / "embspatial")
    where = ("--dataset-dir", mine, "--output-dir", tmp_path / "out", "--no-rich", "--benchmarks", "blink,embspatial")
    assert easi(*where, "--limit", 2) == 3
    said = capsys.readouterr().out
    assert "--limit 2" in said.splitlines()[-1]
    assert "1 of the 1 in the average are incomplete: embspatial" in said


def test_a_dry_run_looks_at_everything_and_asks_nobody(data: Path, tmp_path: Path, capsys):
    assert easi("--dataset-dir", data, "--output-dir", tmp_path, "--dry-run", "--no-rich") == 0
    assert not list(tmp_path.glob("*/*/results.jsonl"))
    assert "ready" in capsys.readouterr().out
    assert easi("--dataset-dir", data, "--output-dir", tmp_path, "--dry-run", "--json") == 0
    assert json.loads(capsys.readouterr().out)["exit_code"] == 0


def test_what_the_submission_lacks_is_told_before_the_data_is_touched(data: Path, tmp_path: Path, capsys, monkeypatch):
    monkeypatch.delenv("HF_TOKEN", raising=False)
    monkeypatch.chdir(tmp_path)
    where = ("--dataset-dir", data, "--output-dir", tmp_path, "--no-rich", "--submit", "--submission-configs")
    assert easi(*where, '{"modelType": "rll"}') == 2
    assert "modelName is missing" in (said := capsys.readouterr().err) and "'rll' is not known" in said
    assert easi(*where, '{"modelName": "a/b", "modelType": "rl", "precision": "float32"}') == 4
    assert "HF_TOKEN is not set" in capsys.readouterr().err
    assert easi(*(word for word in where if word != "--submit"), '{"precision": "fp3"}') == 2
    assert "'fp3'" in capsys.readouterr().err
    assert not list(tmp_path.glob("embedded"))


def test_only_what_is_complete_is_sent_and_its_failure_is_the_commands(data: Path, tmp_path: Path, capsys, monkeypatch):
    from snellen.easi import submit
    from snellen.easi.submit.client import LeaderboardReply
    from snellen.errors import SubmissionError

    monkeypatch.setenv("HF_TOKEN", "hf_0123456789abcdefghij")
    calls: list[tuple[Any, ...]] = []

    class Made:
        folder = tmp_path / "made"

    def send(results: Any, details: Any, token: str, **more: Any) -> Any:
        calls.append((results, details, token))
        if len(calls) > 1:
            raise SubmissionError("the leaderboard says no", "Ask it why.")
        return Made(), LeaderboardReply(200, '{"success": true}')

    monkeypatch.setattr(submit, "submit", send)
    where = ("--dataset-dir", data, "--output-dir", tmp_path, "--no-rich", "--benchmarks", "embspatial", "--submit")
    configs = ("--submission-configs", '{"modelName": "a/b", "modelType": "rl", "precision": "float32"}')
    assert easi(*where, *configs, "--limit", 1) == 9 and not calls
    assert "not sent: the results are incomplete" in capsys.readouterr().out
    assert easi(*where, *configs) == 0
    assert calls[0][0] == [tmp_path / "embedded" / "embspatial"] and calls[0][1].model_name == "a/b"
    assert '{"success": true}' in capsys.readouterr().out
    assert easi(*where, *configs) == SubmissionError.exit_code
    assert "the leaderboard says no" in capsys.readouterr().out
    assert easi(*where, *configs, "--json") == SubmissionError.exit_code
    assert json.loads(capsys.readouterr().out)["exit_code"] == SubmissionError.exit_code
    assert not any("hf_0123" in path.read_text(errors="replace") for path in tmp_path.rglob("*") if path.is_file())


def test_a_folder_of_vlmevalkits_tables_is_data_enough(tmp_path: Path, capsys):
    tables = tmp_path / "LMUData"
    tables.mkdir()
    names = ("vsi-bench", "site", "omnispatial")
    for name in names:
        for path in kit_drawn.draw(name, tmp_path / "drawn").iterdir():
            path.rename(tables / path.name)
    where = ("--dataset-dir", tables, "--output-dir", tmp_path / "out", "--benchmarks", ",".join(names), "--json")
    assert easi(*where) == 0
    told = json.loads(capsys.readouterr().out)
    assert {name: row["answered"] for name, row in told["benchmarks"].items()} == {
        name: kit_drawn.COUNTS[name] for name in names
    }


@pytest.mark.slow
def test_two_workers_are_started_once_for_all_benchmarks(data: Path, tmp_path: Path):
    pytest.importorskip("ray", reason="the extra `ray` is not installed")
    where = ("--dataset-dir", data, "--output-dir", tmp_path, "--benchmarks", "blink,embspatial", "--nproc", "2")
    ended = subprocess.run([*SNELLEN, *where, *QUICK, "--no-rich"], capture_output=True, text=True, timeout=LONGEST_S)
    assert ended.returncode == 0, ended.stderr
    (log,) = (tmp_path / "embedded").glob("easi_*.log")
    assert log.read_text().count("ready after") == 1
    found = answers(tmp_path / "embedded")
    assert {name: ids.total() for name, ids in found.items()} == {
        name: drawn.count(name) for name in ("blink", "embspatial")
    }


def on_terminal(command: list[str | Path], columns: int = 100) -> tuple[int, str]:
    """The exit status, and every byte that a terminal got."""
    import fcntl
    import struct
    import termios

    parent, child = pty.openpty()
    fcntl.ioctl(child, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    process = subprocess.Popen(command, stdin=child, stdout=child, stderr=child, env={**os.environ, "TERM": "xterm"})
    os.close(child)
    said = b""
    while True:
        try:
            part = os.read(parent, 65536)
        except OSError:  # Linux says so at the end
            break
        if not part:
            break
        said += part
    os.close(parent)
    return process.wait(), said.decode(errors="replace")


def test_on_a_terminal_the_last_table_stays_and_the_screen_is_not_switched(data: Path, tmp_path: Path, commands: Path):
    where = ("--dataset-dir", data, "--output-dir", tmp_path / "out", "--benchmarks", "embspatial,blink")
    status, said = on_terminal([commands / "snellen", *SNELLEN[3:], *where, *QUICK])
    assert status == 0
    assert "\x1b[?1049h" not in said, "the alternate screen would take the table with it"
    assert "\x1b[?25l" in said and said.rindex("\x1b[?25h") > said.rindex("\x1b[?25l"), "the cursor is shown again"
    last = said[said.rindex("EASI · embedded") :]
    assert "EASI-8 average" in last and "2 of 8" in last and "complete" in last and "embspatial" in last


def test_ctrl_c_ends_it_with_130_and_what_was_answered_is_kept(data: Path, tmp_path: Path):
    out = tmp_path / "out"
    command = [*SNELLEN, "--dataset-dir", str(data), "--output-dir", str(out), "--batch-size", "1", *QUICK, "--no-rich"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        end = time.monotonic() + LONGEST_S
        while not sum(ids.total() for ids in answers(out / "embedded").values()):
            assert process.poll() is None and time.monotonic() < end
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        said, _ = process.communicate(timeout=LONGEST_S)
    finally:
        process.kill()
        process.wait()
    kept = sum(ids.total() for ids in answers(out / "embedded").values())
    assert process.returncode == 130 and 0 < kept < sum(map(drawn.count, EIGHT))
    assert "To resume:" in said and "snellen easi --model embedded" in said


@pytest.mark.parametrize("moment", ["_look", "_answers"])
def test_sigterm_before_the_first_question_ends_it_with_143_and_the_command_that_goes_on(data, tmp_path, moment):
    code = f"""
import os, signal, sys
from snellen.cli import main
from snellen.easi import run as phases
before = phases.{moment}
def ended(*words):
    os.kill(os.getpid(), signal.SIGTERM)
    return before(*words)
phases.{moment} = ended
sys.exit(main(sys.argv[1:]))
"""
    words = [*SNELLEN[3:], "--dataset-dir", str(data), "--output-dir", str(tmp_path / "out"), *QUICK, "--no-rich"]
    done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, timeout=LONGEST_S)
    assert done.returncode == 143 and "Traceback" not in done.stderr
    assert "To resume:" in done.stdout and "snellen easi --model embedded" in done.stdout


def test_runs_with_other_settings_say_what_to_do_and_no_command_that_would_be_refused_again(data, tmp_path, capsys):
    where = ("--dataset-dir", data, "--output-dir", tmp_path / "out", "--no-rich", "--benchmarks", "embspatial")
    assert easi(*where) == 0
    capsys.readouterr()
    assert easi(*where, "--seed", 7) == 5
    said = capsys.readouterr().out
    assert "--rerun, or another --output-dir" in " ".join(said.split()) and "not complete. To resume:" not in " ".join(
        said.split()
    )


def test_what_a_submission_cannot_have_is_told_before_anybody_is_asked(data: Path, tmp_path: Path, capsys, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "hf_0123456789abcdefghij")
    where = (
        "--dataset-dir",
        data,
        "--output-dir",
        tmp_path,
        "--no-rich",
        "--benchmarks",
        "embspatial,blink",
        "--submit",
    )
    configs = ("--submission-configs", '{"modelName": "a/b", "modelType": "rl", "precision": "float32"}')
    assert easi(*where, *configs, "--dry-run") == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "not evaluated: vsi-bench, mmsi-bench, mindcube-tiny, viewspatial, site, 3dsrbench" in said
    assert "fewer questions than the full set: blink, embspatial" in said
    assert easi(*where, *configs, "--limit", 1) == 9
    told = capsys.readouterr().err
    assert told.index("--limit runs only a part") < told.index("running"), "before the first question"
