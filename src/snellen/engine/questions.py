"""The loop's questions and their layers: what is asked, what comes of it, and the feeds that questions come from.

A layer is a function from one `Ask` to another: `cached(budgeted(answering(paced model)))`. A layer that has nothing to do
is left out, so that it costs nothing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import NamedTuple, Protocol, TypeAlias

from snellen.engine.progress import GroupProgress
from snellen.engine.resume import Key, Work, key
from snellen.errors import ModelError
from snellen.models.base import Model
from snellen.types import Prompt, Record, Response, Sample, Score


class Question(NamedTuple):
    """One sample to be asked, for the first or a further time.

    Attributes:
        failure: its record, where it failed for a reason that may pass and is asked once more at the end.
        sent: requests that were made for it earlier; they are counted in its record.
        empty: replies to it that said nothing, so that it is asked once more.
    """

    sample: Sample
    repeat: int
    failure: Record | None = None
    sent: int = 0
    empty: int = 0


class Outcome(NamedTuple):
    """A sample's record, and what the run has to know beside it.

    Attributes:
        error: the error behind a record without an answer.
        silent: the server answered nobody until patience ran out.
        cache_key: the name under which the answer is kept for other runs; empty: it is not kept.
    """

    record: Record
    error: ModelError | None = None
    silent: bool = False
    cache_key: str = ""


Ask: TypeAlias = Callable[[Question], Awaitable[Outcome | None]]
"""Return the outcome of a question; None if the run is to end and the question was never sent."""


class Observer(Protocol):
    """Somebody who is told of each request and each record of a run, while it goes on. Its methods raise nothing."""

    def begin(self, model: Model) -> None:
        """Take note that the first question is about to be asked."""

    def requested(
        self, question: Question, prompt: Prompt, began_s: float, response: Response | None, error: BaseException | None
    ) -> None:
        """Take note of a request that was answered or failed; `began_s` is seconds since the epoch."""

    def recorded(self, sample: Sample, record: Record, score: Score | None) -> None:
        """Take note of a sample's record, and of its score under the first profile, where it is known by now."""


class Feed:
    """The questions of a run in the order in which they are asked: its pending samples. No question depends on an answer.

    Args:
        work: the samples.
        failures: their records, where they failed before.
    """

    def __init__(self, work: Work, failures: Mapping[Key, Record] | None = None) -> None:
        self._work, self._failures = work, failures

    async def take(self) -> Question | None:
        """Return the next question; None if there is none and none will come."""
        for sample, repeat in self._work:
            if self._failures is None:
                return Question(sample, repeat)
            failure = self._failures[key(sample.id, repeat)]
            return Question(sample, repeat, failure, failure.attempts)
        return None

    def settle(self, sample: Sample, record: Record) -> None:
        """Take note of a question's record, be it an answer or a failure."""

    def close(self) -> None:
        """Let all that wait for a question end."""

    def holds_more(self) -> bool:
        """Return True if a question is left that nobody has taken."""
        return next(self._work, None) is not None

    def groups(self) -> GroupProgress | None:
        """Return how many groups of questions have ended; None where all questions are known."""
        return None
