"""View models of the acuity card: its head with the wall chart, its lines with their panels, and the table of many runs."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, floor, log10, sqrt
from typing import TypeVar

import msgspec
from msgspec import Struct

from snellen.benchmarks.acuity.attribute import Attribute
from snellen.benchmarks.acuity.comparison import plan_notes
from snellen.benchmarks.acuity.details import number as number_text
from snellen.benchmarks.acuity.metrics import ConditionResult
from snellen.benchmarks.acuity.prescription import EffectivePixels, PrescriptionLine
from snellen.benchmarks.acuity.processors import PictureSize
from snellen.reports.acuity.card import GALLERY, AnswerLinks, CardLane, CardLine, CardRun, card_lines
from snellen.reports.acuity.view import (
    AcuityView,
    LetterCounts,
    MeasuredCondition,
    PublishedFinding,
    axis_text,
    curve_band,
    false_alarms,
    interval_text,
    level_number,
    people_value,
    pooled_answers,
    published_findings,
    shares_at,
    state_counts,
    threshold_text,
    unit_text,
)
from snellen.reports.acuity.wall_chart import WallChart, wall_chart
from snellen.reports.plots.base import Series
from snellen.reports.views import RunView
from snellen.text import slug

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


WIDTH, HEIGHT = 480.0, 300.0
LEFT, RIGHT, TOP, BOTTOM = 44.0, 14.0, 12.0, 44.0
"""Units of the drawing around the axes."""
STATE_TEXTS = {
    "open": "not finished",
    "settled": "interval as narrow as requested",
    "budget": "interval wider than requested",
    "floor": "not seen at any level",
    "ceiling": "seen at every level",
    "task not understood": "task not understood",
}
TICKS = 6
LARGEST_POINT = 9.0


class AxisTick(Struct, frozen=True):
    """A tick of an axis: its place and its text."""

    at: float
    text: str


class CurvePoint(Struct, frozen=True):
    """Pooled answers as a circle, with words for its tooltip."""

    x: float
    y: float
    radius: float
    text: str


class CurveDrawing(Struct, frozen=True):
    """One run's curve: path, band, points, threshold and interval in units of the drawing; None for no threshold."""

    run: str
    colour: int
    line: str
    band: str
    points: tuple[CurvePoint, ...]
    guess: float
    at: tuple[float, float] | None
    ends: tuple[float, float] | None


class LetterBar(Struct, frozen=True):
    """Wrong replies that name one option: count, height of the bar, height without a preference, place of the number."""

    letter: str
    count: int
    x: float
    width: float
    height: float
    expected: float
    count_at: float


class LetterChart(Struct, frozen=True):
    """Wrong replies by option of one run; `text` says whether they prefer an option."""

    run: str
    colour: int
    bars: tuple[LetterBar, ...]
    text: str


class TokenChart(Struct, frozen=True):
    """Mean reasoning tokens by level of one run: a path, its points, and the largest value."""

    run: str
    colour: int
    line: str
    points: tuple[CurvePoint, ...]
    most: str


class CurvePanel(Struct, frozen=True):
    """Everything that belongs to one line of the card."""

    name: str
    line: CardLine
    question: str
    x_ticks: tuple[AxisTick, ...]
    y_ticks: tuple[AxisTick, ...]
    x_label: str
    y_label: str
    curves: tuple[CurveDrawing, ...]
    facts: tuple[tuple[str, tuple[str, ...]], ...]
    letters: tuple[LetterChart, ...]
    tokens: tuple[TokenChart, ...]
    people: str
    published: tuple[PublishedFinding, ...]
    confounds: tuple[str, ...]


