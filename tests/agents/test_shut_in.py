"""Processes and sandboxes, with the shell in an agent's place: what is seen, what is ended, what is left."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from snellen.errors import PreflightError, UsageError
from snellen.models.agents import process, sandbox
from snellen.models.agents.install import Installation
from snellen.models.agents.limits import AgentLimits
from snellen.models.agents.model import _failure
from snellen.models.agents.process import AgentCommand, ProcessResult, TranscriptState
from snellen.models.agents.supervisor import descendants
from snellen.models.agents.transcript import Transcript
from snellen.models.agents.workdir import AgentModelSettings, Workdir, WorkdirFactory
from snellen.types import Generation

ASKED = AgentModelSettings("p", "m", "http://127.0.0.1:9/v1", Generation(), 5.0)
KINDS = [
    pytest.param(
        "bubblewrap",
        marks=pytest.mark.skipif(shutil.which("bwrap") is None, reason="NO bwrap HERE: the sandbox is not tested"),
    ),
    "none",
]


@pytest.fixture
def rooms(tmp_path):
    made = WorkdirFactory(tmp_path)
    yield made
    made.close()


def room(rooms: WorkdirFactory, kind: str, tmp_path: Path) -> Workdir:
    return rooms.make(ASKED, "work", None if kind == "none" else sandbox.SAMPLE, "/agent", None)


def shell(
    kind: str, here: Workdir, script: str, *, timeout_s: float = 20.0, asked: bool = True, size: int = 0
) -> ProcessResult:
    """Run a script as an agent would run."""
    folder = here.host.parent / "installation"
    folder.mkdir(exist_ok=True)
    found = Installation("opencode", "1", "", 0, 0, "", "", folder)
    command = AgentCommand(
        ["/bin/sh", "-s"], {"HOME": f"{here.inside}/home"}, f"{here.inside}/{here.workplace}", script.encode()
    )
    shut = sandbox.wrap_command(kind, command, here, found, "k-123456789", None)
    assert "k-123456789" not in " ".join(shut.argv), "process arguments are public"

    def idle() -> TranscriptState:
        return TranscriptState(finished=False, loops=False)

    return asyncio.run(process.run(shut, here.stdout, here.stderr, timeout_s, lambda: asked, lambda: size, idle))


HUNT = """
cat {gold}; ln -s {gold} here.txt; cat here.txt; cat /proc/1/root{gold}
for p in /proc/[0-9]*; do cat $p/root{gold}; cat $p/cwd/../gold.json; tr '\\0' '\\n' < $p/environ; done
find / -name gold.json -not -path '/proc/*' -exec cat {{}} + ; ls -R {folder}; cat {folder}/results/*
"""


@pytest.mark.parametrize("kind", KINDS)
def test_what_lies_outside_cannot_be_read_from_inside_a_sandbox(kind, rooms, tmp_path):
    for name in ("gold.json", "results/gold.json"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text('{"answer": "the-gold-answer"}')
    here = room(rooms, kind, tmp_path)
    with subprocess.Popen(["sleep", "60"], env={"OTHER_KEY": "the-other-secret"}) as other:
        shell(kind, here, HUNT.format(gold=tmp_path / "gold.json", folder=tmp_path), timeout_s=50.0)
        other.kill()
    seen = here.stdout.read_text()
    # Without a sandbox the same script finds it: the test can fail.
    assert ("the-gold-answer" in seen) == (kind == "none")
    assert ("the-other-secret" in seen) == (kind == "none")
    assert "k-123456789" in seen, "the endpoint's key is the agent's to use"


@pytest.mark.parametrize("kind", KINDS)
def test_a_link_out_of_the_box_is_not_followed_by_us(kind, rooms, tmp_path):
    (tmp_path / "gold.json").write_text("gold")
    here = room(rooms, kind, tmp_path)
    shell(kind, here, f"ln -s {tmp_path}/gold.json link.json; echo mine > own.json; ln -s {tmp_path} folder")
    assert here.contents(here.work, ["link.json"]) == {} and here.size(here.work / "link.json") == 0
    assert here.contents(here.work / "folder", ["gold.json"]) == {} and here.names(here.work / "folder", 9) == []
    assert here.contents(here.work, ["own.json"]) == {"own.json": b"mine\n"} and here.size(here.work / "own.json") == 5


@pytest.mark.skipif(shutil.which("bwrap") is None, reason="NO bwrap HERE: the sandbox is not tested")
def test_the_installation_and_the_system_cannot_be_written_and_other_processes_are_not_seen(rooms, tmp_path):
    here = room(rooms, "bubblewrap", tmp_path)
    script = "for p in /agent /usr /etc / /root; do touch $p/x 2>/dev/null && echo wrote $p; done; ls -d /proc/[0-9]* | wc -l"
    shell("bubblewrap", here, script)
    written = here.stdout.read_text().split()
    assert int(written[-1]) < 8 and "wrote" not in written
    assert sorted(path.name for path in Path("/").iterdir() if path.name == "x") == []


AS_ROOT = """
grep CapEff /proc/self/status
mount -o remount,bind,rw /agent && echo changed > /agent/program
unshare -Urm mount -o remount,bind,rw /agent && echo changed > /agent/program
old=$(cat /proc/sys/kernel/core_pattern); umount /proc/sys; echo "$old" > /proc/sys/kernel/core_pattern && echo wrote
"""


@pytest.mark.skipif(shutil.which("bwrap") is None, reason="NO bwrap HERE: the sandbox is not tested")
def test_where_we_are_root_the_agent_can_still_change_neither_the_installation_nor_the_kernel(rooms, tmp_path):
    here = room(rooms, "bubblewrap", tmp_path)
    program = here.host.parent / "installation" / "program"
    program.parent.mkdir()
    program.write_text("as installed")
    shell("bubblewrap", here, AS_ROOT)
    assert program.read_text() == "as installed"
    # bwrap leaves root all capabilities unless told otherwise; anybody else has none in any case.
    assert here.stdout.read_text().split() == ["CapEff:", "0" * 16]


# A command in the background that leaves the group, ignores SIGTERM and would outlive everybody.
STUBBORN = "trap '' TERM; setsid sh -c \"trap '' TERM; echo $$ > pids; sleep {s} & sleep {s}\" & sleep {s}; sleep {s}"


def alive(seconds: str) -> list[str]:
    """Command lines of the processes that sleep so long: they are ours, since nobody else sleeps that long."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
        except OSError:
            continue
        if words[:2] == [b"sleep", seconds.encode()]:
            found.append(path.parent.name)
    return found


def gone(seconds: str, within_s: float = 600.0) -> bool:
    end = time.monotonic() + within_s
    while alive(seconds) and time.monotonic() < end:
        time.sleep(0.1)
    return not alive(seconds)


@pytest.mark.parametrize("kind", KINDS)
def test_when_the_time_is_up_all_processes_go_even_those_that_left_the_group(kind, rooms, tmp_path):
    seconds = f"3{os.getpid()}.{KINDS.index(kind) if kind in KINDS else 7}"
    ran = shell(kind, room(rooms, kind, tmp_path), STUBBORN.format(s=seconds), timeout_s=1.0)
    assert ran.end == "time"
    assert gone(seconds)


@pytest.mark.parametrize("kind", KINDS)
def test_when_we_are_killed_all_processes_go(kind, tmp_path):
    seconds = f"4{os.getpid()}.{KINDS.index(kind) if kind in KINDS else 7}"
    program = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from pathlib import Path\n"
        "from agents.test_shut_in import STUBBORN, WorkdirFactory, room, shell\n"
        "where = Path(sys.argv[2])\n"
        f"shell({kind!r}, room(WorkdirFactory(where), {kind!r}, where), STUBBORN.format(s={seconds!r}), timeout_s=60.0)\n"
    )
    us = subprocess.Popen([sys.executable, "-c", program, str(Path(__file__).parent.parent), str(tmp_path)])
    end = time.monotonic() + 600
    while len(alive(seconds)) < 3 and time.monotonic() < end:
        time.sleep(0.1)
    assert len(alive(seconds)) == 3, "the processes did not start"
    os.kill(us.pid, signal.SIGKILL)
    us.wait()
    assert gone(seconds)


def test_start_up_does_not_count_against_the_answer(rooms, tmp_path, monkeypatch):
    monkeypatch.setattr(process, "STARTUP_S", 600.0)
    ran = shell("none", room(rooms, "none", tmp_path), "sleep 1.5", timeout_s=0.1, asked=False)
    assert ran.end == "exit" and ran.startup_s > 1
    monkeypatch.setattr(process, "STARTUP_S", 2.0)
    ran = shell("none", room(rooms, "none", tmp_path), "sleep 30", timeout_s=0.1, asked=False)
    assert ran.end == "start"


def test_an_agent_that_dies_at_its_start_says_why_without_keys_and_colours(rooms, tmp_path):
    here = room(rooms, "none", tmp_path)
    script = "printf '\\033[31mno module\\033[0m of Bearer abcdefgh12345\\n\\nline 2\\n' >&2; exec 2>&-; exit 127"
    ran = shell("none", here, script, asked=False)
    assert ran.stderr_head == "no module of Bearer [redacted] / line 2" and ran.status == 127
    error = _failure("aborted", ran, Transcript(), 5.0, AgentLimits())
    assert "exit status 127" in error.message and error.message.endswith("it said: " + ran.stderr_head)
    asked = shell("none", room(rooms, "none", tmp_path), script)
    assert asked.stderr_head == "", "what it logs while it works is no reason"


def test_a_transcript_that_grows_without_end_ends_the_agent(rooms, tmp_path):
    here = room(rooms, "none", tmp_path)
    ran = shell("none", here, "sleep 30", size=process.MAX_OUTPUT + 1)
    assert ran.end == "output"


def test_rooms_of_a_run_that_died_are_removed_and_those_of_a_living_one_are_not(tmp_path):
    program = (
        "import os, sys; from pathlib import Path; from snellen.models.agents.workdir import WorkdirFactory\n"
        "WorkdirFactory(Path(sys.argv[1])); os._exit(9)"
    )
    subprocess.run([sys.executable, "-c", program, str(tmp_path)], check=False)
    dead = next(tmp_path.glob("snellen-agents-*"))
    living = WorkdirFactory(tmp_path)
    mine = next(path for path in tmp_path.glob("snellen-agents-*") if path != dead)
    other = WorkdirFactory(tmp_path)
    assert not dead.exists() and mine.exists()
    living.close()
    other.close()
    assert not mine.exists()


LOCKED = """
import os, sys, tempfile
from pathlib import Path
from snellen.models.agents.workdir import remove_tree
if os.getuid() == 0:
    os.setgid(65534), os.setuid(65534)  # root may enter everywhere
root = Path(tempfile.mkdtemp())
outside = Path(tempfile.mkdtemp())
outside.chmod(0o500)
(root / "a" / "b" / "c").mkdir(parents=True)
(root / "a" / "b" / "c" / "file").write_text("x")
(root / "a" / "link").symlink_to(outside)
(root / "a" / "b" / "c").chmod(0)
(root / "a" / "b").chmod(0)
remove_tree(root)
print(root.exists(), oct(outside.stat().st_mode & 0o777))
outside.rmdir()
"""


def test_folders_that_an_agent_has_locked_are_removed_and_what_its_links_lead_to_is_left_as_it_is(tmp_path):
    done = subprocess.run([sys.executable, "-c", LOCKED], capture_output=True, text=True, env={"TMPDIR": "/tmp"})
    assert done.stdout.split() == ["False", "0o500"], done.stderr


def test_no_sandbox_is_only_had_by_its_name(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(PreflightError, match="say --sandbox none"):
        sandbox.choose("auto")
    assert sandbox.choose("none") == "none"
    with pytest.raises(UsageError):
        sandbox.choose("docker")


def test_descendants_are_found_over_generations():
    child = subprocess.Popen(["sh", "-c", "sleep 20 & wait"])
    try:
        end = time.monotonic() + 600
        while len(descendants(child.pid)) < 1 and time.monotonic() < end:
            time.sleep(0.05)
        assert len(descendants(child.pid)) == 1 and child.pid in descendants(os.getpid())
    finally:
        for pid in [*descendants(child.pid), child.pid]:
            os.kill(pid, signal.SIGKILL)
        child.wait()


HEADLESS = """setsid {python} -c 'import ctypes, os, threading, time
print(os.getpid(), flush=True)
threading.Thread(target=time.sleep, args=(300,)).start()
ctypes.CDLL(None).syscall(60 if os.uname().machine == "x86_64" else 93, 0)' & sleep 2; echo done
"""


@pytest.mark.parametrize("kind", KINDS)
def test_a_process_whose_first_thread_has_ended_is_ended_with_the_rest(kind, rooms, tmp_path):
    python = "/usr/bin/python3" if Path("/usr/bin/python3").exists() else sys.executable
    here = room(rooms, kind, tmp_path)
    ran = shell(kind, here, HEADLESS.format(python=python))
    first, *_ = here.stdout.read_text().split()
    assert ran.end == "exit" and ran.answer_s < 15
    if kind == "none":
        status = Path(f"/proc/{first}/status")  # its parent may not have asked for its end yet
        assert not status.exists() or "Threads:\t1\n" in status.read_text()
    here.remove()
