"""VSI-SUPER: the order of odd objects, and counts of objects, in hours of joined videos; counts also asked while they run.

Source: `VsiSuperRecall` and `VsiSuperCount` of VLMEvalKit, the tasks `vsisuper_*` of lmms-eval.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from typing import Any

from snellen.benchmarks.spatial.scorers.lmms_eval import score_letter
from snellen.benchmarks.spatial.scorers.rows import mean
from snellen.benchmarks.spatial.scorers.vlmevalkit import after_thinking, cleaned
from snellen.benchmarks.spatial.scorers.vsi import graded_score, json_number, mean_relative_accuracy, relative_error
from snellen.scoring.rules.literals import literal
from snellen.types import Score

STREAMING = "_streaming"
_OPTION = re.compile(r"[A-D]")
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")


def recall_letter(text: str) -> str | None:
    """Return the first letter A to D in the upper-cased text, inside words too: `Answer: C` is A."""
    match = _OPTION.search(text.upper())
    return match[0] if match else None


def recall_lmms_eval(reply: str, gold: str) -> Score:
    """Compare the letter with that of the gold answer, read by the same rule; neither having one counts as right."""
    letter, target = recall_letter(reply), recall_letter(gold)
    if letter is None and target is None:
        return Score(
            1.0, None, "correct", f"no letter in the reply, none in the gold answer {gold!r}: counted as right"
        )
    return score_letter(letter, target)


def count_number(reply: str) -> float:
    """Return the first signed decimal number in digits; 0 where there is none."""
    match = _NUMBER.search(reply)
    return float(match[0]) if match else 0.0


def count_lmms_eval(reply: str, gold: str) -> Score:
    """Score the first number by mean relative accuracy; silence is 0, and of a gold answer of 0 only 0 is right."""
    predicted = count_number(reply)
    target = _float(gold) or 0.0
    value = float(predicted == 0) if target == 0 else mean_relative_accuracy(relative_error(predicted, target))
    if _NUMBER.search(reply) is None:
        return Score(value, 0.0, "correct" if value == 1 else "invalid", "no number: lmms-eval takes 0 for it")
    return graded_score(value, predicted)


def _float(value: Any) -> float | None:
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number


def answers_of(gold: str) -> list[float]:
    """Return the gold answers of a streaming question from their list as text; what is no number becomes NaN."""
    items = _list(gold)
    return [math.nan if (number := _float(item)) is None else number for item in items or []]


def _list(text: str) -> list[Any] | None:
    try:
        items = json.loads(text)
    except (ValueError, RecursionError):
        items = literal(text)
    return items if isinstance(items, list) else None


def streaming_lmms_eval(reply: str, gold: str) -> Score:
    """Score the mean over the answers that a reply, a JSON list and nothing else, pairs with the gold ones.

    The shorter list says how many: answers that are missing cost nothing. An item that is no number is wrong.
    """
    try:
        items = json.loads(reply)
    except (ValueError, RecursionError):
        items = None
    if not isinstance(items, list):
        return Score(0.0, None, "invalid", "the reply is no JSON list")
    values = [_one_answer(item, target) for item, target in zip(items, answers_of(gold), strict=False)]
    return _of_list(mean(values) if values else 0.0, items)


def _one_answer(item: Any, target: float) -> float:
    predicted = _float(item)
    if predicted is None:
        return 0.0
    if target == 0:
        return float(predicted == 0)
    return mean_relative_accuracy(relative_error(predicted, target))


_LISTED = re.compile(r"\[[^\[\]]*+\]")
MAX_SHOWN = 200


def streaming_strict(reply: str, gold: str) -> Score:
    """Score the last list in a reply, thinking aside, over all gold answers: missing ones are wrong, further ones ignored."""
    targets = answers_of(gold)
    if not targets or any(map(math.isnan, targets)):
        return Score(None, None, "unscored", f"the gold answer {gold[:60]!r} is no list of numbers")
    last: re.Match[str] | None = None
    for last in _LISTED.finditer(after_thinking(cleaned(reply))):  # noqa: B007 - no list of all of them
        pass
    items = _list(last[0]) if last else None
    if items is None:
        return Score(0.0, None, "invalid", "no list of numbers")
    values = [_one_answer(item, target) for item, target in zip(items, targets, strict=False)]
    return _of_list(sum(values) / len(targets), items)


def _of_list(value: float, items: Sequence[Any]) -> Score:
    listed = [json_number(number) if (number := _float(item)) is not None else None for item in items[:MAX_SHOWN]]
    return Score(value, listed, "correct" if value == 1 else "partial" if value > 0 else "wrong")
