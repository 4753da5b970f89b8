"""An even sample of a stream whose length is unknown: the stream is cut into stretches, one item of each is taken."""

from __future__ import annotations

import random
from itertools import pairwise
from typing import Generic, TypeVar

T = TypeVar("T")


class EvenSample(Generic[T]):
    """Items spread evenly over a stream, drawn with a seed; at most twice the wanted number is held.

    The stream is cut into stretches of equal length, and each holds one item drawn from it. When the stretches are too
    many, neighbours are joined, and one of their two items stays.

    Args:
        wanted: how many items, at least 0.
        seed: of the draws.
    """

    def __init__(self, wanted: int, seed: int = 0) -> None:
        self._wanted = wanted
        self._random = random.Random(seed)  # noqa: S311  which rows are shown is no secret
        self._items: list[T] = []
        self._length = 1
        self._at = 0
        self._chosen = 0

    def add(self, item: T) -> None:
        """Offer the next item of the stream."""
        if self._wanted < 1:
            return
        if self._at == 0:
            if len(self._items) == 2 * self._wanted:
                self._join()
            self._chosen = self._random.randrange(self._length)
            self._items.append(item)
        elif self._at == self._chosen:
            self._items[-1] = item
        self._at = (self._at + 1) % self._length

    def _join(self) -> None:
        pairs = zip(self._items[::2], self._items[1::2], strict=True)
        self._items = [pair[self._random.randrange(2)] for pair in pairs]
        self._length *= 2

    def items(self) -> list[T]:
        """Draw the items, in the order of the stream: as many as wanted, or all of a shorter stream."""
        count = len(self._items)
        if count <= self._wanted:
            return list(self._items)
        ends = [at * count // self._wanted for at in range(self._wanted + 1)]
        return [self._items[self._random.randrange(*part)] for part in pairwise(ends)]
