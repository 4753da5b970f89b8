"""What a line of the card opens: the drawing of its curves, facts of the fit, replies by option, tokens, confounds."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, floor, log10, sqrt

from msgspec import Struct

from snellen.benchmarks.acuity.attribute import Attribute
from snellen.benchmarks.acuity.details import number as number_text
from snellen.benchmarks.acuity.metrics import ConditionResult
from snellen.reports.acuity.card import CardLane, CardLine
from snellen.reports.acuity.curve import curve_band, false_alarms, pooled_answers, shares_at
from snellen.reports.acuity.view import (
    LetterCounts,
    MeasuredCondition,
    PublishedFinding,
    axis_text,
    level_number,
    people_value,
    published_findings,
    unit_text,
)
from snellen.text import slug

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
    rows = [(name, tuple(row)) for name, row in _rows([lane.measured for lane in lanes]).items()]
    return tuple((name, row) for name, row in rows if any(text != "–" for text in row))


def _rows(measured: Sequence[MeasuredCondition]) -> dict[str, list[str]]:
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
