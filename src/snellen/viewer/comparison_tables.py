"""Tables of the compare page as text: differences, pairs, common errors, slices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import ceil, floor

from snellen.reports.plots.base import short_label
from snellen.reports.tables import format_percent, track_position
from snellen.runs.ranking import Ranking
from snellen.scoring.metric_text import counted, percent, span
from snellen.scoring.statistics import Comparison
from snellen.viewer.comparison import CommonErrors, ComparedSide, RunComparison, SliceView
from snellen.viewer.labels import model_label

ALPHA = 0.05
SMALLEST_RANGE = 0.05
"""A track of differences reaches at least this far to both sides of 0."""
TONES = 10


@dataclass(frozen=True)
class DifferenceCell:
    """A difference with its interval, in points; places on a track from 0 to 100 whose middle is 0.

    `method` is that of the interval. `sign` is `up` or `down` where the p-value on show is below 5 %, otherwise `flat`.
    """

    text: str
    interval: str
    p: str
    p_adjusted: str
    test: str
    method: str
    sign: str
    at: float
    low: float | None
    high: float | None


@dataclass(frozen=True)
class DifferenceRow:
    """One run against the baseline."""

    letter: str
    colour: int
    model: str
    key: str
    mean: str
    baseline_mean: str
    cell: DifferenceCell
    better: str
    worse: str
    n: str
    detectable: str


@dataclass(frozen=True)
class GridCell:
    """A cell of a square of runs: its text, second line, tone and title; `None` tone: no colour."""

    text: str
    small: str
    tone: int | None
    title: str
    first: str = ""
    second: str = ""
    strong: bool = False


@dataclass(frozen=True)
class RankingRow:
    """One run of the ranking; runs that share a letter of `groups` cannot be told apart."""

    rank: int
    letter: str
    colour: int
    model: str
    score: str
    interval: str
    groups: str


@dataclass(frozen=True)
class SliceRow:
    """One slice: its means, and each other run's difference from the baseline."""

    field: str
    value: str
    n: str
    means: tuple[str, ...]
    cells: tuple[DifferenceCell | None, ...]


@dataclass(frozen=True)
class SliceTable:
    """The slices of one field, as rows and as a chart."""

    field: str
    rows: tuple[SliceRow, ...]
    chart: SlopeChart | None


@dataclass(frozen=True)
class ErrorRow:
    """The errors of two runs, counted."""

    first: str
    second: str
    n: str
    both: str
    expected: str
    only_first: str
    only_second: str
    kappa: str
    interval: str
    phi: str


def format_p(p: float) -> str:
    """Format a p-value: `0.013`, `< 0.001`."""
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def difference_range(comparisons: Sequence[Comparison]) -> float:
    """Return how far the tracks of these differences reach to both sides of 0, 0.05 to 1."""
    ends = [
        abs(end) for each in comparisons for end in (each.difference, *(each.ci95 if each.ci95 is not None else ()))
    ]
    return float(min(1.0, max([SMALLEST_RANGE, *ends])))


def difference_cell(comparison: Comparison, p_adjusted: float, reach: float) -> DifferenceCell:
    """Build the cell of one comparison on a track from -reach to reach."""

    def place(value: float) -> float:
        return track_position((value + reach) / (2 * reach)) or 0.0

    ci95 = comparison.ci95
    sign = "flat" if p_adjusted >= ALPHA else "up" if comparison.difference > 0 else "down"
    return DifferenceCell(
        f"{100 * comparison.difference:+z.1f}",
        span(ci95, "+z.1f", scale=100.0),
        format_p(comparison.p_value),
        format_p(p_adjusted),
        comparison.test,
        "" if comparison.interval is None else comparison.interval.text,
        sign,
        place(comparison.difference),
        None if ci95 is None else place(ci95[0]),
        None if ci95 is None else place(ci95[1]),
    )


