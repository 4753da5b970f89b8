"""What runs of acuity measured, for the acuity page: read once for each state of a journal."""

from __future__ import annotations

import threading
from collections import OrderedDict

from snellen.errors import SnellenError
from snellen.reports.acuity.view import AcuityView, acuity_view
from snellen.viewer.cases.opened_runs import OpenedRun

HELD = 24


class AcuityViews:
    """Views of runs by folder and state of the journal, the least recently used dropped first. Callers may be threads."""

    def __init__(self) -> None:
        self._views: OrderedDict[tuple[object, ...], AcuityView | str] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, opened: OpenedRun) -> AcuityView | str:
        """Return what a run measured, or in words why that cannot be said; it takes a second for a thousand questions."""
        if opened.run is None:
            return opened.problem or "the run cannot be read"
        try:
            journal = (opened.path / "results.jsonl").stat()
        except OSError as error:
            return f"results.jsonl cannot be read: {error.strerror or type(error).__name__}"
        key = (str(opened.path), journal.st_mtime_ns, journal.st_size)
        with self._lock:
            if key in self._views:
                self._views.move_to_end(key)
                return self._views[key]
            try:
                view: AcuityView | str = acuity_view(opened.run)
            except SnellenError as error:
                view = error.message
            except Exception as error:  # noqa: BLE001 - a journal may hold anything; its fault must not end the page
                view = f"{type(error).__name__} while its answers were read"
            self._views[key] = view
            while len(self._views) > HELD:
                self._views.popitem(last=False)
        return view
