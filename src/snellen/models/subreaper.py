"""Subreaper: ends all processes of a program without a sandbox when this process is gone.

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
from pathlib import Path

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
