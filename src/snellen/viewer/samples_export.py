"""All samples of a benchmark as compact data for its exported page, which filters and sorts them without a server."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

from snellen.engine.final_records import final_records
from snellen.engine.run_folder import RunFolder
from snellen.errors import SnellenError
from snellen.reports.escape import clip, escape_invisible
from snellen.viewer.index import MOST_ROWS, VERDICTS, RunEntry, SamplePage, SampleQuery, SampleRow
from snellen.viewer.sample_columns import (
    DEFAULT_SORT,
    VERDICT_ORDER,
    SampleColumns,
    case_state,
    offered,
    pattern_presets,
    place_of,
    telling_slices,
)
from snellen.viewer.site import Site
from snellen.viewer.states import SamplesState

MOST_EXPORTED = 20_000
"""Samples of a benchmark that its page holds: those that most models got wrong come first."""
REPLY_CHARACTERS, REPLY_BUDGET = 240, 8_000_000
"""The beginning of each reply that text is searched in, and the characters of all replies of a page."""


class WordTable:
    """Texts with numbers: many cells hold the same short text."""

    def __init__(self) -> None:
        self.words = [""]
        self._numbers = {"": 0}

    def number(self, text: str) -> int:
        """Return the number of a text, a new one for a new text."""
        number = self._numbers.setdefault(text, len(self.words))
        if number == len(self.words):
            self.words.append(text)
        return number


def all_rows(site: Site, query: SampleQuery) -> Iterator[SampleRow]:
    """Yield the rows of a query, at most MOST_EXPORTED, page by page."""
    start = 0
    while start < MOST_EXPORTED:
        page = site.index.samples(dataclasses.replace(query, start=start, limit=min(MOST_ROWS, MOST_EXPORTED - start)))
        yield from page.rows
        if page.next is None:
            return
        start = page.next


def samples_data(site: Site, columns: SampleColumns, page: SamplePage) -> dict[str, Any]:
    """Build the data of an exported samples page.

    Orders are lists of row numbers as the index gives them, so that the page's script repeats none of their rules.

    Args:
        site: the index, and links that record each case and image for the export.
        columns: the runs.
        page: any page of the benchmark, for its profiles and slices.
    """
    query = dataclasses.replace(page.query, pattern="", slices=(), question="", reply="", text="", sort=DEFAULT_SORT)
    rows = list(all_rows(site, query))
    numbers = {(row.sample_id, row.repeat): number for number, row in enumerate(rows)}
    words = WordTable()
    return {
        "sort": DEFAULT_SORT,
        "verdicts": VERDICTS,
        "verdict_order": VERDICT_ORDER,
        "presets": pattern_presets(len(columns.shown)),
        "runs": [{"letter": column.letter, "names": column.names} for column in columns.pattern_columns],
        "profiles": page.profiles,
        "slices": list(_slices(page, rows)),
        "rows": _rows(site, columns, rows),
        "cells": {
            profile: _cells(site, page, dataclasses.replace(query, profile=profile), numbers, words)
            for profile in page.profiles
        },
        "replies": _replies(columns.shown, numbers),
        "words": words.words,
        "of": page.of,
    }


def _rows(site: Site, columns: SampleColumns, rows: Sequence[SampleRow]) -> dict[str, list[Any]]:
    state = SamplesState(benchmark=columns.benchmark)
    links = site.links
    return {
        "id": [clip(row.sample_id, 120) for row in rows],
        "repeat": [row.repeat for row in rows],
        "question": [escape_invisible(row.question) for row in rows],
        "thumbnail": thumbnails(site, rows),
        "images": [row.image_count for row in rows],
        "address": [links.to(case_state(state, columns.benchmark, row.sample_id, row.repeat)) for row in rows],
        "target": [None if row.target is None else clip(row.target, 60) for row in rows],
    }


def thumbnails(site: Site, rows: Sequence[SampleRow]) -> list[str]:
    """Return the small copy of each row's first image; an export draws them in the benchmark's order, in one pass over it."""
    files = [""] * len(rows)
    for number in sorted((number for number, row in enumerate(rows) if row.images), key=lambda at: place_of(rows[at])):
        files[number] = site.links.thumbnail(offered(site, rows[number].images[0]))
    return files


def _slices(page: SamplePage, rows: Sequence[SampleRow]) -> Iterator[dict[str, Any]]:
    """Yield each field with its values, their counts, and the number of each row's value."""
    for name, values in telling_slices(page).items():
        codes = {value: code for code, (value, _) in enumerate(values)}
        yield {
            "name": name,
            "values": [value for value, _ in values],
            "counts": [count for _, count in values],
            "codes": [codes.get(row.slices[name], -1) if name in row.slices else -1 for row in rows],
        }


def _cells(
    site: Site, page: SamplePage, query: SampleQuery, numbers: dict[tuple[str, int], int], words: WordTable
) -> dict[str, Any]:
    """Return the verdicts of one profile, run by run, and the orders of the rows under it."""
    count, runs = len(numbers), len(page.runs)
    verdicts = [[VERDICTS.index("missing")] * count for _ in range(runs)]
    extracted = [[0] * count for _ in range(runs)]
    unsure: list[list[int]] = [[] for _ in range(runs)]
    differ: list[list[int]] = [[] for _ in range(runs)]
    for row in all_rows(site, query):
        number = numbers.get((row.sample_id, row.repeat))
        if number is None:
            continue
        for run, cell in enumerate(row.cells):
            verdicts[run][number] = VERDICTS.index(cell.verdict)
            extracted[run][number] = words.number(clip(cell.extracted, 40))
            if cell.judge_unsure:
                unsure[run].append(number)
            if cell.profiles_differ:
                differ[run].append(number)
    orders = {
        sort: [numbers[place] for place in site.index.order(dataclasses.replace(query, sort=sort)) if place in numbers]
        for sort in page.sorts
    }
    return {
        "verdicts": ["".join(map(str, codes)) for codes in verdicts],
        "extracted": extracted,
        "unsure": unsure,
        "differ": differ,
        "orders": orders,
    }


def _replies(entries: Sequence[RunEntry], numbers: dict[tuple[str, int], int]) -> list[list[str]]:
    """Return the beginning of each reply; nothing of runs whose replies may quote a gold answer that must not be shown."""
    characters = min(REPLY_CHARACTERS, REPLY_BUDGET // max(1, len(entries) * len(numbers)))
    replies = []
    for entry in entries:
        texts = [""] * len(numbers)
        if not entry.restricted:
            try:
                for record in final_records(RunFolder(entry.path).results):
                    number = numbers.get((record.sample_id, record.repeat))
                    if number is not None and record.response is not None:
                        texts[number] = escape_invisible(record.response.text[:characters])
            except (SnellenError, OSError):  # a torn journal: what was read up to there is searched
                pass
        replies.append(texts)
    return replies
