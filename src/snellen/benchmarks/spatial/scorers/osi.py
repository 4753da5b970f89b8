"""OSI-Bench: letters and numbers about outdoor videos; a gold answer of 0 means not moving.

Source: `OSIBench` of EASI's VLMEvalKit, the tasks `osi_bench*` of lmms-eval.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence

from snellen.benchmarks.spatial.scorers.rows import ScoredRow, micro
from snellen.benchmarks.spatial.scorers.vlmevalkit import match_number, score_option
from snellen.benchmarks.spatial.scorers.vsi import graded_score, json_number, mean_relative_accuracy, relative_error
from snellen.benchmarks.spatial.tasks import CONSTANTS
from snellen.scoring.extract import read
from snellen.types import Score

_OSI = CONSTANTS["osi"]
CHOICE: tuple[str, ...] = tuple(_OSI["choice"])
NUMBER: tuple[str, ...] = tuple(_OSI["number"])
DIRECTION: tuple[str, ...] = tuple(_OSI["direction"])
STILL: Mapping[str, float] = _OSI["still"]
"""By category: below this much a thing counts as not moving."""


def is_number(category: str, question_type: str) -> bool:
    """Return True for a question that a number answers: by its type, else by its category."""
    if question_type:
        return question_type.lower() == "numerical"
    return category in NUMBER


def score_number(predicted: float | None, gold: str, category: str) -> Score:
    """Score by mean relative accuracy; of a gold answer of 0 by what counts as not moving.

    Where the category has such a bound, anything below it is right, negative numbers too, and the error of others is relative
    to the bound. Elsewhere 0 alone is right. A gold answer that is no number makes every reply wrong.
    """
    try:
        target = float(gold)
    except ValueError:
        target = math.nan
    if predicted is None:
        return Score(0.0, None, "invalid", "no number")
    if math.isnan(target) or math.isnan(predicted):
        why = f"the gold answer {gold[:60]!r} is no number" if math.isnan(target) else None
        return Score(0.0, json_number(predicted), "wrong", why)
    if target != 0:
        return graded_score(mean_relative_accuracy(relative_error(predicted, target)), predicted)
    bound = STILL.get(category)
    if bound is None or predicted < bound:
        return graded_score(float(bound is not None or predicted == 0), predicted)
    return graded_score(mean_relative_accuracy(relative_error(predicted, bound)), predicted)


def vlmevalkit(reply: str, gold: str, category: str, question_type: str = "") -> Score:
    """Score as EASI's kit: the option matcher, or the last number."""
    if is_number(category, question_type):
        return score_number(match_number(reply), gold, category)
    return score_option(reply, gold)


_SIGNED = re.compile(r"[+-]?\d+(?:\.\d+)?")
_CHINESE = re.compile(r"[(\[A-Z]\s*答案是?[:：]?\s*'?\"?([A-Z])", re.IGNORECASE)
_STANDING = re.compile(r"[\[(\s,.]([A-Z])[\])\s,.]")
_HEAD = re.compile(r"\s*([A-Z])")


def lmms_number(reply: str) -> float | None:
    """Return the last signed decimal number, commas taken out first; an exponent is a number of its own."""
    last: re.Match[str] | None = None
    for last in _SIGNED.finditer(reply.replace(",", "")):  # noqa: B007 - no list: a reply may hold a hundred thousand
        pass
    return None if last is None else float(last[0])


def lmms_letter(reply: str) -> str | None:
    """Return the first capital letter between brackets, blanks, commas or dots, else the one at the head: `I think B` is I."""
    match = _CHINESE.search(reply) or _STANDING.search(f" {reply} ") or _HEAD.match(reply)
    return match[1].upper() if match else None


def lmms_eval(reply: str, gold: str, category: str, question_type: str = "") -> Score:
    """Score as lmms-eval: the last number, or the capital letter."""
    text = reply.strip()
    if question_type == "numerical" or category in NUMBER:
        return score_number(lmms_number(text), gold, category)
    letter = lmms_letter(text)
    if letter is None:
        return Score(0.0, None, "invalid", "no capital letter")
    right = letter == gold.strip().upper()
    return Score(float(right), letter, "correct" if right else "wrong")


def strict_number(reply: str, gold: str, category: str, question: str) -> Score:
    """Score the number by the careful extractor; below the bound counts the amount, whatever its sign."""
    reading = read("number", reply, question=question)
    if reading.value is None:
        return Score(0.0, None, "invalid", reading.reason)
    predicted = float(reading.value)
    try:
        target = float(gold)
    except ValueError:
        return Score(None, predicted, "unscored", f"the gold answer {gold[:60]!r} is no number")
    return score_number(abs(predicted) if target == 0 else predicted, gold, category)


def summary(rows: Sequence[ScoredRow]) -> dict[str, float]:
    """Return `mcq_accuracy`, `na_mra` and `relative_direction_avg`, each a mean over its rows, where there are any."""
    figures = {}
    for name, categories in (("mcq_accuracy", CHOICE), ("na_mra", NUMBER), ("relative_direction_avg", DIRECTION)):
        value = micro([row for row in rows if row.groups.get("category") in categories])
        if value is not None:
            figures[name] = value
    return figures