def difference_rows(comparison: RunComparison) -> tuple[list[DifferenceRow], float]:
    """Build the table of every run against the baseline, and the reach of its tracks."""
    reach = difference_range([pair.comparison for pair in comparison.pairs])
    rows = []
    for place, pair in enumerate(comparison.pairs, 2):
        result = pair.comparison
        rows.append(
            DifferenceRow(
                pair.other.letter,
                series(place),
                model_label(pair.other.entry.model),
                pair.other.entry.key,
                format_percent(pair.other_mean),
                format_percent(pair.baseline_mean),
                difference_cell(result, pair.p_adjusted, reach),
                f"{result.wins:,}",
                f"{result.losses:,}",
                counted(result.n, result.interval),
                "–" if result.smallest_detectable is None else f"{100 * result.smallest_detectable:.1f}",
            )
        )
    return rows, reach


def series(place: int) -> int:
    """Return the number of a run's colour, from its place from 1; colours repeat after eight."""
    return (place - 1) % 8 + 1


def pair_grid(ranking: Ranking, sides: Sequence[ComparedSide]) -> list[list[GridCell | None]]:
    """Build the square of differences, row minus column, in the order of the sides; None on the diagonal."""
    reach = max([SMALLEST_RANGE, *(abs(pair.difference) for pair in ranking.pairs)])
    known = {}
    for pair in ranking.pairs:
        known[pair.higher, pair.lower] = (pair.difference, pair.ci95, pair)
        flipped = None if pair.ci95 is None else (-pair.ci95[1], -pair.ci95[0])
        known[pair.lower, pair.higher] = (-pair.difference, flipped, pair)
    grid: list[list[GridCell | None]] = []
    for row in sides:
        line: list[GridCell | None] = []
        for column in sides:
            if row is column:
                line.append(None)
                continue
            difference, ci95, pair = known[row.entry.key, column.entry.key]
            line.append(
                GridCell(
                    f"{100 * difference:+z.1f}",
                    f"p {format_p(pair.p_adjusted)}",
                    round(TONES * (difference + reach) / (2 * reach)),
                    f"{row.letter} minus {column.letter}: {100 * difference:+z.1f} points"
                    + (f", interval {span(ci95, '+z.1f', scale=100.0)}" if ci95 is not None else ""),
                    row.entry.key,
                    column.entry.key,
                    pair.p_adjusted < ALPHA,
                )
            )
        grid.append(line)
    return grid


def ranking_rows(ranking: Ranking, sides: Sequence[ComparedSide]) -> list[RankingRow]:
    """Build the lines of a ranking, from the highest mean to the lowest."""
    by_key = {side.entry.key: (place, side) for place, side in enumerate(sides, 1)}
    return [
        RankingRow(
            run.rank,
            by_key[run.run][1].letter,
            series(by_key[run.run][0]),
            model_label(run.model),
            format_percent(run.score),
            span(run.ci95, ".1f", scale=100.0),
            run.groups,
        )
        for run in ranking.runs
    ]


def error_grid(comparison: RunComparison) -> list[list[GridCell | None]]:
    """Build the square of error consistency, in the order of the sides; None on the diagonal."""
    known: dict[tuple[str, str], CommonErrors] = {}
    for errors in comparison.errors:
        known[errors.first.letter, errors.second.letter] = known[errors.second.letter, errors.first.letter] = errors
    return [
        [
            None if row is column else _error_cell(known[row.letter, column.letter], row, column)
            for column in comparison.sides
        ]
        for row in comparison.sides
    ]


def _error_cell(errors: CommonErrors, row: ComparedSide, column: ComparedSide) -> GridCell:
    result = errors.consistency
    title = (
        f"{row.letter} and {column.letter}: both wrong on {result.both_wrong:,} of {result.n:,} samples, "
        f"{result.expected_both_wrong:,.0f} expected if their errors were independent"
    )
    if result.kappa is None:
        return GridCell("–", f"n {result.n:,}", None, title)
    return GridCell(
        f"{result.kappa:+.2f}",
        f"n {result.n:,}",
        round(TONES * (result.kappa + 1.0) / 2.0),
        title,
        row.entry.key,
        column.entry.key,
        result.ci95 is not None and (result.ci95[0] > 0 or result.ci95[1] < 0),
    )


