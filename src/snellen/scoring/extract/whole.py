"""Full extraction of a reply that is no plain letter, word or number."""

from __future__ import annotations

from snellen.scoring.extract.base import Reading, two_answers
from snellen.scoring.extract.choice import read_choice
from snellen.scoring.extract.clean import CleanReply, take_apart
from snellen.scoring.extract.count import read_count
from snellen.scoring.extract.number import read_number
from snellen.scoring.extract.short import read_short
from snellen.scoring.extract.truth import read_truth

__all__ = ["read_whole", "take_apart"]


def read_whole(
    kind: str, reply: CleanReply, pairs: tuple[tuple[str, str], ...], question: str, unit: str | None
) -> Reading:
    """Read a cleaned reply sentence by sentence; arguments and result as `read`, options as (letter, text) pairs."""

    def extract(part: CleanReply) -> Reading:
        if kind == "truth":
            return read_truth(part, question)
        if kind == "count":
            return read_count(part, question)
        if kind == "number":
            return read_number(part, question, unit)
        if kind == "short":
            return read_short(part, question)
        return read_choice(part, pairs, question)

    if reply.boxes:
        by_box = {box: extract(CleanReply(box)) for box in dict.fromkeys(reply.boxes)}
        readings = [by_box[box] for box in reply.boxes]
        values = list(dict.fromkeys(r.value for r in readings if r.value is not None))
        if len(values) == 1:
            return next(r for r in readings if r.value is not None)
        if len(values) > 1:
            return two_answers(values)
        if not reply.text or any(r.reason and r.reason != "no answer" for r in readings):
            return readings[-1]
    if reply.unfinished:
        return Reading(None, "reasoning not finished")
    return extract(reply)
