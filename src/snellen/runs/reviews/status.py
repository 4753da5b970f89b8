"""State of the review of a run: how much is decided, by whom, how the reviewers agree without sight of each other's decisions, and what is damaged."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from snellen.runs.reviews.audit_sample import AuditSample, describe, read_audit_sample
from snellen.runs.reviews.decisions import CaseKey, Standing, VerdictReview, disputed, settled, standing
from snellen.runs.reviews.journal import ReviewJournal
from snellen.scoring.statistics.agreement import Coefficient, cohen_kappa, krippendorff_alpha, label_pairs


class ReviewerPair(Struct, frozen=True):
    """Two reviewers: Cohen's kappa, and how often each pair of their decisions came about."""

    reviewers: tuple[str, str]
    kappa: Coefficient
    decisions: Mapping[tuple[str, str], int]


class ReviewAgreement(Struct, frozen=True):
    """Agreement of all reviewers of a run, or of several runs.

    Attributes:
        decided: how many replies each reviewer decided.
        alpha: Krippendorff's, over all reviewers.
        pairs: each two reviewers who decided about a common reply.
        disputed: replies about which reviewers disagree and nobody has adjudicated.
        adjudicated: replies with an adjudication.
        counts: how often each decision counts, over settled replies.
    """

    decided: Mapping[str, int]
    alpha: Coefficient
    pairs: tuple[ReviewerPair, ...]
    disputed: tuple[tuple[str, CaseKey], ...]
    adjudicated: int
    counts: Mapping[str, int]


def independent(reviews: Iterable[VerdictReview]) -> Standing:
    """Return the decisions that stand among those taken without sight of others': adjudications are left out."""
    return standing(review for review in reviews if not review.adjudicates)


def review_agreement(journals: Mapping[str, Iterable[VerdictReview]]) -> ReviewAgreement:
    """Compute the agreement of reviewers over the decisions of one or more runs, by the runs' names."""
    units: list[dict[str, str]] = []
    open_disputes: list[tuple[str, CaseKey]] = []
    adjudicated, counts = 0, Counter[str]()
    for run, lines in journals.items():
        reviews = list(lines)
        units += [_labels(reviewers) for reviewers in independent(reviews).values()]
        for key, reviewers in standing(reviews).items():
            if any(review.adjudicates for review in reviewers.values()):
                adjudicated += 1
            elif disputed(reviewers):
                open_disputes.append((run, key))
            if (review := settled(reviewers)) is not None:
                counts[str(review.decision)] += 1
    return agreement_of(units, open_disputes, adjudicated, counts)


def agreement_of(
    units: Sequence[Mapping[str, str]],
    open_disputes: Iterable[tuple[str, CaseKey]],
    adjudicated: int,
    counts: Mapping[str, int],
) -> ReviewAgreement:
    """Compute the agreement from each case's labels by reviewer."""
    decided = Counter(name for unit in units for name in unit)
    pairs = tuple(
        ReviewerPair(names, cohen_kappa(*zip(*both, strict=True)), Counter(both))
        for names, both in label_pairs(units).items()
    )
    return ReviewAgreement(
        dict(sorted(decided.items())),
        krippendorff_alpha(units),
        tuple(pairs),
        tuple(open_disputes),
        adjudicated,
        counts,
    )


def _labels(reviewers: Mapping[str, VerdictReview]) -> dict[str, str]:
    """Return each reviewer's decision, all about one verdict: reviewers may have seen those of two profiles."""
    verdict = next((review.verdict for review in reviewers.values() if review.reply_is_correct is not None), "")
    labels = {}
    for name, review in reviewers.items():
        correct = review.reply_is_correct
        agrees = "right" if correct == (verdict == "correct") else "wrong"
        labels[name] = str(review.decision) if correct is None else agrees
    return labels


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
