"""Rules of other harnesses by name, each a function of one row: `vlmevalkit/mcq_exact`.

A rule about one reply takes a row with that reply; a rule about figures takes a table in one row, `columns` and `rows`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from snellen.errors import DataError, UsageError
from snellen.scoring.rules import short_answers, vlmevalkit
from snellen.scoring.rules.short_answers import ReferenceStopsError

Input = Mapping[str, Any]
Rule = Callable[[Input], dict[str, Any]]


def _table(row: Input) -> list[dict[str, Any]]:
    return [dict(zip(row["columns"], cells, strict=True)) for cells in row["rows"]]


def _mcq(row: Input) -> dict[str, Any]:
    reply, choices = str(row["prediction"]), row["options"]
    option, text = vlmevalkit.infer_option(reply, choices), vlmevalkit.infer_text(reply, choices)
    return {"option": option or False, "text": text or False, "final": option or text or False}


def _circular(row: Input) -> dict[str, Any]:
    hit = vlmevalkit.circular_hit(row["rolls"])
    return {"hit": hit or 0, "decided_without_judge": hit is not None}


def _pairs(row: Input) -> dict[str, Any]:
    try:
        return dict(vlmevalkit.pair_report(_table(row)))
    except vlmevalkit.PairingError as error:
        raise ReferenceStopsError("AssertionError", str(error)) from error


def _mme(row: Input) -> dict[str, Any]:
    try:
        return dict(vlmevalkit.mme_report(_table(row)))
    except (KeyError, IndexError) as error:
        raise ReferenceStopsError(
            type(error).__name__, "a category is missing, or an image has one row only"
        ) from error


def _short(rule: Callable[[str, str], dict[str, Any]]) -> Rule:
    return lambda row: rule(str(row["prediction"]), str(row["answer"]))


def _ocrbench(row: Input) -> dict[str, Any]:
    hit = short_answers.ocrbench_hit(row["prediction"], str(row["answer"]), str(row["category"]))
    return {"hit": hit, "final_norm": hit / 10}


RULES: dict[str, Rule] = {
    "mcq_exact": _mcq,
    "mcq_circular_group": _circular,
    "mcq_report": lambda row: dict(vlmevalkit.accuracy_report(_table(row))),
    "pair_accuracy_mmvp": _pairs,
    "yesno_extract": lambda row: {"extracted": vlmevalkit.read_yes_no(str(row["prediction"]))},
    "pope_metrics": lambda row: dict(vlmevalkit.pope_report(_table(row))),
    "mme_metrics": _mme,
    "hallusionbench_metrics": lambda row: dict(vlmevalkit.hallusion_report(_table(row))),
    "amber_metrics": lambda row: dict(vlmevalkit.amber_report(_table(row))),
    "naturalbench_extract": lambda row: {
        "value": vlmevalkit.read_natural_bench(str(row["prediction"]), str(row["type"])),
    },
    "naturalbench_scores": lambda row: dict(vlmevalkit.natural_bench_report(row["groups_q0i0_q0i1_q1i0_q1i1"])),
    "vqa_score": _short(short_answers.vqa_score),
    "vqa_normalised_equal": _short(short_answers.vqa_normalised_equal),
    "anls": _short(short_answers.anls),
    "relaxed_accuracy": _short(short_answers.relaxed_accuracy),
    "accuracy": _short(short_answers.accuracy),
    "ocrbench_contains": _ocrbench,
    "gold_in_prediction": lambda row: {
        "accuracy": 100.0 * short_answers.gold_in_reply(str(row["prediction"]), str(row["answer"])),
    },
    "last_braces_contains": lambda row: {
        "accuracy": float(short_answers.last_braces_contain(str(row["prediction"]), str(row["answer"]))),
    },
    "count_first_number": lambda row: {
        "value": None if row.get("is_nan") else short_answers.first_count(row["prediction"]),
    },
    "first_capital_letter": lambda row: {"letter": short_answers.first_capital_letter(str(row["prediction"]))},
    "blindtest_by_task": lambda row: {
        "accuracy": float(short_answers.blind_test_hit(str(row["prediction"]), str(row["answer"]), str(row["task"]))),
    },
    "mathvista_check": lambda row: {"value": short_answers.mathvista_value(row)},
    "visfactor_groups": lambda row: dict(vlmevalkit.visfactor_report(_table(row))),
}
"""VLMEvalKit's rules by name, without the harness's name before them."""

HARNESS = "vlmevalkit"
NAMES = tuple(f"{HARNESS}/{name}" for name in RULES)


def rule(name: str, more: Mapping[str, Rule] | None = None) -> Rule:
    """Return the rule of that name; `more` are rules over whole tables, by their full names.

    Raises:
        UsageError: there is none.
    """
    rules = {f"{HARNESS}/{short}": known for short, known in RULES.items()} | dict(more or {})
    if name not in rules:
        raise UsageError(f"there is no rule {name!r}.", f"Use one of {', '.join(rules)}.")
    return rules[name]


def with_result(chosen: Rule, row: Input, place: str) -> dict[str, Any]:
    """Return a row with the rule's fields added; a row with an object `input` is a case, and that object is read.

    A case with an object `expected` also gets `agrees`: True where the fields equal it, numbers to nine digits.
    """
    case = row.get("input")
    result = apply(chosen, case if isinstance(case, dict) else row, place)
    expected = row.get("expected")
    agreement = {"agrees": _equal(result, expected)} if isinstance(expected, dict) else {}
    return {**row, **result, **agreement}


def _equal(value: Any, other: Any) -> bool:
    if isinstance(value, dict) and isinstance(other, dict):
        return value.keys() == other.keys() and all(_equal(value[key], other[key]) for key in value)
    if isinstance(value, list) and isinstance(other, list):
        value, other = _by_split(value), _by_split(other)
        return len(value) == len(other) and all(map(_equal, value, other))
    if isinstance(value, int | float) and isinstance(other, int | float):
        return math.isclose(value, other, rel_tol=1e-9, abs_tol=1e-12)
    return bool(value == other)


def _by_split(items: list[Any]) -> list[Any]:
    """Sort the lines of a report by split: the reference makes them from a set, in no fixed order."""
    by_split = bool(items) and all(isinstance(item, dict) and "split" in item for item in items)
    return sorted(items, key=lambda item: str(item["split"])) if by_split else items


def apply(chosen: Rule, row: Input, place: str) -> dict[str, Any]:
    """Return a rule's fields for one row; `raises` with the exception's name where the reference ends with one.

    Args:
        place: file and line of the row, for errors.

    Raises:
        DataError: the row lacks a field, or a field is of another type than the rule reads.
    """
    try:
        return chosen(row)
    except ReferenceStopsError as error:
        return {"raises": error.reference_error}
    except KeyError as error:
        raise DataError(f"{place}: the row has no field {error}; the rule needs it.") from error
    except (TypeError, ValueError, AttributeError, IndexError, ZeroDivisionError) as error:
        raise DataError(f"{place}: the rule cannot read this row: {error}.") from error
