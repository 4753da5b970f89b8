"""SPAR-Bench: twenty tasks, letters, numbers and one change of view.

Source: the task `sparbench` of lmms-eval and `SparBench` of VLMEvalKit.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from snellen.benchmarks.spatial.scorers import vlmevalkit_number, vlmevalkit_option, vsi
from snellen.benchmarks.spatial.scorers.constants import CONSTANTS
from snellen.benchmarks.spatial.scorers.rows import Row, mean, means
from snellen.errors import DataError
from snellen.types import Score

_SPAR = CONSTANTS["spar"]
NUMBER: tuple[str, ...] = tuple(_SPAR["number"])
CHOICE: tuple[str, ...] = tuple(_SPAR["choice"])
VIEW_CHANGE: tuple[str, ...] = tuple(_SPAR["view_change"])
MIDDLE: tuple[str, ...] = tuple(_SPAR["middle"])
HIGH: tuple[str, ...] = tuple(task for task in CHOICE if task not in MIDDLE)
AXES: tuple[tuple[str, str], ...] = tuple((axis["up"], axis["down"]) for axis in _SPAR["axes"])

_UNSIGNED = re.compile(r"(?<!\^)\d+\.\d+|(?<!\^)\d+")
_MOVE = re.compile(r"\b([A-Za-z]+_[A-Za-z]+)\s*[:=]\s*([+-]?\d{1,9}(?:\.\d{1,9})?)")


def lmms_eval(reply: str, gold: str, task: str) -> Score:
    """lmms-eval: a letter that begins the reply, the first number (the last where several views are shown), a view change.

    A reply to a choice is also right where it is part of the gold answer, so that silence is always right; nothing is
    stripped. Numbers have no sign; where there is none, 0 stands for it, -1 where several views are shown.

    Raises:
        DataError: if the task is none of the twenty.
    """
    kind = _kind(task)
    if kind == "choice":
        said, target = reply.lower(), gold.lower()
        right = said in target or (len(said) > 0 and said[0] == target)
        return Score(float(right), reply[:1] or None, "correct" if right else "wrong" if reply else "invalid")
    if kind == "number":
        found = _UNSIGNED.findall(reply)
        several = task.endswith("_mv")
        if not found:
            score = vsi.scored(-1.0 if several else 0.0, gold)
            return Score(score.value, None, "invalid" if score.value == 0 else score.verdict, "no number")
        return vsi.scored(float(found[-1 if several else 0]), gold)
    return _view_change(_moves(reply), gold, by_said=True)


def vlmevalkit(reply: str, gold: str, task: str) -> Score:
    """VLMEvalKit: its option matcher, its last number, or a view change whose items that make no sense are passed over.

    Raises:
        DataError: if the task is none of the twenty.
    """
    kind = _kind(task)
    if kind == "choice":
        return vlmevalkit_option.hit(reply, gold)
    if kind == "number":
        return vsi.scored(vlmevalkit_number.number(reply), gold)
    return _view_change(_kit_moves(reply), gold)


def _kind(task: str) -> str:
    for kind, tasks in (("choice", CHOICE), ("number", NUMBER), ("view change", VIEW_CHANGE)):
        if task in tasks:
            return kind
    expected = ", ".join((*CHOICE, *NUMBER, *VIEW_CHANGE))
    raise DataError(f"SPAR-Bench has no task {task!r}; expected one of {expected}. Is this a file of SPAR-Bench?")


def _moves(text: str) -> dict[str, float] | None:
    """Action and amount of `action:amount,...`; None if one item is anything else. Names keep the blanks around them."""
    found: dict[str, float] = {}
    for item in text.split(","):
        name, colon, amount = item.partition(":")
        value = _float(amount)
        if not colon or value is None:
            return None
        found[name] = value
    return found


def _kit_moves(text: str) -> dict[str, float]:
    """Action and amount of the items that are `action:amount`, blanks aside."""
    found: dict[str, float] = {}
    for item in text.split(","):
        name, colon, amount = item.strip().partition(":")
        value = _float(amount)
        if colon and value is not None:
            found[name.strip()] = value
    return found


def _float(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def along_axes(moves: Mapping[str, float]) -> list[float]:
    """Right, up, forward, turn right, turn up: what goes one way less what goes the other; 0 where nothing is said."""
    return [moves.get(up, 0.0) - moves.get(down, 0.0) for up, down in AXES]


def _view_change(moves: Mapping[str, float] | None, gold: str, *, by_said: bool = False) -> Score:
    """The mean of the mean relative accuracies along the five axes; an axis that does not move takes the absolute error.

    `by_said`: lmms-eval hands the two over in the wrong order, so that the error is relative to what the model said, and
    absolute on an axis of which it said nothing.
    """
    target = _moves(gold)
    if target is None:
        return Score(None, None, "unscored", f"the gold answer {gold!r} is not a list of action:amount")
    if moves is None:
        return Score(0.0, None, "invalid", "an item that is not action:amount")
    pairs = zip(along_axes(moves), along_axes(target), strict=True)
    errors = [vsi.relative_error(true, said) if by_said else vsi.relative_error(said, true) for said, true in pairs]
    value = mean([vsi.mean_relative_accuracy(error) for error in errors])
    return vsi.graded(value, ",".join(f"{name}:{amount:g}" for name, amount in moves.items()))


def summary(rows: Sequence[Row], *, grouping: str = "task", view_change_in_middle: bool = True) -> dict[str, float]:
    """Mean score by task, `overall`, their plain mean, and `low`, `middle` and `high`, the plain means by difficulty.

    Args:
        rows: with the grouping that says each row's task.
        grouping: its name.
        view_change_in_middle: False as in lmms-eval, where a slip in a name leaves it out of `middle` (not of `overall`).
    """
    found = means(rows, grouping)
    if not found:
        return {}
    middle = [task for task in MIDDLE if view_change_in_middle or task not in VIEW_CHANGE]
    summed = {"overall": mean(list(found.values()))}
    for difficulty, tasks in (("low", NUMBER), ("middle", middle), ("high", HIGH)):
        there = [found[task] for task in tasks if task in found]
        if there:
            summed[difficulty] = mean(there)
    return summed | found


def strict_view_change(reply: str, gold: str) -> Score:
    """A view change whose every item makes sense, in any case and behind a colon or an equals sign; else invalid.

    Unlike either harness's rule a reply that names no known action is worth nothing, though the axes on which the gold
    answer does not move would agree with silence.
    """
    known = {name for axis in AXES for name in axis}
    found = {name.lower(): float(amount) for name, amount in _MOVE.findall(reply) if name.lower() in known}
    if not found:
        return Score(0.0, None, "invalid", "no action with an amount")
    return _view_change(found, gold)
