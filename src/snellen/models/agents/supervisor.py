"""Supervise one agent from outside its sandbox: its file system, its network, its limits, and its end.

    python -I -S supervisor.py DESCRIPTOR

DESCRIPTOR is a Unix socket whose other end only Snellen holds. Messages are JSON objects, one a line:

1. from Snellen: {isolated, network, box, ports, limits}. `isolated`: the supervisor enters user, mount and IPC namespaces
   of its own and mounts one tmpfs of bounded size and number of files on `box`. `network` false: it enters a network
   namespace too, and listens on 127.0.0.1 there on each of `ports`.
2. to Snellen: {} with the descriptors of the box and of the listeners, or {fault}.
3. from Snellen, after it has filled the box: {argv, env, cwd, filter, proc}. The program is started with resource limits;
   `{seccomp}` in argv becomes a descriptor from which the filter of system calls (base 64) can be read.
4. to Snellen: {limit, used, status, memory, processes}: the limit that was hit ("" for none), the exit status, and the
   most memory (bytes) and processes that were seen.

When the socket closes or says {end}, or when a limit is hit, every process that stems from here is killed, those too that
left the group: the supervisor is the subreaper of Linux. It imports nothing from the package, so that it starts at once.
"""

from __future__ import annotations

import base64
import contextlib
import ctypes
import fcntl
import json
import os
import resource
import select
import signal
import socket
import stat
import struct
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

PR_SET_CHILD_SUBREAPER = 36
SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGXFSZ)
CLONE_NEWNS, CLONE_NEWIPC, CLONE_NEWUSER = 0x20000, 0x8000000, 0x10000000
CLONE_NEWPID, CLONE_NEWNET = 0x20000000, 0x40000000
MS_NOSUID, MS_NODEV, MS_REC, MS_PRIVATE = 0x2, 0x4, 0x4000, 0x40000
SIOCSIFFLAGS, IFF_UP, IFF_LOOPBACK = 0x8914, 0x1, 0x8
WATCH_S, HURRY_S, SCAN_S, SWEEP_S, GRACE_S = 0.05, 0.01, 0.2, 1.0, 5.0
TASKS_PER_PROCESS = 8  # threads that a process has at most, on average: Linux counts them alike
MAP_BYTES, MAP_COST = 1 << 18, 128  # bytes of a list of mappings that count nothing, and what each further one counts
RESERVED_PIDS = 300  # process numbers that Linux gives only once in a namespace
# Kernel memory that no process is charged for (System V segments and queues, buffers of TCP), and watches of the user's.
_KERNEL = {
    "kernel/shmall": "0",
    "kernel/msgmni": "0",
    "kernel/sem": "0 0 0 0",
    "fs/mqueue/queues_max": "0",
    "user/max_inotify_instances": "16",
    "user/max_inotify_watches": "16384",
    "net/ipv4/tcp_rmem": "4096 65536 131072",
    "net/ipv4/tcp_wmem": "4096 65536 131072",
}


class Breach(Exception):
    """A limit that was hit: its name, and how much was used."""

    def __init__(self, limit: str, used: int) -> None:
        super().__init__(limit)
        self.limit = limit
        self.used = used


