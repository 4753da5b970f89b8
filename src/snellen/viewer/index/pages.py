"""Pages of samples: a query is answered from arrays, and only the rows of the page are read as text."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from threading import Lock
from typing import Any

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from snellen.errors import UsageError
from snellen.viewer.index.entries import RunEntry
from snellen.viewer.index.patterns import RunColumn, column_letter, parse_pattern
from snellen.viewer.index.run_columns import ANSWER_STATUSES, RunColumns, SetColumns
from snellen.viewer.index.run_state import JUDGE_UNSURE, PROFILES_DIFFER, READ_BY_MODEL, RunIndexState
from snellen.viewer.index.sample_page import (
    ANY_RUN,
    MOST_ROWS,
    SORTS,
    VERDICTS,
    ImageRef,
    SampleCell,
    SamplePage,
    SampleQuery,
    SampleRow,
)
from snellen.viewer.index.sample_sets import SampleSet
from snellen.viewer.index.sample_table import SampleAxis, SampleTable
from snellen.viewer.index.storage import IndexStorage

MOST_RUNS = 60
"""Runs side by side at most."""
SEARCH_SECONDS = 20.0
"""Time that a search in texts takes at most."""
READS = 5
"""Attempts to read files that the writer replaces meanwhile."""
TABLES_KEPT, RESULTS_KEPT = 4, 32


class SamplePages:
    """Answers queries for samples of indexed runs. May be used by several threads."""

    def __init__(self, storage: IndexStorage) -> None:
        self._storage = storage
        self._lock = Lock()
        self._runs: OrderedDict[str, RunColumns] = OrderedDict()
        self._sets: OrderedDict[str, SetColumns] = OrderedDict()
        self._tables: OrderedDict[Any, SampleTable] = OrderedDict()
        self._results: OrderedDict[Any, NDArray[np.int64] | None] = OrderedDict()
        self._found: OrderedDict[Any, tuple[NDArray[np.bool_], str]] = OrderedDict()

    def page(
        self, query: SampleQuery, entries: Sequence[RunEntry], states: Mapping[str, RunIndexState], version: str
    ) -> SamplePage:
        """Answer a query about these runs, which are the columns.

        Raises:
            UsageError: the pattern, the sort order or the profile cannot be understood.
        """
        if query.sort not in SORTS:
            raise UsageError(f"there is no sort order {query.sort!r}", f"Sort orders: {', '.join(SORTS)}.")
        if len(entries) > MOST_RUNS:
            raise UsageError(
                f"{len(entries)} runs were selected; at most {MOST_RUNS} stand side by side", "Select fewer."
            )
        letters = {entry.key: column_letter(place) for place, entry in enumerate(entries)}
        columns = [RunColumn(letters[entry.key], (entry.key, entry.path.name, entry.model)) for entry in entries]
        pattern = parse_pattern(query.pattern, columns)
        profiles = _profiles(entries, states)
        profile = query.profile or (profiles[0] if profiles else "")
        if query.profile and query.profile not in profiles:
            known = ", ".join(profiles) or "none yet"
            raise UsageError(f"these runs have no scoring profile {query.profile!r} in common", f"They have: {known}.")
        query = replace(query, runs=tuple(entry.key for entry in entries), profile=profile)
        table, key = self._table(entries, states, profile)
        if table is None:
            return SamplePage(
                query, query.runs, (), 0, 0, verdicts=({},) * len(entries), letters=letters, version=version,
                notes=_notes(entries, states, 0),
            )  # fmt: skip
        notes: list[str] = []
        selected = self._selected(query, pattern, table, key, entries, states, notes)
        total = len(table.axis) if selected is None else len(selected)
        start = max(0, query.start)
        limit = max(1, min(query.limit, MOST_ROWS))
        numbers = range(start, min(start + limit, total))
        rows = [int(number) if selected is None else int(selected[number]) for number in numbers]
        return SamplePage(
            query,
            query.runs,
            tuple(
                _row(number, table, row, margin)
                for number, row, margin in zip(numbers, rows, table.margins_of(rows), strict=True)
            ),
            total,
            len(table.axis),
            next=start + limit if start + limit < total else None,
            previous=max(0, start - limit) if start > 0 else None,
            profiles=profiles,
            slices=table.axis.slices,
            verdicts=table.verdict_counts(selected),
            letters=letters,
            version=version,
            sorts=tuple(SORTS) if table.has_confidence else ANY_RUN,
            notes=(*notes, *_notes(entries, states, len(table.axis.sets))),
        )

    def order(
        self, query: SampleQuery, entries: Sequence[RunEntry], states: Mapping[str, RunIndexState]
    ) -> list[tuple[str, int]]:
        """Return id and repeat of every row of a query by its profile and its sort order, without filters or cells."""
        table, key = self._table(entries, states, query.profile)
        if table is None:
            return []
        query = replace(query, pattern="", slices=(), question="", reply="", text="")
        selected = self._selected(query, None, table, key, entries, states, [])
        rows = np.arange(len(table.axis)) if selected is None else selected
        axis = table.axis
        ids = axis.ids.take(axis.sample[rows]).to_pylist()
        return list(zip(ids, axis.repeat[rows].tolist(), strict=True))

    def place(self, state: RunIndexState, sample_id: str, repeat: int) -> tuple[int, int] | None:
        """Return (start, bytes) in the journal of the record that counts for a sample; None where there is none."""
        run = self._columns(state)
        samples = self._set(run.state.set_name)
        number = pc.index(samples.ids, sample_id).as_py()
        if number < 0:
            return None
        records = np.flatnonzero((run.ordinal == number) & (run.repeat == repeat))
        if not len(records):
            return None
        answers = records[run.status[records] < ANSWER_STATUSES]
        record = int(answers[0] if len(answers) else records[-1])
        return run.rows.value("at", record), run.rows.value("size", record)

    def _table(
        self, entries: Sequence[RunEntry], states: Mapping[str, RunIndexState], profile: str
    ) -> tuple[SampleTable | None, Any]:
        runs = [self._columns(states[entry.key]) for entry in entries if entry.key in states]
        if len(runs) != len(entries) or not runs:
            runs = [self._columns(states.get(entry.key, RunIndexState(entry.key))) for entry in entries]
        names = list(dict.fromkeys(run.state.set_name for run in runs if run.state.set_name))
        if not names:
            return None, None
        sets = [self._set(name) for name in names]
        places = [names.index(run.state.set_name) if run.state.set_name else 0 for run in runs]
        key = (
            tuple((run.state.key, *(file.name + str(file.size) for file in run.state.files)) for run in runs),
            tuple((name, each.state.described, len(each.ids)) for name, each in zip(names, sets, strict=True)),
            profile,
        )
        with self._lock:
            if (table := self._tables.get(key)) is not None:
                self._tables.move_to_end(key)
                return table, key
        pairs = list(zip(runs, places, strict=True))
        requested = [_requested(entry, run.state) for entry, run in zip(entries, runs, strict=True)]
        table = SampleTable(SampleAxis(sets, pairs, requested), pairs, profile)
        with self._lock:
            _keep(self._tables, key, table, TABLES_KEPT)
        return table, key

    def _columns(self, state: RunIndexState) -> RunColumns:
        with self._lock:
            known = self._runs.get(state.key)
            if known is not None and (known.state.files, known.state.profiles) == (state.files, state.profiles):
                return known
        folder = self._storage.run_folder(state.key)
        columns = RunColumns(folder, state)
        for _ in range(READS):
            if columns.whole:
                break
            # The writer has replaced files since the state was read.
            state = self._storage.read_state(folder, RunIndexState) or RunIndexState(state.key)
            columns = RunColumns(folder, state)
        with self._lock:
            _keep(self._runs, state.key, columns, 2 * MOST_RUNS)
        return columns

    def _set(self, name: str) -> SetColumns:
        samples = SampleSet(self._storage, name)
        for _ in range(READS):
            if samples.state.ids:
                break
            samples = SampleSet(self._storage, name)
        with self._lock:
            known = self._sets.get(name)
            if known is not None and (known.state.ids, known.state.info) == (samples.state.ids, samples.state.info):
                return known
        columns = SetColumns(samples)
        with self._lock:
            _keep(self._sets, name, columns, MOST_RUNS)
        return columns

    def _selected(
        self,
        query: SampleQuery,
        pattern: Any,
        table: SampleTable,
        key: Any,
        entries: Sequence[RunEntry],
        states: Mapping[str, RunIndexState],
        notes: list[str],
    ) -> NDArray[np.int64] | None:
        """Return the rows that match, in order; None for all in the order of the benchmark."""
        searched = (query.question, query.reply, query.text)
        name = (key, query.pattern, query.slices, searched, query.sort, query.descending)
        with self._lock:
            if name in self._results and not any(searched):
                self._results.move_to_end(name)
                return self._results[name]
        mask: NDArray[np.bool_] | None = None if pattern is None else table.fits(pattern)
        for slice_ in query.slices:
            mask = _both(mask, _slice(table, slice_))
        if query.question:
            mask = _both(mask, self._search(table, key, query.question, notes, replies=False))
        if query.reply:
            mask = _both(mask, self._search(table, key, query.reply, notes, replies=True))
        if query.text:
            in_questions = self._search(table, key, query.text, notes, replies=False)
            mask = _both(mask, in_questions | self._search(table, key, query.text, notes, replies=True))
        sort_key = table.sort_key(query.sort)
        result: NDArray[np.int64] | None
        if sort_key is None:
            result = None if mask is None else np.flatnonzero(mask)
            if not query.descending:
                result = (np.arange(len(table.axis)) if result is None else result)[::-1]
        else:
            rows = np.arange(len(table.axis)) if mask is None else np.flatnonzero(mask)
            keys = sort_key[rows]
            turned = np.uint16(65_535) - keys if query.descending else keys
            result = rows[np.argsort(turned, kind="stable")]
        with self._lock:
            _keep(self._results, name, result, RESULTS_KEPT)
        return result

    def _search(self, table: SampleTable, key: Any, text: str, notes: list[str], *, replies: bool) -> NDArray[np.bool_]:
        name = (key, text, replies)
        with self._lock:
            if name in self._found:
                mask, note = self._found[name]
                notes += [note] * bool(note)
                return mask
        mask, note = (_search_replies if replies else _search_questions)(table, text)
        notes += [note] * bool(note)
        with self._lock:
            _keep(self._found, name, (mask, note), RESULTS_KEPT)
        return mask


def _keep(cache: OrderedDict[Any, Any], key: Any, value: Any, most: int) -> None:
    cache[key] = value
    cache.move_to_end(key)
    while len(cache) > most:
        cache.popitem(last=False)


def _both(mask: NDArray[np.bool_] | None, other: NDArray[np.bool_]) -> NDArray[np.bool_]:
    return other if mask is None else mask & other


def _requested(entry: RunEntry, state: RunIndexState) -> int | None:
    count = entry.requested if entry.requested is not None else state.requested
    return None if count is None else -(-count // max(1, entry.repeats))


def _profiles(entries: Sequence[RunEntry], states: Mapping[str, RunIndexState]) -> tuple[str, ...]:
    """Return the profiles that all runs with verdicts have, the default one first."""
    known = []
    for entry in entries:
        state = states.get(entry.key)
        if state is not None and (state.profiles or state.predictions is not None):
            known.append(tuple(state.profiles) or (state.saved_profile,))
    if not known:
        return ()
    return tuple(name for name in known[0] if all(name in profiles for profiles in known))


def _notes(entries: Sequence[RunEntry], states: Mapping[str, RunIndexState], sets: int) -> tuple[str, ...]:
    notes = []
    for entry in entries:
        state = states.get(entry.key)
        if state is None or not state.key:
            notes.append(f"{entry.key}: not in the index yet")
        elif state.why_unknown:
            notes.append(f"{entry.key}: verdicts are unknown: {state.why_unknown}")
        elif (scored := sum(file.rows for file in state.texts)) < state.recorded:
            notes.append(f"{entry.key}: questions and verdicts of {scored:,} of {state.recorded:,} records are indexed")
    if sets > 1:
        notes.append(
            "these runs did not answer the same samples (version, data or options differ); equal ids are joined"
        )
    return tuple(notes)


def _slice(table: SampleTable, wanted: tuple[str, str]) -> NDArray[np.bool_]:
    mask = np.zeros(len(table.axis), bool)
    known = False
    for place, each in enumerate(table.axis.sets):
        if wanted in (pairs := [tuple(pair) for pair in each.state.slices]):
            known = True
            codes, samples = each.slice_items
            mask |= table.axis.of_samples(place, samples[codes == pairs.index(wanted)])
    if not known:
        names = sorted({name for each in table.axis.sets for name, _ in each.state.slices})
        raise UsageError(
            f"no sample has {wanted[0]} = {wanted[1]!r}",
            f"Fields: {', '.join(names)}." if names else "The questions are not in the index yet.",
        ).near(wanted[0], names)
    return mask


def _search_questions(table: SampleTable, text: str) -> tuple[NDArray[np.bool_], str]:
    mask, until = np.zeros(len(table.axis), bool), time.monotonic() + SEARCH_SECONDS
    for place, each in enumerate(table.axis.sets):
        for file in each.state.questions:
            for batch in pq.ParquetFile(each.folder / file.name).iter_batches():
                hits = batch.filter(pc.match_substring(batch.column("question"), text, ignore_case=True))
                numbers = hits.column("ordinal").to_numpy().astype(np.int64)
                mask |= table.axis.of_samples(place, numbers) if len(numbers) else False
                if time.monotonic() > until:
                    return (
                        mask,
                        f"the search in questions ended after {SEARCH_SECONDS:.0f} s; later ones were not searched",
                    )
    return mask, ""


def _search_replies(table: SampleTable, text: str) -> tuple[NDArray[np.bool_], str]:
    mask, until = np.zeros(len(table.axis), bool), time.monotonic() + SEARCH_SECONDS
    for run, record in zip(table.runs, table.records, strict=True):
        hit = np.zeros(len(run.ordinal) + 1, bool)
        at, late = 0, False
        for file in run.state.texts:
            for batch in pq.ParquetFile(run.folder / file.name).iter_batches(columns=["text"]):
                own = pc.fill_null(pc.match_substring(batch.column(0), text, ignore_case=True), False)
                hit[at : at + batch.num_rows] = own.to_numpy(zero_copy_only=False)
                at += batch.num_rows
                late = time.monotonic() > until
                if late:
                    break
            if late:
                break
        mask |= hit[record]
        if late:
            return mask, f"the search in replies ended after {SEARCH_SECONDS:.0f} s; not all replies were searched"
    return mask, ""


def _row(number: int, table: SampleTable, row: int, margin: float | None) -> SampleRow:
    axis = table.axis
    sample_id = axis.ids[int(axis.sample[row])].as_py()
    question, kind, target = "", "", None
    images: tuple[ImageRef, ...] = ()
    image_count, slices = 0, {}
    where = axis.number_in(row)
    if where is not None:
        each, at = axis.sets[where[0]], where[1]
        info = int(each.info_row[at])
        if info >= 0:
            question, kind = each.info.value("question", info), each.info.value("kind", info)
            target, image_count = each.info.value("target", info), each.info.value("image_count", info)
            digests = each.info.value("images", info)
            images = tuple(
                ImageRef(digest, f"{each.folder.name}:{info}:{place}") for place, digest in enumerate(digests)
            )
            pairs = (each.state.slices[code] for code in each.info.value("slices", info))
            slices = {name: value for name, value in pairs if name not in each.state.wide}
    cells = tuple(
        _cell(run, table.profile, int(record[row]), int(verdict[row]))
        for run, record, verdict in zip(table.runs, table.records, table.verdicts, strict=True)
    )
    return SampleRow(
        number,
        sample_id,
        int(axis.repeat[row]),
        question,
        images,
        image_count,
        slices,
        cells,
        margin=margin,
        kind=kind,
        target=target,
    )


def _cell(run: RunColumns, profile: str, record: int, code: int) -> SampleCell:
    verdict = VERDICTS[code]
    if record < 0:
        return SampleCell(verdict)
    error = run.rows.value("error_kind", record) or ""
    source = run.source(profile, record)
    if source is None:
        return SampleCell(verdict, error=error)
    (scores, column), flags = source, int(run.flags[record])
    return SampleCell(
        verdict,
        value=scores.value(f"{column}.value", record),
        extracted=scores.value(f"{column}.extracted", record) or "",
        reason=scores.value(f"{column}.reason", record) or "",
        judge_unsure=bool(flags & JUDGE_UNSURE),
        profiles_differ=bool(flags & PROFILES_DIFFER),
        read_by_model=bool(flags & READ_BY_MODEL),
        error=error,
    )
