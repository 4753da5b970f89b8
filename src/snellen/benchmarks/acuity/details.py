"""The conditions of a run of acuity for people and for programs: thresholds in words, states, checks of the answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from snellen.benchmarks.acuity.attribute import Attribute
from snellen.benchmarks.acuity.conditions import AcuityPlan
from snellen.benchmarks.acuity.metrics import ConditionResult, Quantiles, snellen_fraction
from snellen.benchmarks.acuity.through import change_words
from snellen.benchmarks.base import DetailTable

SMALL_P = 0.01
"""Below this a test is reported as failed: each condition makes three."""


def condition_details(acuity_plan: AcuityPlan, result: ConditionResult) -> dict[str, Any]:
    """Return a condition's result in plain types."""
    threshold_estimate, attribute = result.estimate, result.condition.attribute
    measured = result.value is not None
    snellen = snellen_fraction(result.value) if attribute.name == "gap" and result.value is not None else None
    return {
        "name": acuity_plan.label(result.condition),
        "attribute": attribute.name,
        "side": result.condition.side,
        "unit": attribute.unit,
        "state": threshold_estimate.state,
        "words": words(result),
        "value": result.value,
        "ci95": [result.low, result.high] if measured else None,
        "posterior": [result.low, result.high],
        "range": [attribute.easy, attribute.hard],
        "snellen": snellen,
        "asked": threshold_estimate.asked,
        "answered": threshold_estimate.answered,
        "abstained": round(result.abstained, 6),
        "easiest": {"right": result.catch.right, "answered": result.catch.answered},
        "guess": attribute.guess_rate if result.false_alarms is None else None,
        "width": _quantiles(result.width),
        "lapse": _quantiles(result.lapse),
        "false_alarms": _quantiles(result.false_alarms),
        "fit_p": result.fit_p,
        "monotone_p": result.monotone_p,
        "options": None
        if result.options is None
        else {
            "wrong": result.options.wrong,
            "commonest": result.options.option,
            "share": result.options.share,
            "p": result.options.p,
        },
        "remarks": remarks(result),
    }


def _quantiles(quantiles: Quantiles | None) -> dict[str, Any] | None:
    if quantiles is None:
        return None
    return {"value": quantiles.value, "ci95": [quantiles.low, quantiles.high]}


def words(result: ConditionResult) -> str:
    """Return threshold and state in words: `3.2 px [2.7, 3.7] at 512: 20/64`, `not seen at any level`."""
    condition, state = result.condition, result.estimate.state
    attribute = condition.attribute
    if result.value is None:
        return {
            "floor": "not seen at any level",
            "ceiling": beyond_hardest(attribute),
            "task not understood": "task not understood",
        }[state]
    low, high = (number(end) for end in (result.low, result.high))
    unit = "" if attribute.unit == "contrast" else f" {attribute.unit}"
    through = f" through {change_words(condition.through)}" if condition.through else ""
    text = f"{number(result.value)}{unit} [{low}, {high}] at {condition.side}{through}"
    return f"{text}: {snellen_fraction(result.value)}" if attribute.name == "gap" else text


def beyond_hardest(attribute: Attribute) -> str:
    """Return in words that everything was seen: `below the smallest level drawn (0.5 px)`."""
    end = "below the smallest" if attribute.sign > 0 else "above the largest"
    return f"{end} level drawn ({number(attribute.hard)} {attribute.unit})"


def number(value: float) -> str:
    """Format a number with two digits, larger ones whole: 0.021, 3.2, 64, 214."""
    if value >= 9.95:
        return f"{value:,.0f}"
    if value <= 0.0:
        return "0"
    exponent = int(f"{value:.1e}".partition("e")[2])  # of the rounded number: 0.0999 is 0.10
    return f"{value:.{max(1, 1 - exponent)}f}"


def remarks(result: ConditionResult) -> list[str]:
    """Return what a reader must know of a condition beside its threshold, most important first."""
    lines: list[str] = []
    state = result.estimate.state
    if state == "open":
        lines.append("not finished: the interval will narrow")
    if state == "budget":
        lines.append("the interval is wider than requested: raise --most in a new run (--out NAME)")
    if result.value is not None:
        attribute = result.condition.attribute
        smaller, larger = sorted((("hardest", attribute.hard), ("easiest", attribute.easy)), key=lambda end: end[1])
        beyond = [
            name for name, past in ((smaller[0], result.low < smaller[1]), (larger[0], result.high > larger[1])) if past
        ]
        if beyond:
            lines.append(f"the interval reaches beyond the {' and the '.join(beyond)} level")
    if result.monotone_p is not None and result.monotone_p < SMALL_P:
        lines.append(f"does not rise with the level ({_p(result.monotone_p)}): draw the curve with --survey")
    elif result.fit_p is not None and result.fit_p < SMALL_P:
        lines.append(f"the curve does not fit ({_p(result.fit_p)}): draw it with --survey")
    if result.false_alarms is not None:
        lines.append(f"says different to {100 * result.false_alarms.value:.0f} % of equal pairs")
    if result.options is not None and result.options.p < SMALL_P:
        bias = result.options
        lines.append(f"{100 * bias.share:.0f} % of wrong replies are {bias.option} ({_p(bias.p)})")
    return lines


def _p(value: float) -> str:
    return f"p = {value:.3f}" if value >= 0.001 else "p < 0.001"


def tables(details: Mapping[str, Any]) -> list[DetailTable]:
    """Return the table of thresholds and that of the checks."""
    conditions = details["conditions"]
    rows = []
    for each in conditions:
        right, answered = each["easiest"]["right"], each["easiest"]["answered"]
        abstained = f"{100 * each['abstained']:.0f} %" if each["abstained"] else "–"
        rows.append((each["name"], each["words"], f"{each['asked']:,}", f"{right} of {answered}", abstained))
    alike: dict[str, list[str]] = {}
    for each in conditions:
        for line in each["remarks"]:
            alike.setdefault(line, []).append(each["name"])
    first = DetailTable(
        ("condition", "threshold [95 % interval] at side"),
        ("questions", "right at the\neasiest level", "abstained"),
        tuple(rows),
        tuple(f"{', '.join(names)}: {line}" for line, names in alike.items()),
    )
    checks = []
    for each in conditions:
        bias = each["options"]
        checks.append((
            each["name"],
            _range(each["width"], 1.0, ""),
            _range(each["lapse"], 100.0, " %"),
            "–" if each["fit_p"] is None else f"{each['fit_p']:.3f}",
            "–" if each["monotone_p"] is None else f"{each['monotone_p']:.3f}",
            "–" if bias is None else f"{bias['commonest']} {100 * bias['share']:.0f} % of {bias['wrong']}, {_p(bias['p'])}",
        ))  # fmt: skip
    second = DetailTable(
        ("checks",),
        ("width of the curve\nin decades", "slips", "fits: p", "rises: p", "commonest wrong reply"),
        tuple(checks),
        ("p: how probable such answers are if the curve fits, if it rises with the level, if no option is preferred.",),
    )
    return [first, second]


def _range(quantiles: Mapping[str, Any] | None, factor: float, unit: str) -> str:
    if quantiles is None:
        return "–"
    low, high = quantiles["ci95"]
    value = quantiles["value"]
    return f"{number(factor * value)}{unit} [{number(factor * low)}, {number(factor * high)}]"
