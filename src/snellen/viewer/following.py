"""Follow the runs while somebody looks: the index is refreshed in the background, at most once a second.

A few records are indexed by a thread. More of them take a process of their own, since scoring would make pages wait.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
import threading
import time

import duckdb

from snellen.errors import SnellenError
from snellen.redaction import redact
from snellen.viewer.index import ViewIndex
from snellen.viewer.index.background import start_indexing

PAUSE_S, FOLLOW_S = 1.0, 1.5
"""Time between two looks at the root, at least: of this process and of the indexing one."""
RESTARTS = 5
"""An indexing process that was killed is replaced so many times."""
THREAD_BYTES = 8 << 20
"""Bytes of journals without their verdicts that a thread of the server indexes; more are left to another process."""
END_S, INTERRUPT_S = 5.0, 0.05
"""Time that a refresh has to end when the viewer does, and between two interruptions of its queries."""


class IndexFollower:
    """Refreshes the index when a page is asked for; pages show what the last refresh read.

    The journals are only read, so that a run and the viewer can be killed at any time.
    """

    def __init__(self, index: ViewIndex) -> None:
        self._index = index
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._ended = float("-inf")
        self._process: subprocess.Popen[bytes] | None = None
        self._restarts = 0
        self._closed = False

    def touch(self) -> None:
        """Start a refresh, unless one is under way or has just ended."""
        with self._lock:
            if self._closed or self._is_refreshing() or time.monotonic() - self._ended < PAUSE_S:
                return
            self._thread = threading.Thread(target=self._refresh, name="snellen view index", daemon=True)
            self._thread.start()

    def _is_refreshing(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def wait(self, seconds: float) -> None:
        """Wait until the refresh that is under way has ended, at most so long."""
        thread = self._thread
        if thread is not None:
            thread.join(seconds)

    @property
    def pid(self) -> int | None:
        """Return the number of the indexing process; None where there is none."""
        return None if self._process is None else self._process.pid

    def close(self) -> None:
        """End the refresh that is under way, and the indexing process; none begins any more.

        A thread that is inside DuckDB when Python ends would abort the process.
        """
        with self._lock:
            self._closed = True
        end = time.monotonic() + END_S
        self._index.close()
        while (self._is_refreshing() or self._index.database.in_use) and time.monotonic() < end:
            self._index.close()  # again and again: an interruption ends one query, of the refresh or of a page
            time.sleep(INTERRUPT_S)
        process, self._process = self._process, None
        if process is not None and process.stdin is not None:
            process.stdin.close()  # it ends by that
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=10)

    def _refresh(self) -> None:
        try:
            if self._process is None:
                if self._index.pending_bytes() > THREAD_BYTES:
                    self._process = start_indexing(self._index, FOLLOW_S)
            elif self._process.poll() is not None and self._restarts < RESTARTS:
                self._restarts += 1
                self._process = start_indexing(self._index, FOLLOW_S)
            self._index.refresh(samples=self._process is None, stop=lambda: self._closed)
        except (SnellenError, OSError, duckdb.InterruptException) as error:
            if self._closed:
                return
            print(redact(f"snellen: the index cannot be refreshed: {error}"), file=sys.stderr)
        finally:
            self._ended = time.monotonic()
