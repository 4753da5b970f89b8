"""Thresholds of conditions, their states and their faults in a few words."""

from __future__ import annotations

from snellen.benchmarks.acuity.attribute import Attribute
from snellen.benchmarks.acuity.metrics import ConditionResult
from snellen.reports.acuity.curve import curve_fault
from snellen.reports.acuity.level_text import level_text


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


STATE_WORDS = {
    "open": "not finished",
    "settled": "",
    "budget": "interval wider than requested",
    "floor": "",
    "ceiling": "seen at every level",
    "task not understood": "",
}
"""What a reader must know of a state that is no fault."""
