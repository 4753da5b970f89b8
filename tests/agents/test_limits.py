"""Attacks from inside a sandbox: on memory, processes, files and folders, and on what lies outside. The shell attacks."""

from __future__ import annotations

import asyncio
import base64
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from msgspec import structs

from agents.test_shut_in import ASKED, shell
from snellen.errors import AgentLimitError, UsageError
from snellen.models.agents import process, sandbox, supervisor
from snellen.models.agents.limits import AgentLimits, limits_of
from snellen.models.agents.model import _failure
from snellen.models.agents.process import ProcessResult
from snellen.models.agents.supervisor_client import SupervisedOutcome, Supervisor
from snellen.models.agents.system_calls import bpf
from snellen.models.agents.transcript import Transcript
from snellen.models.agents.workdir import WorkdirFactory
from snellen.models.base import ModelOptions
from snellen.models.registry import open_model

bubblewrap = pytest.mark.skipif(shutil.which("bwrap") is None, reason="NO bwrap HERE: the sandbox is not tested")
FILTER = base64.b64encode(bpf()).decode()
LIMITS = AgentLimits(memory=200 << 20, disk=64 << 20, processes=40, open_files=400, files=3000, depth=50)
PYTHON = "/usr/bin/python3"
python = pytest.mark.skipif(not Path(PYTHON).exists(), reason=f"NO {PYTHON} HERE: the attacks are written in it")


def attacked(
    tmp_path: Path, script: str, limits: AgentLimits = LIMITS, timeout_s: float = 60.0
) -> tuple[ProcessResult, str]:
    """How a script in the sandbox ends, and what it prints."""
    rooms = WorkdirFactory(tmp_path, limits)
    here = rooms.make(ASKED, "work", sandbox.SAMPLE, sandbox.AGENT, None)
    try:
        ran = shell("bubblewrap", here, script, timeout_s=timeout_s)
        return ran, here.stdout.read_text()
    finally:
        here.remove()
        rooms.close()


def program(text: str) -> str:
    return f"exec {PYTHON} - <<'END'\n{text}\nEND\n"


