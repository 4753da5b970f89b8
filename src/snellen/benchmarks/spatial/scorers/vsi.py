"""VSI-Bench and VSI-Debiased: letters and numbers about a room seen in a video; and mean relative accuracy of numbers.

Mean relative accuracy is the share of ten tolerances that a relative error keeps. The released metric compares by `<=`,
though the paper writes `<`; and there are ten tolerances, for int((0.95 - 0.5) / 0.05 + 2) is 10.

Source: Yang et al. 2024 (arXiv 2412.14171, section 3.2); the tasks `vsibench*` of lmms-eval and `VSI-Bench*` of VLMEvalKit.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Sequence

import numpy as np

from snellen.benchmarks.spatial.scorers.lmms_eval import score_letter
from snellen.benchmarks.spatial.scorers.rows import ScoredRow, mean, means
from snellen.benchmarks.spatial.scorers.vlmevalkit import match_number, score_option
from snellen.benchmarks.spatial.tasks import CONSTANTS
from snellen.errors import DataError
from snellen.scoring.answers.base import ENGLISH_BELOW_HUNDRED
from snellen.types import Score

_LEAST = np.linspace(CONSTANTS["mra"]["first"], CONSTANTS["mra"]["last"], CONSTANTS["mra"]["points"])
TOLERANCES = [float(tolerance) for tolerance in 1 - _LEAST]
"""1 - theta in doubles, as the harnesses compute it: 0.5, 0.44999999999999996, 0.4, ... 0.050000000000000044."""


def mean_relative_accuracy(error: float) -> float:
    """Return the share of tolerances that a relative error keeps, 0 to 1 in tenths; NaN keeps none."""
    return sum(error <= tolerance for tolerance in TOLERANCES) / len(TOLERANCES)


def relative_error(predicted: float, target: float) -> float:
    """Return |predicted - target| / |target|; where the target is 0, |predicted - target|."""
    miss = abs(predicted - target)
    return miss / abs(target) if target else miss


def score_number(predicted: float | None, gold: str) -> Score:
    """Score a number against a gold answer in text; 0 where none was read, unscored where the gold answer is no number."""
    try:
        target = float(gold)
    except ValueError:
        target = math.nan
    if not math.isfinite(target):
        return Score(None, json_number(predicted), "unscored", f"the gold answer {gold!r} is no number")
    if predicted is None:
        return Score(0.0, None, "invalid", "no number")
    return graded_score(mean_relative_accuracy(relative_error(predicted, target)), predicted)


def graded_score(value: float, extracted: float | str | None) -> Score:
    """Return a score between 0 and 1 with its verdict."""
    return Score(value, json_number(extracted), "correct" if value == 1 else "partial" if value > 0 else "wrong")


def json_number(number: float | str | None) -> float | str | None:
    """Return a number as JSON can hold it: infinity and NaN become text."""
    return str(number) if isinstance(number, float) and not math.isfinite(number) else number


CHOICE: tuple[str, ...] = tuple(CONSTANTS["vsi"]["choice"])
NUMBER: tuple[str, ...] = tuple(CONSTANTS["vsi"]["number"])
DIRECTION: tuple[str, ...] = tuple(CONSTANTS["vsi"]["direction"])

_NUMBER_WORDS = {*ENGLISH_BELOW_HUNDRED, "hundred", "thousand"}
_BEYOND = 10**400  # more than any float; what grows further stays as long
_DIGITS = re.compile(r"-?\d+(?:\.\d+)?")
_WORD = re.compile(r"[a-z]+")


def first_piece(reply: str) -> str:
    """Return what lmms-eval takes for the letter: the reply up to its first space, without dots behind and blanks around."""
    return reply.split(" ")[0].rstrip(".").strip()


def first_number(reply: str) -> float | None:
    """Return what lmms-eval takes for the number: the first one, in digits or English words; None where there is none.

    Digits have no exponent, and none may be left out before the point (`.91` is 91). A run of number words goes on over
    anything but another word, `and` excepted: hundred multiplies what stands before it, thousand closes a group.
    """
    text = reply.lower()
    digits = _DIGITS.search(text)
    words = _WORD.finditer(text)
    first = next((word for word in words if word[0] in _NUMBER_WORDS), None)
    if first is None or (digits and digits.start() < first.start()):
        return float(digits[0]) if digits else None
    total = current = 0
    for word in itertools.chain((first,), words):
        if word[0] == "hundred":
            current = min(max(1, current) * 100, _BEYOND)
        elif word[0] == "thousand":
            total, current = min(total + max(1, current) * 1000, _BEYOND), 0
        elif word[0] in ENGLISH_BELOW_HUNDRED:
            current += ENGLISH_BELOW_HUNDRED[word[0]]
        elif word[0] != "and":
            break
    try:
        return float(total + current)
    except OverflowError:  # "hundred" some hundred and fifty times over
        return math.inf


def lmms_eval(reply: str, gold: str, question_type: str) -> Score:
    """Score as lmms-eval: the first piece of the raw reply, or the first number with its error over the signed gold answer.

    With a gold answer of 0 the harness stops; such a row is left unscored here. With a negative one every number is right.

    Raises:
        DataError: if the question type is none of the ten.
    """
    if _kind(question_type) == "choice":
        return score_letter(first_piece(reply) or None, gold)
    predicted = first_number(reply)
    score = score_number(predicted, gold)
    if score.value is None or predicted is None:
        return score
    target = float(gold)
    if target == 0:
        return Score(None, json_number(predicted), "unscored", "the gold answer is 0, by which lmms-eval divides")
    return graded_score(mean_relative_accuracy(abs(predicted - target) / target), predicted)


def vlmevalkit(reply: str, gold: str, question_type: str) -> Score:
    """Score as VLMEvalKit: its option matcher, or the last number with the mean relative accuracy.

    Raises:
        DataError: if the question type is none of the ten.
    """
    if _kind(question_type) == "choice":
        return score_option(reply, gold)
    return score_number(match_number(reply), gold)


def _kind(question_type: str) -> str:
    if question_type in CHOICE:
        return "choice"
    if question_type in NUMBER:
        return "number"
    raise DataError(
        f"VSI-Bench has no question type {question_type!r}; expected one of {', '.join((*CHOICE, *NUMBER))}. "
        "Check that this is a file of VSI-Bench."
    )


def summary(rows: Sequence[ScoredRow]) -> dict[str, float]:
    """Return the mean score by question type, and `overall`, the plain mean of the eight: the three directions count as one.

    The directions are `object_rel_direction`, the plain mean of the three difficulties. Where one of the three is missing
    lmms-eval stops, and VLMEvalKit takes each that is there for a type of its own, which is done here.

    Returns:
        Fractions by name, 0 to 1; empty for no rows.
    """
    by_type = means(rows, "question_type")
    if all(name in by_type for name in DIRECTION):
        by_type["object_rel_direction"] = mean([by_type.pop(name) for name in DIRECTION])
    return {"overall": mean(list(by_type.values())), **by_type} if by_type else {}
