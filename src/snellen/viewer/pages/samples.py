"""The samples page: one row a sample, one column a run, with filters, orders and queries by SQL."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, cast

from snellen.engine.final_records import final_records
from snellen.engine.run_folder import RunFolder
from snellen.errors import SnellenError, UsageError
from snellen.reports.escape import clip, escape_invisible, json_for_page
from snellen.viewer.index import (
    MOST_ROWS,
    SORTS,
    VERDICTS,
    RunEntry,
    SamplePage,
    SampleQuery,
    SampleRow,
    Sort,
    SqlTable,
)
from snellen.viewer.index.sample_page import pattern_sql
from snellen.viewer.labels import benchmark_label, model_label
from snellen.viewer.sample_columns import (
    DEFAULT_SORT,
    VERDICT_ORDER,
    SampleColumns,
    case_state,
    choose_columns,
    image_places,
    offered,
    pattern_presets,
    place_of,
    sampled_benchmarks,
    telling_slices,
)
from snellen.viewer.site import Site, ViewPage
from snellen.viewer.states import AcuityState, SamplesState, read_slice, slice_filter

SQL_ROWS = 200
SQL_CHARACTERS = 400
WITHIN = (("", "question or reply"), ("question", "question"), ("reply", "reply"))
FACET_VALUES, FACETS_OPEN, TAGS = 60, 3, 3
REFRESH_S = 5
SQL_EXAMPLE = "SELECT run, sample_id, text FROM results WHERE text ILIKE '%cannot see%' LIMIT 50"


class FilterLink(NamedTuple):
    """A link that sets or removes one filter; `samples` is how many it selects, None where that is not known."""

    label: str
    address: str
    active: bool
    samples: str | None = None


class Facet(NamedTuple):
    """One field of the samples' meta with its values; `value` is the chosen one, `left_out` how many values are not shown."""

    name: str
    choices: tuple[FilterLink, ...]
    value: str | None
    open: bool
    left_out: int


class QueryProblem(NamedTuple):
    """An error in what the reader typed, shown where it was typed."""

    message: str
    hint: str


def sample_query(columns: SampleColumns, state: SamplesState) -> SampleQuery:
    """Build the index's query for a state; the case page walks the same rows.

    Raises:
        UsageError: the pattern or a filter cannot be read, or there is no such order.
    """
    if state.sort and state.sort not in SORTS:
        raise UsageError(f"there is no order {state.sort[:40]!r}", f"Orders: {', '.join(SORTS)}.")
    pattern_sql(state.pattern, columns.pattern_columns)  # refuses one that cannot be read
    return SampleQuery(
        columns.benchmark,
        tuple(entry.key for entry in columns.shown),
        profile=state.profile,
        pattern=state.pattern,
        slices=tuple(read_slice(text) for text in state.where if text),
        question=state.text if state.within == "question" else "",
        reply=state.text if state.within == "reply" else "",
        text="" if state.within else state.text,
        sort=cast("Sort", state.sort or DEFAULT_SORT),
        start=(state.number - 1) * state.rows,
        limit=state.rows,
    )


def view(site: Site, state: SamplesState) -> Mapping[str, Any]:
    """Show one page of samples; an export gets all samples of the benchmark as data."""
    entries = site.index.runs()
    benchmarks = sampled_benchmarks(entries)
    if not benchmarks:
        return {"benchmark": ""}
    columns = choose_columns(entries, state)
    problem = None
    try:
        query = sample_query(columns, state)
        page = site.index.samples(query)
    except UsageError as error:
        problem = QueryProblem(error.message, error.hint)
        plain = dataclasses.replace(state, where=(), pattern="", text="", sort="", profile="", number=1)
        page = dataclasses.replace(site.index.samples(sample_query(columns, plain)), rows=(), total=0, next=None)
    view_model = {
        **_form(site, state, columns, page, benchmarks),
        **_result(site, state, columns, page),
        "problem": problem,
        **(_sql(site, state, columns, entries) if site.live else {}),
    }
    if not site.live:
        from markupsafe import Markup

        view_model["data"] = Markup(json_for_page(samples_data(site, columns, page)))
    return view_model