def error_rows(comparison: RunComparison) -> list[ErrorRow]:
    """Build the table of common errors, one row a pair."""
    rows = []
    for errors in comparison.errors:
        result = errors.consistency
        rows.append(
            ErrorRow(
                errors.first.letter,
                errors.second.letter,
                counted(result.n, result.interval),
                f"{result.both_wrong:,}",
                f"{result.expected_both_wrong:,.1f}",
                f"{result.only_first:,}",
                f"{result.only_second:,}",
                "–" if result.kappa is None else f"{result.kappa:+.3f}",
                span(result.ci95, "+.3f"),
                "–" if result.phi is None else f"{result.phi:+.3f}",
            )
        )
    return rows


def slice_tables(comparison: RunComparison) -> list[SliceTable]:
    """Build one table and one chart for each field, with one scale of differences for all."""
    tested = [cell.comparison for part in comparison.slices for cell in part.pairs if cell.comparison is not None]
    reach = difference_range(tested)
    tables = []
    for name in dict.fromkeys(part.field for part in comparison.slices):
        parts = [part for part in comparison.slices if part.field == name]
        labels = [f"{side.letter} {model_label(side.entry.model)}" for side in comparison.sides]
        lines = [SlopeLine(part.value, part.means, _is_clear(part)) for part in parts]
        tables.append(SliceTable(name, tuple(_slice_row(part, reach) for part in parts), slope_chart(labels, lines)))
    return tables


def _is_clear(part: SliceView) -> bool:
    """Return True if the last run, where the chart ends, is told apart from the baseline on this slice."""
    p_adjusted = part.pairs[-1].p_adjusted
    return p_adjusted is not None and p_adjusted < ALPHA


def _slice_row(part: SliceView, reach: float) -> SliceRow:
    return SliceRow(
        part.field,
        part.value,
        f"{part.n:,}",
        tuple("–" if mean is None else f"{percent(mean)} %" for mean in part.means),
        tuple(
            None
            if pair.comparison is None or pair.p_adjusted is None
            else difference_cell(pair.comparison, pair.p_adjusted, reach)
            for pair in part.pairs
        ),
    )


ROW = 15.0
"""Pixels between two labels at least."""
SMALLEST = 220.0
TOP, BOTTOM = 34.0, 12.0
LEFT, RIGHT = 16.0, 56.0
"""Percent of the width where the first and the last run stand; the rest is for ticks and labels."""
STEPS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.25, 0.5)
MOST_TICKS = 6


@dataclass(frozen=True)
class SlopeLine:
    """A slice: its name, its score under each run (None where there is none), and whether the runs are told apart."""

    label: str
    values: tuple[float | None, ...]
    clear: bool = False


@dataclass(frozen=True)
class DrawnLine:
    """A line on the chart: places of its points in percent of the width and in pixels, and its label at the right.

    `direction` is `up` or `down` where the runs are told apart, otherwise `flat`.
    """

    label: str
    points: tuple[tuple[float, float], ...]
    segments: tuple[tuple[float, float, float, float], ...]
    direction: str
    title: str
    right_text: str
    right_y: float


@dataclass(frozen=True)
class SlopeChart:
    """The chart: height in pixels, a place for each run, lines, and ticks of the scale (y, text)."""

    height: float
    places: tuple[tuple[float, str], ...]
    lines: tuple[DrawnLine, ...]
    ticks: tuple[tuple[float, str], ...]
    omitted: int