def curve_panel(line: CardLine, number: int, wording: int) -> CurvePanel:
    """Build the panel of a line; `number` is its place on the card, from 1, and `wording` the wording of the questions."""
    attribute = line.attribute
    people = people_value(attribute.name)
    pairs = attribute.form == "same-different"
    return CurvePanel(
        f"acuity-{slug(line.label.replace('+', '-plus').replace('@', '-')) or number}",
        line,
        attribute.questions[wording - 1],
        x_ticks(attribute),
        tuple(AxisTick(_y(share), f"{100 * share:.0f}{' %' * (share == 1.0)}") for share in (0, 0.25, 0.5, 0.75, 1.0)),
        f"{axis_text(attribute.unit)}, easier to the right",
        "replies “different”" if pairs else "right answers",
        tuple(_drawing(lane) for lane in line.lanes),
        _facts(line.lanes),
        tuple(filter(None, (_letters(lane) for lane in line.lanes))),
        tuple(filter(None, (_tokens(lane) for lane in line.lanes))),
        "" if people is None else f"{people.text} ({people.source}{'; textbook value' * (people.basis == 'textbook')})",
        tuple(published_findings(attribute.name)),
        attribute.confounds,
    )


def _x(attribute: Attribute, level: float) -> float:
    low, high = attribute.levels[0], attribute.levels[-1]
    share = min(1.02, max(-0.02, (level - low) / (high - low)))
    return round(LEFT + share * (WIDTH - LEFT - RIGHT), 2)


def _y(share: float) -> float:
    return round(TOP + (1.0 - share) * (HEIGHT - TOP - BOTTOM), 2)


def x_ticks(attribute: Attribute) -> tuple[AxisTick, ...]:
    """Return ticks at 1, 2 and 5 times powers of ten within the range, or powers alone if these are too many."""
    low, high = sorted((attribute.easy, attribute.hard))
    for digits in ((1, 2, 5), (1, 3), (1,)):
        values = [
            digit * 10.0**power
            for power in range(floor(log10(low)), ceil(log10(high)) + 1)
            for digit in digits
            if low * 0.999 <= digit * 10.0**power <= high * 1.001
        ]
        if len(values) <= TICKS:
            break
    return tuple(
        AxisTick(_x(attribute, attribute.level(value)), level_number(value, attribute.unit).replace(".0", ""))
        for value in values
    )


def _drawing(lane: CardLane) -> CurveDrawing:
    result = lane.measured.result
    attribute = result.condition.attribute
    band = curve_band(result)
    x = [_x(attribute, float(level)) for level in band.levels]
    upper = [f"{a} {_y(float(b))}" for a, b in zip(x, band.high, strict=True)]
    lower = [f"{a} {_y(float(b))}" for a, b in zip(x, band.low, strict=True)]
    middle = [f"{a} {_y(float(b))}" for a, b in zip(x, band.mean, strict=True)]
    threshold_estimate, at, ends = result.estimate, None, None
    if threshold_estimate.value is not None:
        height = float(shares_at(result.posterior, band.levels[:1] * 0 + threshold_estimate.value)[0])
        at = (_x(attribute, threshold_estimate.value), _y(height))
        ends = (_x(attribute, threshold_estimate.interval[0]), _x(attribute, threshold_estimate.interval[1]))
    alarms = false_alarms(result)
    guess = attribute.guess_rate if alarms is None else alarms[0] / alarms[1]
    return CurveDrawing(
        lane.run,
        lane.colour,
        "M" + "L".join(middle),
        "M" + "L".join(upper + lower[::-1]) + "Z",
        tuple(_points(result)),
        _y(guess),
        at,
        ends,
    )


def _points(result: ConditionResult) -> list[CurvePoint]:
    attribute = result.condition.attribute
    pooled = pooled_answers(result)
    most = max((point.answers for point in pooled), default=1)
    noun = "“different”" if attribute.form == "same-different" else "right"
    return [
        CurvePoint(
            _x(attribute, point.level),
            _y(point.share),
            round(LARGEST_POINT * sqrt(point.answers / max(most, 8)), 2),
            f"{level_number(attribute.value(point.level), attribute.unit)} {unit_text(attribute.unit)}: "
            f"{point.right} of {point.answers} {noun}",
        )
        for point in pooled
    ]


