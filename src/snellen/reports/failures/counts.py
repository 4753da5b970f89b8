"""Failure labels of a run for a report: counts, agreement and notes."""

from __future__ import annotations

from collections.abc import Sequence

from snellen.reports.views import LabelCounts
from snellen.runs.failures.labels import NAME, LabelledAnswer, agreements, counts, is_current, saved, whose_decisions
from snellen.runs.failures.rules import UNKNOWN
from snellen.runs.run import Run
from snellen.scoring.statistics.agreement import Agreement


def count_labels(labelled: Sequence[LabelledAnswer], notes: Sequence[str] = ()) -> LabelCounts:
    """Count the labels of one run."""
    lines = [agreement_line(agreement) for agreement in agreements(labelled)]
    added = sum(label.rule == UNKNOWN and label.judge not in (None, UNKNOWN) for label in labelled)
    if added:
        lines.append(f"No rule covers {added:,} of the answers labelled by the judge.")
    review = sum(bool(label.review) for label in labelled)
    return LabelCounts(len(labelled), counts(labelled), review, [*notes, *lines])


def load_counts(run: Run) -> LabelCounts | None:
    """Load the label counts that `snellen failures` saved in the run's folder; None if there are none.

    Raises:
        RunError: the file is damaged.
    """
    labels = saved(run)
    if labels is None:
        return None
    old = (
        []
        if is_current(run)
        else [f"{NAME} is older than the last answer or verdict. Update it: snellen failures {run.path.name}"]
    )
    foreign = whose_decisions(run, labels)
    return count_labels(labels, [*old, *([foreign] if foreign else [])])


def agreement_line(agreement: Agreement) -> str:
    """`rule and judge agree on 9 of 12 (75.0 %), kappa 0.62`."""
    first, second = agreement.reviewers
    same = round((agreement.observed or 0.0) * agreement.n)
    share = "" if agreement.observed is None else f" ({100 * agreement.observed:.1f} %)"
    kappa = "not defined" if agreement.kappa is None else f"{agreement.kappa:.2f}"
    return f"{first} and {second} agree on {same:,} of {agreement.n:,}{share}, kappa {kappa}"
