"""A harness's process: its end honoured, and nothing of it left when it hangs, when we are interrupted, and when we die."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from easi.external import drawn_answers as drawn
from snellen.easi.external import run as process
from snellen.easi.external import run_backend
from snellen.errors import PreflightError, StorageError

TESTS = Path(__file__).parents[2]


def alive(pid: int) -> bool:
    """Whether a process is there, zombies left out."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def gone(pids: list[int], within_s: float = 600.0) -> bool:
    deadline = time.monotonic() + within_s
    while any(alive(pid) for pid in pids) and time.monotonic() < deadline:
        time.sleep(0.05)
    return not any(alive(pid) for pid in pids)


def spawned(path: Path, within_s: float = 600.0) -> list[int]:
    deadline = time.monotonic() + within_s
    while (not path.exists() or not path.read_text()) and time.monotonic() < deadline:
        time.sleep(0.05)
    return [int(pid) for pid in path.read_text().split()]


def test_a_command_that_hangs_is_ended_with_all_its_processes_when_its_time_is_up(tmp_path, monkeypatch):
    pids = tmp_path / "pids"
    drawn.environment(tmp_path, monkeypatch, {"embspatial": {"spawn": str(pids), "hang": True}})
    for limit_s in (4.0, 60.0, 600.0):  # on a slow machine the command has not begun after four seconds
        settings = drawn.lmms_settings(tmp_path, time_limit_s=limit_s)
        outcome = run_backend("lmms-eval", settings, ["embspatial"])["embspatial"]
        assert outcome.state == "failed"
        assert outcome.errors[0] == f"time limit: ended after {limit_s:g} s"
        assert outcome.exit_status not in (0, None)
        if pids.exists():
            break
    assert gone(spawned(pids))


DRIVER = """
import sys
from pathlib import Path
from easi.external import drawn_answers as drawn
from snellen.easi.external import run_backend
from snellen.errors import InterruptedRunError

try:
    run_backend("lmms-eval", drawn.lmms_settings(Path(sys.argv[1])), ["embspatial"])
except InterruptedRunError as error:
    print(error)
    sys.exit(error.exit_code)
"""


@pytest.fixture
def driver(tmp_path, monkeypatch):
    """A process of ours that drives a harness which hangs: the process, and the pids of the harness's."""
    pids = tmp_path / "pids"
    drawn.environment(tmp_path, monkeypatch, {"embspatial": {"spawn": str(pids), "hang": True}})
    ours = subprocess.Popen(
        [sys.executable, "-c", DRIVER, str(tmp_path)],
        env={**os.environ, "PYTHONPATH": str(TESTS)},
        stdout=subprocess.PIPE,
        text=True,
    )
    yield ours, spawned(pids)
    ours.kill()
    ours.wait()


def test_ctrl_c_ends_the_harness_and_says_how_to_go_on(driver):
    ours, pids = driver
    assert all(alive(pid) for pid in pids)
    ours.send_signal(signal.SIGINT)
    said, _ = ours.communicate(timeout=600)
    assert ours.returncode == 130
    assert "Run the same command again" in said
    assert gone(pids)


@pytest.mark.skipif(sys.platform != "linux", reason="the guard that outlives us needs Linux")
def test_nothing_of_the_harness_outlives_us_when_we_are_killed(driver):
    ours, pids = driver
    ours.kill()
    ours.wait()
    assert gone(pids)


def test_an_exit_status_is_that_of_the_command_and_of_a_signal_128_more(tmp_path):
    def ended(code: str) -> int:
        env = process.environment({})
        return process.run([sys.executable, "-c", code], env, tmp_path / "log", limit_s=60, tell=None).status

    assert ended("import sys; sys.exit(3)") == 3
    assert ended("import os; os.kill(os.getpid(), 9)") == 137


def test_what_it_says_goes_to_the_log_and_line_by_line_to_whoever_listens(tmp_path):
    lines: list[str] = []
    code = "import sys; sys.stdout.write('one\\r 50%\\r100%\\n'); sys.stderr.write('two'); sys.stdout.flush()"
    process.run([sys.executable, "-c", code], process.environment({}), tmp_path / "log", limit_s=60, tell=lines.append)
    assert sorted(lines) == sorted(["one", " 50%", "100%", "two"])
    assert (tmp_path / "log").read_bytes().replace(b"two", b"") == b"one\r 50%\r100%\n"


def test_a_program_that_is_not_there_is_said_before_anything_else(tmp_path):
    code = [str(tmp_path / "nothing")]
    if sys.platform == "linux":  # the guard starts, and ends at once
        assert process.run(code, process.environment({}), tmp_path / "log", limit_s=60, tell=None).status != 0
        assert "FileNotFoundError" in (tmp_path / "log").read_text()
    else:
        with pytest.raises(PreflightError, match="cannot be started"):
            process.run(code, process.environment({}), tmp_path / "log", limit_s=60, tell=None)


def test_a_log_that_cannot_be_written_is_an_error_and_not_a_hang(tmp_path):
    code = [sys.executable, "-c", "print('x' * 1_000_000)"]
    with pytest.raises(StorageError, match="cannot write"):
        process.run(code, process.environment({}), tmp_path / "no" / "log", limit_s=60, tell=None)
