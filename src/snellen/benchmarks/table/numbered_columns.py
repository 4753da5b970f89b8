"""Columns of one name with numbers: image_1 and image_2, ending0 to ending3."""

from __future__ import annotations

import re
from collections.abc import Sequence

from snellen.benchmarks.table.column_names import plain_name

_NUMBERED = re.compile(r"(?P<stem>.*?[^\W\d_])[ _.\-]*(?P<number>\d{1,2})")


def stem_of(column: str) -> str:
    """Return a column's name without its number, case and signs, in the singular."""
    match = _NUMBERED.fullmatch(column)
    stem = match["stem"] if match else column
    return plain_name(stem).rstrip("s")


def with_numbered(columns: Sequence[str], candidates: list[str], holding: Sequence[str]) -> list[str]:
    """Return the candidates with their numbered brothers: image_2 belongs to image_1, by number."""
    stems = {stem_of(column) for column in candidates if _NUMBERED.fullmatch(column)} or {
        stem_of(column) for column in candidates
    }
    brothers = [
        column for column in columns if _NUMBERED.fullmatch(column) and stem_of(column) in stems and column in holding
    ]
    whole = list(dict.fromkeys([*candidates, *brothers]))

    def order(column: str) -> tuple[int, int]:
        match = _NUMBERED.fullmatch(column)
        return (int(match["number"]) if match else -1, columns.index(column))

    return sorted(whole, key=order)


def series(columns: Sequence[str]) -> list[list[str]]:
    """Return columns of one name with numbers that follow each other from 0 or 1: ending0, ending1 …"""
    stems: dict[str, dict[int, str]] = {}
    for column in columns:
        if match := _NUMBERED.fullmatch(column):
            stems.setdefault(match["stem"].lower(), {})[int(match["number"])] = column
    several = [[places[at] for at in sorted(places)] for places in stems.values() if _consecutive(sorted(places))]
    return [group for group in several if len(group) > 1]


def _consecutive(places: Sequence[int]) -> bool:
    return places[0] in (0, 1) and list(places) == list(range(places[0], places[0] + len(places)))
