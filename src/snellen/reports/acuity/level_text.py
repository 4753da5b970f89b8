"""Levels and intervals of acuity as people read them: `3.2 px`, `8.2 % longer`, `[2.7, 3.7]`.

Numbers have the digits that `snellen score` prints; shares are percentages."""

from __future__ import annotations

from snellen.benchmarks.acuity.details import number as number_text

SHARE = "share"


def level_number(value: float, unit: str) -> str:
    """Format a level without its unit; shares are percentages."""
    return f"{number_text(100 * value)} %" if is_share(unit) else number_text(value)


def is_share(unit: str) -> bool:
    """Return True for units such as `share of the side`."""
    return unit == SHARE or unit.startswith(f"{SHARE} ")


def unit_text(unit: str) -> str:
    """Return what stands behind the number: `px`, or `of the side` behind a percentage."""
    return unit.removeprefix(SHARE).strip() if is_share(unit) else unit


def axis_text(unit: str) -> str:
    """Return the unit of an axis whose numbers have no unit: `px`, `percent of the side`."""
    return f"percent {unit_text(unit)}".strip() if is_share(unit) else unit


def level_text(value: float, unit: str) -> str:
    """Format a level with its unit.

    >>> level_text(3.21, "px"), level_text(0.0821, "share longer")
    ('3.2 px', '8.2 % longer')
    """
    return f"{level_number(value, unit)} {unit_text(unit)}".strip()


def interval_text(low: float, high: float, unit: str) -> str:
    """Format both ends of an interval: `[2.7, 3.7]`."""
    if is_share(unit):
        return f"[{number_text(100 * low)}, {number_text(100 * high)}]"
    return f"[{number_text(low)}, {number_text(high)}]"
