"""Longest questions of the data, and the spread of their lengths."""

from __future__ import annotations

import heapq
from array import array

from msgspec import Struct

from snellen.text import shorten

EXCERPT = 120


class LongText(Struct, frozen=True):
    """A long prompt: its place, id, characters, and how it begins."""

    row: str
    id: str
    characters: int
    text: str


class TextLengths:
    """Lengths of all prompts, and the longest ones.

    Args:
        longest: how many of the longest are held.
    """

    def __init__(self, longest: int) -> None:
        self._most = longest
        self._lengths = array("I")
        self._heap: list[tuple[int, int, LongText]] = []

    def add(self, row: str, sample_id: str, text: str) -> None:
        """Add the text of one prompt."""
        length = min(len(text), 0xFFFFFFFF)
        number = len(self._lengths)
        self._lengths.append(length)
        entry = (length, -number)
        if len(self._heap) < self._most:
            heapq.heappush(self._heap, (*entry, _long_text(row, sample_id, text)))
        elif self._heap and entry > self._heap[0][:2]:
            heapq.heapreplace(self._heap, (*entry, _long_text(row, sample_id, text)))

    @property
    def median(self) -> int:
        """Return the median number of characters; 0 without rows."""
        return sorted(self._lengths)[len(self._lengths) // 2] if self._lengths else 0

    def longest(self) -> list[LongText]:
        """Return the longest prompts, the longest first."""
        return [text for _, _, text in sorted(self._heap, key=lambda entry: entry[:2], reverse=True)]


def _long_text(row: str, sample_id: str, text: str) -> LongText:
    return LongText(row, sample_id, len(text), shorten(" ".join(text[: 2 * EXCERPT].split()), EXCERPT))