class Watch:
    """Repeated measurement of what the agent's processes use.

    Args:
        limits: by name, as in limits.py.
        box: descriptor of the file system that the agent writes to; None where it has none of its own.
    """

    def __init__(self, limits: dict[str, int], box: int | None) -> None:
        self.limits = limits
        self.memory = self.processes = 0
        self._box = box
        self._processes: int | None = None
        self._swept = 0.0
        self._hidden = self._last = 0
        self._known_files = -1

    @property
    def pause_s(self) -> float:
        """Seconds until the next look: without a namespace, all processes of the machine are gone through."""
        if self._processes is None:
            return SCAN_S
        return HURRY_S if self._last > self.limits["memory"] // 2 else WATCH_S

    def enter(self, program: int) -> None:
        """Watch the namespace of the sandbox that `program` made, once its own /proc is there and lists no others.

        Its first process is the only child of `program`.
        """
        if self._processes is not None:
            return
        with contextlib.suppress(OSError, ValueError):
            (init,) = Path(f"/proc/{program}/task/{program}/children").read_text().split()
            handle = os.open(f"/proc/{init}/root/proc", os.O_RDONLY | os.O_DIRECTORY)
            if os.fstat(handle).st_dev == Path("/proc").stat().st_dev:
                os.close(handle)
            else:
                self._processes = handle

    def look(self) -> None:
        """Raise Breach if a limit is hit."""
        proc, pids = self._living()
        self.processes = max(self.processes, len(pids))
        if len(pids) > self.limits["processes"]:
            raise Breach("processes", len(pids))
        used = [_resident(proc, pid) for pid in pids]
        memory, threads = sum(size for size, _, _ in used), sum(number for _, number, _ in used)
        places = [place for _, _, place in used]
        if threads >= self.limits["processes"] * TASKS_PER_PROCESS:
            raise Breach("processes", threads)
        if self._box is not None:
            files = os.fstatvfs(self._box)
            memory += (files.f_blocks - files.f_bfree) * files.f_frsize
            self._look_at_files(files)
        if time.monotonic() - self._swept > SWEEP_S:
            opened, self._hidden = _unmapped(proc, places, self._box, self.limits["memory"])
            self._swept = time.monotonic()
            if opened >= self.limits["open_files"]:
                raise Breach("open_files", opened)
        elif (opened := sum(_count(proc, place) for place in places)) >= self.limits["open_files"]:
            raise Breach("open_files", opened)
        memory += self._hidden
        self._last = memory
        self.memory = max(self.memory, memory)
        if memory > self.limits["memory"]:
            raise Breach("memory", memory)

    def look_at_box(self) -> None:
        """Raise Breach if the files of a program that has ended fill the file system: it may have ended because of that."""
        if self._box is not None:
            self._look_at_files(os.fstatvfs(self._box))

    def _living(self) -> tuple[int | None, list[int]]:
        if self._processes is None:
            return None, descendants(os.getpid())
        try:
            with os.scandir(self._processes) as entries:
                return self._processes, [int(entry.name) for entry in entries if entry.name.isdecimal()]
        except OSError:  # it ended at this moment
            return self._processes, []

    def _look_at_files(self, files: os.statvfs_result) -> None:
        if files.f_bfree == 0:
            raise Breach("disk", (files.f_blocks - files.f_bfree) * files.f_frsize)
        number = files.f_files - files.f_ffree
        if files.f_ffree == 0:
            raise Breach("files", number)
        if number != self._known_files and time.monotonic() - self._swept > SWEEP_S and self._box is not None:
            self._known_files = number
            if (depth := _depth(self._box, self.limits["depth"])) > self.limits["depth"]:
                raise Breach("depth", depth)


def main(descriptor: int) -> int:
    """Prepare, run and end one agent, as the module says."""
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    control = socket.socket(fileno=descriptor)
    control.set_inheritable(False)
    lines = control.makefile("rb")
    settings = json.loads(lines.readline() or b"null")
    if settings is None:
        return 1
    try:
        box, listeners = _prepare(libc, settings)
    except OSError as error:
        _send(control, {"fault": f"{error.strerror or error}"})
        return 1
    handles = [number for number in (box, *(listener.fileno() for listener in listeners)) if number is not None]
    socket.send_fds(control, [b"{}\n"], handles)
    order = json.loads(lines.readline() or b"null")
    if order is None or "argv" not in order:
        return 1
    watch = Watch(settings["limits"], box)
    _send(control, _run(order, control, watch, settings["isolated"]))
    return 0