def slope_chart(names: Sequence[str], lines: Sequence[SlopeLine]) -> SlopeChart | None:
    """Lay a slope chart out; None where fewer than one line has a score under every run.

    Args:
        names: short names of the runs, two or more.
        lines: slices; those without a score under some run are omitted and counted.
    """
    usable = [line for line in lines if all(value is not None for value in line.values)]
    scores = [value for line in usable for value in line.values if value is not None]
    if not scores or len(names) < 2:
        return None
    ticks = scale_ticks(min(scores), max(scores))
    low, high = ticks[0], ticks[-1]
    height = max(SMALLEST, TOP + BOTTOM + ROW * len(usable))
    room = height - TOP - BOTTOM

    def place(value: float) -> float:
        return round(TOP + room * (high - value) / (high - low), 2)

    step = (RIGHT - LEFT) / (len(names) - 1)
    across = [round(LEFT + step * number, 3) for number in range(len(names))]
    right = spread_labels([place(line.values[-1] or 0.0) for line in usable], TOP, height - BOTTOM)
    drawn = []
    for line, right_y in zip(usable, right, strict=True):
        values = [value for value in line.values if value is not None]
        points = tuple((x, place(value)) for x, value in zip(across, values, strict=True))
        texts = [f"{percent(value)} %" for value in values]
        direction = "flat" if not line.clear else "up" if values[-1] > values[0] else "down"
        drawn.append(
            DrawnLine(
                line.label,
                points,
                tuple((*a, *b) for a, b in pairwise(points)),
                direction,
                f"{line.label}: " + ", ".join(f"{name} {text}" for name, text in zip(names, texts, strict=True)),
                f"{percent(values[-1])}  {short_label(line.label, 17)}",
                right_y,
            )
        )
    drawn.sort(key=lambda line: line.direction != "flat")  # the ones that matter are drawn above the others
    return SlopeChart(
        round(height, 1),
        tuple(zip(across, (short_label(name, 18) for name in names), strict=True)),
        tuple(drawn),
        tuple((place(tick), f"{100 * tick:g} %") for tick in ticks),
        len(lines) - len(usable),
    )


def scale_ticks(low: float, high: float) -> list[float]:
    """Return evenly spaced round numbers from below `low` to above `high`, two to MOST_TICKS of them where 0 to 1 allows."""
    for step in STEPS:
        first, last = floor(low / step + 1e-9), ceil(high / step - 1e-9)
        last = max(last, first + 1)
        if last - first < MOST_TICKS:
            return [round(step * number, 10) for number in range(first, last + 1)]
    return [float(floor(low)), float(max(ceil(high), floor(low) + 1))]


def spread_labels(places: Sequence[float], top: float, bottom: float) -> list[float]:
    """Return places for labels near the wanted ones, ROW apart where the height allows, in the same order.

    Labels that would overlap form a block whose centre is the mean of its members' wanted places.
    """
    order = sorted(range(len(places)), key=lambda number: places[number])
    gap = min(ROW, (bottom - top) / max(1, len(places) - 1)) if len(places) > 1 else ROW
    blocks: list[list[float]] = []  # [sum of wanted places, members]
    for number in order:
        blocks.append([places[number], 1.0])
        while len(blocks) > 1 and _start(blocks[-1], gap, top, bottom) < _end(blocks[-2], gap, top, bottom) + gap:
            total, members = blocks.pop()
            blocks[-1][0] += total
            blocks[-1][1] += members
    result = [0.0] * len(places)
    following = iter(order)
    for block in blocks:
        start = _start(block, gap, top, bottom)
        for member in range(int(block[1])):
            result[next(following)] = round(start + gap * member, 2)
    return result


def _start(block: Sequence[float], gap: float, top: float, bottom: float) -> float:
    length = gap * (block[1] - 1)
    return max(top, min(block[0] / block[1] - length / 2, bottom - length))


def _end(block: Sequence[float], gap: float, top: float, bottom: float) -> float:
    return _start(block, gap, top, bottom) + gap * (block[1] - 1)
