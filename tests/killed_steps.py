"""Kill this process at one of its steps on the disk. As a script: perform commands of snellen that are killed so.

A step is a write, an fsync, or a change of a folder, below the working folder. A killed write leaves half of its bytes. The script
imports what commands need once, which costs most of their time, and performs each in a fork.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

CHANGES = {"os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.truncate", "os.link"}
WRITING = os.O_WRONLY | os.O_RDWR


class KilledSteps:
    """Count the steps of this process from now on, and end it with SIGKILL at the step `last` (0: never)."""

    def __init__(self, last: int) -> None:
        self.last, self.count = last, 0
        self._root = f"{Path.cwd()}/"
        self._write, self._fsync = os.write, os.fsync
        os.write, os.fsync = self.write, self.fsync  # type: ignore[assignment]
        sys.addaudithook(self._audit)

    def write(self, fd: int, data: Any) -> int:
        if self._is_file(fd) and self._step():
            self._write(fd, memoryview(data)[: len(data) // 2])
            self._die()
        return self._write(fd, data)

    def fsync(self, fd: int) -> None:
        if self._is_file(fd) and self._step():
            self._die()
        self._fsync(fd)

    def _audit(self, event: str, words: tuple[Any, ...]) -> None:
        opened = event == "open" and isinstance(words[2], int) and words[2] & WRITING
        if (opened or event in CHANGES) and self._is_ours(words[0]) and self._step():
            self._die()

    def _is_file(self, fd: int) -> bool:
        return self._is_ours(Path(f"/proc/self/fd/{fd}").readlink())

    def _is_ours(self, path: Any) -> bool:
        text = os.fsdecode(path) if isinstance(path, str | bytes | os.PathLike) else ""
        return text.startswith(self._root) or not text.startswith(("/", "pipe:", "socket:", "anon_inode:"))

    def _step(self) -> bool:
        self.count += 1
        return self.count == self.last

    def _die(self) -> None:
        os.kill(os.getpid(), signal.SIGKILL)


def perform(step: int, folder: str, words: list[str]) -> tuple[int, int]:
    """Perform a command of snellen in a folder; return its exit status and its number of steps."""
    os.chdir(folder)
    steps = KilledSteps(step)
    sys.argv = ["snellen", *words]
    from snellen.cli import main as command

    status = command()
    steps.last = 0
    return status, steps.count


def main() -> None:
    """Fork a process for each line of the input, `[step, folder, words]`; print its id, later its status and its steps.

    What the processes print goes to the file that the first argument names.
    """
    log = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for line in sys.stdin:
        reading, writing = os.pipe()
        if (child := os.fork()) == 0:
            outcome: tuple[int, int, list[str]] = 70, 0, []
            try:
                os.dup2(log, 1)
                os.dup2(log, 2)
                outcome = *perform(*json.loads(line)), [name for name in sys.modules if not name.startswith("_")]
            finally:
                os.write(writing, json.dumps(outcome).encode())
                os._exit(outcome[0])
        os.close(writing)
        print(child, flush=True)
        with os.fdopen(reading) as pipe:
            content = pipe.read()
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        _, steps, modules = json.loads(content or "[0, 0, []]")
        print(status, steps, flush=True)
        for name in modules:  # the next process has them already
            with contextlib.suppress(Exception):
                importlib.import_module(name)


if __name__ == "__main__":
    main()
