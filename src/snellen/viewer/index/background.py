"""Index in the background: a process beside the viewer that follows the runs' journals and writes the index.

It only reads the runs. It ends with the viewer, whose end closes the pipe between them.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import msgspec
from msgspec import Struct

from snellen.errors import SnellenError

if TYPE_CHECKING:
    from snellen.viewer.index.view_index import ViewIndex

REST = 1.0
"""After each look, rest for this many times as long as it took."""
END_SECONDS = 5.0
"""Time to finish a change of the index when the viewer has ended."""


class IndexTask(Struct, frozen=True):
    """What the indexing process is told, as JSON on its first line of input."""

    root: str
    database: str
    gold: bool
    trust: bool
    every_s: float


def start_indexing(index: ViewIndex, every_s: float) -> subprocess.Popen[bytes]:
    """Start a process that keeps the index up to date until its standard input is closed.

    Killing it, or this one, harms nothing.
    """
    task = IndexTask(
        str(index.root.absolute()), str(index.database.path.absolute()), index.show_gold, index.trust, every_s
    )
    process = subprocess.Popen(
        [sys.executable, "-m", "snellen.viewer.index.background"],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,  # Ctrl-C ends the viewer, and the viewer's end this process
    )
    assert process.stdin is not None  # noqa: S101 - PIPE was asked for
    process.stdin.write(msgspec.json.encode(task) + b"\n")
    process.stdin.flush()
    return process


def main() -> None:
    """Keep the index of the task on standard input up to date until the input ends."""
    from snellen.viewer.index.database import IndexDatabase, spill_folder
    from snellen.viewer.index.view_index import ViewIndex

    task = msgspec.json.decode(sys.stdin.buffer.readline(), type=IndexTask)

    def wait_for_end() -> None:
        while os.read(0, 4096):  # not the buffered reader: Python's end would abort while it waits
            pass
        index.database.busy.acquire(timeout=END_SECONDS)
        spill_folder(str(index.database.file)).cleanup()
        os._exit(0)

    index = ViewIndex(Path(task.root), IndexDatabase(Path(task.database)), show_gold=task.gold, trust=task.trust)
    threading.Thread(target=wait_for_end, daemon=True).start()
    while True:
        begin = time.monotonic()
        with contextlib.suppress(SnellenError, OSError, duckdb.Error):  # it may pass: a full disk, another writer
            index.refresh()
        time.sleep(max(task.every_s, REST * (time.monotonic() - begin)))


if __name__ == "__main__":
    main()
