"""Disputed records of a journal: two intact lines with one number or one sample, as where lines of another run got in.

A checksum does not say to which run a line belongs. Its place does, mostly: in a journal that nobody touched, record n is
on line n. Of several records that exclude each other, the one that is clearly nearer to its place is kept. Where none
is, none is kept, and the run asks for the sample again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable
from typing import NamedTuple

FEW_LINES = 16
"""Lines that were deleted or added before a record move it by a few."""


class RecordPlace(NamedTuple):
    """A record in a journal.

    Attributes:
        number: its own, or that of the record before it where it has none.
        at, size: its bytes without the line end.
        line: its line; None where it has no number.
        answer: sample and repeat that it answers; None for a failure.
        digest: of its bytes.
    """

    number: int
    at: int
    size: int
    line: int | None
    answer: tuple[str, int] | None
    digest: int


def settled(places: Iterable[RecordPlace]) -> list[RecordPlace]:
    """Return the places by number: each number once, each answer once, and nothing of what remains disputed."""
    numbered: dict[Hashable, list[RecordPlace]] = defaultdict(list)
    rest: list[RecordPlace] = []
    for place in places:
        (rest if place.line is None else numbered[place.number]).append(place)
    undisputed = [own for several in numbered.values() if (own := _own(several)) is not None]
    answers: dict[Hashable, list[RecordPlace]] = defaultdict(list)
    for place in undisputed:
        answers[place.answer or (place.number,)].append(place)
    agreed = [own for several in answers.values() if (own := _own(several)) is not None]
    return sorted([*agreed, *rest], key=lambda place: (place.number, place.at))


def _own(several: list[RecordPlace]) -> RecordPlace | None:
    """Return the record that is clearly nearer to its place than any other that differs from it; None if none is."""
    nearest = min(several, key=_offset)
    others = [_offset(place) for place in several if place.digest != nearest.digest]
    return nearest if not others or 2 * _offset(nearest) + FEW_LINES < min(others) else None


def _offset(place: RecordPlace) -> int:
    return abs((place.line or 0) - place.number)
