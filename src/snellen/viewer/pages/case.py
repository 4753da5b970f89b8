"""The case page: one sample with its images as sent, its question, and every run's reply side by side."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from snellen.reports.plots.base import SERIES
from snellen.viewer.cases.case_view import CaseColumn, CaseLimits, CaseView, case_view
from snellen.viewer.cases.opened_runs import OpenedRuns
from snellen.viewer.cases.pictures import ShownPicture, drawn_regions, small_copies
from snellen.viewer.index import MOST_ROWS, SamplePage
from snellen.viewer.labels import benchmark_label, without_folders
from snellen.viewer.pages.samples import sample_query
from snellen.viewer.sample_columns import SampleColumns, choose_columns
from snellen.viewer.site import MissingPageError, Site, ViewPage
from snellen.viewer.states import CaseState, CompareState, ExchangeState, ReviewState, SamplesState

LIVE = CaseLimits()
EXPORTED = CaseLimits(characters=3_000, exchanges=False, paths=False, pictures=False)


def _small_copies(site: Site, columns: SampleColumns, state: CaseState) -> tuple[ShownPicture, ...]:
    """Return the question's images as the small copies that the samples page of an export has too."""
    for column in _case_columns(site, columns):
        sample, _ = column.opened.sample(state.sample)
        if sample is not None:
            return small_copies(sample.prompt.parts, site.thumbnails)
    return ()


class Neighbours(NamedTuple):
    """The samples before and after in the list that the filter selects; None at its ends.

    `place` is the number of this sample in the list, from 1; None where the filter does not select it. `of` counts the samples
    without the filter: 0 while the index has none of them yet.
    """

    before: CaseState | None
    after: CaseState | None
    place: int | None
    total: int
    of: int


def view(site: Site, state: CaseState) -> Mapping[str, Any]:
    """Show one sample; without a sample in the address, the first one of the list.

    Raises:
        MissingPageError: no run has this sample.
        UsageError: a filter cannot be read.
    """
    entries = site.index.runs()
    columns = choose_columns(entries, state)
    if not state.sample:
        page = site.index.samples(sample_query(columns, state))
        if not page.rows:
            raise MissingPageError("no sample matches this filter", "Remove a filter under Samples.")
        state = state.changed(sample=page.rows[0].sample_id, repeat=page.rows[0].repeat)
    case = case_view(
        _case_columns(site, columns),
        state.sample,
        state.repeat,
        site.images,
        profile=state.profile,
        show_gold=site.settings.show_gold,
        limits=LIVE if site.live else EXPORTED,
    )
    if case is None:
        raise MissingPageError(
            f"no run of {columns.benchmark[:80]!r} has a sample {state.sample[:200]!r}, repeat {state.repeat}",
            "Choose one under Samples.",
        )
    if not site.live:
        case = dataclasses.replace(case, pictures=_small_copies(site, columns, state))
    neighbours = _neighbours(site, columns, state)
    fields = {"case": case, "columns": columns, "benchmark": benchmark_label(columns.benchmark), "series": SERIES}
    drawings = [drawn_regions(case.pictures, item.reply.shapes, site) for item in case.replies]
    return {**fields, "drawings": drawings, **_links(site, state, columns, case, neighbours)}


def _case_columns(site: Site, columns: SampleColumns) -> list[CaseColumn]:
    result = []
    for column, entry in zip(columns.pattern_columns, columns.shown, strict=True):
        opened = site.opened.open(entry.key, entry.path)
        opened.indexed = partial(site.index.record, entry.key) if site.live else None
        settings = entry.settings if site.live else without_folders(entry.settings)
        result.append(CaseColumn(column.letter, opened, settings, entry.repeats))
    return result


