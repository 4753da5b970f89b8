"""Command lines of `snellen mcp`, each in a process of its own, which ends with the server however that ends."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import IO, NamedTuple

import msgspec

from snellen.errors import UsageError
from snellen.models import processes
from snellen.models.tools.mcp_server import Report

STEP_S = 0.02
CALL_S, CALL_BYTES = 300.0, 1_000_000
"""Seconds that a call may take, and bytes that it may print, pictures aside."""
READ_BYTES = 20_000_000
GRACE_S = 1.5
"""Seconds that runs have to write what was answered when the server ends: clients wait for two."""
MOST_RUNS = 4
"""Runs at once."""
ERROR_CHARACTERS = 4_000
PROGRESS = '{"event":"progress"'


class RunProgress(msgspec.Struct):
    """Progress of a run, as a line of `--json`."""

    done: int
    total: int | None = None


class Printed(NamedTuple):
    """What a command line printed, and its exit status."""

    status: int
    out: str
    err: str


class Child:
    """A command line in a process of its own. Its streams are files, so that it never waits for a reader."""

    def __init__(self, words: Sequence[str]) -> None:
        self._out, self._err = tempfile.TemporaryFile(), tempfile.TemporaryFile()  # noqa: SIM115 - until the process ends
        argv = [sys.executable, "-m", "snellen", *words]
        self._group = processes.start(argv, os.environ, self._out, self._err)
        self._ended = False
        self.cancelled = False

    def is_running(self) -> bool:
        """Return True until the process has ended."""
        return self._group.process.poll() is None

    async def wait(self, seconds: float, report: Report | None = None) -> None:
        """Wait until it has ended, at most so long; report the progress of a run meanwhile."""
        deadline, reported = time.monotonic() + seconds, -1
        while report is not None or self.is_running():
            goes_on = self.is_running() and time.monotonic() < deadline
            if report is not None and (progress := self._progress()) is not None and progress.done > reported:
                reported = progress.done
                await report(progress.done, progress.total)
            if not goes_on:
                return
            await asyncio.sleep(STEP_S)

    def _progress(self) -> RunProgress | None:
        """Return the progress that a run printed last."""
        for line in reversed(_text(self._err, ERROR_CHARACTERS).splitlines()):
            if line.startswith(PROGRESS):
                with suppress(msgspec.DecodeError):
                    return msgspec.json.decode(line, type=RunProgress)
        return None

    def printed(self) -> Printed:
        """Return what it printed so far; of a process that has ended, all of it up to READ_BYTES."""
        status = self._group.process.poll()
        err = _text(self._err, ERROR_CHARACTERS)
        return Printed(-1 if status is None else status, _text(self._out, READ_BYTES), err)

    def is_too_long(self, most: int) -> bool:
        """Return True if it has printed more than a client takes."""
        return os.fstat(self._out.fileno()).st_size > most

    def tell(self, number: signal.Signals = signal.SIGTERM) -> None:
        """Ask it to end: a run then writes the answers that are on their way."""
        if self.is_running():
            self.cancelled = True
            processes.tell(self._group.process.pid, number)

    def end(self, grace_s: float = 0.0) -> None:
        """End it with all its processes."""
        if not self._ended:
            self._ended = True
            processes.end(self._group, grace_s)


class Children:
    """The processes of a server: calls that are waited for, and runs by id."""

    def __init__(self) -> None:
        self.runs: dict[str, Child] = {}

    async def call(self, words: Sequence[str], most: int = CALL_BYTES) -> Printed:
        """Run a command line and return what it printed.

        Raises:
            UsageError: it takes too long or prints too much.
        """
        child = Child(words)
        deadline = time.monotonic() + CALL_S
        try:
            while child.is_running():
                await asyncio.sleep(STEP_S)
                if time.monotonic() > deadline:
                    raise UsageError(f"this took longer than {CALL_S:.0f} s, and was stopped", "Ask for less at once.")
                if child.is_too_long(most):
                    break
            if child.is_too_long(most):
                raise UsageError(
                    f"the answer has more than {most:,} bytes", "Ask for less: a LIMIT, fewer columns, one run."
                )
            return child.printed()
        finally:
            child.end()

    def start_run(self, name: str, words: Sequence[str]) -> Child:
        """Start a run in the background.

        Raises:
            UsageError: this run goes on already, or too many others do.
        """
        going = [other for other, child in self.runs.items() if child.is_running()]
        if name in going:
            raise UsageError(f"run {name} goes on already", "Follow it with the tool status, or end it with cancel.")
        if len(going) >= MOST_RUNS:
            raise UsageError(
                f"{len(going)} runs go on, and more are not started: {', '.join(going)}",
                "Wait for one of them with the tool status, or end one with cancel.",
            )
        if name in self.runs:
            self.runs[name].end()
        self.runs[name] = Child(words)
        return self.runs[name]

    def end(self) -> None:
        """End all runs: they are asked first, and have GRACE_S to write what was answered."""
        for child in self.runs.values():
            child.tell()
        deadline = time.monotonic() + GRACE_S
        for child in self.runs.values():
            child.end(max(0.0, deadline - time.monotonic()))


def failure_text(printed: Printed) -> str:
    """Return the error of a command line with its hint, as it printed them."""
    lines = [line for line in printed.err.strip().splitlines() if not line.startswith(PROGRESS)]
    first = next((at for at, line in enumerate(lines) if line.startswith("snellen: ")), 0)
    return "\n".join(lines[first:]).removeprefix("snellen: ") or f"the command ended with exit status {printed.status}"


def _text(stream: IO[bytes], most: int) -> str:
    """Return the end of what was printed, at most so many bytes."""
    size = os.fstat(stream.fileno()).st_size
    return os.pread(stream.fileno(), most, max(0, size - most)).decode("utf-8", "replace")
