"""Strict answer extraction: the answer of a free-text reply, or the reason why there is none.

`read` never looks at the gold answer; `correct` compares the extracted answer with it. The rules are in
docs/extraction.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from snellen.errors import DataError
from snellen.scoring.extract.base import Reading, lettered, two_answers
from snellen.scoring.extract.choice import read_choice
from snellen.scoring.extract.clean import CleanReply, take_apart
from snellen.scoring.extract.count import read_count
from snellen.scoring.extract.fast_path import shortcut
from snellen.scoring.extract.match import correct
from snellen.scoring.extract.number import read_number
from snellen.scoring.extract.short import read_short
from snellen.scoring.extract.truth import read_truth


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


__all__ = ["KINDS", "Reading", "correct", "read"]

KINDS = ("truth", "choice", "choice_text", "count", "number", "short")


def read(
    kind: str,
    reply: str,
    *,
    question: str = "",
    options: Mapping[str, str] | Sequence[str] | None = None,
    aliases: Sequence[str] = (),
    form: str | None = None,
    unit: str | None = None,
    gold: Any = None,
) -> Reading:
    """Extract the answer of one reply.

    Args:
        kind: truth, choice, choice_text, count, number or short.
        reply: the model's reply, verbatim; any string.
        question: the question's text. Optional; it helps to understand full sentences.
        options: letter to text, or texts that are lettered A, B, … by position.
        aliases: ignored; accepted so that a whole row can be passed.
        form: `yes/no` or `T/F`, the answer format of a truth question.
        unit: the expected unit of a number; a reply in a compatible unit is converted.
        gold: ignored; accepted so that a whole row can be passed.

    Returns:
        The reading. Its value is None, with a reason, where the reply gives no single answer. Of a reply longer than
        `clean.LONGEST` characters only head and tail are read; the reason then says so.

    Raises:
        DataError: for an unknown kind, or a choice without options.
    """
    pairs = lettered(options) if kind in ("choice", "choice_text") else ()
    if kind not in KINDS:
        raise DataError(f"cannot read a reply of kind {kind!r}; kinds are {', '.join(KINDS)}.")
    if kind in ("choice", "choice_text") and not pairs:
        raise DataError(f"a reply of kind {kind!r} needs options: letter to text, or a list of texts.")
    reading = shortcut(kind, reply, pairs, form)
    if reading is None:
        apart = take_apart(reply)
        reading = read_whole(kind, apart, pairs, question, unit)
        if apart.omitted:
            cut = f"read at head and tail: {apart.omitted:,} of {len(reply):,} characters were left out"
            reading = reading._replace(reason=cut if reading.reason is None else f"{reading.reason}; {cut}")
    if kind == "choice_text" and reading.value is not None:
        reading = Reading(dict(pairs)[str(reading.value)], reading.reason)
    return reading
