"""The labels of a run as a report shows them: counts, agreement, and what a reader must know."""

from __future__ import annotations

from collections.abc import Sequence

from snellen.reports.views import LabelsView
from snellen.runs.failures.labels import NAME, LabelledAnswer, agreements, counts, is_current, saved, whose_decisions
from snellen.runs.failures.rules import UNKNOWN
from snellen.runs.run import Run
from snellen.scoring.statistics.agreement import Agreement


def view(labelled: Sequence[LabelledAnswer], notes: Sequence[str] = ()) -> LabelsView:
    """The labels of one run, counted."""
    lines = [agreement_line(one) for one in agreements(labelled)]
    added = sum(one.rule == UNKNOWN and one.judge not in (None, UNKNOWN) for one in labelled)
    if added:
        lines.append(f"No rule covers {added:,} of the answers that the judge has labelled.")
    review = sum(bool(one.review) for one in labelled)
    return LabelsView(len(labelled), counts(labelled), review, [*notes, *lines])


def saved_view(run: Run) -> LabelsView | None:
    """The labels that `snellen failures` left in the run's folder; None where it was not called.

    Raises:
        RunError: the file is damaged.
    """
    found = saved(run)
    if found is None:
        return None
    old = (
        []
        if is_current(run)
        else [f"{NAME} is older than the last answer or verdict: snellen failures {run.path.name}"]
    )
    foreign = whose_decisions(run, found)
    return view(found, [*old, *([foreign] if foreign else [])])


def agreement_line(one: Agreement) -> str:
    """`rule and judge agree on 9 of 12 (75.0 %), kappa 0.62`."""
    left, right = one.reviewers
    same = round((one.observed or 0.0) * one.n)
    share = "" if one.observed is None else f" ({100 * one.observed:.1f} %)"
    kappa = "not defined" if one.kappa is None else f"{one.kappa:.2f}"
    return f"{left} and {right} agree on {same:,} of {one.n:,}{share}, kappa {kappa}"