def _neighbours(site: Site, columns: SampleColumns, state: CaseState) -> Neighbours:
    """Find the samples before and after: on the same page of the list, or on the one next to it."""
    if not site.live:
        return _exported_neighbours(site, columns, state)
    page: SamplePage = site.index.samples(sample_query(columns, state))
    places = [(row.sample_id, row.repeat) for row in page.rows]
    if (state.sample, state.repeat) not in places:
        return Neighbours(None, None, None, page.total, page.of)
    place = places.index((state.sample, state.repeat))
    before = after = None
    if place > 0:
        before = _moved(state, places[place - 1], state.number)
    elif state.number > 1:
        earlier = site.index.samples(sample_query(columns, state.changed(number=state.number - 1)))
        rows = [(row.sample_id, row.repeat) for row in earlier.rows]
        before = _moved(state, rows[-1], state.number - 1) if rows else None
    if place + 1 < len(places):
        after = _moved(state, places[place + 1], state.number)
    elif page.next is not None:
        later = site.index.samples(sample_query(columns, state.changed(number=state.number + 1)))
        rows = [(row.sample_id, row.repeat) for row in later.rows]
        after = _moved(state, rows[0], state.number + 1) if rows else None
    return Neighbours(before, after, page.query.start + place + 1, page.total, page.of)


_ORDERS: WeakKeyDictionary[OpenedRuns, dict[str, dict[tuple[str, int], int]]] = WeakKeyDictionary()
"""Of an export, the place of each sample of a benchmark; the list is read once for all of its pages."""


def _exported_neighbours(site: Site, columns: SampleColumns, state: CaseState) -> Neighbours:
    orders = _ORDERS.setdefault(site.opened, {})
    if columns.benchmark not in orders:
        query = dataclasses.replace(sample_query(columns, CaseState()), start=0, limit=MOST_ROWS)
        rows: list[tuple[str, int]] = []
        start: int | None = 0
        while start is not None:
            page = site.index.samples(dataclasses.replace(query, start=start))
            rows += [(row.sample_id, row.repeat) for row in page.rows]
            start = page.next
        orders[columns.benchmark] = {row: place for place, row in enumerate(rows)}
    places = orders[columns.benchmark]
    place = places.get((state.sample, state.repeat))
    if place is None:
        return Neighbours(None, None, None, len(places), len(places))
    names = list(places)
    before = _moved(state, names[place - 1], 1) if place > 0 else None
    after = _moved(state, names[place + 1], 1) if place + 1 < len(names) else None
    return Neighbours(before, after, place + 1, len(names), len(names))


def _moved(state: CaseState, row: tuple[str, int], number: int) -> CaseState:
    return state.changed(sample=row[0], repeat=row[1], number=number)


def _links(
    site: Site, state: CaseState, columns: SampleColumns, case: CaseView, neighbours: Neighbours
) -> dict[str, Any]:
    links = site.links
    fields = {field.name for field in dataclasses.fields(SamplesState)}
    listed = SamplesState(**{name: getattr(state, name) for name in fields})
    return {
        "neighbours": neighbours,
        "before": None if neighbours.before is None else links.to(neighbours.before),
        "after": None if neighbours.after is None else links.to(neighbours.after),
        "samples": links.to(listed.changed(benchmark=columns.benchmark)),
        **_doors(site, columns, case),
        "profile_links": [(name, links.to(state.changed(profile=name))) for name in case.profiles] if site.live else [],
        "repeat_links": [
            [(repeat, verdict, links.to(state.changed(repeat=repeat))) for repeat, verdict in reply.repeats]
            for reply in case.replies
        ],
        "exchange_links": [
            links.to(ExchangeState(reply.key, case.sample_id, case.repeat)) if site.live and reply.has_trace else ""
            for reply in case.replies
        ],
    }


def _doors(site: Site, columns: SampleColumns, case: CaseView) -> dict[str, str]:
    """Return the addresses of the review and of the comparison of these runs; empty where there is none."""
    runs = tuple(entry.key for entry in columns.shown)
    reviewed = ReviewState(benchmark=columns.benchmark, step="queue", sample=case.sample_id, repeat=case.repeat)
    return {
        "review": site.links.to(reviewed) if site.live and site.settings.reviewer else "",
        "compare": site.links.to(CompareState(runs=runs)) if site.live and len(runs) > 1 else "",
    }


PAGE = ViewPage(state=CaseState, view=view, title="Case", listed=False)