def _form(
    site: Site, state: SamplesState, columns: SampleColumns, page: SamplePage, benchmarks: Mapping[str, int]
) -> dict[str, Any]:
    two = len(columns.shown) > 1
    return {
        "benchmark": columns.benchmark,
        "label": benchmark_label(columns.benchmark),
        "benchmarks": [(name, benchmark_label(name), count) for name, count in benchmarks.items()],
        "profiles": page.profiles,
        "profile": page.query.profile,
        "sorts": [(sort, label) for sort, label in SORTS.items() if sort in page.sorts or sort == state.sort],
        "sort": state.sort or DEFAULT_SORT,
        "default_sort": DEFAULT_SORT,
        "within": WITHIN,
        "pattern_example": "A right and B wrong" if two else "A wrong",
        "verdict_words": VERDICTS,
        "form_address": site.links.to(SamplesState()) if site.live else "",
    }


def _result(site: Site, state: SamplesState, columns: SampleColumns, page: SamplePage) -> dict[str, Any]:
    links = site.links
    letters = [column.letter for column in columns.pattern_columns]
    telling = telling_slices(page)
    places = image_places(page.rows)
    rows = [_row(site, state, columns, row, letters, telling, places) for row in page.rows]
    first = page.query.start + 1
    waiting = any(entry.samples in ("waiting", "behind") or entry.state == "running" for entry in columns.shown)
    measuring = tuple(entry.key for entry in columns.shown if entry.measures_acuity)
    return {
        "acuity_address": links.to(AcuityState(run=measuring)) if measuring else "",
        "columns": [
            {
                "letter": letter,
                "key": entry.key,
                "model": model_label(entry.model) or entry.key,
                "settings": entry.settings,
                "state": entry.shown_state,
                "by_default": entry in columns.default,
                "counts": [(word, counts[word]) for word in VERDICT_ORDER if counts.get(word)],
                "total": sum(counts.values()),
            }
            for letter, entry, counts in zip(letters, columns.shown, page.verdicts, strict=True)
        ],
        "others": [
            {
                "key": entry.key,
                "model": model_label(entry.model) or entry.key,
                "settings": entry.settings,
                "by_default": entry in columns.default,
            }
            for entry in columns.others
        ],
        "rows": rows,
        "facets": _facets(site, state, page),
        "presets": _presets(site, state, columns),
        "filtered": bool(state.where or state.pattern or state.text),
        "clear_address": links.to(state.filtered(where=(), pattern="", text="", within="")),
        "notes": (*columns.notes, *page.notes),
        "count": _count(page, first, len(rows)),
        "pager": {
            "previous": links.to(state.changed(number=state.number - 1)) if state.number > 1 else "",
            "next": links.to(state.changed(number=state.number + 1)) if page.next is not None else "",
            "text": f"page {state.number:,} of {max(1, -(-page.total // state.rows)):,}",
        },
        "refresh_s": REFRESH_S if site.live and waiting else 0,
    }


def _count(page: SamplePage, first: int, rows: int) -> str:
    of = f" (of {page.of:,})" if page.total != page.of else ""
    samples = "sample" if page.total == 1 else "samples"
    return f"{first:,} to {first + rows - 1:,} of {page.total:,} {samples}{of}" if rows else f"0 samples{of}"


def _row(
    site: Site,
    state: SamplesState,
    columns: SampleColumns,
    row: SampleRow,
    letters: Sequence[str],
    telling: Collection[str],
    places: Sequence[str],
) -> dict[str, Any]:
    filters = {read_slice(text)[0] for text in state.where if "=" in text}
    tags = [value for name, value in row.slices.items() if name in telling and name not in filters and value][:TAGS]
    return {
        "address": site.links.to(case_state(state, columns.benchmark, row.sample_id, row.repeat)),
        "sample_id": clip(row.sample_id, 120),
        "repeat": row.repeat,
        "question": row.question or "(the question is not available here)",
        "thumbnail": site.links.thumbnail(offered(site, row.images[0], places)) if row.images else "",
        "more_images": max(0, row.image_count - 1),
        "tags": [clip(tag, 40) for tag in tags],
        "target": None if row.target is None else clip(row.target, 60),
        "cells": [
            {
                "letter": letter,
                "verdict": cell.verdict,
                "extracted": clip(cell.extracted, 60),
                "title": clip(cell.reason or cell.error, 300),
                "judge_unsure": cell.judge_unsure,
                "profiles_differ": cell.profiles_differ,
                "read_by_model": cell.read_by_model,
            }
            for letter, cell in zip(letters, row.cells, strict=True)
        ],
    }


