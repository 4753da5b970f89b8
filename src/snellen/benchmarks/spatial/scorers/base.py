"""What the rules of several harnesses share: verdicts of letters, numbers and lists; types of questions; text between marks.

Mean relative accuracy is the share of ten tolerances that a relative error keeps. The released metric compares by `<=`,
though the paper writes `<`; and there are ten tolerances, for int((0.95 - 0.5) / 0.05 + 2) is 10.

Source: Yang et al. 2024 (arXiv 2412.14171, section 3.2) for mean relative accuracy; constants.toml for names.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from snellen.benchmarks.spatial.tasks import CONSTANTS, EVERY, averaged
from snellen.errors import DataError
from snellen.scoring.answers.base import UNITS
from snellen.scoring.rules.vlmevalkit import literal
from snellen.types import Score


def mean(values: Sequence[float]) -> float:
    """Return the plain mean of at least one value."""
    return sum(values) / len(values)


def line_spans(text: str, opening: re.Pattern[str], closing: str) -> Iterator[str]:
    """Yield what stands between each opening and the next closing mark, where no line break comes between the two.

    It yields what `opening(.*?)closing` finds, in order and without overlaps. A reply of openings alone is gone through once.
    """
    at, close, line_end = 0, -1, -1
    while (match := opening.search(text, at)) is not None:
        if close < match.end():
            close = text.find(closing, match.end())
            if close < 0:
                return
        if line_end < match.end():
            line_end = text.find("\n", match.end())
            line_end = len(text) if line_end < 0 else line_end
        if close < line_end:
            yield text[match.end() : close]
            at = close + len(closing)
        else:
            at = match.start() + 1


def score_letter(letter: str | None, gold: str | None) -> Score:
    """Score 1 if the letter is the gold one in any case; 0 if it is another one, or none was read."""
    if letter is None:
        return Score(0.0, None, "invalid", "no letter")
    right = gold is not None and letter.lower() == gold.strip().lower()
    return Score(float(right), letter, "correct" if right else "wrong")


def is_yes_no(gold: str) -> bool:
    """Return True for a question that is answered by yes or no."""
    return gold.strip().lower() in ("yes", "no")


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


def types_of(name: str, kind: str) -> tuple[str, ...]:
    """Return the types of a set's questions that answers of a kind answer."""
    return EVERY[name].declared.types[kind]


VSI_NUMBER = types_of("vsi-bench", "number")


VSI_DIRECTION = averaged(EVERY["vsi-bench"])["object_rel_direction"]


def kind_of(name: str, question_type: str) -> str:
    """Return the kind of answer of a set's type: choice, number or short. Raises DataError for a type that it has not."""
    task = EVERY[name]
    for kind, types in task.declared.types.items():
        if question_type in types:
            return kind
    title = task.declared.title.partition(":")[0]
    expected = ", ".join(known for types in task.declared.types.values() for known in types)
    raise DataError(
        f"{title} has no question type {question_type!r}; expected one of {expected}. Check that this is a file of {title}."
    )


SPAR_NUMBER = types_of("spar-bench", "number")


SPAR_VIEW_CHANGE = types_of("spar-bench", "short")


SPAR_MIDDLE = averaged(EVERY["spar-bench"])["middle"]


SPAR_HIGH = averaged(EVERY["spar-bench"])["high"]


SPAR_AXES: tuple[tuple[str, str], ...] = tuple((axis["up"], axis["down"]) for axis in CONSTANTS["spar"]["axes"])


def moves_in(text: str) -> dict[str, float] | None:
    """Return the amounts by action of `action:amount,...`; None if one item is anything else. Names keep their blanks."""
    moves: dict[str, float] = {}
    for item in text.split(","):
        name, colon, amount = item.partition(":")
        value = float_or_none(amount)
        if not colon or value is None:
            return None
        moves[name] = value
    return moves


def along_axes(moves: Mapping[str, float]) -> list[float]:
    """Return the moves right, up, forward, turn right and turn up, each less its opposite; 0 where neither is named."""
    return [moves.get(up, 0.0) - moves.get(down, 0.0) for up, down in SPAR_AXES]


def view_change(moves: Mapping[str, float] | None, gold: str, *, relative_to_reply: bool = False) -> Score:
    """Score by the mean of the mean relative accuracies of five axes; an axis that does not move takes the absolute error.

    `relative_to_reply`: lmms-eval passes the two in the wrong order, so that the error is relative to the model's amount, and
    absolute on an axis that the reply does not name.
    """
    target = moves_in(gold)
    if target is None:
        return Score(None, None, "unscored", f"the gold answer {gold!r} is not a list of action:amount")
    if moves is None:
        return Score(0.0, None, "invalid", "an item that is not action:amount")
    pairs = list(zip(along_axes(moves), along_axes(target), strict=True))
    if relative_to_reply:
        pairs = [(true, predicted) for predicted, true in pairs]
    errors = [relative_error(value, reference) for value, reference in pairs]
    value = mean([mean_relative_accuracy(error) for error in errors])
    return graded_score(value, ",".join(f"{name}:{amount:g}" for name, amount in moves.items()))


OSI_CHOICE = types_of("osi-bench", "choice")


OSI_NUMBER = types_of("osi-bench", "number")


OSI_DIRECTION = averaged(EVERY["osi-bench"])["relative_direction_avg"]


OSI_STILL: Mapping[str, float] = CONSTANTS["osi"]["still"]
"""By category: below this much a thing counts as not moving."""


def osi_is_number(category: str, question_type: str) -> bool:
    """Return True for a question that a number answers: by its type, else by its category."""
    if question_type:
        return question_type.lower() == "numerical"
    return category in OSI_NUMBER


def osi_number(predicted: float | None, gold: str, category: str) -> Score:
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
    bound = OSI_STILL.get(category)
    if bound is None or predicted < bound:
        return graded_score(float(bound is not None or predicted == 0), predicted)
    return graded_score(mean_relative_accuracy(relative_error(predicted, bound)), predicted)


REVSI_CHOICE = types_of("revsi", "choice")


REVSI_NUMBER = types_of("revsi", "number")


REVSI_AVERAGED = averaged(EVERY["revsi"])
"""Question types that a figure is the plain mean of, by the figure's name."""


STREAMING = "_streaming"


def float_or_none(value: Any) -> float | None:
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number


def answers_of(gold: str) -> list[float]:
    """Return the gold answers of a streaming question from their list as text; what is no number becomes NaN."""
    items = list_in(gold)
    return [math.nan if (number := float_or_none(item)) is None else number for item in items or []]


def list_in(text: str) -> list[Any] | None:
    try:
        items = json.loads(text)
    except (ValueError, RecursionError):
        items = literal(text)
    return items if isinstance(items, list) else None


def one_answer(item: Any, target: float) -> float:
    predicted = float_or_none(item)
    if predicted is None:
        return 0.0
    if target == 0:
        return float(predicted == 0)
    return mean_relative_accuracy(relative_error(predicted, target))


MAX_SHOWN = 200


def score_of_list(value: float, items: Sequence[Any]) -> Score:
    listed = [
        json_number(number) if (number := float_or_none(item)) is not None else None for item in items[:MAX_SHOWN]
    ]
    return Score(value, listed, "correct" if value == 1 else "partial" if value > 0 else "wrong")


LEGO_SORT = "sort"


LEGO_STEPS = 4


VEHICLES = {word: vehicle for vehicle, words in CONSTANTS["spatial457"]["vehicles"].items() for word in words}


DIGIT_OF_WORD = {word: str(number) for word, number in UNITS.items() if number <= 10}