def _prepare(libc: Any, settings: dict[str, Any]) -> tuple[int | None, list[socket.socket]]:
    """Enter the namespaces; return the descriptor of the box and the listeners."""
    if not settings["isolated"]:
        return None, []
    own_network = not settings["network"]
    flags = CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWPID | (CLONE_NEWNET if own_network else 0)
    user, group = os.getuid(), os.getgid()
    _checked(libc.unshare(flags), "user namespaces cannot be made")
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"0 {user} 1")
    Path("/proc/self/gid_map").write_text(f"0 {group} 1")
    limits = settings["limits"]
    data = f"size={limits['disk']},nr_inodes={limits['files']},mode=0700"
    _checked(libc.mount(None, b"/", None, MS_REC | MS_PRIVATE, None), "mounts cannot be made private")
    target = os.fsencode(settings["box"])
    flags = MS_NOSUID | MS_NODEV
    _checked(libc.mount(b"tmpfs", target, b"tmpfs", flags, data.encode()), "a tmpfs cannot be mounted")
    for name, value in _KERNEL.items():
        if own_network or not name.startswith("net/"):
            with contextlib.suppress(OSError):  # of another kernel
                Path("/proc/sys", name).write_text(value)
    listeners = []
    if own_network:
        with socket.socket() as any_socket:
            request = struct.pack("16sh22x", b"lo", IFF_UP | IFF_LOOPBACK)
            fcntl.ioctl(any_socket, SIOCSIFFLAGS, request)
        for port in settings["ports"]:
            listener = socket.socket()
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(("127.0.0.1", port))
            listener.listen(64)
            listeners.append(listener)
    return os.open(settings["box"], os.O_RDONLY | os.O_DIRECTORY), listeners


def _run(order: dict[str, Any], control: socket.socket, watch: Watch, isolated: bool) -> dict[str, Any]:
    """Start the program, watch it, end all that stems from it; return what is to be sent."""
    seccomp = _filled_pipe(order["filter"]) if order.get("filter") else None
    argv = [str(seccomp) if word == "{seccomp}" else word for word in order["argv"]]
    limit, used, status = "", 0, 127
    try:
        child = subprocess.Popen(  # noqa: S603 - the sandbox of an agent, no shell
            argv,
            env=order["env"],
            cwd=order["cwd"],
            preexec_fn=lambda: _restrict(watch.limits, isolated, bool(order.get("proc"))),
            pass_fds=() if seccomp is None else (seccomp,),
            start_new_session=True,  # where Linux shares the processors by session, they cannot take ours
        )
    except (OSError, subprocess.SubprocessError) as error:
        return {"fault": f"{argv[0]} cannot be started: {getattr(error, 'strerror', None) or error}"}
    finally:
        if seccomp is not None:
            os.close(seccomp)
    try:
        while child.poll() is None:
            if isolated:
                watch.enter(child.pid)
            readable, _, _ = select.select([control], [], [], watch.pause_s)
            if readable:
                if control.recv(4096, socket.MSG_PEEK):
                    watch.look()  # a limit may have been passed since the last look
                    _ask(child)
                break
            watch.look()
        watch.look_at_box()
    except Breach as breach:
        limit, used = breach.limit, breach.used
        _send(control, {"limit": limit, "used": used, "early": True})  # ending hundreds of processes takes its time
    finally:
        if isolated:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(child.pid, signal.SIGKILL)  # the first of its namespace: all in it goes at once
            child.wait()
        end_descendants()
        status = child.wait()
    return {
        "limit": limit,
        "used": used,
        "status": status,
        "memory": watch.memory,
        "processes": watch.processes,
    }


def _restrict(limits: dict[str, int], isolated: bool, proc: bool) -> None:
    """Set, in the child and before the program, resource limits that hold for each process, and the default signals.

    `proc`: a /proc of its own namespace too, for a program that looks for itself there before it makes one.
    """
    if isolated and proc:
        libc = ctypes.CDLL(None, use_errno=True)
        _checked(libc.unshare(CLONE_NEWNS), "a mount namespace cannot be made")
        _checked(libc.mount(None, b"/", None, MS_REC | MS_PRIVATE, None), "mounts cannot be made private")
        _checked(libc.mount(b"proc", b"/proc", b"proc", MS_NOSUID | MS_NODEV, None), "/proc cannot be mounted")
        Path("/proc/sys/user/max_user_namespaces").write_text("0")  # within ours
    for number in SIGNALS:
        signal.signal(number, signal.SIG_DFL)
    tasks = limits["processes"] * TASKS_PER_PROCESS
    wanted = {
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_FSIZE: limits["disk"],
        resource.RLIMIT_NOFILE: limits["open_files"],
        resource.RLIMIT_MEMLOCK: 1 << 20,
        resource.RLIMIT_MSGQUEUE: 0,
        resource.RLIMIT_SIGPENDING: 4096,
    }
    if isolated:
        # Linux counts by user namespace from 5.14, and not at all for root, whom the second bound stops from 6.14.
        wanted[resource.RLIMIT_NPROC] = tasks
        with contextlib.suppress(OSError):
            Path("/proc/sys/kernel/pid_max").write_text(str(RESERVED_PIDS + tasks))
    limit_resources(wanted)