def _facts(lanes: Sequence[CardLane]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Return facts of the fit, each with a text for every run; a fact that no run has is left out."""
    rows = [(name, tuple(row)) for name, row in _panel_rows([lane.measured for lane in lanes]).items()]
    return tuple((name, row) for name, row in rows if any(text != "–" for text in row))


def _panel_rows(measured: Sequence[MeasuredCondition]) -> dict[str, list[str]]:
    rows: dict[str, list[str]] = {}
    for each in measured:
        for name, text in _texts(each.result).items():
            rows.setdefault(name, []).append(text)
    return rows


def _texts(result: ConditionResult) -> dict[str, str]:
    posterior, catch, alarms = result.posterior, result.catch, false_alarms(result)
    graded = alarms is None and "width" in posterior.model.nuisance
    width = posterior.nuisance("width") if graded else ()
    lapse = posterior.nuisance("lapse")
    return {
        "state": STATE_TEXTS[result.estimate.state],
        "questions": f"{result.estimate.asked:,}",
        "from 5 to 95 % seen": f"{number_text(width[1])} [{number_text(width[0])}, {number_text(width[2])}] decades"
        if width
        else "–",
        "slips": f"{number_text(100 * lapse[1])} % [{number_text(100 * lapse[0])}, {number_text(100 * lapse[2])}]",
        "right by guessing": f"{100 * result.condition.attribute.guess_rate:.3g} %" if graded else "–",
        "equal pairs called different": "–" if alarms is None else f"{alarms[0]} of {alarms[1]}",
        "curve fits: p": "–" if result.fit_p is None else f"{result.fit_p:.3f}",
        "answers rise: p": "–" if result.monotone_p is None else f"{result.monotone_p:.3f}",
        "easiest level": f"{catch.right} of {catch.answered} right" if catch.answered else "–",
        "abstentions": f"{100 * result.abstained:.0f} %" if result.abstained else "–",
    }


def _letters(lane: CardLane) -> LetterChart | None:
    counts = lane.measured.letters
    if counts is None or counts.p is None:
        return None
    top = max(*counts.wrong.values(), *counts.expected.values(), 1.0)
    step = (WIDTH - LEFT - RIGHT) / len(counts.wrong)
    bars = tuple(
        LetterBar(
            letter,
            number,
            round(LEFT + step * (place + 0.15), 1),
            round(step * 0.7, 1),
            round(58 * number / top, 1),
            round(58 * counts.expected[letter] / top, 1),
            round(68 - _number_height(58 * number / top, 58 * counts.expected[letter] / top), 1),
        )
        for place, (letter, number) in enumerate(counts.wrong.items())
    )
    return LetterChart(lane.run, lane.colour, bars, letter_text(counts))


def _number_height(bar: float, dashes: float) -> float:
    """Return how high the number stands: above its bar, and above the dashed line if that would cross it."""
    return dashes if bar - 2 < dashes < bar + 14 else bar


def letter_text(counts: LetterCounts) -> str:
    """Say how uneven wrong replies are over the options."""
    total = sum(counts.wrong.values())
    letter, most = max(counts.wrong.items(), key=lambda item: item[1])
    p = counts.p if counts.p is not None else 1.0
    spread = f"{most} of {total} wrong replies are {letter}"
    if p < 0.01:
        return f"{spread}: a bias to this letter (p {'< 0.001' if p < 0.001 else f'= {p:.3f}'}). It does not move the threshold, because letters are balanced."
    return f"{spread}: no bias to a letter is evident (p = {p:.3f})."


def _tokens(lane: CardLane) -> TokenChart | None:
    points = lane.measured.tokens
    if not points:
        return None
    attribute = lane.measured.result.condition.attribute
    most = max(point.tokens for point in points)
    circles = tuple(
        CurvePoint(
            _x(attribute, point.level),
            round(66 - 56 * point.tokens / most, 1),
            2.6,
            f"{level_number(attribute.value(point.level), attribute.unit)} {unit_text(attribute.unit)}: "
            f"{point.tokens:,.0f} tokens in {point.answers} answers",
        )
        for point in points
    )
    path = "M" + "L".join(f"{circle.x} {circle.y}" for circle in circles)
    return TokenChart(lane.run, lane.colour, path, circles, f"{most:,.0f}")