MMAP = """
import ctypes, mmap, os, time
libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
"""
ATTACKS = {
    "one process fills memory": ("memory", program("x = []\nwhile True: x.append(b'x' * (1 << 20))")),
    "many processes fill memory together": (
        "memory",
        program(
            "import os, time\nfor i in range(10):\n"
            "    if os.fork() == 0:\n        x = b'x' * (40 << 20); time.sleep(60)\ntime.sleep(60)"
        ),
    ),
    "shared anonymous memory": (
        "memory",
        program(
            "import mmap, time\nm = mmap.mmap(-1, 1 << 30)\nfor i in range(0, 1 << 30, 4096): m[i] = 1\ntime.sleep(60)"
        ),
    ),
    "shared memory that is let go of": (
        "memory",
        program(
            "import mmap, time\nm = mmap.mmap(-1, 1 << 30)\nfor i in range(0, 1 << 30, 1 << 20):\n"
            "    m[i:i + (1 << 20)] = b'x' * (1 << 20); m.madvise(mmap.MADV_DONTNEED, i, 1 << 20); time.sleep(0.01)\n"
            "time.sleep(60)"
        ),
    ),
    "page tables of much memory that holds nothing": (
        "memory",
        program(
            "import ctypes, time\nlibc = ctypes.CDLL(None)\nlibc.mmap.restype = ctypes.c_void_p\n"
            "libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]\n"
            "libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]\n"
            "start = libc.mmap(None, 400 << 30, 1, 0x4022, -1, 0)\nlibc.madvise(start, 400 << 30, 15)\n"
            "for i in range(0, 400 << 30, 2 << 20): ctypes.c_char.from_address(start + i).value\ntime.sleep(60)"
        ),
    ),
    "shared memory that is let go of behind a list of mappings with long names": (
        "memory",
        program(
            MMAP + "m = mmap.mmap(-1, 1 << 30)\nfolder = '/'.join(['x' * 250] * 15)\nos.makedirs(folder)\n"
            "f = open(folder + '/f', 'wb+'); f.truncate(4096)\n"
            "for i in range(1500): libc.mmap(None, 4096, 1, 2, f.fileno(), 0)\n"
            "for i in range(0, 1 << 30, 1 << 20):\n"
            "    m[i:i + (1 << 20)] = b'x' * (1 << 20); m.madvise(mmap.MADV_DONTNEED, i, 1 << 20); time.sleep(0.01)\n"
            "time.sleep(60)"
        ),
    ),
    "so many mappings that going through them takes the time in which memory is filled": (
        "memory",
        program(
            MMAP + "for i in range(8):\n    if os.fork() == 0:\n"
            "        start = libc.mmap(None, 60000 * 4096, 0, 0x22, -1, 0)\n"
            "        for i in range(0, 60000, 2): libc.mprotect(start + i * 4096, 4096, 1)\n        time.sleep(60)\n"
            "time.sleep(60)"
        ),
    ),
    "memory of a process whose first thread has ended": (
        "memory",
        program(
            "import ctypes, os, threading, time\ndef fill():\n    time.sleep(0.5)\n    x = []\n"
            "    for i in range(900): x.append(b'x' * (1 << 20))\n    time.sleep(60)\n"
            "threading.Thread(target=fill).start()\n"
            "ctypes.CDLL(None).syscall(60 if os.uname().machine == 'x86_64' else 93, 0)"
        ),
    ),
    "files and processes together": (
        "memory",
        "head -c 60000000 /dev/zero > /tmp/a; "
        + program("import time\nx = []\nwhile True: x.append(b'x' * (1 << 20)); time.sleep(0.01)"),
    ),
    "one large file": ("disk", "head -c 100000000 /dev/zero > big; sleep 60"),
    "large files in every folder that can be written": (
        "disk",
        "for f in /sample /tmp /dev/shm ~; do head -c 20000000 /dev/zero > $f/big; done; sleep 60",
    ),
    "a file that is open and removed": (
        "disk",
        program(
            "import os, time\nf = open('a', 'wb')\nos.unlink('a')\ntry:\n"
            "    while True: f.write(b'x' * (1 << 20))\nexcept OSError: time.sleep(60)"
        ),
    ),
    "many small files": ("files", "seq 5000 | xargs touch; sleep 60"),
    "many links to one file": (
        "files",
        program(
            "import os, time\nopen('a', 'w').close()\ntry:\n"
            "    for i in range(5000): os.link('a', f'l{i}')\nexcept OSError: time.sleep(60)"
        ),
    ),
    "folders in folders": (
        "depth",
        program("import os, time\nfor i in range(1000): os.mkdir('a'); os.chdir('a')\ntime.sleep(60)"),
    ),
    "many processes": ("processes", "for i in $(seq 60); do sleep 60 & done; wait"),
    "processes that make processes": (
        "processes",
        program("import os, time\nfor i in range(8):\n    os.fork()\ntime.sleep(60)"),
    ),
    "many threads": (
        "processes",
        program(
            "import threading, time\nthreading.stack_size(65536)\ntry:\n    for i in range(1000):"
            " threading.Thread(target=time.sleep, args=(60,), daemon=True).start()\nexcept RuntimeError: pass\ntime.sleep(60)"
        ),
    ),
    "many open files": (
        "open_files",
        "for i in 1 2 3; do ("
        + program("import os, time\nfor i in range(200): os.open('/', 0)\ntime.sleep(60)")
        + ") & done\nwait",
    ),
}


@bubblewrap
@python
@pytest.mark.parametrize("name", ATTACKS)
def test_an_attack_on_the_machine_ends_the_sample_and_is_named(name, tmp_path):
    limit, script = ATTACKS[name]
    ran, _ = attacked(tmp_path, script)
    assert (ran.end, ran.limit) == ("limit", limit), ran
    error = _failure("limit", ran, Transcript(), 5.0, LIMITS)
    assert isinstance(error, AgentLimitError) and error.kind == f"agent_limit_{limit}"
    assert f"--agent-{limit.replace('_', '-')}" in error.message


def test_a_program_that_ends_between_two_looks_because_of_a_full_file_system_is_named_by_its_limit(monkeypatch):
    class NoLook(supervisor.Watch):
        def look(self):
            """No look comes in time."""

    full = os.statvfs_result((4096, 4096, 100, 50, 50, 3000, 0, 0, 0, 255))
    monkeypatch.setattr(os, "fstatvfs", lambda box: full)
    monkeypatch.setattr(supervisor, "end_descendants", lambda: None)  # they would be those of the tests
    ours, theirs = socket.socketpair()
    with ours, theirs:
        watch = NoLook(dict(LIMITS.plain()), 0)
        ran = supervisor._run({"argv": ["/bin/false"], "env": {}, "cwd": "/"}, ours, watch, isolated=False)
    assert (ran["limit"], ran["used"], ran["status"]) == ("files", 3000, 1)


