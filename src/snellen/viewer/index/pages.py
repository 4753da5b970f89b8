"""Pages of samples and scores of runs, by SQL from the index.

The columns that pages are filtered and ordered by are read once for the same runs and profile, and held as a table of Arrow;
texts are read for the rows of a page alone.
"""

from __future__ import annotations

import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from threading import Lock
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from snellen.errors import UsageError
from snellen.runs.compared_runs import MOST_SLICES
from snellen.scoring.scores import Column, Scores, question_code
from snellen.text import shorten
from snellen.viewer.index.database import (
    JUDGE_UNSURE,
    PROFILES_DIFFER,
    READ_BY_MODEL,
    SAVED_COLUMN,
    RunIndexState,
    SetState,
    connected,
)
from snellen.viewer.index.entries import RunEntry
from snellen.viewer.index.indexer import CODES
from snellen.viewer.index.sample_page import (
    ANY_RUN,
    MOST_ROWS,
    SORTS,
    VERDICTS,
    CellVerdict,
    ImageRef,
    RunColumn,
    SampleCell,
    SamplePage,
    SampleQuery,
    SampleRow,
    column_letter,
    pattern_sql,
)

MOST_RUNS = 60
"""Runs side by side at most."""
SEARCH_SECONDS = 20.0
"""Time that a search in texts takes at most."""
SEARCH_ROWS = 100_000
TABLES_KEPT, FOUND_KEPT = 4, 32
MOST_CACHED = 4_000_000
"""Rows of scores in memory at most, over all runs."""
EXCERPT = 200
KIND = "kind"
MOST_ANSWERS, PROBED = 16, 128
"""Up to so many different answers are counted one by one; the first rows tell whether there are more."""


@dataclass(frozen=True)
class SampleTable:
    """Samples (and repeats) of some runs, one row each, with the verdicts of one profile.

    Attributes:
        key: equal for equal content.
        rows: code and repeat of a row, its place in the order of the benchmark, and for the run in column i the record that
            counts (`n<i>`), its verdict (`v<i>`), answer (`a<i>`), flags (`f<i>`) and confidence (`c<i>`).
        sets: the sets of samples, the one that orders the rows first.
        runs: what the index holds of the runs.
        columns: for each run the numbers of its scores under the profile, for the first `scored` records and the rest.
        slices: field to its values with the number of samples of each, the most frequent first.
    """

    key: tuple[Any, ...]
    rows: pa.Table
    sets: tuple[SetState, ...]
    runs: tuple[RunIndexState, ...]
    columns: tuple[tuple[int | None, int | None], ...]
    slices: Mapping[str, tuple[tuple[str, int], ...]]


@dataclass(frozen=True)
class Snapshot:
    """The index as it is while a page is made.

    Attributes:
        connect: opens the file, which takes longer than a look into a cache.
        states: what it holds of each run.
        sets: what it holds of each set of samples.
    """

    connect: Callable[[], duckdb.DuckDBPyConnection]
    states: Mapping[str, RunIndexState]
    sets: Mapping[str, SetState]

    @cached_property
    def database(self) -> duckdb.DuckDBPyConnection:
        """Return the connection that reads the file."""
        return self.connect()

    def place(self, key: str, sample_id: str, repeat: int) -> tuple[int, int] | None:
        """Return (start, bytes) in the journal of the record that counts for a sample; None where there is none."""
        if key not in self.states:
            return None
        sql = "SELECT place, size FROM record_rows WHERE run = ? AND code = ? AND repeat = ? AND counts"
        values = [self.states[key].run, question_code(sample_id), repeat]
        return next(iter(self.database.execute(sql, values).fetchall()), None)


