"""Index in the background: a process beside the viewer that follows the runs' journals and writes the index.

It only reads the runs. It ends with the viewer, whose end closes the pipe between them; a viewer that finds it gone starts
another one.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

if TYPE_CHECKING:
    from snellen.viewer.index.view_index import ViewIndex

FOLLOW_SECONDS = 1.5
"""Time between two looks at the root, at least."""
REST = 1.0
"""After each look, rest for this many times as long as it took."""
RESTARTS = 5
MODULE = "snellen.viewer.index.background"


class IndexTask(Struct, frozen=True):
    """What the indexing process is told, as JSON on its first line of input."""

    root: str
    storage: str
    gold: bool
    trust: bool
    every_s: float


class Follower:
    """A viewer's indexing process, and a thread that reads what it has written. Use it with `with`."""

    def __init__(self, index: ViewIndex, every_s: float) -> None:
        self._index, self._every_s = index, every_s
        self._process: subprocess.Popen[bytes] | None = None
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._look, name="view-index", daemon=True)

    def __enter__(self) -> Follower:
        self.start()
        return self

    def start(self) -> None:
        """Start the process and the thread; both end with this process at the latest."""
        self._index.refresh(samples=False)
        self._start()
        self._thread.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the process and the thread."""
        self._ended.set()
        self._thread.join(timeout=10)
        process = self._process
        if process is not None:
            if process.stdin is not None:
                process.stdin.close()  # it ends by that
            process.wait(timeout=10)

    @property
    def pid(self) -> int | None:
        """Return the number of the indexing process; None before it was started."""
        return None if self._process is None else self._process.pid

    def _start(self) -> None:
        index = self._index
        task = IndexTask(
            str(index.root.absolute()), str(index.storage.path.absolute()), index.show_gold, index.trust, self._every_s
        )
        self._process = subprocess.Popen(  # noqa: S603 - this Python, a module of this package
            [sys.executable, "-m", MODULE],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C ends the viewer, and the viewer's end this process
        )
        assert self._process.stdin is not None  # noqa: S101 - PIPE was asked for
        self._process.stdin.write(msgspec.json.encode(task) + b"\n")
        self._process.stdin.flush()

    def _look(self) -> None:
        restarts = 0
        while not self._ended.wait(self._every_s):
            begin = time.monotonic()
            if self._process is not None and self._process.poll() is not None and restarts < RESTARTS:
                restarts += 1
                self._start()
            self._index.refresh(samples=False)
            self._ended.wait(REST * (time.monotonic() - begin))


def main() -> None:
    """Keep the index of the task on standard input up to date until the input ends."""
    from snellen.viewer.index.storage import IndexStorage
    from snellen.viewer.index.view_index import ViewIndex

    task = msgspec.json.decode(sys.stdin.buffer.readline(), type=IndexTask)

    def wait_for_end() -> None:
        sys.stdin.buffer.read()
        os._exit(0)  # at once: the index is whole at every moment

    threading.Thread(target=wait_for_end, daemon=True).start()
    index = ViewIndex(Path(task.root), IndexStorage(Path(task.storage)), show_gold=task.gold, trust=task.trust)
    while True:
        begin = time.monotonic()
        index.refresh()
        time.sleep(max(task.every_s, REST * (time.monotonic() - begin)))


if __name__ == "__main__":
    main()
