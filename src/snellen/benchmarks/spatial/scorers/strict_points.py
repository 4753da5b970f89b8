"""The strict reader of points: any usual notation, one scale for all points of a reply."""

from __future__ import annotations

import re
from collections.abc import Sequence

from snellen.benchmarks.spatial.scorers.points import THOUSANDTHS, Point
from snellen.benchmarks.spatial.scorers.vlmevalkit import after_thinking, cleaned

_PLAIN = r"[\"']?+([-+]?+(?:\d++(?:\.\d*+)?+|\.\d++))\s*+(%?+)[\"']?+"
_ANY_POINT = re.compile(
    rf"[\[(]\s*+{_PLAIN}\s*+,\s*+{_PLAIN}(?:\s*+,\s*+{_PLAIN}\s*+,\s*+{_PLAIN})?+\s*+[\])]"
    rf"|[\"']?\bx\b[\"']?\s*+[:=]\s*+{_PLAIN}\s*+[,;]?+\s*+(?:and\s++)?+[\"']?\by\b[\"']?\s*+[:=]\s*+{_PLAIN}",
    re.IGNORECASE,
)
_KEYED = re.compile(r"[\"']point(?:_2d)?[\"']\s*+:\s*+$")
_MOLMO = re.compile(r"<points?\b([^<>]*+)>", re.IGNORECASE)
_MOLMO_PAIR = re.compile(
    r"\bx(\d*+)\s*+=\s*+[\"']([\d.]{1,30})[\"']\s*+y\1\s*+=\s*+[\"']([\d.]{1,30})[\"']", re.IGNORECASE
)
_ANSWER = re.compile(r"<answer>(?P<inside>[^<]*+(?:<(?!/?answer>)[^<]*+)*+)</answer>", re.IGNORECASE)
_WORD_BETWEEN = re.compile(r"\b(?!and\b)[^\W\d_]", re.IGNORECASE)
_BARE = re.compile(rf"\s*+{_PLAIN}\s*+[,;\s]\s*+{_PLAIN}\s*+\.?\s*+")
_KEY_BEFORE = 40


def strict_points(reply: str, width: int, height: int) -> list[Point]:
    """Read the points that a reply answers with, normalised, in any usual notation; none where there is none.

    Thinking is left out, and an answer container alone is read where there is one. Notations: `[x, y]` or `(x, y)`, also in
    JSON, with quotes or percent signs; `x: 1, y: 2`; Molmo's tags. Four numbers are a box, and stand for its centre. Where
    some points have the key `point_2d` or `point`, only these count; else the last run of points that no word parts.

    One scale holds for all points: percent for tags and percent signs; shares of the sides where no coordinate is above 1;
    pixels where one is above 1000 or the reply says "pixel"; thousandths otherwise. A reply that is two numbers is a point too.
    """
    text = after_thinking(cleaned(reply))
    containers = list(_ANSWER.finditer(text))
    if containers:
        text = containers[-1]["inside"]
    pairs = [pair for tag in _MOLMO.finditer(text) for pair in _MOLMO_PAIR.finditer(tag[1])]
    if pairs:
        try:
            return [(float(pair[2]) / 100, float(pair[3]) / 100) for pair in pairs]
        except ValueError:
            return []
    runs: list[list[tuple[float, ...]]] = []
    keyed: list[tuple[float, ...]] = []
    end = -1
    for match in _ANY_POINT.finditer(text):
        numbers = _shares(match)
        if end < 0 or _WORD_BETWEEN.search(text, end, match.start()):
            runs.append([])
        runs[-1].append(numbers)
        if _KEYED.search(text, max(0, match.start() - _KEY_BEFORE), match.start()):
            keyed.append(numbers)
        end = match.end()
    if not runs and (bare := _BARE.fullmatch(text)):
        runs.append([_shares(bare)])
    chosen = keyed or (runs[-1] if runs else [])
    return _on_one_scale(chosen, text, width, height)


def _shares(match: re.Match[str]) -> tuple[float, ...]:
    """Return (x, y, 1 where a number has a percent sign else 0), of a box its centre."""
    values = [
        (float(number), bool(sign))
        for number, sign in zip(match.groups()[::2], match.groups()[1::2], strict=True)
        if number
    ]
    percent = float(any(sign for _, sign in values))
    numbers = [number for number, _ in values]
    if len(numbers) == 4:
        numbers = [(numbers[0] + numbers[2]) / 2, (numbers[1] + numbers[3]) / 2]
    return numbers[0], numbers[1], percent


def _on_one_scale(numbers: Sequence[tuple[float, ...]], text: str, width: int, height: int) -> list[Point]:
    largest = max((max(abs(x), abs(y)) for x, y, _ in numbers), default=0.0)
    if any(percent for *_, percent in numbers):
        across, down = 100.0, 100.0
    elif largest <= 1:
        across = down = 1.0
    elif largest > THOUSANDTHS or "pixel" in text.lower():
        across, down = float(width), float(height)
    else:
        across = down = THOUSANDTHS
    return [(x / across, y / down) for x, y, _ in numbers]


def strict_pixel(point: Point, width: int, height: int) -> tuple[int, int] | None:
    """Return the pixel (column, row) in which a normalised point lies; None outside the image. Its far edges belong to it."""
    x, y = point
    if not (0 <= x <= 1 and 0 <= y <= 1):
        return None
    return min(int(x * width), width - 1), min(int(y * height), height - 1)
