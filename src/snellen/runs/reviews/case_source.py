"""Cases of the review page, whatever they are: replies of runs, candidates of a benchmark, or questions that people answer.

A source says which cases there are and what is seen of one, and keeps the decisions. The page does the rest: queue, keys, undo.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from snellen.runs.reviews.agreement import ReviewAgreement
from snellen.types import Part


@dataclass(frozen=True)
class ReviewTexts:
    """What the page calls what people do with cases; `columns` are the headings of its list of cases."""

    title: str = "Review"
    doing: str = "Reviewing"
    who: str = "Who reviews in this browser?"
    about: str = (
        "Decisions are kept under this name. Nobody sees the decisions of others on a case before having decided it."
    )
    people: str = "reviewers"
    noun: str = "decision"
    done: str = "decided"
    columns: tuple[str, ...] = ("no.", "question", "answer", "your decision", "state")
    overview: str = ""
    end: str = "End the command with Ctrl-C when the others have decided too"


@dataclass(frozen=True)
class QueuedCase:
    """A case that waits for reviewers; `place` is the source's own name for it, `doubts` why it is in the queue."""

    place: Any
    doubts: tuple[str, ...] = ()


@dataclass(frozen=True)
class ReviewQueue:
    """Cases in the order of a review; `total` is how many there are, queued or not."""

    cases: tuple[QueuedCase, ...]
    total: int
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class DecisionField:
    """A text that goes along with a decision: of one row or more, offered `choices`, folded below a heading or not."""

    name: str
    label: str
    value: str = ""
    rows: int = 1
    longest: int = 2_000
    key: str = ""
    choices: tuple[str, ...] = ()
    folded: str = ""


@dataclass(frozen=True)
class SeenDecision:
    """Another reviewer's decision where it may be seen, with what it says beside its word."""

    reviewer: str
    word: str
    texts: tuple[tuple[str, str], ...] = ()
    note: str = ""


@dataclass(frozen=True)
class ShownCase:
    """What a reviewer sees of a case.

    Attributes:
        ask: the question that the decision answers.
        blind: a sentence on what is hidden.
        view: variables of the source's template.
        parts: the question, where `view` has no `case` with it.
        frames: how many frames of a video are shown.
        words: the decisions on this case, where the source has none for all; the key of the last one is 0.
        enter: Enter in a field takes the first decision.
        hidden: fields that the form sends back unchanged.
        mine: the reviewer's own decision; empty: none, or it does not count here.
        stale: the case has changed since.
        others: decisions of others, where they may be seen.
    """

    ask: str
    fields: tuple[DecisionField, ...]
    blind: str
    view: Mapping[str, Any]
    parts: tuple[Part, ...] = ()
    frames: int | None = None
    words: Mapping[str, str] = field(default_factory=dict)
    enter: bool = False
    hidden: Mapping[str, str] = field(default_factory=dict)
    mine: str = ""
    stale: bool = False
    others: tuple[SeenDecision, ...] = ()


class CaseSource(Protocol):
    """Cases that are no replies of runs. Reviewers name themselves; threads may call it; a bad address or form is a UsageError.

    A `token` names a `place` in addresses. A decision is on the disk before `decide` returns; one that arrives again from the
    same page (`client_id`) is there once. `last` is the case of the reviewer's last decision that stands, None without one.
    `rows` are the token of a case and a text for each of `texts.columns`; `saved` is a saved text with its media type.

    Attributes:
        about: what is reviewed, in words.
        template: of what is known about a case; empty: nothing is.
        steps: the ways into the review, by the words `queue`, `audit`, `adjudicate` and `agreement`.
        words: decisions, each with the text of its button; empty: each case has its own, which `decide` checks.
        texts: what the page calls all this.
        nouns: what a case is called, one and several.
        kept: where the decisions are written to, in words.
    """

    about: str
    template: str
    steps: Mapping[str, str]
    words: Mapping[str, str]
    texts: ReviewTexts
    nouns: tuple[str, str]
    kept: str

    def place(self, token: str) -> Any: ...
    def token(self, place: Any) -> str: ...
    def queue(self, step: str, reviewer: str) -> ReviewQueue: ...
    def decided(self, step: str, reviewer: str) -> Collection[Any]: ...
    def show(self, place: Any, step: str, reviewer: str) -> ShownCase: ...
    def decide(self, place: Any, step: str, reviewer: str, fields: Mapping[str, str], client_id: str) -> None: ...
    def last(self, reviewer: str) -> Any: ...
    def undo(self, place: Any, reviewer: str, client_id: str) -> None: ...
    def agreement(self, reviewer: str) -> tuple[ReviewAgreement, Mapping[str, Any]]:
        """Return the agreement as this reviewer may see it, and variables of its page: a `note`, and what else is shown."""

    def rows(self, reviewer: str) -> Sequence[tuple[str, ...]]: ...
    def saved(self, name: str) -> tuple[bytes, str]: ...
