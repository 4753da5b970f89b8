"""A stopwatch for bounds on waiting: time that the machine gave to other processes does not count; and processor time.

Linux counts for each thread how long it was ready to run and had no processor (/proc/PID/task/TID/schedstat, its second
number, in nanoseconds). On an idle machine that is next to nothing, and the stopwatch is a plain one.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import time
from collections.abc import Callable, Iterable
from pathlib import Path


class Stopwatch:
    """Seconds since it was made, less those that the processes were kept from running.

    Args:
        pids: the processes; none: this one. Call `look` often while others run: what they waited is gone with them.
    """

    def __init__(self, *pids: int) -> None:
        self._pids = pids or (os.getpid(),)
        self._before = self._latest = self._waited()
        self._began = self._now = time.monotonic()

    def look(self) -> None:
        """Take note of how long each thread has waited so far."""
        self._now = time.monotonic()
        self._latest = {**self._latest, **self._waited()}

    @property
    def seconds(self) -> float:
        """Seconds up to now."""
        self.look()
        kept_waiting = sum(waited - self._before.get(thread, 0) for thread, waited in self._latest.items())
        return self._now - self._began - kept_waiting / 1e9

    def _waited(self) -> dict[str, int]:
        """Nanoseconds that each thread had no processor."""
        waited = {}
        for pid in self._pids:
            with contextlib.suppress(OSError):
                for task in Path(f"/proc/{pid}/task").iterdir():
                    with contextlib.suppress(OSError, IndexError, ValueError):
                        waited[task.name] = int((task / "schedstat").read_text().split()[1])
        return waited


def cpu_times(work: Callable[[], object], times: int = 3, enough_s: float = 0.0) -> list[float]:
    """Processor seconds of this process for each of some turns of a piece of work; the last one is the first that is enough.

    Neighbours only add to it: a bound is held by the least of them, and what a bound follows from by the most.
    """
    found: list[float] = []
    while len(found) < times and (not found or found[-1] >= enough_s):
        began = time.process_time()
        work()
        found.append(time.process_time() - began)
    return found


def is_done_within(seconds: float, work: Callable[[], object]) -> bool:
    """Whether a piece of work takes less processor time in one of three turns."""
    return min(cpu_times(work, enough_s=seconds)) < seconds


def seconds_until_end(process: subprocess.Popen[str], others: Iterable[int] = (), longest_s: float = 600.0) -> float:
    """How long a process still takes to its end, less what it and the others it works with were kept from running.

    Raises:
        subprocess.TimeoutExpired: it is still there after `longest_s` by the clock on the wall.
    """
    watch = Stopwatch(process.pid, *others)
    latest = time.monotonic() + longest_s
    while process.poll() is None:
        if time.monotonic() > latest:
            raise subprocess.TimeoutExpired(process.args, longest_s)
        watch.look()
        time.sleep(0.02)
    return watch.seconds
