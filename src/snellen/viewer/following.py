"""Follow the runs while somebody looks: the index is refreshed in the background, at most once a second."""

from __future__ import annotations

import sys
import threading
import time

from snellen.errors import SnellenError
from snellen.redaction import redact
from snellen.viewer.index import ViewIndex

PAUSE_S = 1.0


class IndexFollower:
    """Refreshes the index when a page is asked for; pages show what the last refresh read.

    Nothing runs while nobody looks. The journals are only read, so that a run and the viewer can be killed at any time.
    """

    def __init__(self, index: ViewIndex) -> None:
        self._index = index
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._ended = float("-inf")

    def touch(self) -> None:
        """Start a refresh, unless one is under way or has just ended."""
        with self._lock:
            busy = self._thread is not None and self._thread.is_alive()
            if busy or time.monotonic() - self._ended < PAUSE_S:
                return
            self._thread = threading.Thread(target=self._refresh, name="snellen view index", daemon=True)
            self._thread.start()

    def wait(self, seconds: float) -> None:
        """Wait until the refresh that is under way has ended, at most so long."""
        thread = self._thread
        if thread is not None:
            thread.join(seconds)

    def _refresh(self) -> None:
        try:
            self._index.refresh()
        except (SnellenError, OSError) as error:
            print(redact(f"snellen: the index cannot be refreshed: {error}"), file=sys.stderr)
        finally:
            self._ended = time.monotonic()