class SamplePages:
    """Answers queries for samples of indexed runs. May be used by several threads."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._tables: OrderedDict[Any, SampleTable] = OrderedDict()
        self._found: OrderedDict[Any, tuple[pa.Table, str]] = OrderedDict()
        self._scores: OrderedDict[tuple[str, str], tuple[Any, Scores]] = OrderedDict()

    def page(self, snapshot: Snapshot, query: SampleQuery, entries: Sequence[RunEntry], version: str) -> SamplePage:
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
        states = snapshot.states
        letters = {entry.key: column_letter(place) for place, entry in enumerate(entries)}
        columns = [RunColumn(letters[entry.key], (entry.key, entry.path.name, entry.model)) for entry in entries]
        pattern = pattern_sql(query.pattern, columns)
        profiles = _profiles(entries, states)
        profile = query.profile or (profiles[0] if profiles else "")
        if query.profile and query.profile not in profiles:
            known = ", ".join(profiles) or "none yet"
            raise UsageError(f"these runs have no scoring profile {query.profile!r} in common", f"They have: {known}.")
        query = replace(query, runs=tuple(entry.key for entry in entries), profile=profile)
        table = self._table(snapshot, entries, profile)
        if table is None:
            return SamplePage(
                query, query.runs, (), 0, 0, verdicts=({},) * len(entries), letters=letters, version=version,
                notes=_notes(entries, states, 0),
            )  # fmt: skip
        notes: list[str] = []
        start, limit = max(0, query.start), max(1, min(query.limit, MOST_ROWS))
        with connected() as memory:
            condition = self._condition(memory, snapshot, query, pattern, table, notes)
            memory.execute(f"CREATE VIEW selected AS SELECT * FROM samples WHERE {condition}")
            counts = _verdict_counts(memory, len(entries))
            order = _order(query, len(entries))
            rows = memory.execute(f"SELECT * FROM selected ORDER BY {order} LIMIT {limit} OFFSET {start}").fetchall()
        total = sum(counts[0].values())
        return SamplePage(
            query,
            query.runs,
            _rows(snapshot, table, rows, start),
            total,
            len(table.rows),
            next=start + limit if start + limit < total else None,
            previous=max(0, start - limit) if start > 0 else None,
            profiles=profiles,
            slices=table.slices,
            verdicts=tuple(counts),
            letters=letters,
            version=version,
            sorts=tuple(SORTS) if any(state.has_confidence for state in table.runs) else ANY_RUN,
            notes=(*notes, *_notes(entries, states, len(table.sets))),
        )

    def order(self, snapshot: Snapshot, query: SampleQuery, entries: Sequence[RunEntry]) -> list[tuple[str, int]]:
        """Return id and repeat of every row of a query by its profile and its sort order, without filters or cells."""
        table = self._table(snapshot, entries, query.profile)
        if table is None:
            return []
        ids = _sample_ids(snapshot.database, table)
        with connected() as memory:
            memory.register("samples", _with_margins(table.rows, query, len(entries)))
            memory.register("ids", ids)
            order = _order(query, len(entries))
            return memory.execute(
                f"SELECT sample_id, repeat FROM samples JOIN ids USING (code) ORDER BY {order}"
            ).fetchall()

    def _table(self, snapshot: Snapshot, entries: Sequence[RunEntry], profile: str) -> SampleTable | None:
        states, sets = snapshot.states, snapshot.sets
        runs = tuple(states.get(entry.key, RunIndexState(entry.key)) for entry in entries)
        own = tuple(sets[name] for name in dict.fromkeys(run.set_name for run in runs) if name in sets)
        if not own:
            return None
        requested = tuple(_requested(entry, run) for entry, run in zip(entries, runs, strict=True))
        key = (
            tuple((run.set_no, run.recorded, run.covered, run.saved, *_stamp(run)) for run in runs),
            tuple((each.name, each.set_no, each.described) for each in own),
            requested,
            profile,
        )
        with self._lock:
            if (table := self._tables.get(key)) is not None:
                self._tables.move_to_end(key)
                return table
        columns = tuple(
            (run.profiles.get(profile), SAVED_COLUMN if run.saved and profile == run.saved_profile else None)
            for run in runs
        )
        upto = dict.fromkeys((each.set_no for each in own), 0)
        for run, samples in zip(runs, requested, strict=True):
            if run.set_name in sets:
                described = sets[run.set_name].described
                upto[run.set_no] = max(upto[run.set_no], described if samples is None else min(samples, described))
        rows = snapshot.database.sql(_table_sql(runs, columns, upto)).to_arrow_table()
        slices = _slices(snapshot.database, rows, own)
        table = SampleTable(key, rows, own, runs, columns, slices)
        with self._lock:
            _keep(self._tables, key, table, TABLES_KEPT)
        return table

    def _condition(
        self,
        memory: duckdb.DuckDBPyConnection,
        snapshot: Snapshot,
        query: SampleQuery,
        pattern: str,
        table: SampleTable,
        notes: list[str],
    ) -> str:
        """Register the rows and what is searched for in texts; return the condition that selects rows."""
        memory.register("samples", _with_margins(table.rows, query, len(table.runs)))
        conditions = [pattern] if pattern else []
        for at, wanted in enumerate(query.slices):
            known = {name: [value for value, _ in values] for name, values in table.slices.items()}
            if wanted[1] not in known.get(wanted[0], ()):
                fields = f"Fields: {', '.join(sorted(known))}." if known else "The questions are not in the index yet."
                raise UsageError(f"no sample has {wanted[0]} = {wanted[1]!r}", fields).near(wanted[0], known)
            memory.register(f"slice{at}", self._searched(snapshot, table, ("slice", *wanted), _find_slice, notes))
            conditions.append(f"code IN (SELECT code FROM slice{at})")
        for name, text, parts in (
            ("question", query.question, ("questions",)),
            ("reply", query.reply, ("replies",)),
            ("text", query.text, ("questions", "replies")),
        ):
            found = []
            for part in parts if text else ():
                finder = _find_question if part == "questions" else _find_reply
                memory.register(f"{name}_{part}", self._searched(snapshot, table, (part, text), finder, notes))
                if part == "questions":
                    found.append(f"code IN (SELECT code FROM {name}_questions)")
                else:
                    found += [
                        f"n{at} IN (SELECT number FROM {name}_replies WHERE run = {run.run})"
                        for at, run in enumerate(table.runs)
                    ]
            if found:
                conditions.append(f"({' OR '.join(found)})")
        return " AND ".join(conditions) or "true"

    def _searched(
        self, snapshot: Snapshot, table: SampleTable, wanted: tuple[str, ...], find: _Find, notes: list[str]
    ) -> pa.Table:
        """Return what a search finds, from memory where it was asked before."""
        name = (table.key, wanted)
        with self._lock:
            known = self._found.get(name)
        if known is None:
            known = find(snapshot.database, table, wanted)
            with self._lock:
                _keep(self._found, name, known, FOUND_KEPT)
        found, note = known
        notes += [note] * bool(note)
        return found

    def scores(self, snapshot: Snapshot, key: str, profile: str, expected: int | None) -> Scores | None:
        """Return the scores of a run's records under a profile, one row for each sample and repeat.

        Args:
            snapshot: the index.
            key: of the run.
            profile: a profile; empty: the first.
            expected: records of a complete run; None where that is not known.

        Returns:
            None where the index has no verdicts of the run, or none under this profile.
        """
        state = snapshot.states.get(key, RunIndexState())
        samples = snapshot.sets.get(state.set_name)
        profile = profile or next(iter(state.profiles), "")
        if profile not in state.profiles or samples is None or not state.scored:
            return None
        stamp = (*_stamp(state), samples.set_no, samples.described, expected)
        with self._lock:
            known = self._scores.get((state.key, profile))
            if known is not None and known[0] == stamp:
                self._scores.move_to_end((state.key, profile))
                return known[1]
        scores = _read_scores(snapshot.database, state, samples, state.profiles[profile], expected)
        with self._lock:
            self._scores[state.key, profile] = (stamp, scores)
            while len(self._scores) > 1 and sum(len(each) for _, each in self._scores.values()) > MOST_CACHED:
                self._scores.popitem(last=False)
        return scores


_Find = Callable[[duckdb.DuckDBPyConnection, SampleTable, tuple[str, ...]], tuple[pa.Table, str]]
"""A search in the index: what was found, and a note where it ended early."""
_NOTHING = pa.table({name: pa.array([], pa.int64()) for name in ("code", "number", "run")})


_NO_SAMPLE: tuple[Any, ...] = (0, 0, "", "", "", (), 0, {}, None)
"""What is shown of a sample that is in no set."""


def _stamp(run: RunIndexState) -> tuple[Any, ...]:
    """Return what changes whenever the scores of a run do."""
    return (run.key, run.run, run.results, run.scored, run.basis)


def _keep(cache: OrderedDict[Any, Any], key: Any, value: Any, most: int) -> None:
    cache[key] = value
    cache.move_to_end(key)
    while len(cache) > most:
        cache.popitem(last=False)


def _requested(entry: RunEntry, state: RunIndexState) -> int | None:
    count = entry.requested if entry.requested is not None else state.requested
    return None if count is None else -(-count // max(1, entry.repeats))


def _profiles(entries: Sequence[RunEntry], states: Mapping[str, RunIndexState]) -> tuple[str, ...]:
    """Return the profiles that all runs with verdicts have, the default one first."""
    known = []
    for entry in entries:
        state = states.get(entry.key)
        if state is not None and (state.profiles or state.saved):
            known.append(tuple(state.profiles) or (state.saved_profile,))
    if not known:
        return ()
    return tuple(name for name in known[0] if all(name in profiles for profiles in known))


def _notes(entries: Sequence[RunEntry], states: Mapping[str, RunIndexState], sets: int) -> tuple[str, ...]:
    notes = []
    for entry in entries:
        state = states.get(entry.key)
        if state is None:
            notes.append(f"{entry.key}: not in the index yet")
        elif state.why_unknown:
            notes.append(f"{entry.key}: verdicts are unknown: {state.why_unknown}")
        elif state.covered < state.recorded:
            notes.append(
                f"{entry.key}: questions and verdicts of {state.covered:,} of {state.recorded:,} records are indexed"
            )
    if sets > 1:
        notes.append(
            "these runs did not answer the same samples (version, data or options differ); equal ids are joined"
        )
    return tuple(notes)


def _table_sql(
    runs: Sequence[RunIndexState], columns: Sequence[tuple[int | None, int | None]], upto: Mapping[int, int]
) -> str:
    """Return the query for the rows of a table: every sample with a record, and those that a run was to answer.

    Of a sample that several sets have, the first set's place counts.
    """
    sources, shown = [], []
    for at, (run, (column, saved)) in enumerate(zip(runs, columns, strict=True)):
        begin, parts = 0, []
        for number, end in ((column, run.scored), (saved, run.saved)):
            if number is not None and end > begin:
                parts.append(
                    "SELECT code, repeat, number, verdict, answer, flags, confidence FROM score_rows "
                    f"WHERE run = {run.run} AND col = {number} AND counts AND number >= {begin} AND number < {end}"
                )
                begin = end
        if begin < run.recorded or not parts:
            parts.append(
                f"SELECT code, repeat, number, CASE WHEN status IN ('ok', 'refused') THEN {CODES['unknown']} "
                f"ELSE {CODES['failed']} END::UTINYINT, 0::UINTEGER, 0::UTINYINT, NULL::FLOAT FROM record_rows "
                f"WHERE run = {run.run} AND counts AND number >= {begin}"
            )
        source = f"({' UNION ALL '.join(parts)}) r{at}(code, repeat, n{at}, v{at}, a{at}, f{at}, c{at})"
        sources.append(source if not at else f"FULL JOIN {source} USING (code, repeat)")
        shown.append(
            f"n{at}, coalesce(v{at}, 0) AS v{at}, coalesce(a{at}, 0) AS a{at}, coalesce(f{at}, 0) AS f{at}, c{at}"
        )
    if len(upto) == 1:
        ((number, limit),) = upto.items()
        placed = (
            f"SELECT code, place::BIGINT AS place, place < {limit} AS asked FROM sample_rows WHERE set_no = {number}"
        )
    else:
        each = [
            f"SELECT code, {rank << 32} + place AS place, place < {limit} AS asked FROM sample_rows WHERE set_no = {number}"
            for rank, (number, limit) in enumerate(upto.items())
        ]
        placed = (
            f"SELECT code, min(place) AS place, bool_or(asked) AS asked FROM ({' UNION ALL '.join(each)}) GROUP BY code"
        )
    numbers = ", ".join(f"n{at}" for at in range(len(runs)))
    return (
        f"SELECT code, coalesce(repeat, 0) AS repeat, place, {', '.join(shown)} FROM {' '.join(sources)} "
        f"FULL JOIN ({placed}) USING (code) WHERE asked OR coalesce({numbers}, NULL) IS NOT NULL"
    )


def _slices(
    database: duckdb.DuckDBPyConnection, rows: pa.Table, sets: Sequence[SetState]
) -> dict[str, tuple[tuple[str, int], ...]]:
    """Return field to its values with the number of samples of each, the most frequent first."""
    counts: dict[str, dict[str, int]]
    if len(sets) == 1 and len(rows) == sets[0].described:
        counts = sets[0].values
    else:
        database.register("listed", rows.select(["code"]))
        numbers = ", ".join(str(each.set_no) for each in sets)
        found = database.execute(
            "SELECT e.key, e.value, count(*) FROM (SELECT unnest(map_entries(meta)) AS e FROM sample_rows "
            f"SEMI JOIN listed USING (code) WHERE set_no IN ({numbers}) "
            "QUALIFY row_number() OVER (PARTITION BY code ORDER BY set_no) = 1) GROUP BY ALL"
        ).fetchall()
        database.unregister("listed")
        wide = {name for each in sets for name in each.wide}
        counts = {}
        for name, value, count in found:
            if name not in wide:
                counts.setdefault(name, {})[value] = count
    return {
        name: tuple(sorted(values.items(), key=lambda item: (-item[1], item[0]))) for name, values in counts.items()
    }


def _verdict_counts(memory: duckdb.DuckDBPyConnection, runs: int) -> list[dict[CellVerdict, int]]:
    """Return for each run the number of selected rows by verdict."""
    each = " UNION ALL ".join(
        f"SELECT {at} AS run, v{at} AS v, count(*) FROM selected GROUP BY v{at}" for at in range(runs)
    )
    counts: list[dict[CellVerdict, int]] = [{} for _ in range(runs)]
    for run, verdict, count in memory.execute(f"{each} ORDER BY run, v").fetchall():
        counts[run][VERDICTS[verdict]] = count
    return counts


def _order(query: SampleQuery, runs: int) -> str:
    """Return the order of a query in SQL; ties stand in the order of the benchmark."""
    benchmark = ["place", *(f"n{at}" for at in range(runs)), "repeat"]
    places = range(runs)
    wrong = " + ".join(f"(v{at} IN ({CODES['wrong']}, {CODES['unparseable']}))::INT" for at in places)
    right = " + ".join(f"(v{at} = {CODES['right']})::INT" for at in places)
    partly = " + ".join(f"(v{at} = {CODES['partial']})::INT" for at in places)
    bit = {"profiles": PROFILES_DIFFER, "reader": READ_BY_MODEL}.get(query.sort, JUDGE_UNSURE)
    confident = " + ".join(f"coalesce(c{at}, 0)" for at in places)
    known = " + ".join(f"(c{at} IS NOT NULL)::INT" for at in places)
    key = {
        "wrong": wrong,
        "disagree": f"least({right}, {wrong} + {partly})",
        "margin": "coalesce(2 - margin, 0)",
        "confident": f"coalesce(1 + ({confident}) / nullif({known}, 0), 0)",
        "unsure": f"coalesce(2 - ({confident}) / nullif({known}, 0), 0)",
    }.get(query.sort, " + ".join(f"(f{at} & {bit} > 0)::INT" for at in places))
    if query.sort == "id" and not query.descending:
        return ", ".join(f"{name} DESC NULLS FIRST" for name in benchmark)
    first = [] if query.sort == "id" else [f"{key} {'DESC' if query.descending else 'ASC'}"]
    return ", ".join([*first, *(f"{name} NULLS LAST" for name in benchmark)])


def _find_slice(
    database: duckdb.DuckDBPyConnection, table: SampleTable, wanted: tuple[str, ...]
) -> tuple[pa.Table, str]:
    numbers = ", ".join(str(each.set_no) for each in table.sets)
    sql = f"SELECT code FROM sample_rows WHERE set_no IN ({numbers}) AND meta[?] = ?"
    return database.sql(sql, params=list(wanted[1:])).to_arrow_table(), ""


def _find_question(
    database: duckdb.DuckDBPyConnection, table: SampleTable, wanted: tuple[str, ...]
) -> tuple[pa.Table, str]:
    sql = "SELECT code FROM sample_rows WHERE set_no = ? AND place >= ? AND place < ? AND contains(lower(question), lower(?))"
    parts = [(each.set_no, each.described) for each in table.sets]
    found, late = _found(database, sql, parts, wanted[1])
    return found, f"the search in questions ended after {SEARCH_SECONDS:.0f} s; later ones were not searched" * late


def _find_reply(
    database: duckdb.DuckDBPyConnection, table: SampleTable, wanted: tuple[str, ...]
) -> tuple[pa.Table, str]:
    sql = "SELECT run, number FROM reply_rows WHERE run = ? AND number >= ? AND number < ? AND contains(lower(text), lower(?))"
    found, late = _found(database, sql, [(run.run, run.covered) for run in table.runs], wanted[1])
    return found, f"the search in replies ended after {SEARCH_SECONDS:.0f} s; not all replies were searched" * late


def _found(
    database: duckdb.DuckDBPyConnection, sql: str, parts: Sequence[tuple[int, int]], text: str
) -> tuple[pa.Table, bool]:
    """Search rows of some sets or runs, a part of them at a time; say whether the time was too short."""
    tables, end = [_NOTHING], time.monotonic() + SEARCH_SECONDS
    for number, count in parts:
        for first in range(0, count, SEARCH_ROWS):
            if time.monotonic() > end:
                return pa.concat_tables(tables, promote_options="permissive"), True
            tables.append(database.sql(sql, params=[number, first, first + SEARCH_ROWS, text]).to_arrow_table())
    return pa.concat_tables(tables, promote_options="permissive"), False


def _samples_of(
    database: duckdb.DuckDBPyConnection, table: SampleTable, codes: Sequence[int]
) -> dict[int, tuple[Any, ...]]:
    """Return what the index says of samples by their codes; of several sets the first counts."""
    runs, listed = ", ".join(str(run.run) for run in table.runs), ", ".join(map(str, codes))
    samples: dict[int, tuple[Any, ...]] = {}
    for each in reversed(table.sets):
        found = database.execute(
            "SELECT code, set_no, place, sample_id, question, kind, images, image_count, meta, target FROM sample_rows "
            f"WHERE set_no = {each.set_no} AND code IN ({listed})"
        ).fetchall()
        samples.update((code, tuple(rest)) for code, *rest in found)
    if rest := [code for code in codes if code not in samples]:
        found = database.execute(
            f"SELECT code, any_value(sample_id) FROM record_rows WHERE run IN ({runs}) AND code IN ({', '.join(map(str, rest))}) "
            "GROUP BY code"
        ).fetchall()
        samples.update((code, (*_NO_SAMPLE[:2], sample_id, *_NO_SAMPLE[3:])) for code, sample_id in found)
    return samples


def _sample_ids(database: duckdb.DuckDBPyConnection, table: SampleTable) -> pa.Table:
    sets, runs = ", ".join(str(each.set_no) for each in table.sets), ", ".join(str(run.run) for run in table.runs)
    return database.sql(
        f"SELECT code, any_value(sample_id) AS sample_id FROM (SELECT code, sample_id FROM sample_rows WHERE set_no IN ({sets}) "
        f"UNION ALL SELECT code, sample_id FROM record_rows WHERE run IN ({runs})) GROUP BY code"
    ).to_arrow_table()


def _cells_of(
    database: duckdb.DuckDBPyConnection,
    run: RunIndexState,
    columns: tuple[int | None, int | None],
    numbers: Sequence[int | None],
) -> dict[int, tuple[Any, ...]]:
    """Return error kind, value, and what was read and why, of the records of one run on a page."""
    known = ", ".join(str(number) for number in numbers if number is not None)
    if not known:
        return {}
    first, rest = (-1 if column is None else column for column in columns)
    rows = database.execute(
        "SELECT number, error_kind, s.number IS NOT NULL, value, extracted, reason FROM "
        f"(SELECT number, error_kind FROM record_rows WHERE run = {run.run} AND number IN ({known})) LEFT JOIN "
        f"(SELECT * FROM score_rows WHERE run = {run.run} AND number IN ({known}) "
        f"AND col = CASE WHEN number < {run.scored} AND {first} >= 0 THEN {first} ELSE {rest} END) s USING (number)"
    ).fetchall()
    return {number: tuple(rest) for number, *rest in rows}


def _cell(row: Mapping[str, Any], at: int, own: Mapping[int, tuple[Any, ...]]) -> SampleCell:
    verdict, flags = VERDICTS[row[f"v{at}"]], row[f"f{at}"]
    if row[f"n{at}"] is None or row[f"n{at}"] not in own:
        return SampleCell(verdict)
    error, _, value, extracted, reason = own[row[f"n{at}"]]
    return SampleCell(
        verdict,
        value=value,
        extracted=extracted or "",
        reason=reason or "",
        judge_unsure=bool(flags & JUDGE_UNSURE),
        profiles_differ=bool(flags & PROFILES_DIFFER),
        read_by_model=bool(flags & READ_BY_MODEL),
        error=error or "",
    )


def _rows(snapshot: Snapshot, table: SampleTable, rows: Sequence[tuple[Any, ...]], start: int) -> tuple[SampleRow, ...]:
    """Return the rows of a page with their texts."""
    if not rows:
        return ()
    listed = [dict(zip(table.rows.column_names, row, strict=False)) for row in rows]
    samples = _samples_of(snapshot.database, table, [row["code"] for row in listed])
    cells = [
        _cells_of(snapshot.database, run, columns, [row[f"n{at}"] for row in listed])
        for at, (run, columns) in enumerate(zip(table.runs, table.columns, strict=True))
    ]
    wide = {name for each in table.sets for name in each.wide}
    made = []
    for number, row in enumerate(listed, start):
        set_no, place, sample_id, question, kind, images, image_count, meta, target = samples.get(
            row["code"], _NO_SAMPLE
        )
        answers = [row[f"a{at}"] for at in range(len(table.runs))]
        made.append(
            SampleRow(
                number,
                sample_id,
                row["repeat"],
                shorten(" ".join(question[: 4 * EXCERPT].split()), EXCERPT),
                tuple(ImageRef(digest, f"{set_no}:{place}:{at}") for at, digest in enumerate(images)),
                image_count,
                {name: value for name, value in meta.items() if name not in wide},
                tuple(_cell(row, at, own) for at, own in enumerate(cells)),
                margin=_margin(answers),
                kind=kind,
                target=target,
            )
        )
    return tuple(made)


def _margin(answers: Sequence[int]) -> float | None:
    """Return the share of the commonest answer minus that of the second commonest; None without an answer."""
    counts = sorted(Counter(answer for answer in answers if answer).values(), reverse=True)
    return (counts[0] - (counts[1] if len(counts) > 1 else 0)) / sum(counts) if counts else None


def _with_margins(rows: pa.Table, query: SampleQuery, runs: int) -> pa.Table:
    """Return the rows with their margins where they are ordered by them: grouping answers in SQL takes ten times as long."""
    if query.sort != "margin":
        return rows
    answers = np.stack([rows.column(f"a{at}").to_numpy() for at in range(runs)])
    values = margins(answers)
    return rows.append_column("margin", pa.array(values, mask=np.isnan(values)))


def margins(answers: NDArray[np.uint32]) -> NDArray[np.float32]:
    """Return the share of the commonest answer minus that of the second commonest, for each column.

    Args:
        answers: [runs, samples]; 0 stands for no answer.
    """
    most, second = _two_counts(answers)
    answered = (answers != 0).sum(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(answered > 0, (most.astype(np.float32) - second) / answered, np.nan).astype(np.float32)


def _two_counts(answers: NDArray[np.uint32]) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Return how often the commonest answer of each column stands in it, and the second commonest."""
    runs, samples = answers.shape
    most, second = np.zeros(samples, np.uint8), np.zeros(samples, np.uint8)
    if len(np.unique(answers[:, :PROBED])) <= MOST_ANSWERS:
        rest = answers != 0
        for _ in range(MOST_ANSWERS):
            at = int(rest.argmax())
            if not rest.flat[at]:
                return most, second
            same = answers == answers.flat[at]
            count = same.view(np.uint8).sum(axis=0, dtype=np.uint8)
            np.maximum(second, np.minimum(most, count), out=second)
            np.maximum(most, count, out=most)
            rest ^= same
    votes = np.zeros((runs, samples), np.uint8)
    for i in range(runs):
        votes[i] += answers[i] != 0
        for j in range(i + 1, runs):
            same = (answers[i] == answers[j]) & (answers[i] != 0)
            votes[i] += same
            votes[j] += same
    top = votes.argmax(axis=0)
    columns = np.arange(samples)
    return votes[top, columns], np.where(answers == answers[top, columns], 0, votes).max(axis=0)


