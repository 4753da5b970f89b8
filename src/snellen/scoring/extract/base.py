"""The reading of a reply, and why there may be none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
VERBATIM, DECLARED = "verbatim", "declared"
STAGES = (VERBATIM, DECLARED, "short", "prose", "reader")
"""Stages of reading in their order: the first that finds an answer decides."""


READING_VERSION = 5
"""Version of the rules by which profile `strict` reads replies; it stands in each summary.json from 2 on.

3: a word of correction that is itself the answer (`Answer: HALT`) corrects nothing.
4: an answer that begins like a particle (`答えははさみ`) is whole, and boxes and points are read among other sentences.
5: of a term (`2π`, `x > 3`) no part is a number, days and amounts in words are read, options that a reply repeats are passed over.
"""


class Reading(NamedTuple):
    """The answer that was read from a reply.

    Attributes:
        value: as the answer type has it: bool, letter, int, float, text …; None where the reply gives no single answer.
        reason: why there is no value; None otherwise. Of a very long reply it also says that only a part was read.
        also: other forms in which the reply gives the same answer, for `correct`.
        stage: which of `STAGES` read it; empty without a value.
        places: spans of the reply that the value was read from; of two answers, those of both.
    """

    value: Any
    reason: str | None
    also: tuple[str, ...] = ()
    stage: str = ""
    places: tuple[tuple[int, int], ...] = ()


def two_answers(values: Sequence[object], places: Sequence[tuple[int, int]] = ()) -> Reading:
    """Return the reading of a reply that gives several answers; the reason names up to four."""
    return Reading(None, "two answers: " + ", ".join(str(value)[:40] for value in values[:4]), places=tuple(places[:4]))


def lettered(options: Mapping[str, str] | Sequence[str] | None) -> tuple[tuple[str, str], ...]:
    """Return options as (letter, text) pairs, letters upper-case; a list is lettered by position."""
    if not options:
        return ()
    if isinstance(options, Mapping):
        return tuple((str(letter).strip().upper(), str(text)) for letter, text in options.items())
    return tuple(zip(LETTERS, map(str, options), strict=False))
