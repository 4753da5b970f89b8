"""Progress of a run: counters and scores while it goes on, and the displays of them.

Each answer is scored once, for the progress line and for the summary.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import IO, Any, NamedTuple, Protocol

import msgspec

from snellen.scoring.metric_text import bracketed, mark
from snellen.scoring.statistics.intervals import RunningMean
from snellen.text import one_line
from snellen.types import Record, Sample, Score

AT_ONCE = 2_000
"""Characters of a reply that is read on the event loop; a longer one is read in a thread."""
LONGEST = 50_000
"""Characters of a reply that is read while the run goes on; a longer one is read at its end."""
SWITCH_S = 0.0005
"""Seconds after which a thread that reads hands over to the event loop; Python's own choice is 5 ms."""


class ServiceProgress(Protocol):
    """Progress of work that a service does by itself, such as batches."""

    def text(self) -> str: ...

    def event(self) -> dict[str, Any]: ...


class GroupProgress(NamedTuple):
    """How many groups of questions have ended, of those that are known; for benchmarks whose questions follow from answers.

    Attributes:
        noun: what a group is, in the plural.
        ended: groups without a further question.
        known: groups with a question so far.
    """

    noun: str
    ended: int
    known: int


class Progress:
    """Counters of one run in this session. Times are seconds of a monotonic clock."""

    def __init__(self, name: str, total: int | None, before: int, concurrency: int) -> None:
        self.name = name
        self.total = total
        self.before = before
        self.done = before
        self.status: Counter[str] = Counter()
        self.failures: Counter[str] = Counter()
        self.input_tokens = 0
        self.output_tokens = 0
        self.cost = 0.0
        self.priced = self.cost_is_least = False
        self.answered = 0
        self.score = RunningMean()
        self.leaves_out_failed = False
        self.left_out = 0
        self.unread = 0
        self.active = 0
        self.limit = concurrency
        self.retries = 0
        self.note = ""
        self.groups: GroupProgress | None = None
        self.waiting_s: float | None = None
        self.waiting_for = ""
        self.paced_per_s: float | None = None
        self.batches: ServiceProgress | None = None
        self.started = time.monotonic()

    def add(self, record: Record) -> None:
        """Count one finished sample."""
        self.done += 1
        self.answered += record.status in ("ok", "refused")
        self.status[record.status] += 1
        if record.error is not None:
            self.failures[record.error.kind] += 1
        response = record.response
        if response is not None:
            usage = response.usage
            self.input_tokens += usage.input_tokens
            self.output_tokens += usage.output_tokens
            if usage.cost is not None:
                self.cost += usage.cost
                self.priced = True
            self.cost_is_least = self.cost_is_least or bool(usage.lacks)

    def add_score(self, record: Record, score: Score, cluster: str = "") -> None:
        """Count the score of a sample; `cluster` names the rows that it rises and falls with, as `Sample.group` does."""
        if score.value is None or (self.leaves_out_failed and record.status != "ok"):
            self.left_out += 1
        else:
            self.score.add(score.value, cluster)
            self.unread += score.verdict == "invalid" and record.status == "ok"

    def recover(
        self, before: tuple[Record, Score | None], record: Record, score: Score | None, cluster: str = ""
    ) -> None:
        """Count a sample that was counted `before` as failed, and was answered in the last pass."""
        failed, failed_score = before
        self.done -= 1
        self.status[failed.status] -= 1
        if failed.error is not None:
            self.failures[failed.error.kind] -= 1
            self.failures += Counter()  # without those that are 0
        if failed_score is not None and self.leaves_out_failed:
            self.left_out -= 1
        elif failed_score is not None and failed_score.value is not None:
            if score is not None and score.value is not None:
                self.score.change(failed_score.value, score.value, cluster)
            score = None
        self.add(record)
        if score is not None:
            self.add_score(record, score, cluster)

    @property
    def scored(self) -> int:
        """Return the number of scored samples; failed ones count as 0 or are left out, as in the final table."""
        return self.score.rows

    @property
    def elapsed(self) -> float:
        return max(1e-9, time.monotonic() - self.started)

    @property
    def rate(self) -> float:
        """Return samples a second in this session."""
        return (self.done - self.before) / self.elapsed

    @property
    def eta_s(self) -> float | None:
        if self.total is None or self.rate <= 0:
            return None
        return max(0, self.total - self.done) / self.rate

    def line(self) -> str:
        """Format the progress as one plain line."""
        of = f"/{self.total:,}" if self.total is not None else ""
        parts = [f"{self.name}: {self.done:,}{of}", f"{self.rate:.1f}/s"]
        if self.groups is not None:
            parts.append(f"{self.groups.ended:,} of {self.groups.known:,} {self.groups.noun} done")
        if self.eta_s is not None and self.done != self.total and self.batches is None:
            parts.append(f"ETA {clock(self.eta_s)}")
        # Where every request failed there is no score; where questions follow from answers it says nothing.
        if self.scored and self.answered and self.groups is None:
            # Earlier answers are not scored again on the way, nor is each of very many, nor a very long one.
            new = f" of {self.scored:,} new" if self.before else ""
            if self.left_out:
                new = f" of {self.scored:,} with a score"
            if self.scored + self.left_out < self.done - self.before:
                new = f" of {self.scored:,} read so far"
            ends = self.score.interval()
            about = "" if ends is None else mark(ends.about)
            parts.append(f"score {self.score.mean:.3f}{bracketed(ends)}{about}{new}")
        failed = sum(count for status, count in self.status.items() if status not in ("ok", "refused"))
        if failed:
            parts.append(f"errors {failed:,} ({', '.join(f'{k} {v}' for k, v in self.failures.most_common(3))})")
        if self.retries:
            parts.append(f"retries {self.retries:,}")
        if self.input_tokens or self.output_tokens:
            parts.append(f"tokens {self.input_tokens + self.output_tokens:,}")
        if self.priced:
            parts.append(f"{'≥ ' if self.cost_is_least else ''}${self.cost:.4f}")
        parts.append(f"in flight {self.active}/{self.limit}" if self.batches is None else self.batches.text())
        if self.waiting_s is not None:
            parts.append(f"waiting {math.ceil(self.waiting_s)} s for {self.waiting_for}")
        elif self.paced_per_s is not None:
            parts.append(f"paced to {self.paced_per_s:.3g}/s by the server's rate limit")
        if self.note:
            parts.append(self.note)
        return " · ".join(parts)

    def event(self) -> dict[str, Any]:
        """Return the progress as a JSON object."""
        return {
            "event": "progress",
            "run": self.name,
            "done": self.done,
            "total": self.total,
            "rate": round(self.rate, 3),
            "eta_s": None if self.eta_s is None else round(self.eta_s, 1),
            **({} if self.groups is None else {"groups": self.groups._asdict()}),
            "score": self.score.mean if self.answered else None,
            "ci95": self.score.interval() if self.answered else None,
            "scored": self.scored,
            "status": dict(self.status),
            "errors": dict(self.failures),
            "retries": self.retries,
            "input_tokens": self.input_tokens,
            "output_tokens": self.output_tokens,
            "cost": self.cost if self.priced else None,
            "active": self.active,
            "limit": self.limit,
            "waiting_s": None if self.waiting_s is None else round(self.waiting_s, 1),
            "waiting_for": self.waiting_for if self.waiting_s is not None else None,
            **({} if self.batches is None else {"batches": self.batches.event()}),
        }


