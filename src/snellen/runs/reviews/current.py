"""Decisions on a run that are about its present verdicts; the others are named with the reason."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from msgspec import structs

from snellen.engine.journal import record_name
from snellen.runs.reviews.cases import shown_digest
from snellen.runs.reviews.decisions import (
    CaseKey,
    ReviewRules,
    Ruling,
    Standing,
    TrueScore,
    VerdictReview,
    corrected_target,
    read_corrections,
    settle,
    standing,
    true_score,
    with_target,
)
from snellen.runs.reviews.journal import ReviewJournal
from snellen.runs.scoring import rubric_for
from snellen.scoring.scores import score_record
from snellen.types import Record, Sample, Score

if TYPE_CHECKING:
    from snellen.runs.run import Run

SHOWN = 5
OWN_DIGEST = re.compile(r"blake2b:[0-9a-f]{32}")


@dataclass
class ReviewTally:
    """Counts of the decisions on a run.

    Attributes:
        decisions: reviewers' last decisions.
        stale: decisions that do not count, each with its reason.
        ties: replies on which reviewers are divided evenly.
        uncorrected: replies with a wrong gold answer that could not be scored by another one, each with the reason.
        unknown: replies whose partial verdict is wrong by an unknown amount.
        effects: replies by the effect of their review.
    """

    decisions: int = 0
    stale: list[str] = field(default_factory=list)
    ties: list[str] = field(default_factory=list)
    uncorrected: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    effects: dict[str, int] = field(default_factory=dict)

    def notes(self) -> list[str]:
        """List what a reader must know, one line each."""
        lines = []
        divided = "undecided, as all decisions about {} divide the reviewers evenly; an adjudication settles {}"
        for listed, one_line, several_lines in (
            (self.stale, "decision does not count", "decisions do not count"),
            (self.ties, f"reply is {divided.format('it', 'it')}", f"replies are {divided.format('them', 'them')}"),
            (
                self.uncorrected,
                "reply with a wrong gold answer is left out, without a usable correction",
                "replies with a wrong gold answer are left out, without a usable correction",
            ),
            (
                self.unknown,
                "partial verdict is wrong by an unknown amount",
                "partial verdicts are wrong by an unknown amount",
            ),
        ):
            texts = list(dict.fromkeys(listed))
            if texts:
                more = f"; {len(texts) - SHOWN:,} more" if len(texts) > SHOWN else ""
                noun = one_line if len(texts) == 1 else several_lines
                lines.append(f"{len(texts):,} {noun}: {'; '.join(texts[:SHOWN])}{more}")
        return lines


class CurrentReviews:
    """The decisions on a run, matched with its replies one after another.

    Attributes:
        of: the profile whose verdicts were reviewed.
        tally: counts, complete once every reply was met and `finish` was called.
    """

    def __init__(self, run: Run, of: str, rules: ReviewRules, verdicts: Mapping[str, str] | None) -> None:
        self.of, self.rules, self.tally = of, rules, ReviewTally()
        journal = ReviewJournal(run.path)
        self.faults = journal.faults()
        self.any = bool(journal.standing)
        self.any_audit = any(review.design == "audit" for review in journal.reviews)
        self._all = journal.standing
        self._audit = standing(review for review in journal.reviews if review.design == "audit")
        self._benchmark, self._scorer = run.benchmark, run.benchmark.score[of]
        self._verdicts = verdicts
        self._corrections = {} if rules.gold is None else read_corrections(rules.gold)
        self._met: set[CaseKey] = set()
        self.tally.decisions = sum(len(reviewers) for reviewers in self._all.values())

    def rulings(self, sample: Sample, record: Record, score: Score) -> tuple[Ruling | None, Ruling | None]:
        """Return what the reviewers settle about a reply, and what those of the audit do.

        Args:
            score: its automatic score, whose verdict was reviewed.
        """
        key = (sample.id, record.repeat)
        latest, audited = self._all.get(key, {}), self._audit.get(key, {})
        if not latest and not audited:
            return None, None
        self._met.add(key)
        reviews = {id(review): review for review in (*latest.values(), *audited.values())}
        current = {at for at, review in reviews.items() if self._is_current(review, sample, record, score)}
        ruling = settle({name: review for name, review in latest.items() if id(review) in current})
        audit_ruling = settle({name: review for name, review in audited.items() if id(review) in current})
        if ruling is not None and ruling.decision is None:
            self.tally.ties.append(record_name(*key))
        return ruling, audit_ruling

    def _is_current(self, review: VerdictReview, sample: Sample, record: Record, score: Score) -> bool:
        reason = ""
        if review.profile and review.profile != self.of:
            reason = f"about the verdict of {review.profile}, not of {self.of} (--of {review.profile})"
        elif OWN_DIGEST.fullmatch(review.digest) and review.digest not in self._digests(sample, record):
            reason = "about another question or reply: their digest has changed"
        elif review.verdict and review.verdict != score.verdict:
            reason = f"about the verdict {review.verdict}, which is {score.verdict} now"
        if reason:
            self.tally.stale.append(f"{record_name(*review.key)} by {review.reviewer} is {reason}")
        return not reason

    def _digests(self, sample: Sample, record: Record) -> tuple[str, ...]:
        judge = "" if self._verdicts is None else self._verdicts.get(record_name(sample.id, record.repeat), "")
        return tuple(shown_digest(sample, record, text) for text in dict.fromkeys(("", judge)))

    def score(self, sample: Sample, record: Record, score: Score, ruling: Ruling | None) -> TrueScore:
        """Return the score of a reply after its review."""

        def rescored(correction: str) -> Score | None:
            text = self._corrections.get(sample.id, correction)
            name = record_name(sample.id, record.repeat)
            if not text:
                self.tally.uncorrected.append(f"{name} (nobody named the right answer)")
                return None
            if rubric_for(self._benchmark, sample, record) is not None:
                self.tally.uncorrected.append(f"{name} (a judge decides it)")
                return None
            restricted = self._benchmark.restricted
            try:
                again = score_record(with_target(sample, corrected_target(sample, text)), record, self._scorer)
            except ValueError as error:
                self.tally.uncorrected.append(f"{name} ({'no answer to its question' if restricted else error})")
                return None
            return structs.replace(again, reason=None) if restricted else again

        return true_score(score, ruling, self.rules, rescored)

    def count(self, name: str, true: TrueScore) -> None:
        """Count the effect of a review."""
        self.tally.effects[true.effect] = self.tally.effects.get(true.effect, 0) + 1
        if true.effect == "unknown":
            self.tally.unknown.append(name)

    def finish(self) -> None:
        """Name the decisions on replies that the run does not have, once every reply was met."""
        beyond: Standing = {key: reviewers for key, reviewers in self._all.items() if key not in self._met}
        for key, reviewers in beyond.items():
            for name in reviewers:
                self.tally.stale.append(f"{record_name(*key)} by {name} is about no reply of the run")