def _read_scores(
    database: duckdb.DuckDBPyConnection, state: RunIndexState, samples: SetState, column: int, expected: int | None
) -> Scores:
    """Read a run's scores, sorted as `ScoreBuilder` sorts them. Records without a verdict have no row."""
    fields = {
        name: sorted(values)
        for name, values in samples.values.items()
        if 1 < len(values) <= MOST_SLICES and name not in samples.wide
    }
    kinds = "SELECT DISTINCT kind FROM sample_rows WHERE set_no = ? ORDER BY kind"
    if lacks_kind := KIND not in fields:
        fields[KIND] = [kind for (kind,) in database.execute(kinds, [samples.set_no]).fetchall()]
    parameters: list[Any] = []
    codes = []
    for at, (name, values) in enumerate(fields.items()):
        own = lacks_kind and name == KIND
        codes.append(f"coalesce(list_position(?::VARCHAR[], {'kind' if own else 'meta[?]'}), 0) - 1 AS m{at}")
        parameters += [values] if own else [values, name]
    rows = database.sql(
        f"SELECT s.code, value, verdict, coalesce(cluster, s.code) AS cluster, {', '.join(codes)} FROM score_rows s "
        f"LEFT JOIN (SELECT * FROM sample_rows WHERE set_no = {samples.set_no}) p ON p.code = s.code WHERE run = {state.run} "
        f"AND col = {column} AND counts AND verdict BETWEEN 1 AND 6 ORDER BY s.code, value NULLS LAST",
        params=parameters,
    ).to_arrow_table()
    return Scores(
        value=rows.column("value").to_numpy().astype(np.float64),
        verdict=(rows.column("verdict").to_numpy() - 1).astype(np.uint8),
        group=rows.column("cluster").to_numpy(),
        question=rows.column("code").to_numpy(),
        meta={
            name: Column(rows.column(f"m{at}").to_numpy().astype(np.int32), tuple(values))
            for at, (name, values) in enumerate(fields.items())
        },
        expected=len(rows) if expected is None else expected,
    )
