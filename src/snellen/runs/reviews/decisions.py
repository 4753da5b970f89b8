"""Reviewers' decisions about automatic verdicts: one line of reviews.jsonl, and which lines stand."""

from __future__ import annotations

import time
from collections.abc import Hashable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from hashlib import blake2b
from typing import Any, Literal, Protocol, TypeAlias, TypeVar, get_args

import msgspec
from msgspec import Struct

from snellen.errors import DataError, UsageError
from snellen.redaction import redact
from snellen.text import shorten
from snellen.types import VERDICTS

DecisionWord: TypeAlias = Literal["right", "wrong", "gold-wrong", "ambiguous", "unreadable", "cannot-tell"]
DesignWord: TypeAlias = Literal["audit", "queue"]
DECISIONS: tuple[str, ...] = get_args(DecisionWord)
DECISION_TEXTS: Mapping[str, str] = {
    "right": "The verdict is right",
    "wrong": "The verdict is wrong",
    "gold-wrong": "The gold answer is wrong",
    "ambiguous": "The question is ambiguous",
    "unreadable": "The image is unreadable",
    "cannot-tell": "Cannot tell",
}
LONGEST = {"sample_id": 4_000, "reviewer": 80, "note": 2_000, "digest": 200, "profile": 200, "id": 200}
REPEATS = 1 << 31
CaseKey: TypeAlias = tuple[str, int]
"""Sample id and repeat: the reply that a decision is about."""


class VerdictReview(Struct, frozen=True, kw_only=True):
    """One line of reviews.jsonl: a reviewer's decision about the automatic verdict on one reply.

    A later line of the same reviewer about the same reply supersedes an earlier one.

    Attributes:
        sample_id, repeat: the reply.
        reviewer: who decided.
        decision: one of DECISIONS, about the automatic verdict; None withdraws the reviewer's earlier decision.
        at: seconds since the epoch, UTC; an ISO 8601 text is read too.
        design: `audit` for a case of the random sample in audit_sample.json, `queue` otherwise.
        note: the reviewer's remark.
        digest: what was shown (snellen.runs.reviews.cases.shown_digest); empty: not known.
        profile: the scoring profile that made the verdict; empty: the benchmark's first.
        verdict: the automatic verdict that was reviewed; empty: not known.
        id: made where the decision was taken; a line with a known id is not written again.
        correction: the right gold answer, where the decision is `gold-wrong` and the reviewer names one.
        adjudicates: the decision settles a disagreement, and its reviewer saw the decisions of the others.
    """

    sample_id: str
    repeat: int = 0
    reviewer: str
    decision: DecisionWord | None
    at: float | str = 0.0
    design: DesignWord = "queue"
    note: str = ""
    digest: str = ""
    profile: str = ""
    verdict: str = ""
    id: str = ""
    correction: str = ""
    adjudicates: bool = False

    @property
    def key(self) -> CaseKey:
        return (self.sample_id, self.repeat)

    @property
    def reply_is_correct(self) -> bool | None:
        """Return whether the reply is correct by this decision; None if the decision or the verdict does not say.

        The verdicts `correct` and, as not correct, `wrong`, `invalid` and `error` can be right or wrong.
        """
        if self.decision not in ("right", "wrong") or self.verdict not in ("correct", "wrong", "invalid", "error"):
            return None
        return (self.verdict == "correct") == (self.decision == "right")

    @property
    def seconds(self) -> float:
        """Return `at` in seconds since the epoch; 0 for a text that is no ISO 8601 time."""
        if isinstance(self.at, (int, float)):
            return float(self.at)
        try:
            moment = datetime.fromisoformat(self.at)
        except ValueError:
            return 0.0
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def decode_foreign(line: bytes) -> VerdictReview:
    """Decode a line that another program wrote: a null stands for a field that is not there, an id may be a whole number.

    A note or digest that is too long is cut: the decision counts.

    Raises:
        ValueError, RecursionError: the line holds no decision.
    """
    fields = msgspec.json.decode(line, type=dict[str, Any])
    fields = {name: value for name, value in fields.items() if value is not None or name == "decision"}
    if isinstance(fields.get("sample_id"), int) and not isinstance(fields["sample_id"], bool):
        fields["sample_id"] = str(fields["sample_id"])
    if isinstance(reviewer := fields.get("reviewer"), str):
        fields["reviewer"] = reviewer.strip()
    for name in ("note", "digest"):
        if isinstance(text := fields.get(name), str):
            fields[name] = shorten(text, LONGEST[name])
    return msgspec.convert(fields, VerdictReview)


