"""State of the review of a run: how much is decided, by whom, how the reviewers agree, and what is damaged."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from snellen.runs.reviews.agreement import ReviewAgreement, independent, review_agreement
from snellen.runs.reviews.audit_sample import AuditSample, describe, read_audit_sample
from snellen.runs.reviews.decisions import settled
from snellen.runs.reviews.journal import ReviewJournal


class AuditProgress(Struct, frozen=True):
    """How far the audit sample of a run is reviewed.

    Attributes:
        text: the sample in words.
        size: its cases.
        by_reviewer: cases that each reviewer decided.
        decided: cases with a decision of somebody.
        settled: cases with a decision that counts: nobody disagrees, or somebody adjudicated.
    """

    text: str
    size: int
    by_reviewer: Mapping[str, int]
    decided: int
    settled: int


class ReviewStatus(Struct, frozen=True):
    """State of the review of one run.

    Attributes:
        run: its folder.
        lines: decisions in the journal, those that were superseded or withdrawn among them.
        cases: replies with a decision that stands.
        decisions: how often each decision counts, over settled replies.
        agreement: of the reviewers.
        audit: None without an audit sample.
        faults: damage of the journal, one line each.
    """

    run: str
    lines: int
    cases: int
    decisions: Mapping[str, int]
    agreement: ReviewAgreement
    audit: AuditProgress | None
    faults: tuple[str, ...]


def review_status(run: Path) -> ReviewStatus:
    """Read the state of a review from reviews.jsonl and audit_sample.json; the samples are not needed.

    Raises:
        RunError: one of the two cannot be read.
    """
    journal = ReviewJournal(run)
    agreement = review_agreement({str(run): journal.reviews})
    sample = read_audit_sample(run)
    return ReviewStatus(
        str(run),
        len(journal.reviews),
        len(journal.standing),
        dict(agreement.counts),
        agreement,
        None if sample is None else audit_progress(sample, journal),
        tuple(journal.faults()),
    )


def audit_progress(sample: AuditSample, journal: ReviewJournal) -> AuditProgress:
    """Count the decisions about the cases of an audit sample; those made outside of the audit do not count."""
    cases = sample.probabilities()
    own = {key: reviewers for key, reviewers in independent(journal.reviews).items() if key in cases}
    by_reviewer = Counter(
        name for reviewers in own.values() for name, review in reviewers.items() if review.design == "audit"
    )
    decided = [
        key for key in cases if any(review.design == "audit" for review in journal.standing.get(key, {}).values())
    ]
    return AuditProgress(
        describe(sample),
        len(cases),
        dict(sorted(by_reviewer.items())),
        len(decided),
        sum(settled(journal.standing[key]) is not None for key in decided),
    )
