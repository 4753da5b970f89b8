"""What a reading is, and how options are lettered: what the shortcuts need as well as the whole reading."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


class Reading(NamedTuple):
    """How a reply was read.

    Attributes:
        value: bool for truth, letter for choice, option text for choice_text, int for count, float for number, str for
            short; None where the reply gives no single answer.
        reason: why nothing was read, None where something was; of a long reply also that it was not read as a whole.
        also: other names that the reply gives for the same thing (a scientific name in brackets); for `correct`.
    """

    value: bool | int | float | str | None
    reason: str | None
    also: tuple[str, ...] = ()


def lettered(options: Mapping[str, str] | Sequence[str] | None) -> tuple[tuple[str, str], ...]:
    """Options as (letter, text) pairs, letters upper-case; a list is lettered by position."""
    if not options:
        return ()
    if isinstance(options, Mapping):
        return tuple((str(letter).strip().upper(), str(text)) for letter, text in options.items())
    return tuple(zip(LETTERS, map(str, options), strict=False))
