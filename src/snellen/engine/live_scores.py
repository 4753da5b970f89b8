"""Scores while a run goes on: each answer is scored once, for the progress line and for the summary."""

from __future__ import annotations

import asyncio
import sys
from concurrent.futures import ThreadPoolExecutor

from snellen.benchmarks.base import Scorer
from snellen.scoring.record import score_record
from snellen.types import Record, Sample, Score

AT_ONCE = 2_000
"""Characters of a reply that is read on the event loop; a longer one is read in a thread."""
LONGEST = 50_000
"""Characters of a reply that is read while the run goes on; a longer one is read at its end, by the summary alone."""
HELD = 20_000
"""Scores that are held for the summary; they take about 400 bytes each."""
EVERY = 10
"""Once this many scores are held, one answer in ten is read for the progress line."""
SWITCH_S = 0.0005
"""Seconds after which a thread that reads hands over to the event loop; Python's own choice is 5 ms."""


class LiveScores:
    """Scores of one call of `run`, by its benchmark's first profile. Use it with `with`: it may own a thread."""

    def __init__(self, scorer: Scorer) -> None:
        self.scorer = scorer
        self._scores: dict[tuple[str, int], tuple[int, Score]] = {}
        self._passed = 0
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
        """Score an answer; None if it is not scored on the way. Raise what the scorer raises."""
        if record.status != "ok":
            return score_record(sample, record, self.scorer)
        if len(self._scores) >= HELD:
            self._passed += 1
            if self._passed % EVERY:
                return None
        text = _text(record)
        if len(text) > LONGEST:
            return None
        if len(text) <= AT_ONCE:
            score = score_record(sample, record, self.scorer)
        else:
            loop = asyncio.get_running_loop()
            score = await loop.run_in_executor(self._reading(), score_record, sample, record, self.scorer)
        if len(self._scores) < HELD:
            self._scores[sample.id, record.repeat] = (hash(text), score)
        return score

    def known(self, sample: Sample, record: Record, scorer: Scorer) -> Score | None:
        """Return this answer's score under this scorer; None if it was not scored."""
        if scorer is not self.scorer or record.status != "ok":
            return None
        digest, score = self._scores.get((sample.id, record.repeat), (0, None))
        return score if score is not None and digest == hash(_text(record)) else None

    def _reading(self) -> ThreadPoolExecutor:
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, thread_name_prefix="snellen-scores")
            sys.setswitchinterval(min(SWITCH_S, self._switch_s))
        return self._thread


def _text(record: Record) -> str:
    return "" if record.response is None else record.response.text
