"""View of the agreement of reviewers: who decided how much, coefficients with intervals, and confusion of each two."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from snellen.errors import SnellenError
from snellen.reports.tables import format_percent
from snellen.runs.reviews.agreement import ReviewerPair, review_agreement
from snellen.runs.reviews.decisions import DECISIONS, VerdictReview, settled, standing
from snellen.scoring.statistics.agreement import Coefficient
from snellen.viewer.index import RunEntry
from snellen.viewer.reviews.desk import ReviewDesk


def agreement_view(desk: ReviewDesk, entries: Sequence[RunEntry]) -> dict[str, Any]:
    """Return the variables of the agreement page over the decisions on some runs; runs are not named."""
    journals: dict[str, list[VerdictReview]] = {}
    problems: list[str] = []
    for entry in entries:
        problems += desk.faults(entry, 5)
        with suppress(SnellenError):  # named by `faults`
            journals[entry.key] = list(desk.journal(entry.path).reviews)
    agreement = review_agreement(journals)
    counted = Counter(
        str(review.decision)
        for reviews in journals.values()
        for reviewers in standing(reviews).values()
        if (review := settled(reviewers)) is not None
    )
    audit = desk.audited(entries)
    audited = {
        name: sum(
            any(
                review.design == "audit" and review.reviewer == name
                for review in desk.journal_of(_path(entries, case.place.run)).standing.get(case.key, {}).values()
            )
            for case in audit.cases
        )
        for name in agreement.decided
    }
    return {
        "reviewer_rows": [(name, count, audited[name]) for name, count in agreement.decided.items()],
        "audit_size": len(audit.cases),
        "counts": [(word, counted[word]) for word in DECISIONS if word in counted],
        "alpha": coefficient_cell(agreement.alpha),
        "pairs": [_pair(pair) for pair in agreement.pairs],
        "disputed": len(agreement.disputed),
        "adjudicated": agreement.adjudicated,
        "problems": problems,
    }


def _path(entries: Sequence[RunEntry], key: str) -> Any:
    return next(entry.path for entry in entries if entry.key == key)


def coefficient_cell(coefficient: Coefficient) -> dict[str, Any]:
    """Return a coefficient as texts, with its marks on a track from -1 to 1, in percent of the track."""
    if coefficient.value is None or coefficient.observed is None:
        why = "all decisions are the same" if coefficient.units else "no reply was decided by two reviewers"
        return {
            "name": coefficient.name,
            "text": "–",
            "interval": "",
            "why": why,
            "units": coefficient.units,
            "at": None,
        }
    low, high = coefficient.ci95 or (None, None)
    return {
        "name": coefficient.name,
        "text": f"{coefficient.value:.2f}",
        "interval": "" if low is None or high is None else f"{low:.2f} – {high:.2f}",
        "method": "" if coefficient.ci95 is None else coefficient.ci95.about.text,
        "why": "",
        "units": coefficient.units,
        "observed": format_percent(coefficient.observed),
        "at": round(50 * (coefficient.value + 1), 2),
        "low": None if low is None else round(50 * (low + 1), 2),
        "high": None if high is None else round(50 * (high + 1), 2),
        "chance": 50,
    }


def _pair(pair: ReviewerPair) -> dict[str, Any]:
    words = [word for word in DECISIONS if any(word in both for both in pair.decisions)]
    return {
        "reviewers": pair.reviewers,
        "kappa": coefficient_cell(pair.kappa),
        "words": words,
        "rows": [(row, [pair.decisions.get((row, column), 0) for column in words]) for row in words],
    }
