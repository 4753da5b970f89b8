"""Reviewers' decisions about automatic verdicts: one line of reviews.jsonl, which lines stand, and what a score becomes by the user's rules."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from hashlib import blake2b
from pathlib import Path
from typing import Any, Literal, Protocol, TypeAlias, TypeVar, get_args

import msgspec
from msgspec import Struct, structs

from snellen.errors import DataError, UsageError
from snellen.formats.base import Problems
from snellen.formats.columns import id_of, text_of
from snellen.formats.readers import table_rows
from snellen.redaction import redact
from snellen.text import shorten
from snellen.types import VERDICTS, Sample, Score

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


WrongGold: TypeAlias = Literal["omit", "correct", "keep"]
Unclear: TypeAlias = Literal["omit", "keep", "wrong"]
Effect: TypeAlias = Literal["undecided", "confirmed", "overturned", "corrected", "omitted", "unknown"]
UNCLEAR = ("ambiguous", "unreadable")
IDS, GOLDS = ("sample_id", "id", "question_id"), ("gold", "target", "answer", "correction")
YES, NO = ("yes", "true", "t", "y", "1"), ("no", "false", "f", "n", "0")


class ReviewRules(Struct, frozen=True):
    """How decisions become scores.

    Attributes:
        of: the profile whose verdicts were reviewed; None: the benchmark's first.
        wrong_gold: samples with a wrong gold answer: left out, scored again by the corrected answer, or scored as they are.
        ambiguous: ambiguous questions and unreadable images: left out, scored as they are, or counted as wrong.
        gold: a file of corrected gold answers.
    """

    of: str | None = None
    wrong_gold: WrongGold = "omit"
    ambiguous: Unclear = "omit"
    gold: Path | None = None


def review_rules(of: str | None, wrong_gold: str, ambiguous: str, gold: Path | None) -> ReviewRules:
    """Build the rules from a user's words. Raises UsageError for a word that is not known."""
    for option, word, words in (("--wrong-gold", wrong_gold, WrongGold), ("--ambiguous", ambiguous, Unclear)):
        if word not in get_args(words):
            raise UsageError(f"{option} {word}: expected {', '.join(get_args(words))}", f"See {option} in --help.")
    if gold is not None and wrong_gold == "keep":
        raise UsageError("--gold corrects answers, and --wrong-gold keep does not use it", "Omit one of them.")
    chosen: WrongGold = "correct" if gold is not None else wrong_gold  # type: ignore[assignment]
    return ReviewRules(of, chosen, ambiguous, gold)  # type: ignore[arg-type]


class Ruling(Struct, frozen=True):
    """What several reviewers settle about one reply.

    Attributes:
        decision: the decision; None for a tie.
        reviewers: whose decisions there are.
        correction: the right gold answer that a reviewer named; empty: none.
        adjudicated: an adjudication decided it, and `split` tells that reviewers differed.
    """

    decision: DecisionWord | None
    reviewers: tuple[str, ...]
    correction: str = ""
    adjudicated: bool = False
    split: bool = False


def settle(reviews: Mapping[str, VerdictReview]) -> Ruling | None:
    """Settle the current decisions of all reviewers on one reply; None without any.

    The last adjudication counts before all others, then the majority. Who cannot tell has no vote.
    """
    if not reviews:
        return None
    names = tuple(reviews)
    votes = Counter(review.decision for review in reviews.values() if review.decision != "cannot-tell")
    adjudications = [review for review in reviews.values() if review.adjudicates]
    if adjudications:
        last = adjudications[-1]
        return Ruling(last.decision, names, last.correction, adjudicated=True, split=len(votes) > 1)
    if not votes:
        return Ruling("cannot-tell", names)
    (first, count), *others = votes.most_common()
    tie = bool(others) and others[0][1] == count
    corrections = [review.correction for review in reviews.values() if review.correction]
    return Ruling(None if tie else first, names, corrections[-1] if corrections else "", split=bool(others))


class TrueScore(Struct, frozen=True):
    """Score of a reply after its review, and the effect of the review on it."""

    score: Score
    effect: Effect