def _facets(site: Site, state: SamplesState, page: SamplePage) -> list[Facet]:
    """Return the fields that tell samples apart, with the number of samples of each value."""
    chosen = dict(read_slice(text) for text in state.where if "=" in text)
    facets: list[Facet] = []
    for name, values in page.slices.items():
        value = chosen.get(name)
        if len(values) < 2 and value is None:
            continue
        others = tuple(text for text in state.where if "=" in text and read_slice(text)[0] != name)
        counts = dict(values[:FACET_VALUES])
        if value is not None:
            counts.setdefault(value, dict(values).get(value, 0))
        choices = tuple(
            FilterLink(
                clip(text, 60) or "(empty)",
                site.links.to(state.filtered(where=others if text == value else (*others, slice_filter(name, text)))),
                text == value,
                f"{count:,}",
            )
            for text, count in counts.items()
        )
        is_open = value is not None or len(facets) < FACETS_OPEN
        facets.append(Facet(name, choices, value, is_open, max(0, len(values) - len(choices))))
    return facets


def _presets(site: Site, state: SamplesState, columns: SampleColumns) -> list[FilterLink]:
    return [
        FilterLink(
            text, site.links.to(state.filtered(pattern="" if text == state.pattern else text)), text == state.pattern
        )
        for text in pattern_presets(len(columns.shown))
    ]


def _sql(site: Site, state: SamplesState, columns: SampleColumns, entries: Sequence[RunEntry]) -> dict[str, Any]:
    """Answer the query of the SQL box."""
    filters = dataclasses.replace(state, sql="", benchmark=columns.benchmark)
    fields: dict[str, Any] = {
        "sql_fields": filters.pairs(),
        "sql_example": SQL_EXAMPLE,
        "sql_problem": None,
        "sql_table": None,
    }
    if not state.sql.strip():
        return fields
    try:
        table = site.index.sql(state.sql, SQL_ROWS)
    except UsageError as error:
        return {**fields, "sql_problem": QueryProblem(error.message, error.hint)}
    return {**fields, "sql_table": _sql_table(site, filters, columns, entries, table)}


def _sql_table(
    site: Site, state: SamplesState, columns: SampleColumns, entries: Sequence[RunEntry], table: SqlTable
) -> dict[str, Any]:
    """Return the rows as texts, with a link where a row names a run or a sample."""
    places = {name: place for place, name in enumerate(table.columns)}
    benchmark_of = {
        name: entry.benchmark for entry in entries for name in (entry.path.name, str(entry.path), entry.key)
    }

    def address(row: Sequence[Any], place: int) -> str:
        if place != places.get("sample_id") or row[place] is None:
            return ""
        run = row[places["run"]] if "run" in places else ""
        repeat = row[places["repeat"]] if "repeat" in places else 0
        benchmark = benchmark_of.get(str(run), columns.benchmark)
        fits = state if benchmark == columns.benchmark else SamplesState()
        return site.links.to(case_state(fits, benchmark, str(row[place]), repeat if isinstance(repeat, int) else 0))

    rows = [
        [
            ("" if value is None else clip(str(value), SQL_CHARACTERS), address(row, place))
            for place, value in enumerate(row)
        ]
        for row in table.rows
    ]
    count = f"the first {len(rows):,} rows" if table.truncated else f"{len(rows):,} row{'' if len(rows) == 1 else 's'}"
    return {"columns": table.columns, "rows": rows, "count": count, "notes": table.notes}


PAGE = ViewPage(state=SamplesState, view=view, title="Samples")


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
