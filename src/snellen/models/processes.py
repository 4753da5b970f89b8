"""Process groups: start a command in its own group, on Linux behind a guard, and end it with all its children.

Subreaper: ends all processes of a program without a sandbox when this process is gone.

    python -I subreaper.py DESCRIPTOR PROGRAM ARGUMENT...

DESCRIPTOR is the reading end of a pipe whose other end only we hold: it closes when we close it or die, however we die.
Processes that leave the group (an agent's background commands do) come back to the guard as orphans, because it is the
subreaper of Linux, and are ended with the rest. Kept free of imports from the package: it must start at once.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO

from msgspec import Struct


class ProcessGroup(Struct, frozen=True):
    """A process that leads its group. `guard_pipe` is our end of the pipe that its guard reads; None: no guard."""

    process: subprocess.Popen[bytes]
    guard_pipe: int | None


def start(argv: Sequence[str], env: Mapping[str, str], output: IO[bytes] | int) -> ProcessGroup:
    """Start a command, which reads nothing and writes both its streams to `output`.

    Args:
        argv, env: the command and its whole environment.
        output: a file, or subprocess.PIPE.

    Raises:
        OSError: it cannot be started.
    """
    # The guard inherits the reading end; ours stays open as long as the group may live.
    reading, guard_pipe = os.pipe() if sys.platform == "linux" else (None, None)
    guard = [] if reading is None else [sys.executable, "-I", __file__, str(reading)]
    try:
        process = subprocess.Popen(  # noqa: S603 - a program that the user asked for, no shell
            [*guard, *argv],
            env=dict(env),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            pass_fds=() if reading is None else (reading,),
        )
    except BaseException:
        if guard_pipe is not None:
            os.close(guard_pipe)
        raise
    finally:
        if reading is not None:
            os.close(reading)
    return ProcessGroup(process, guard_pipe)


def end(group: ProcessGroup, grace_s: float, ask: Callable[[], object] | None = None) -> None:
    """End a group; nothing of it is left on return. A second Ctrl-C shortens the grace and nothing else.

    Args:
        group: what to end; its leader may be gone already.
        grace_s: seconds between being asked to end and being killed.
        ask: asks it to end, in place of SIGTERM to the group; may raise subprocess.TimeoutExpired.
    """
    process = group.process
    try:
        if ask is not None:
            ask()
        else:
            tell(process.pid, signal.SIGTERM)
        process.wait(grace_s)
    except (subprocess.TimeoutExpired, KeyboardInterrupt):
        pass  # it had its time
    finally:
        if group.guard_pipe is not None:
            os.close(group.guard_pipe)  # the guard ends what is left, also what has left the group
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(grace_s)
        tell(process.pid, signal.SIGKILL)  # the leader may be gone and the group not
        process.wait()


def tell(group: int, number: signal.Signals) -> None:
    """Send a signal to all of a process group, if there still is one."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


PR_SET_CHILD_SUBREAPER = 36
SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2)


def main(descriptor: int, argv: list[str]) -> int:
    """Run the program; end with its status, and leave nothing behind."""
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    child = subprocess.Popen(argv, preexec_fn=_default_signals)  # noqa: S603 - no threads here
    while child.poll() is None:
        readable, _, _ = select.select([descriptor], [], [], 0.1)
        if readable:
            break
    end_descendants()
    status = child.wait()
    return status if status >= 0 else 128 - status


def _default_signals() -> None:
    for number in SIGNALS:
        signal.signal(number, signal.SIG_DFL)


def end_descendants() -> None:
    """Send SIGKILL to all that stem from this process, until there are none: a killed parent's children come back to us."""
    deadline = time.monotonic() + 10
    while (pids := descendants(os.getpid())) and time.monotonic() < deadline:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        time.sleep(0.02)


def descendants(root: int) -> list[int]:
    """Return processes that stem from `root`, zombies left out."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            fields = entry.read_text().rpartition(")")[2].split()
            state, parent, threads = fields[0], fields[1], int(fields[17])
            if state != "Z" or threads > 1:  # its first thread may have ended alone
                parents[int(entry.parent.name)] = int(parent)
    pids, grown = {root}, True
    while grown:
        children = {pid for pid, parent in parents.items() if parent in pids} - pids
        grown = bool(children)
        pids |= children
    return sorted(pids - {root})


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.argv[2:]))
