"""Scores while a run goes on: each answer is scored once, for the progress line and for the summary."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

from snellen.types import Record, Sample, Score

AT_ONCE = 2_000
"""Characters of a reply that is read on the event loop; a longer one is read in a thread."""
LONGEST = 50_000
"""Characters of a reply that is read while the run goes on; a longer one is read at its end."""
SWITCH_S = 0.0005
"""Seconds after which a thread that reads hands over to the event loop; Python's own choice is 5 ms."""


class Collector(Protocol):
    """Scores answers, and collects the scores of a run row by row."""

    def score(self, sample: Sample, record: Record) -> Mapping[str, Score]:
        """Score a record under each profile, the default one first."""

    def add(self, sample: Sample, record: Record, scores: Mapping[str, Score], row: int | None = None) -> int:
        """Add a record, or replace the one in `row`, which failed or has no scores yet. Return its row."""


class LiveScores:
    """Scores of one call of `run`. Use it with `with`: it may own a thread.

    Attributes:
        unread: rows without a score, by sample and repeat: replies too long to read meanwhile, or a scorer that failed.
    """

    def __init__(self, collector: Collector) -> None:
        self.collector = collector
        self.unread: dict[tuple[str, int], int] = {}
        self._failed: dict[tuple[str, int], int] = {}
        self._thread: ThreadPoolExecutor | None = None
        self._switch_s = sys.getswitchinterval()

    def __enter__(self) -> LiveScores:
        return self

    def __exit__(self, *exception: object) -> None:
        if self._thread is not None:
            self._thread.shutdown(cancel_futures=True)
            self._thread = None
            sys.setswitchinterval(self._switch_s)

    async def score(self, sample: Sample, record: Record) -> Score | None:
        """Score a record, or the one that replaces a failure; None if it is left to the end. Raise what the scorer raises."""
        key = (sample.id, record.repeat)
        row = self._failed.get(key)
        scores: Mapping[str, Score] = {}
        try:
            size = 0 if record.response is None else len(record.response.text)
            if size <= AT_ONCE:
                scores = self.collector.score(sample, record)
            elif size <= LONGEST:
                loop = asyncio.get_running_loop()
                scores = await loop.run_in_executor(self._reading(), self.collector.score, sample, record)
        finally:
            row = self.collector.add(sample, record, scores, row)
            if not scores:
                self.unread[key] = row
            elif record.status != "ok":
                self._failed[key] = row
        return next(iter(scores.values()), None)

    def _reading(self) -> ThreadPoolExecutor:
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, thread_name_prefix="snellen-scores")
            sys.setswitchinterval(min(SWITCH_S, self._switch_s))
        return self._thread