def test_a_limit_that_was_passed_before_the_first_look_is_named_at_the_end(monkeypatch):
    """Hundreds of processes may leave the supervisor no time until the agent's is up."""

    class LateLook(supervisor.Watch):
        pause_s = 60.0

        def _living(self):
            return None, list(range(1, self.limits["processes"] + 2))

    monkeypatch.setattr(supervisor, "end_descendants", lambda: None)  # they would be those of the tests
    ours, theirs = socket.socketpair()
    ours.sendall(b'{"end": true}\n')
    watch = LateLook(LIMITS.plain(), None)
    order = {"argv": ["/bin/sleep", "0.5"], "env": {}, "cwd": None}
    outcome = supervisor._run(order, theirs, watch, isolated=False)
    assert (outcome["limit"], outcome["used"]) == ("processes", LIMITS.processes + 1)


async def test_a_limit_is_known_before_all_processes_are_ended(monkeypatch):
    ours, theirs = socket.socketpair()
    client = Supervisor.__new__(Supervisor)
    client._control, client.known = ours, SupervisedOutcome()
    monkeypatch.setattr(process, "END_S", 0.2)
    theirs.sendall(b'{"limit": "processes", "used": 619, "early": true}\n')
    outcome = await process._outcome(asyncio.create_task(client.outcome()), client)
    assert (outcome.limit, outcome.used) == ("processes", 619)
    theirs.sendall(b'{"limit": "processes", "used": 619, "status": -9, "memory": 5, "processes": 620}\n')
    assert (await client.outcome()).processes == 620


@bubblewrap
@python
def test_no_more_memory_than_the_limit_and_a_little_is_ever_used(tmp_path):
    ran, _ = attacked(tmp_path, ATTACKS["one process fills memory"][1])
    assert LIMITS.memory < ran.memory < LIMITS.memory + (600 << 20)


@bubblewrap
def test_work_within_the_limits_is_let_be_and_measured(tmp_path):
    script = "for i in $(seq 20); do mkdir d$i; done; head -c 20000000 /dev/zero > big; sleep 1; rm -r d*; echo done"
    ran, printed = attacked(tmp_path, script)
    assert (ran.end, ran.limit, printed) == ("exit", "", "done\n")
    assert 20_000_000 < ran.memory < LIMITS.memory and 0 < ran.processes < 10


HIDDEN = """
import ctypes, os, threading
libc = ctypes.CDLL(None, use_errno=True)
intel = os.uname().machine == "x86_64"
clone = 56 if intel else 220
def closed(name, result):
    if result == 0 and name.startswith("clone"): os._exit(0)
    print(name, result < 0)
closed("unshare user", libc.unshare(0x10000000))
closed("unshare mounts", libc.unshare(0x20000))
closed("unshare files", libc.unshare(0x400))
closed("setns", libc.setns(os.open("/proc/self/ns/user", 0), 0))
closed("clone user", libc.syscall(clone, 0x10000000 | 17, 0, 0, 0, 0))
closed("clone mounts", libc.syscall(clone, 0x10020000 | 17, 0, 0, 0, 0))
closed("clone3", libc.syscall(435, 0, 0))
closed("memfd", libc.memfd_create(b"x", 0))
print("mount", libc.mount(b"x", b"/tmp", b"tmpfs", 0, None) < 0)
threads = [threading.Thread(target=lambda: None) for _ in range(3)]
[thread.start() for thread in threads]; [thread.join() for thread in threads]
print("threads", os.waitpid(os.posix_spawn("/bin/true", ["true"], {}), 0)[1] == 0)
"""


@bubblewrap
@python
def test_an_agent_makes_no_file_system_and_no_table_of_files_that_is_not_watched(tmp_path):
    _, printed = attacked(tmp_path, program(HIDDEN))
    answers = dict(line.rsplit(" ", 1) for line in printed.splitlines())
    assert len(answers) == 10 and set(answers.values()) == {"True"}, printed


