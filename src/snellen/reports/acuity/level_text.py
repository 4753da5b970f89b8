"""Levels, intervals, thresholds and states of acuity as text: `3.2 px`, `8.2 % longer`, `[2.7, 3.7]`, `> 32 px`.

Numbers have the digits that `snellen score` prints; shares are percentages.
"""

from __future__ import annotations

from snellen.benchmarks.acuity.attribute import Attribute
from snellen.benchmarks.acuity.details import number as number_text
from snellen.benchmarks.acuity.metrics import ConditionResult
from snellen.reports.acuity.curve import curve_fault

SHARE = "share"
STATE_WORDS = {
    "open": "not finished",
    "settled": "",
    "budget": "interval wider than requested",
    "floor": "",
    "ceiling": "seen at every level",
    "task not understood": "",
}
"""What a reader must know of a state that is no fault."""


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


def threshold_text(result: ConditionResult) -> str:
    """Return the threshold with its unit, or a bound of it; a dash where there is neither."""
    attribute, state = result.condition.attribute, result.estimate.state
    if result.value is not None:
        return level_text(result.value, attribute.unit)
    return bound_text(attribute, state) or "–"


def bound_text(attribute: Attribute, state: str) -> str:
    """Return what is known of a threshold outside the range: `< 0.5 px`, `> 32 px`; empty for other states."""
    if state not in ("floor", "ceiling"):
        return ""
    end = attribute.easy if state == "floor" else attribute.hard
    less = (state == "ceiling") == (attribute.sign > 0)
    return f"{'<' if less else '>'} {level_text(end, attribute.unit)}"


def fault_text(result: ConditionResult) -> str:
    """Return what failed, in a few words; empty where nothing did."""
    state, attribute = result.estimate.state, result.condition.attribute
    if state == "floor":
        return "not seen at any level"
    if state == "task not understood":
        return "task not understood"
    fault = curve_fault(result)
    if fault is None:
        return ""
    level = level_text(attribute.value(fault.level), attribute.unit)
    return f"fit fails: a dip at {level}" if fault.kind == "dip" else f"fit fails near {level}"