def limit_resources(limits: dict[int, int]) -> None:
    """Set limits of this process and of its children, by resource; it is the first to go when memory runs out."""
    for name, value in limits.items():
        _, hard = resource.getrlimit(name)
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(name, (value, value))
    with contextlib.suppress(OSError):  # when memory runs out nevertheless, this is to go and nothing else
        Path("/proc/self/oom_score_adj").write_text("1000")


def _ask(child: subprocess.Popen[bytes]) -> None:
    """Send SIGTERM to all that runs, and wait a moment for it to end by itself."""
    for pid in descendants(os.getpid()):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGTERM)
    with contextlib.suppress(subprocess.TimeoutExpired):
        child.wait(GRACE_S)


def end_descendants() -> None:
    """Send SIGKILL to all that stem from this process, until there are none: a killed parent's children come back to us."""
    deadline = time.monotonic() + 10
    while (pids := descendants(os.getpid())) and time.monotonic() < deadline:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.02)


def descendants(root: int) -> list[int]:
    """Return processes that stem from `root`, those that have ended left out."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with contextlib.suppress(OSError, ValueError, IndexError):
                fields = (entry / "stat").read_bytes().rpartition(b")")[2].split()
                state, parent, threads = fields[0], fields[1], int(fields[17])
                if state != b"Z" or threads > 1:  # its first thread may have ended alone
                    children.setdefault(int(parent), []).append(int(entry.name))
    pids, waiting = list[int](), [root]
    while waiting:
        below = children.get(waiting.pop(), [])
        pids += below
        waiting += below
    return sorted(pids)


def _read(proc: int | None, path: str, max_bytes: int = 4096) -> bytes:
    """Return the beginning of a file in /proc, or in the /proc that `proc` is a descriptor of."""
    handle = os.open(path if proc is not None else f"/proc/{path}", os.O_RDONLY, dir_fd=proc)
    with os.fdopen(handle, "rb") as file:
        return file.read(max_bytes)


def _resident(proc: int | None, pid: int) -> tuple[int, int, str]:
    """Return (bytes of memory of a process, its threads, where in /proc its files are listed).

    Memory in RAM and in swap and its page tables, without what it shares with files on a disk. A process whose first
    thread has ended looks dead there: it is looked at by another of its threads.
    """
    place = str(pid)
    total, threads, memory = _status(proc, place)
    if threads > 1 and not memory:
        with contextlib.suppress(OSError):
            for thread in _names(proc, f"{pid}/task"):
                total, _, memory = _status(proc, f"{pid}/task/{thread}")
                if memory:
                    place = f"{pid}/task/{thread}"
                    break
    return total, threads, place


def _status(proc: int | None, place: str) -> tuple[int, int, bool]:
    """Return (bytes, threads, whether it has memory at all) of a process or a thread."""
    total = threads = 0
    memory = False
    with contextlib.suppress(OSError, ValueError, IndexError):
        for line in _read(proc, f"{place}/status").splitlines():
            if line.startswith((b"RssAnon:", b"RssShmem:", b"VmSwap:", b"VmPTE:")):
                memory = True
                total += int(line.split()[1]) << 10
            elif line.startswith(b"Threads:"):
                threads = int(line.split()[1])
    return total, threads, memory


def _names(proc: int | None, path: str) -> list[str]:
    """Return names in a folder of /proc, or of the /proc that `proc` is a descriptor of."""
    handle = os.open(path if proc is not None else f"/proc/{path}", os.O_RDONLY | os.O_DIRECTORY, dir_fd=proc)
    try:
        with os.scandir(handle) as entries:
            return [entry.name for entry in entries]
    finally:
        os.close(handle)


def _count(proc: int | None, place: str) -> int:
    """Return the open files of a process; 0 where Linux (before 6.2) does not give it as the size of the folder."""
    try:
        return os.stat(f"{place}/fd" if proc is not None else f"/proc/{place}/fd", dir_fd=proc).st_size
    except OSError:
        return 0


def _unmapped(proc: int | None, places: list[str], box: int | None, most: int) -> tuple[int, int]:
    """Return (open files of all processes, bytes of memory that belong to no file with a name and may be mapped by nobody).

    These are files of memfd_create, by their blocks, and shared anonymous memory, by its size: its pages stay when a
    process lets go of them. Mappings take memory of the kernel, and time to go through: where their lists are long, they
    count, and beyond `most` bytes no further one is read.
    """
    box_device = None if box is None else os.fstat(box).st_dev
    number, mapped, hidden = 0, 0, dict[tuple[int, int], int]()
    for place in places:
        if mapped > most:
            break
        with contextlib.suppress(OSError):
            handle = os.open(f"{place}/fd" if proc is not None else f"/proc/{place}/fd", os.O_RDONLY, dir_fd=proc)
            try:
                with os.scandir(handle) as entries:
                    for entry in entries:
                        number += 1
                        with contextlib.suppress(OSError):
                            status = entry.stat()
                            if stat.S_ISREG(status.st_mode) and status.st_nlink == 0 and status.st_dev != box_device:
                                hidden[status.st_dev, status.st_ino] = status.st_blocks * 512
            finally:
                os.close(handle)
            mappings = _read(proc, f"{place}/maps", MAP_BYTES + most // MAP_COST + 1)
            mapped += max(0, len(mappings) - MAP_BYTES) * MAP_COST
            for line in mappings.splitlines():
                if line.endswith(b"/dev/zero (deleted)"):
                    span, _, offset, _, inode, *_ = line.split()
                    start, _, end = span.partition(b"-")
                    reach = int(offset, 16) + int(end, 16) - int(start, 16)
                    hidden[0, int(inode)] = max(reach, hidden.get((0, int(inode)), 0))
    return number, sum(hidden.values()) + mapped


def _depth(box: int, limit: int) -> int:
    """Return the depth of folders in the box, `limit` + 1 where it is more. No link is followed."""
    deepest = 0
    path: list[tuple[int, list[str]]] = []
    try:
        path.append(_folders(".", box))
        while path:
            handle, names = path[-1]
            if not names:
                os.close(path.pop()[0])
            elif len(path) > limit:
                return limit + 1
            else:
                with contextlib.suppress(OSError):
                    path.append(_folders(names.pop(), handle))
                    deepest = max(deepest, len(path) - 1)
    finally:
        for handle, _ in path:
            os.close(handle)
    return deepest


def _folders(name: str, above: int) -> tuple[int, list[str]]:
    """Return an open folder, and the names of those in it."""
    handle = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=above)
    try:
        with os.scandir(handle) as entries:
            return handle, [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
    except OSError:
        os.close(handle)
        raise


def _filled_pipe(data: str) -> int:
    """Return the reading end of a pipe that holds a filter of system calls, given in base 64."""
    reading, writing = os.pipe()
    os.write(writing, base64.b64decode(data))
    os.close(writing)
    return reading


def _checked(result: int, failure: str) -> None:
    if result != 0:
        raise OSError(ctypes.get_errno(), f"{failure}: {os.strerror(ctypes.get_errno())}")


def _send(control: socket.socket, message: dict[str, Any]) -> None:
    with contextlib.suppress(OSError):
        control.sendall(json.dumps(message).encode() + b"\n")


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
