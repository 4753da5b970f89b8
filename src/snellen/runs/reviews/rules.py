"""What reviewers settle about a reply, and what its score becomes by the user's rules."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

from msgspec import Struct, structs

from snellen.errors import DataError, UsageError
from snellen.formats.base import Problems
from snellen.formats.columns import id_of, text_of
from snellen.formats.readers import table_rows
from snellen.runs.reviews.decisions import DecisionWord, VerdictReview
from snellen.types import Sample, Score

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
        score: the automatic score.
        ruling: what the reviewers settled; None: there is no review.
        rules: the user's rules.
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