def true_score(
    score: Score,
    ruling: Ruling | None,
    rules: ReviewRules,
    rescored: Callable[[str], Score | None],
) -> TrueScore:
    """Return the score of a reply after its review.

    Args:
        ruling: what the reviewers settled; None: there is no review.
        rescored: the score by another gold answer; None if there is no such score.
    """
    decision = None if ruling is None else ruling.decision
    if ruling is None or decision is None or decision == "cannot-tell":
        return TrueScore(score, "undecided")
    if decision == "right":
        return TrueScore(score, "confirmed")
    by = ", ".join(ruling.reviewers)
    if decision == "wrong":
        if score.verdict == "correct":
            return TrueScore(
                structs.replace(score, value=0.0, verdict="wrong", reason=f"overturned by {by}"), "overturned"
            )
        if score.verdict in ("wrong", "invalid", "error"):
            right = structs.replace(score, value=1.0, verdict="correct", reason=f"overturned by {by}")
            return TrueScore(right, "overturned")
        return TrueScore(
            _unscored(score, f"the verdict {score.verdict} is wrong, and nobody says by how much"), "unknown"
        )
    if decision == "gold-wrong" and rules.wrong_gold == "correct":
        corrected = rescored(ruling.correction)
        if corrected is not None:
            return TrueScore(corrected, "corrected")
    if (rules.wrong_gold if decision == "gold-wrong" else rules.ambiguous) == "keep":
        return TrueScore(score, "confirmed")
    if decision in UNCLEAR and rules.ambiguous == "wrong":
        return TrueScore(structs.replace(score, value=0.0, verdict="wrong", reason=f"{decision}, by {by}"), "corrected")
    return TrueScore(_unscored(score, f"{decision}, by {by}"), "omitted")


def _unscored(score: Score, reason: str) -> Score:
    return Score(None, score.extracted, "unscored", reason)


def corrected_target(sample: Sample, text: str) -> Any:
    """Convert the text of a corrected gold answer to a target of the sample's kind.

    Raises:
        ValueError: the text is no answer to such a question.
    """
    word = text.strip()
    if sample.kind == "truth":
        if word.lower() in YES + NO:
            return word.lower() in YES
        raise ValueError(f"{word!r} is neither yes nor no")
    if sample.kind in ("choice", "choice_text"):
        by_name = {name.casefold(): (name, option) for name, option in sample.options.items()}
        by_name |= {option.casefold(): (name, option) for name, option in sample.options.items()}
        if word.casefold() not in by_name:
            raise ValueError(f"{word!r} is no option; there are {', '.join(sample.options) or 'none'}")
        name, option = by_name[word.casefold()]
        return name if sample.kind == "choice" else option
    if sample.kind == "count":
        return int(word)
    return float(word) if sample.kind == "number" else word


def with_target(sample: Sample, target: Any) -> Sample:
    """Return the sample with another gold answer, without the aliases of the old one."""
    meta = {name: value for name, value in sample.meta.items() if name != "aliases"}
    return structs.replace(sample, target=target, meta=meta)


def read_corrections(path: Path) -> dict[str, str]:
    """Read a file of corrected gold answers: rows of sample_id and gold.

    Raises:
        DataError: the file cannot be read, or no row has an id and an answer.
    """
    corrections: dict[str, str] = {}
    fields: set[str] = set()
    problems = Problems()
    for where, row in table_rows(path, problems):
        fields |= row.keys()
        name = next((row[column] for column in IDS if row.get(column) is not None), None)
        answer = next((row[column] for column in GOLDS if row.get(column) is not None), None)
        try:
            if text := text_of(answer):
                corrections[id_of(name)] = text
        except ValueError as error:
            raise DataError(f"{path}, {where}: {error}", f"Rows need {IDS[0]} and {GOLDS[0]}.") from error
    if not corrections:
        raise DataError(
            f"{path}: no row has an id and a gold answer; its fields are {', '.join(sorted(fields)[:30]) or 'none'}",
            f"Rows need {IDS[0]} and {GOLDS[0]}.",
        )
    return corrections
