"""View of the agreement of reviewers: who decided how much, coefficients with intervals, and confusion of each two."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from snellen.reports.tables import format_percent
from snellen.runs.reviews.status import ReviewAgreement, ReviewerPair
from snellen.scoring.statistics.agreement import Coefficient


def agreement_view(agreement: ReviewAgreement, words: Iterable[str]) -> dict[str, Any]:
    """Return the variables of the agreement page."""
    return {
        "reviewer_rows": list(agreement.decided.items()),
        "counts": [(word, agreement.counts[word]) for word in words if word in agreement.counts],
        "alpha": coefficient_cell(agreement.alpha),
        "pairs": [_pair(pair, words) for pair in agreement.pairs],
        "audit_size": 0,
        "nothing": "Nobody has decided anything yet.",
        "problems": (),
    }


def coefficient_cell(coefficient: Coefficient) -> dict[str, Any]:
    """Return a coefficient as texts, with its marks on a track from -1 to 1, in percent of the track."""
    value, observed = coefficient.value, coefficient.observed
    if value is None or observed is None:
        why = "all decisions are the same" if coefficient.units else "nothing was decided by two reviewers"
        return {"name": coefficient.name, "text": "–", "interval": "", "at": None, "why": why}
    low, high = coefficient.ci95 or (None, None)
    return {
        "name": coefficient.name,
        "text": f"{value:.2f}",
        "interval": "" if low is None or high is None else f"{low:.2f} – {high:.2f}",
        "method": "" if coefficient.ci95 is None else coefficient.ci95.about.text,
        "why": "",
        "units": coefficient.units,
        "observed": format_percent(observed),
        **{
            name: None if at is None else round(50 * (at + 1), 2)
            for name, at in zip(("at", "low", "high"), (value, low, high), strict=True)
        },
        "chance": 50,
    }


def _pair(pair: ReviewerPair, decisions: Iterable[str]) -> dict[str, Any]:
    words = [word for word in decisions if any(word in both for both in pair.decisions)]
    return {
        "reviewers": pair.reviewers,
        "kappa": coefficient_cell(pair.kappa),
        "words": words,
        "rows": [(row, [pair.decisions.get((row, column), 0) for column in words]) for row in words],
    }
