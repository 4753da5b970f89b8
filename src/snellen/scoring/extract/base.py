"""Readings and lettered options: the types that the fast path shares with the full extraction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


class Reading(NamedTuple):
    """The extracted answer of a reply.

    Attributes:
        value: bool for truth, letter for choice, option text for choice_text, int for count, float for number, str for
            short; None where the reply gives no single answer.
        reason: why there is no value; None otherwise. For a long reply it also says that only a part was read.
        also: other names that the reply gives for the same object (a scientific name in brackets); for `correct`.
    """

    value: bool | int | float | str | None
    reason: str | None
    also: tuple[str, ...] = ()


def two_answers(values: Sequence[object]) -> Reading:
    """Return the reading of a reply that gives several answers; the reason names up to four."""
    return Reading(None, "two answers: " + ", ".join(str(value)[:40] for value in values[:4]))


def lettered(options: Mapping[str, str] | Sequence[str] | None) -> tuple[tuple[str, str], ...]:
    """Return options as (letter, text) pairs, letters upper-case; a list is lettered by position."""
    if not options:
        return ()
    if isinstance(options, Mapping):
        return tuple((str(letter).strip().upper(), str(text)) for letter, text in options.items())
    return tuple(zip(LETTERS, map(str, options), strict=False))
