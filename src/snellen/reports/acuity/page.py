"""View models of the acuity card: its head with the wall chart, its lines with their panels, and the table of many runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import msgspec
from msgspec import Struct

from snellen.benchmarks.acuity.comparison import plan_notes
from snellen.benchmarks.acuity.details import number as number_text
from snellen.benchmarks.acuity.prescription import EffectivePixels, PrescriptionLine
from snellen.benchmarks.acuity.processors import PictureSize
from snellen.reports.acuity.card import GALLERY, AnswerLinks, CardLane, CardRun, card_lines
from snellen.reports.acuity.curve_panel import CurvePanel, curve_panel
from snellen.reports.acuity.view import AcuityView, interval_text, state_counts, threshold_text
from snellen.reports.acuity.wall_chart import WallChart, wall_chart
from snellen.reports.plots.base import Series
from snellen.reports.views import RunView

STATE_NOUNS = {
    "settled": "with an interval as narrow as requested",
    "budget": "with a wider interval",
    "open": "not finished",
    "floor": "not seen at any level",
    "ceiling": "seen at every level",
    "task not understood": "whose task was not understood",
}
FOUND_ON = ("gap", "letter")
"""Attributes that a wall chart shows."""

Row = TypeVar("Row", bound=Struct)


class AcuityHead(Struct, frozen=True):
    """The head of a run.

    Attributes:
        big: the Snellen fraction, else the only threshold, else how many conditions have one.
        lines: what it is of, one line each.
        chart: the wall chart; None without a threshold of gap or letter.
        no_chart: why there is none; empty where there is one.
    """

    big: str
    lines: tuple[str, ...]
    chart: WallChart | None
    no_chart: str


class EffectiveSize(Struct, frozen=True):
    """A threshold in pixels sent, after the model's processor, and in its patches; dashes where not known."""

    name: str
    sent: str
    after: str
    patches: str


class RunAdvice(Struct, frozen=True):
    """What follows from the thresholds of a run: the prescription, sizes of its pictures, effective pixels."""

    run: CardRun
    prescription: tuple[str, ...]
    pictures: tuple[str, ...]
    sizes: tuple[EffectiveSize, ...]


class AcuityCard(Struct, frozen=True):
    """The card of the runs of a page; `notes` say in what the runs differ, beside their models."""

    runs: tuple[CardRun, ...]
    panels: tuple[CurvePanel, ...]
    advice: tuple[RunAdvice, ...]
    notes: tuple[str, ...] = ()

    @property
    def ticks(self) -> bool:
        """Return True if a line has people's value."""
        return any(panel.line.tick is not None for panel in self.panels)


class ThresholdRow(Struct, frozen=True):
    """One condition of the table: a lane for each run, None where it was not measured."""

    name: str
    about: str
    lanes: tuple[CardLane | None, ...]


class ThresholdTable(Struct, frozen=True):
    """Thresholds of many runs: a row a condition, a column a run; `larger` names the rows where larger is better."""

    runs: tuple[CardRun, ...]
    rows: tuple[ThresholdRow, ...]
    larger: tuple[str, ...]
    notes: tuple[str, ...] = ()


def acuity_head(view: AcuityView | None) -> AcuityHead | None:
    """Build the head of a run of acuity; None for other runs, and before the first answer."""
    if view is None or not view.conditions:
        return None
    chart = wall_chart(view)
    counts = state_counts(view)
    measured = sum(each.result.value is not None for each in view.conditions)
    total = len(view.conditions)
    lines = [] if chart is None else [chart.about]
    if chart is None and total > 1:
        lines.append("conditions with a threshold")
    lines.append(f"{total} condition{'s' * (total > 1)}, {view.questions:,} questions")
    lines += [f"{count} {STATE_NOUNS[state]}" for state in STATE_NOUNS if (count := counts[state])]
    big = chart.headline if chart is not None else _headline(view, measured)
    return AcuityHead(big, tuple(lines), chart, "" if chart is not None else _no_chart(view))


