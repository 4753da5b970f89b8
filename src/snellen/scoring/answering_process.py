"""A process that answers lines, each in bounded time: for work that Python itself cannot interrupt."""

from __future__ import annotations

import atexit
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress


class AnsweringProcess:
    """A Python program that says that it is ready, then answers each line of its standard input with a line.

    It is ended and started anew when an answer takes too long, whichever thread waits for it.
    """

    def __init__(self, words: Sequence[str], seconds: float, starting_seconds: float = 60.0) -> None:
        """Take the interpreter's arguments, the maximum time of an answer, and that until the program is ready."""
        self._words, self._seconds, self._starting_seconds = words, seconds, starting_seconds
        self._lock = threading.Lock()
        self._process: subprocess.Popen[str] | None = None

    def ask(self, line: str) -> str:
        """Return the process's answer to a line; empty if it gives none in time."""
        with self._lock:
            process = self._process
            if process is None or process.poll() is not None:
                null, pipe = subprocess.DEVNULL, subprocess.PIPE
                process = subprocess.Popen(  # noqa: S603 - this interpreter
                    [sys.executable, *self._words], stdin=pipe, stdout=pipe, stderr=null, encoding="utf-8"
                )
                self._process = process
                atexit.register(process.kill)
                _answer(process, "", self._starting_seconds)
            return _answer(process, f"{line}\n", self._seconds).rstrip("\n")


def _answer(process: subprocess.Popen[str], line: str, seconds: float) -> str:
    """Return a line of a process's answer; empty if it is ended for taking too long."""
    timer = threading.Timer(seconds, process.kill)
    timer.start()
    answer = ""
    with suppress(OSError):
        if process.stdin is not None and process.stdout is not None:
            print(line, end="", file=process.stdin, flush=True)
            answer = process.stdout.readline()
    timer.cancel()
    if not answer:
        process.kill()
        process.wait()
    return answer