class Display(Protocol):
    """Display of progress; `update` is called a few times a second from the event loop and must be quick."""

    def update(self, progress: Progress) -> None: ...

    def close(self, progress: Progress) -> None: ...


class ProgressCallback:
    """Calls a function with each Progress, the last one included."""

    def __init__(self, call: Callable[[Progress], None]) -> None:
        self._call = call

    def update(self, progress: Progress) -> None:
        self._call(progress)

    def close(self, progress: Progress) -> None:
        self._call(progress)


class Silent:
    """Display that shows nothing."""

    def update(self, progress: Progress) -> None: ...

    def close(self, progress: Progress) -> None: ...


class Lines:
    """One line every `every_s` seconds, for logs and for `--json` (then a JSON object a line)."""

    def __init__(self, *, every_s: float = 10.0, as_json: bool = False, stream: IO[str] | None = None) -> None:
        self._every_s = every_s
        self._stream = stream or sys.stderr
        self._show: Callable[[Progress], str] = (
            (lambda p: msgspec.json.encode(p.event()).decode()) if as_json else lambda p: one_line(p.line())
        )
        self._last = time.monotonic()

    def update(self, progress: Progress) -> None:
        now = time.monotonic()
        if now - self._last >= self._every_s:
            self._last = now
            print(self._show(progress), file=self._stream, flush=True)

    def close(self, progress: Progress) -> None:
        print(self._show(progress), file=self._stream, flush=True)


class Bar:
    """Live line at the foot of a terminal, drawn by rich."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.live import Live

        self._live = Live(console=Console(stderr=True), refresh_per_second=4, transient=False)

    def update(self, progress: Progress) -> None:
        if not self._live.is_started:  # not before: a run that is refused leaves no bar, and the cursor as it was
            self._live.start()
        self._live.update(self._draw(progress))

    def close(self, progress: Progress) -> None:
        self.update(progress)
        self._live.refresh()
        self._live.stop()

    @staticmethod
    def _draw(progress: Progress) -> Any:
        from rich.console import Group
        from rich.progress_bar import ProgressBar
        from rich.text import Text

        return Group(
            ProgressBar(total=progress.total, completed=progress.done, width=60), Text(one_line(progress.line()))
        )


@contextlib.asynccontextmanager
async def shown(
    progress: Progress, display: Display, refresh: Callable[[], None] = lambda: None
) -> AsyncIterator[None]:
    """Update a display four times a second inside of the context; `refresh` brings the progress up to date before."""

    async def show() -> None:
        while True:
            refresh()
            display.update(progress)
            await asyncio.sleep(0.25)

    screen = asyncio.create_task(show())
    try:
        yield
    finally:
        screen.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await screen


def display(*, as_json: bool = False, quiet: bool = False) -> Display:
    """Choose a display: a bar on a terminal, else lines, JSON lines or nothing as requested."""
    if quiet:
        return Silent()
    if as_json:
        return Lines(as_json=True, every_s=2.0)
    return Bar() if sys.stderr.isatty() else Lines()


def clock(seconds: float) -> str:
    """Format seconds as h:mm:ss."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}"


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