def checked(review: VerdictReview, whence: str = "the decision") -> VerdictReview:
    """Validate a decision before it is written; keys in its note are redacted.

    Raises:
        DataError: a text is empty or too long, or the verdict or the repeat is out of range; the message begins with
            `whence`.
    """
    for name, longest in LONGEST.items():
        if len(getattr(review, name)) > longest:
            raise DataError(f"{whence}: {name} has more than {longest:,} characters", f"Shorten the {name}.")
    if len(review.correction) > LONGEST["note"]:
        raise DataError(f"{whence}: correction has more than {LONGEST['note']:,} characters", "Shorten it.")
    if not review.sample_id:
        raise DataError(f"{whence}: sample_id is empty", "Name the sample that the decision is about.")
    reviewer_name(review.reviewer, whence)
    if not 0 <= review.repeat < REPEATS:
        raise DataError(f"{whence}: repeat is {review.repeat}; expected 0 or more", "Count the repeats from 0.")
    if review.verdict and review.verdict not in VERDICTS:
        raise DataError(
            f"{whence}: verdict is {review.verdict!r}; expected one of {', '.join(VERDICTS)}", "Correct it."
        )
    if review.correction and review.decision != "gold-wrong":
        raise DataError(f"{whence}: a correction needs the decision gold-wrong, not {review.decision}", "Omit it.")
    return msgspec.structs.replace(review, note=redact(review.note), correction=redact(review.correction))


def reviewer_name(text: str, whence: str = "--review") -> str:
    """Return the name of a reviewer. Raises UsageError for one that is empty, too long or not printable."""
    if not text or text != text.strip() or len(text) > LONGEST["reviewer"] or not text.isprintable():
        raise UsageError(
            f"{whence}: the reviewer is {text[:100]!r}; expected a printable name of 1 to {LONGEST['reviewer']} characters",
            "Name the reviewer, for example: ada",
        )
    return text


def decision_id(client: str, review: VerdictReview) -> str:
    """Make the id of a decision from the client's own and from what was decided.

    The same request gives the same id, however often it arrives; another key pressed on the same page gives another.
    """
    parts = (client, review.reviewer, review.sample_id, review.repeat, review.decision, review.note, review.correction)
    return blake2b(msgspec.json.encode(parts), digest_size=12).hexdigest()


class Decision(Protocol):
    """A line of a journal of decisions: whose, about what, and which; None withdraws the reviewer's earlier one."""

    @property
    def key(self) -> Hashable: ...
    @property
    def reviewer(self) -> str: ...
    @property
    def decision(self) -> str | None: ...


D = TypeVar("D", bound=Decision)
Standing: TypeAlias = dict[CaseKey, dict[str, VerdictReview]]
"""The decisions that stand, by reply and reviewer."""


def standing(reviews: Iterable[D]) -> dict[Any, dict[str, D]]:
    """Return the last decision of each reviewer on each case; what was withdrawn is left out."""
    by_case: dict[Any, dict[str, D]] = {}
    for review in reviews:
        stand(by_case, review)
    return by_case


def stand(by_case: dict[Any, dict[str, D]], review: D) -> None:
    """Let one more decision take the place of the reviewer's earlier one, or withdraw that."""
    reviewers = by_case.setdefault(review.key, {})
    reviewers.pop(review.reviewer, None)
    if review.decision is not None:
        reviewers[review.reviewer] = review
    if not reviewers:
        del by_case[review.key]


def last_decision(reviews: Sequence[D], by_case: Mapping[Any, Mapping[str, D]], reviewer: str) -> D | None:
    """Return the reviewer's last decision that stands; None without one."""
    own = (review for review in reversed(reviews) if review.reviewer == reviewer)
    return next((review for review in own if by_case.get(review.key, {}).get(reviewer) is review), None)


def settled(reviewers: Mapping[str, VerdictReview]) -> VerdictReview | None:
    """Return the decision that counts for one reply; None if the reviewers disagree.

    An adjudication counts before all others, the last one first. Reviewers who cannot tell do not dispute a decision.
    """
    adjudications = [review for review in reviewers.values() if review.adjudicates]
    if adjudications:
        return adjudications[-1]
    opinions = [review for review in reviewers.values() if review.decision != "cannot-tell"]
    if not opinions:
        return next(iter(reviewers.values()), None)
    return opinions[-1] if len({_meaning(review) for review in opinions}) == 1 else None


def _meaning(review: VerdictReview) -> object:
    """Return what a decision says of the reply: two reviewers may have seen the verdicts of two profiles."""
    return review.decision if review.reply_is_correct is None else review.reply_is_correct


def disputed(reviewers: Mapping[str, VerdictReview]) -> bool:
    """Return True if reviewers disagree about a reply and nobody has adjudicated."""
    return len(reviewers) > 1 and settled(reviewers) is None


def now() -> float:
    """Return the present time for `at`, to the millisecond."""
    return round(time.time(), 3)
