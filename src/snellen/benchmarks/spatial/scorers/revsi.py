"""ReVSI: letters and numbers about rooms seen in a video, read from the head of the reply; both harnesses read alike.

Source: `ReVSI` of VLMEvalKit, the tasks `revsi` of lmms-eval.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from snellen.benchmarks.spatial.scorers.lmms_eval import score_letter
from snellen.benchmarks.spatial.scorers.rows import ScoredRow, mean, means
from snellen.benchmarks.spatial.scorers.vsi import first_piece, graded_score, mean_relative_accuracy
from snellen.benchmarks.spatial.tasks import CONSTANTS
from snellen.errors import DataError
from snellen.types import Score

CHOICE: tuple[str, ...] = tuple(CONSTANTS["revsi"]["choice"])
NUMBER: tuple[str, ...] = tuple(CONSTANTS["revsi"]["number"])
AVERAGED: Mapping[str, tuple[str, ...]] = {
    name: tuple(part for part in (*CHOICE, *NUMBER) if part.startswith(f"{name}_"))
    for name in CONSTANTS["revsi"]["averaged"]
}
"""Question types that a figure is the plain mean of, by the figure's name."""


def both_harnesses(reply: str, gold: str, question_type: str) -> Score:
    """Score the first piece: a letter in any case, or what Python reads as a number, with the error over the signed gold answer.

    With a negative gold answer every number is therefore right, and with 0 none is.

    Raises:
        DataError: if the question type is none of the thirteen.
    """
    piece = first_piece(reply.strip())
    if question_type in CHOICE:
        return score_letter(piece or None, gold)
    if question_type not in NUMBER:
        raise DataError(
            f"ReVSI has no question type {question_type!r}; expected one of {', '.join((*CHOICE, *NUMBER))}. "
            "Check that this is a file of ReVSI."
        )
    try:
        predicted, target = float(piece), float(gold)
    except ValueError:
        return Score(0.0, None, "invalid", "the reply does not begin with a number")
    if target == 0:
        return Score(0.0, str(predicted), "wrong", "the gold answer is 0, by which both harnesses divide")
    return graded_score(mean_relative_accuracy(abs(predicted - target) / target), predicted)


def summary(rows: Sequence[ScoredRow]) -> dict[str, float]:
    """Return the mean of each question type, four of them averaged over their parts, and `overall`, the plain mean of these."""
    by_type = means(rows, "question_type")
    for name, parts in AVERAGED.items():
        values = [by_type.pop(part) for part in parts if part in by_type]
        if values:
            by_type[name] = mean(values)
    return {"overall": mean(list(by_type.values())), **by_type} if by_type else {}
