"""SPAR-Bench: twenty tasks, letters, numbers and one change of view.

Source: the task `sparbench` of lmms-eval and `SparBench` of VLMEvalKit.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from snellen.benchmarks.spatial.scorers import vsi
from snellen.benchmarks.spatial.scorers.rows import ScoredRow, mean, means
from snellen.benchmarks.spatial.scorers.vlmevalkit import match_number, score_option
from snellen.benchmarks.spatial.tasks import CONSTANTS
from snellen.errors import DataError
from snellen.types import Score

_SPAR = CONSTANTS["spar"]
NUMBER: tuple[str, ...] = tuple(_SPAR["number"])
CHOICE: tuple[str, ...] = tuple(_SPAR["choice"])
VIEW_CHANGE: tuple[str, ...] = tuple(_SPAR["short"])
MIDDLE: tuple[str, ...] = tuple(_SPAR["middle"])
HIGH: tuple[str, ...] = tuple(task for task in CHOICE if task not in MIDDLE)
AXES: tuple[tuple[str, str], ...] = tuple((axis["up"], axis["down"]) for axis in _SPAR["axes"])

_UNSIGNED = re.compile(r"(?<!\^)\d+\.\d+|(?<!\^)\d+")
_MOVE = re.compile(r"\b([A-Za-z]+_[A-Za-z]+)\s*[:=]\s*([+-]?\d{1,9}(?:\.\d{1,9})?)")


def lmms_eval(reply: str, gold: str, task: str) -> Score:
    """Score as lmms-eval: the letter that begins the reply, the first number (of several views the last), or a view change.

    A reply to a choice is also right where it is part of the gold answer, so that silence is always right; nothing is
    stripped. Numbers have no sign; where there is none, 0 stands for it, -1 where several views are shown.

    Raises:
        DataError: if the task is none of the twenty.
    """
    kind = _kind(task)
    if kind == "choice":
        text, target = reply.lower(), gold.lower()
        right = text in target or (len(text) > 0 and text[0] == target)
        return Score(float(right), reply[:1] or None, "correct" if right else "wrong" if reply else "invalid")
    if kind == "number":
        numbers = _UNSIGNED.findall(reply)
        several = task.endswith("_mv")
        if not numbers:
            score = vsi.score_number(-1.0 if several else 0.0, gold)
            return Score(score.value, None, "invalid" if score.value == 0 else score.verdict, "no number")
        return vsi.score_number(float(numbers[-1 if several else 0]), gold)
    return _view_change(_moves(reply), gold, relative_to_reply=True)


def vlmevalkit(reply: str, gold: str, task: str) -> Score:
    """Score as VLMEvalKit: its option matcher, its last number, or a view change without the items that make no sense.

    Raises:
        DataError: if the task is none of the twenty.
    """
    kind = _kind(task)
    if kind == "choice":
        return score_option(reply, gold)
    if kind == "number":
        return vsi.score_number(match_number(reply), gold)
    return _view_change(_kit_moves(reply), gold)


def _kind(task: str) -> str:
    for kind, tasks in (("choice", CHOICE), ("number", NUMBER), ("view change", VIEW_CHANGE)):
        if task in tasks:
            return kind
    expected = ", ".join((*CHOICE, *NUMBER, *VIEW_CHANGE))
    raise DataError(
        f"SPAR-Bench has no task {task!r}; expected one of {expected}. Check that this is a file of SPAR-Bench."
    )


def _moves(text: str) -> dict[str, float] | None:
    """Return the amounts by action of `action:amount,...`; None if one item is anything else. Names keep their blanks."""
    moves: dict[str, float] = {}
    for item in text.split(","):
        name, colon, amount = item.partition(":")
        value = _float(amount)
        if not colon or value is None:
            return None
        moves[name] = value
    return moves


def _kit_moves(text: str) -> dict[str, float]:
    """Return the amounts by action of the items that are `action:amount`, blanks aside."""
    moves: dict[str, float] = {}
    for item in text.split(","):
        name, colon, amount = item.strip().partition(":")
        value = _float(amount)
        if colon and value is not None:
            moves[name.strip()] = value
    return moves


def _float(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def along_axes(moves: Mapping[str, float]) -> list[float]:
    """Return the moves right, up, forward, turn right and turn up, each less its opposite; 0 where neither is named."""
    return [moves.get(up, 0.0) - moves.get(down, 0.0) for up, down in AXES]


def _view_change(moves: Mapping[str, float] | None, gold: str, *, relative_to_reply: bool = False) -> Score:
    """Score by the mean of the mean relative accuracies of five axes; an axis that does not move takes the absolute error.

    `relative_to_reply`: lmms-eval passes the two in the wrong order, so that the error is relative to the model's amount, and
    absolute on an axis that the reply does not name.
    """
    target = _moves(gold)
    if target is None:
        return Score(None, None, "unscored", f"the gold answer {gold!r} is not a list of action:amount")
    if moves is None:
        return Score(0.0, None, "invalid", "an item that is not action:amount")
    pairs = list(zip(along_axes(moves), along_axes(target), strict=True))
    if relative_to_reply:
        pairs = [(true, predicted) for predicted, true in pairs]
    errors = [vsi.relative_error(value, reference) for value, reference in pairs]
    value = mean([vsi.mean_relative_accuracy(error) for error in errors])
    return vsi.graded_score(value, ",".join(f"{name}:{amount:g}" for name, amount in moves.items()))


def summary(
    rows: Sequence[ScoredRow], *, grouping: str = "task", view_change_in_middle: bool = True
) -> dict[str, float]:
    """Return the mean score by task, `overall`, their plain mean, and `low`, `middle` and `high`, the means by difficulty.

    Args:
        rows: with the grouping that says each row's task.
        grouping: its name.
        view_change_in_middle: False as in lmms-eval, where a slip in a name leaves it out of `middle` (not of `overall`).
    """
    by_task = means(rows, grouping)
    if not by_task:
        return {}
    middle = [task for task in MIDDLE if view_change_in_middle or task not in VIEW_CHANGE]
    figures = {"overall": mean(list(by_task.values()))}
    for difficulty, tasks in (("low", NUMBER), ("middle", middle), ("high", HIGH)):
        values = [by_task[task] for task in tasks if task in by_task]
        if values:
            figures[difficulty] = mean(values)
    return figures | by_task


def strict_view_change(reply: str, gold: str) -> Score:
    """Score a view change whose actions are known, in any case and with a colon or an equals sign; else invalid.

    Unlike either harness's rule a reply that names no known action is worth nothing, though the axes on which the gold
    answer does not move would agree with silence.
    """
    known = {name for axis in AXES for name in axis}
    moves = {name.lower(): float(amount) for name, amount in _MOVE.findall(reply) if name.lower() in known}
    if not moves:
        return Score(0.0, None, "invalid", "no action with an amount")
    return _view_change(moves, gold)