@bubblewrap
@python
def test_kernel_memory_that_no_process_is_charged_for_and_other_ways_out_are_closed(tmp_path):
    script = """
import contextlib, ctypes, os, socket
libc = ctypes.CDLL(None, use_errno=True)
print("segment", libc.shmget(0, 1 << 20, 0o1600) >= 0)
print("queue", libc.msgget(0, 0o1600) >= 0)
print("keyring", libc.syscall(250 if os.uname().machine == "x86_64" else 219, 0, -4, 0, 0, 0) >= 0)
for family in ("AF_VSOCK", "AF_ALG", "AF_BLUETOOTH"):
    try:
        socket.socket(getattr(socket, family, 40), socket.SOCK_STREAM if family != "AF_ALG" else socket.SOCK_SEQPACKET)
        print(family, True)
    except OSError:
        print(family, False)
socket.socketpair(); socket.socket(); print("ordinary sockets", True)
for place in ("/dev/x", "/x", "/etc/x", "/proc/sys/kernel/pid_max"):
    try:
        open(place, "w").close(); print(place, True)
    except OSError:
        print(place, False)
for family, kind in (("AF_UNIX", "SOCK_STREAM"), ("AF_INET", "SOCK_STREAM"), ("AF_INET", "SOCK_DGRAM")):
    for name in ("SO_SNDBUF", "SO_RCVBUF"):
        buffered = socket.socket(getattr(socket, family), getattr(socket, kind))
        buffered.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        before = buffered.getsockopt(socket.SOL_SOCKET, getattr(socket, name))
        with contextlib.suppress(PermissionError):
            buffered.setsockopt(socket.SOL_SOCKET, getattr(socket, name), 1 << 22)
        print(family, kind, name, buffered.getsockopt(socket.SOL_SOCKET, getattr(socket, name)) > before)
watched = 0
while watched < 100 and libc.inotify_init1(0) >= 0: watched += 1
print("watches that all programs of the user share", watched > 16)
"""
    _, printed = attacked(tmp_path, program(script))
    answers = dict(line.rsplit(" ", 1) for line in printed.splitlines())
    assert answers.pop("ordinary sockets") == "True"
    assert len(answers) == 17 and set(answers.values()) == {"False"}, printed


@bubblewrap
@python
@pytest.mark.parametrize("shared", [False, True])
def test_servers_on_loopback_and_abstract_sockets_are_reached_only_where_the_network_is_shared(shared, tmp_path):
    abstract = socket.socket(socket.AF_UNIX)
    name = f"snellen-test-{os.getpid()}-{shared}"
    abstract.bind(f"\0{name}")
    abstract.listen()
    server = socket.create_server(("127.0.0.1", 0))
    six = socket.create_server(("::1", 0), family=socket.AF_INET6) if socket.has_ipv6 else None
    lan = next((a[4][0] for a in socket.getaddrinfo(socket.gethostname(), 0, socket.AF_INET)), "127.0.0.1")
    targets = [("AF_UNIX", f"\0{name}"), ("AF_INET", ("127.0.0.1", server.getsockname()[1]))]
    if six is not None:
        targets.append(("AF_INET6", ("::1", six.getsockname()[1])))
    targets.append(("AF_INET", (lan, server.getsockname()[1])) if shared is False else targets[0])
    script = (
        f"import socket\nfor family, address in {targets!r}:\n"
        "    s = socket.socket(getattr(socket, family)); s.settimeout(5)\n"
        "    try: s.connect(address); print('reached')\n    except OSError: print('no')\n"
    )
    rooms = WorkdirFactory(tmp_path, LIMITS, network=shared)
    here = rooms.make(ASKED, "work", sandbox.SAMPLE, sandbox.AGENT, None)
    shell("bubblewrap", here, program(script))
    answers = here.stdout.read_text().split()
    here.remove()
    rooms.close()
    for one in (abstract, server, *([] if six is None else [six])):
        one.close()
    assert answers == ["reached" if shared else "no"] * len(targets)


@pytest.fixture
def memory_path(tmp_path):
    """A folder in memory, where there is one: a disk takes minutes for 100,000 folders."""
    if not os.access("/dev/shm", os.W_OK):
        yield tmp_path
        return
    folder = Path(tempfile.mkdtemp(dir="/dev/shm"))
    yield folder
    subprocess.run(["rm", "-rf", str(folder)], check=False)


def test_a_tree_of_100_000_folders_is_removed_and_links_in_it_are_not_followed(memory_path, tmp_path):
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "file").write_text("the user's")
    rooms = WorkdirFactory(memory_path)
    root = next(memory_path.glob("snellen-agents-*"))
    top = root / "1"
    top.mkdir()
    (top / "link").symlink_to(kept)
    nest(top, 100_000)
    rooms.close()
    assert not root.exists() and (kept / "file").read_text() == "the user's"


def nest(top: Path, depth: int) -> None:
    """Folders within folders, deeper than a path can say."""
    handle = os.open(top, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir("d", dir_fd=handle)
        inner = os.open("d", os.O_RDONLY, dir_fd=handle)
        os.close(handle)
        handle = inner
    os.symlink("/", "root", dir_fd=handle)
    os.close(handle)


def test_what_a_killed_run_left_is_removed_by_the_next_one_however_deep(memory_path):
    tmp_path = memory_path
    code = "import os, sys; from pathlib import Path; from snellen.models.agents.workdir import WorkdirFactory; WorkdirFactory(Path(sys.argv[1])); os._exit(9)"
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=False)
    root = next(tmp_path.glob("snellen-agents-*"))
    nest(root, 20_000)
    (root / "locked").mkdir(mode=0o500)
    os.mkfifo(root / "pipe")
    WorkdirFactory(tmp_path).close()
    assert list(tmp_path.iterdir()) == []


