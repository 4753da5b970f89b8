"""The whole reading of a reply, for those that are not plain."""

from __future__ import annotations

from snellen.scoring.extract.choice import read_choice
from snellen.scoring.extract.cleaning import Reply
from snellen.scoring.extract.count import read_count
from snellen.scoring.extract.number import read_number
from snellen.scoring.extract.reading import Reading
from snellen.scoring.extract.short import read_short
from snellen.scoring.extract.truth import read_truth


def read_whole(
    kind: str, reply: Reply, pairs: tuple[tuple[str, str], ...], question: str, form: str | None, unit: str | None
) -> Reading:
    """One reply with all its sentences: arguments and result are those of `read`, with the options as lettered pairs."""

    def one(part: Reply) -> Reading:
        if kind == "truth":
            return read_truth(part, question, form)
        if kind == "count":
            return read_count(part, question)
        if kind == "number":
            return read_number(part, question, unit)
        if kind == "short":
            return read_short(part, question)
        return read_choice(part, pairs, question)

    if reply.boxes:
        known = {box: one(Reply(box)) for box in dict.fromkeys(reply.boxes)}
        readings = [known[box] for box in reply.boxes]
        values = list(dict.fromkeys(r.value for r in readings if r.value is not None))
        if len(values) == 1:
            return next(r for r in readings if r.value is not None)
        if len(values) > 1:
            return Reading(None, "two answers: " + ", ".join(str(v)[:40] for v in values[:4]))
        if not reply.text or any(r.reason and r.reason != "no answer" for r in readings):
            return readings[-1]
    if reply.unfinished:
        return Reading(None, "reasoning not finished")
    return one(reply)
