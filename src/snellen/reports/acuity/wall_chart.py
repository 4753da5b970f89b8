"""The wall chart: Sloan letters and Landolt rings line by line at their sizes, blurred by what the model loses."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from msgspec import Struct

from snellen.benchmarks.acuity.details import number as number_text
from snellen.benchmarks.acuity.metrics import ConditionResult, snellen_fraction
from snellen.benchmarks.chart.rng import Stream
from snellen.reports.acuity.view import AcuityView, interval_text, shares_at

WIDTH = 420.0
LARGEST = 84.0
"""Height of the largest optotype in units of the chart."""
STEP = 2**0.5
"""Factor between lines: two lines halve the size."""
ABOVE, LINES = 4, 8
"""Lines above the threshold, and in all."""
MOST_OPTOTYPES = 8
BLUR = 1.15
"""Standard deviation of the blur, in gaps, of a line that is not seen at all; at the threshold it is half of that."""
SLOAN_PATHS = {
    "C": "M4.44 3A2 2 0 1 1 4.44 2",
    "D": "M0 .5H2.5A2 2 0 0 1 2.5 4.5H0M.5 0V5",
    "H": "M.5 0V5M4.5 0V5M0 2.5H5",
    "K": "M.5 0V5M.8 3.2L4.5 .2M1.9 2.1L4.4 5L5 5.7",
    "N": "M.5 5V0M4.5 5V0M.2 0L4.8 5",
    "O": "M2.5 .5A2 2 0 1 1 2.5 4.5A2 2 0 1 1 2.5 .5Z",
    "R": "M.5 0V5M0 .5H3.5A1 1 0 0 1 3.5 2.5H0M2.2 2.6L4.4 5L5 5.7",
    "S": "M4.6 .5H1.5A1 1 0 0 0 1.5 2.5H3.5A1 1 0 0 1 3.5 4.5H.4",
    "V": "M.3 -.5L2.5 4.9L4.7 -.5",
    "Z": "M0 .5H5M0 4.5H5M4.5 .6L.5 4.4",
}
"""Letters on a raster of 5 x 5, as lines one unit wide that end at the box; the geometry of the pictures that are sent."""
RING_PATH = "M4.949 2A2.5 2.5 0 1 0 4.949 3L3.914 3A1.5 1.5 0 1 1 3.914 2Z"
"""A Landolt ring on the same raster, open to the right, its gap one unit."""


class Optotype(Struct, frozen=True):
    """A letter, or a ring (an empty letter) turned by some degrees: its upper left corner, and its size."""

    letter: str
    turn: int
    x: float
    y: float
    size: float


class ChartLine(Struct, frozen=True):
    """A line of the chart: gap in pixels, share seen, blur in units of the chart, and what is drawn."""

    gap: float
    fraction: str
    share: float
    deviation: float
    y: float
    size: float
    optotypes: tuple[Optotype, ...]

    @property
    def text(self) -> str:
        """Return the size of the gap."""
        return f"{number_text(self.gap)} px"


class WallChart(Struct, frozen=True):
    """An eye chart of one run.

    Attributes:
        kind: `letter` or `gap`: whose thresholds it has.
        lines: from large to small.
        height: of the chart; it is WIDTH wide.
        rule: where the line of the threshold lies; None where the threshold is outside the chart.
        headline: the fraction at the threshold, such as 20/64.
        about: threshold, interval and side in words.
    """

    kind: str
    lines: tuple[ChartLine, ...]
    height: float
    rule: float | None
    headline: str
    about: str

    @property
    def paths(self) -> dict[str, str]:
        """Return the drawings of the letters."""
        return SLOAN_PATHS

    @property
    def ring(self) -> str:
        """Return the drawing of a ring."""
        return RING_PATH


def wall_chart(view: AcuityView) -> WallChart | None:
    """Draw the chart of the gap, else of the letters; None where neither has a threshold. The largest side counts."""
    measured = [each.result for each in view.conditions if each.result.value is not None]
    for name in ("gap", "letter"):
        results = [result for result in measured if result.condition.name == name]
        if results:
            return _chart(max(results, key=lambda result: result.condition.side), view.seed)
    return None


def _chart(result: ConditionResult, seed: int) -> WallChart:
    kind, threshold = result.condition.name, result.value or 1.0
    attribute = result.condition.attribute
    gaps = [threshold * STEP ** (ABOVE - 0.5 - number) for number in range(LINES)]
    levels = np.array([attribute.level(gap) for gap in gaps])
    guess = attribute.guess_rate
    shares = np.clip((shares_at(result.posterior, levels) - guess) / (1.0 - guess), 0.0, 1.0)
    unit = LARGEST / 5 / gaps[0]
    stream = Stream("wall chart", seed)
    lines, bottom, rule = [], 6.0, None
    for number, (gap, share) in enumerate(zip(gaps, shares, strict=True)):
        size = 5 * gap * unit
        if gap < threshold and rule is None:
            rule = round(bottom + 4.0, 1)
            bottom += 8.0
        count = min(MOST_OPTOTYPES, number + 1 + (number > 1))
        y = bottom + 5.0
        lines.append(
            ChartLine(
                gap,
                snellen_fraction(gap),
                float(share),
                round(BLUR * (1.0 - float(share)) * gap * unit, 3),
                round(y + size / 2, 1),
                round(size, 1),
                tuple(_optotypes(kind, count, size, y, stream)),
            )
        )
        bottom = y + max(size, 11.0) + 7.0
    about = (
        f"{kind} {number_text(threshold)} px {interval_text(result.low, result.high, 'px')} "
        f"at a side of {result.condition.side} px"
    )
    return WallChart(kind, tuple(lines), round(bottom, 1), rule, snellen_fraction(threshold), about)


def _optotypes(kind: str, count: int, size: float, y: float, stream: Stream) -> Sequence[Optotype]:
    pitch = size * 1.9 if count < 6 else size * 1.75
    start = WIDTH / 2 - pitch * (count - 1) / 2 - size / 2
    letters = stream.shuffled(list(SLOAN_PATHS))
    turns = stream.shuffled(list(range(8)))
    return [
        Optotype(
            letters[number] if kind == "letter" else "",
            45 * turns[number],
            round(start + number * pitch, 2),
            round(y, 2),
            round(size, 2),
        )
        for number in range(count)
    ]