def test_what_somebody_else_put_in_the_place_of_a_room_is_left_alone(tmp_path):
    victim = tmp_path / "victim"
    victim.write_text("the user's")
    for name, lock in (("snellen-agents-link", "link"), ("snellen-agents-pipe", "pipe")):
        (tmp_path / name).mkdir()
        if lock == "link":
            (tmp_path / name / ".lock").symlink_to(victim)
        else:
            os.mkfifo(tmp_path / name / ".lock")
    WorkdirFactory(tmp_path).close()
    assert victim.read_text() == "the user's" and (tmp_path / "snellen-agents-pipe").exists()


def test_limits_and_network_are_in_the_fingerprint_and_too_small_ones_are_refused():
    options = ModelOptions(agent_model="here/m", base_url="http://127.0.0.1:9/v1")
    identity = open_model("agent:opencode", options).identity()
    assert identity["network"] == "endpoint" and identity["limits"]["memory"] == 2 << 30
    for name in AgentLimits.__struct_fields__:
        other = structs.replace(options, **{f"agent_{name}": getattr(options, f"agent_{name}") + 1})
        assert open_model("agent:opencode", other).identity() != identity
        with pytest.raises(UsageError, match=f"--agent-{name.replace('_', '-')} 1 is too small"):
            limits_of(structs.replace(options, **{f"agent_{name}": 1}))
    for network in ("web", "host"):
        assert open_model("agent:opencode", structs.replace(options, agent_network=network)).identity() != identity
    with pytest.raises(UsageError, match="--agent-disk"):
        limits_of(structs.replace(options, agent_disk=3 << 30))
    with pytest.raises(UsageError, match="--agent-network"):
        open_model("agent:opencode", structs.replace(options, agent_network="internet"))
    with pytest.raises(UsageError, match="--agent-memory is set"):
        open_model("embedded", ModelOptions(agent_memory=1 << 30))


@bubblewrap
def test_the_default_limits_are_under_3_gb_of_memory_and_2_gb_of_files():
    limits = AgentLimits()
    assert limits.memory < 3_000_000_000 and limits.disk < 2_000_000_000


@bubblewrap
@pytest.mark.skipif(os.geteuid() != 0, reason="another user is needed, and only root can become one")
def test_a_user_without_rights_has_the_same_limits():
    """Root has ways that a user has not: the same attacks, by a user."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    copy = Path(shutil.copy(Path(sandbox.__file__).parent / "supervisor.py", folder))
    copy.chmod(0o644)
    code = f"""
import json, os, socket, subprocess, sys, tempfile
os.setgid(65534); os.setuid(65534)
mount = tempfile.mkdtemp()
ours, theirs = socket.socketpair()
supervisor = subprocess.Popen(["/usr/bin/python3", "-I", "-S", {str(copy)!r}, str(theirs.fileno())],
    pass_fds=(theirs.fileno(),), stdin=subprocess.DEVNULL)
theirs.close()
limits = {LIMITS.plain()!r}
ours.sendall(json.dumps(dict(isolated=True, network=False, box=mount, ports=[8321], limits=limits)).encode() + b"\\n")
first, numbers, _, _ = socket.recv_fds(ours, 4096, 8)
argv = ["bwrap", "--unshare-user", "--unshare-pid", "--seccomp", "{{seccomp}}", "--uid", "65534", "--gid", "65534",
    "--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev", "--bind", mount, "/tmp", "--chdir", "/tmp", "--", "sh", "-c", sys.argv[1]]
ours.sendall(json.dumps(dict(argv=argv, env=dict(PATH="/usr/bin:/bin"), cwd=None, filter={FILTER!r})).encode() + b"\\n")
print(first.decode().strip(), len(numbers), ours.recv(4096).decode().strip())
"""
    for script, limit in (
        ("for i in $(seq 60); do sleep 60 & done; wait", "processes"),
        ("head -c 100000000 /dev/zero > big; sleep 60", "disk"),
    ):
        done = subprocess.run(["/usr/bin/python3", "-c", code, script], capture_output=True, text=True, timeout=600)
        assert done.stdout.startswith("{} 2 ") and f'"limit": "{limit}"' in done.stdout, done.stdout + done.stderr
    shutil.rmtree(folder)