def _headline(view: AcuityView, measured: int) -> str:
    """Return the only threshold, or how many conditions have one."""
    if len(view.conditions) == 1:
        return threshold_text(view.conditions[0].result)
    return f"{measured} of {len(view.conditions)}"


def _no_chart(view: AcuityView) -> str:
    """Say why there is no wall chart."""
    tried = [name for name in FOUND_ON if any(each.result.condition.name == name for each in view.conditions)]
    if tried:
        return f"No wall chart: {' and '.join(tried)} {'have' if len(tried) > 1 else 'has'} no threshold."
    return "No wall chart: it is drawn at the threshold of gap or letter, and this run measures neither."


def card_runs(runs: Sequence[RunView], first: Sequence[Series]) -> list[CardRun]:
    """Return the runs of acuity with their colours on the page."""
    return [
        CardRun(run.name, run.acuity, (column.colour - 1) % 8 + 1)
        for run, column in zip(runs, first, strict=True)
        if run.acuity is not None and run.acuity.conditions
    ]


def acuity_card(runs: Sequence[CardRun], links: AnswerLinks = GALLERY) -> AcuityCard | None:
    """Build the card of runs of acuity; None without any."""
    if not runs:
        return None
    wording = runs[0].view.plan.wording
    lines = card_lines(runs, links)
    return AcuityCard(
        tuple(runs),
        tuple(curve_panel(line, number, wording) for number, line in enumerate(lines, 1)),
        tuple(advice for run in runs if (advice := run_advice(run)) is not None),
        _notes(runs),
    )


def threshold_table(runs: Sequence[CardRun], links: AnswerLinks = GALLERY) -> ThresholdTable | None:
    """Build the table of many runs, its rows in the order of the card's lines; None without any."""
    if not runs:
        return None
    rows, lines = [], card_lines(runs, links)
    for line in lines:
        lanes = {lane.run: lane for lane in line.lanes}
        rows.append(ThresholdRow(line.name, line.attribute.about, tuple(lanes.get(run.name) for run in runs)))
    return ThresholdTable(
        tuple(runs), tuple(rows), tuple(line.name for line in lines if line.attribute.sign < 0), _notes(runs)
    )


def _notes(runs: Sequence[CardRun]) -> tuple[str, ...]:
    """Say in what further runs differ from the first, where that moves thresholds."""
    first, *others = runs
    notes = {note: None for run in others for note in plan_notes(first.view.plan, run.view.plan)}
    return tuple(f"{note[:1].upper()}{note[1:]}." for note in notes)


def run_advice(run: CardRun) -> RunAdvice | None:
    """Return what the details of a run advise; None where nothing is known."""
    details = run.view.details
    advice = tuple(line.text for line in _rows(details.get("prescription"), PrescriptionLine))
    sizes = tuple(
        map(_size, (row for row in _rows(details.get("conditions"), EffectivePixels) if row.after is not None))
    )
    pictures = tuple(map(_picture, _rows(details.get("pictures"), PictureSize)))
    return RunAdvice(run, advice, pictures, sizes) if advice or sizes or pictures else None


def _rows(saved: object, kind: type[Row]) -> list[Row]:
    """Read rows of a run's details; none from a file that was changed by hand."""
    try:
        return msgspec.convert(saved or [], list[kind])  # type: ignore[valid-type]
    except msgspec.ValidationError:
        return []


def _size(row: EffectivePixels) -> EffectiveSize:
    def text(value: float | None, ends: tuple[float, float] | None) -> str:
        return "–" if value is None or ends is None else f"{number_text(value)} {interval_text(*ends, 'px')}"

    return EffectiveSize(
        row.condition,
        text(row.sent, row.sent_ci95),
        text(row.after, row.after_ci95),
        text(row.patches, row.patches_ci95),
    )


def _picture(row: PictureSize) -> str:
    if row.after is None:
        return f"Pictures of {row.side:,} px: their size after the model's processor is not known ({row.source})."
    patches = "" if row.patch is None else f", patches of {row.patch} px"
    resized = "" if row.sent == row.side else f", sent at {row.sent:,} px"
    return f"Pictures of {row.side:,} px{resized}: {row.after:,.0f} px after the processor{patches} ({row.source})."
