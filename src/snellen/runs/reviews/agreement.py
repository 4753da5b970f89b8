"""Agreement of a run's reviewers, over decisions that were taken without sight of each other's."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from snellen.runs.reviews.decisions import CaseKey, Standing, VerdictReview, disputed, settled, standing
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
