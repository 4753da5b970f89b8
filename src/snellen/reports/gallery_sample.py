"""Stratified sample of a run's answers: right and wrong ones of every slice, the same samples of every run."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Sequence
from typing import Generic, NamedTuple, TypeVar

from snellen.runs.answer_view import AnswerView

SLICES = 64
"""Slices of a run that are told apart; answers of further ones are drawn together."""

_COLUMNS = ("task", "level")
"""Meta columns that make a slice, beside the kind of question."""

Kept = TypeVar("Kept")


class Stratum(NamedTuple):
    """Answers that are drawn together: how right they are (0 wrong, 1 disputed, 2 right), and their slice."""

    rank: int
    slice_of: tuple[str, ...]


def slice_of(answer: AnswerView) -> tuple[str, ...]:
    """Return the slice of an answer: its kind, task and level."""
    return (str(answer.kind), *(str(answer.meta.get(name, ""))[:80] for name in _COLUMNS))


def share_out(sizes: Sequence[int], room: int) -> list[int]:
    """Share room among strata evenly; what a small stratum does not need goes to the larger ones."""
    shares = [0] * len(sizes)
    left = room
    for number, place in enumerate(sorted(range(len(sizes)), key=lambda at: (sizes[at], at))):
        shares[place] = min(sizes[place], left // (len(sizes) - number))
        left -= shares[place]
    return shares


class StratifiedSample(Generic[Kept]):
    """Draws a fixed number of items from a stream, shared evenly among its strata.

    Of each stratum those with the lowest keys stay. Keys that depend on the sample and a seed alone make the draw the same
    for every run. Memory holds about twice the room: what a full stratum's present share excludes can never return, as
    that share only shrinks.
    """

    def __init__(self, room: int) -> None:
        self._room = max(0, room)
        self._strata: dict[Stratum, list[tuple[int, int, Kept]]] = {}
        self._bounds: dict[Stratum, int] = {}
        self._slices: set[tuple[str, ...]] = set()
        self._size = 0

    def offer(self, stratum: Stratum, key: int, order: int, make: Callable[[], Kept]) -> None:
        """Take part in the draw; `make` is called only for an item that may stay."""
        if stratum.slice_of not in self._slices:
            if len(self._slices) >= SLICES:
                stratum = Stratum(stratum.rank, ())
            else:
                self._slices.add(stratum.slice_of)
        items = self._strata.setdefault(stratum, [])
        bound = self._bounds.get(stratum, self._room)
        if len(items) >= bound:
            if not items or (-key, -order) <= items[0][:2]:
                return
            heapq.heapreplace(items, (-key, -order, make()))
            return
        heapq.heappush(items, (-key, -order, make()))
        self._size += 1
        if self._size > 2 * (self._room + len(self._strata)):
            self._shrink(spare=1)

    def _shrink(self, spare: int) -> None:
        """Drop what strata have no room for, the highest keys first; a share may grow by one when its rounding changes."""
        places = sorted(self._strata)
        shares = share_out([len(self._strata[place]) for place in places], self._room)
        for place, share in zip(places, shares, strict=True):
            items = self._strata[place]
            while len(items) > share + spare:
                heapq.heappop(items)
                self._bounds[place] = share + spare
        self._size = sum(map(len, self._strata.values()))

    def drawn(self) -> Iterator[Kept]:
        """Yield the items that were drawn, in the order in which they were offered."""
        self._shrink(spare=0)
        items = [item for items in self._strata.values() for item in items]
        return (chosen for _, _, chosen in sorted(items, key=lambda item: -item[1]))
