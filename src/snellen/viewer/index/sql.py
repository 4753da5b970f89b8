"""SQL over the index: the tables of `snellen query` (docs/query.md) and `samples`, copied into a database that sees nothing else.

The database of the last query is used again as long as the index is the same. A query ends after a few seconds, gets a few
thousand rows at most, and can neither read nor write a file.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from snellen.errors import UsageError
from snellen.runs.arrow import METRICS, metric_rows
from snellen.runs.query import ISOLATED, OF_METRICS, RUNS, require_single_select, unanswerable
from snellen.viewer.index.entries import RunEntry
from snellen.viewer.index.run_columns import ANSWER_STATUSES, RunColumns, SetColumns
from snellen.viewer.index.run_state import CODE_OF_VERDICT, STATUSES, RunIndexState
from snellen.viewer.index.sample_page import SqlTable
from snellen.viewer.index.sample_sets import SampleSet
from snellen.viewer.index.storage import IndexStorage

MOST_ROWS, CELL_CHARACTERS, QUERY_CHARACTERS = 10_000, 4_000, 20_000
SECONDS, GRACE_SECONDS = 10.0, 3.0
"""Time of a query until it is interrupted, and then until its process is killed: not every step heeds the interruption."""
WAIT_SECONDS = 5.0
"""Time that a query waits for another one; each waiting one keeps a thread of the server."""
QUERY_BYTES = 3 << 30
"""Address space of a query's process: DuckDB's own limit does not count long texts in flight."""
LIMITS: Mapping[str, str] = {"memory_limit": "1GB", "threads": "2", "max_temp_directory_size": "2GB"}
_NEEDED = {name: re.compile(rf"\b{name}\b", re.IGNORECASE) for name in ("results", "scores", "samples")}
_TABLES = """
CREATE TABLE sample_rows(set_no INTEGER, ordinal INTEGER, benchmark VARCHAR, sample_id VARCHAR, question VARCHAR,
    kind VARCHAR, images INTEGER, target VARCHAR, meta MAP(VARCHAR, VARCHAR));
CREATE TABLE record_rows(run VARCHAR, set_no INTEGER, ordinal INTEGER, repeat INTEGER, status VARCHAR, text VARCHAR,
    error_kind VARCHAR, error VARCHAR, attempts INTEGER, latency_s DOUBLE, input_tokens BIGINT, output_tokens BIGINT,
    cost DOUBLE, started_at DOUBLE, finished_at DOUBLE);
CREATE TABLE score_rows(run VARCHAR, set_no INTEGER, ordinal INTEGER, repeat INTEGER, profile VARCHAR, value DOUBLE,
    extracted VARCHAR, verdict VARCHAR, reason VARCHAR);
CREATE VIEW samples AS SELECT benchmark, sample_id, question, kind, images, target, meta FROM sample_rows
    WHERE question IS NOT NULL;
CREATE VIEW results AS SELECT run, sample_id, repeat, status, text, error_kind, error, attempts, latency_s, input_tokens,
    output_tokens, cost, started_at, finished_at FROM record_rows JOIN sample_rows USING (set_no, ordinal);
CREATE VIEW scores AS SELECT run, sample_id, repeat, profile, value, extracted, verdict, reason, kind, target, meta
    FROM score_rows JOIN sample_rows USING (set_no, ordinal);
"""


class SqlSource:
    """The database of the last query, kept while the index is the same."""

    def __init__(self, storage: IndexStorage) -> None:
        self._storage = storage
        self._lock = threading.Lock()
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._key: tuple[Any, ...] = ()

    def answer(
        self, text: str, limit: int, entries: Sequence[RunEntry], states: Mapping[str, RunIndexState], version: str
    ) -> SqlTable:
        """Answer one SELECT.

        Raises:
            UsageError: it is no single SELECT, it cannot be answered, or it takes too long.
        """
        if len(text) > QUERY_CHARACTERS:
            raise UsageError(
                f"the query has {len(text):,} characters; at most {QUERY_CHARACTERS:,} are read", "Shorten it."
            )
        require_single_select(text)
        wanted = tuple(name for name, pattern in _NEEDED.items() if pattern.search(text))
        if not self._lock.acquire(timeout=WAIT_SECONDS):
            raise UsageError("another query is under way", "Wait for its answer, then try again.")
        try:
            place = self._database(entries, states, (version, wanted))
            table = _ask(place, text, max(1, min(limit, MOST_ROWS)))
        finally:
            self._lock.release()
        behind = [entry.key for entry in entries if entry.samples in ("waiting", "behind")]
        notes = (f"{len(behind):,} runs are not, or not all, in the index yet",) if behind and wanted else ()
        return SqlTable(table.columns, table.rows, table.truncated, notes)

    def _database(self, entries: Sequence[RunEntry], states: Mapping[str, RunIndexState], key: tuple[Any, ...]) -> str:
        if self._folder is not None and self._key == key:
            return str(Path(self._folder.name, "index.duckdb"))
        if self._folder is not None:
            self._folder.cleanup()
        self._folder = tempfile.TemporaryDirectory(prefix="snellen-view-")
        place = str(Path(self._folder.name, "index.duckdb"))
        with duckdb.connect(place, config=dict(LIMITS)) as database:
            database.execute(_TABLES)
            _insert(database, "runs", RUNS, map(_run_row, entries))
            _insert(
                database,
                "metrics",
                pa.schema([*METRICS, *OF_METRICS]),
                (row for entry in entries for row in _metrics(entry)),
            )
            if key[1]:
                self._fill(database, entries, states, key[1])
        self._key = key
        return place

    def _fill(
        self,
        database: duckdb.DuckDBPyConnection,
        entries: Sequence[RunEntry],
        states: Mapping[str, RunIndexState],
        wanted: Sequence[str],
    ) -> None:
        sets: dict[str, int] = {}
        for entry in entries:
            state = states.get(entry.key)
            if state is None or not state.set_name:
                continue
            if state.set_name not in sets:
                sets[state.set_name] = len(sets)
                samples = SetColumns(SampleSet(self._storage, state.set_name))
                _put(database, "sample_rows", _samples(samples, sets[state.set_name], entry.benchmark))
            number = sets[state.set_name]
            run = RunColumns(self._storage.run_folder(entry.key), state)
            if "results" in wanted:
                _put(database, "record_rows", _results(run, entry.key, number))
            if "scores" in wanted:
                _put(database, "score_rows", _scores(run, entry.key, number))


def _ask(place: str, text: str, limit: int) -> SqlTable:
    """Answer a query in a process of its own.

    Raises:
        UsageError: it cannot be answered, or takes too long or too much memory.
    """
    task = {
        "place": place, "text": text, "limit": limit, "characters": CELL_CHARACTERS, "seconds": SECONDS,
        "memory": QUERY_BYTES, "config": {**LIMITS, **ISOLATED},
    }  # fmt: skip
    try:
        process = subprocess.run(  # noqa: S603 - this Python, a file of this package
            [sys.executable, str(Path(__file__).with_name("query_process.py"))],
            input=json.dumps(task).encode("ascii"),
            capture_output=True,
            timeout=SECONDS + GRACE_SECONDS,
            check=False,
            start_new_session=True,
        )
    except subprocess.TimeoutExpired:
        raise _stopped() from None
    try:
        result = json.loads(process.stdout)
    except ValueError:  # killed, or ended by a library that had no memory left
        result = {"memory": True}
    if result.get("stopped"):
        raise _stopped()
    if result.get("memory"):
        raise UsageError(
            f"the query was stopped: it needs more than {QUERY_BYTES >> 30} GB of memory",
            "Select fewer or shorter columns, or run it with snellen query, which has no limit.",
        )
    if "error" in result:
        raise unanswerable(duckdb.Error(result["error"]))
    return SqlTable(tuple(result["columns"]), tuple(map(tuple, result["rows"])), truncated=result["truncated"])


def _stopped() -> UsageError:
    return UsageError(
        f"the query was stopped after {SECONDS:.0f} s", "Narrow it, or run it with snellen query, which has no limit."
    )


def _insert(database: duckdb.DuckDBPyConnection, name: str, schema: pa.Schema, rows: Iterator[dict[str, Any]]) -> None:
    full = pa.schema([("run", pa.string()), *schema])
    database.from_arrow(pa.Table.from_pylist(list(rows), schema=full)).create(name)


def _put(database: duckdb.DuckDBPyConnection, name: str, tables: Iterator[pa.Table]) -> None:
    for table in tables:
        if table.num_rows:
            database.from_arrow(table).insert_into(name)


def _samples(samples: SetColumns, number: int, benchmark: str) -> Iterator[pa.Table]:
    rows = samples.info_row
    described = rows >= 0
    for batch in samples.info.batches():
        ordinal = batch.column("ordinal")
        slices = batch.column("slices")
        pairs = samples.state.slices
        maps = [[tuple(pairs[code]) for code in codes] for codes in slices.to_pylist()]
        yield _table(
            set_no=_constant(number, batch.num_rows),
            ordinal=ordinal,
            benchmark=_constant(benchmark, batch.num_rows),
            sample_id=samples.ids.take(ordinal),
            question=batch.column("question"),
            kind=batch.column("kind"),
            images=batch.column("image_count"),
            target=batch.column("target"),
            meta=pa.array(maps, pa.map_(pa.string(), pa.string())),
        )
    rest = pa.array(np.flatnonzero(~described).astype(np.int32))
    count = len(rest)
    texts = pa.nulls(count, pa.string())
    yield _table(
        set_no=_constant(number, count),
        ordinal=rest,
        benchmark=_constant(benchmark, count),
        sample_id=samples.ids.take(rest),
        question=texts,
        kind=texts,
        images=pa.nulls(count, pa.int32()),
        target=texts,
        meta=pa.nulls(count, pa.map_(pa.string(), pa.string())),
    )


def counting_records(run: RunColumns) -> Any:
    """Return a mask of the records that count: of each sample and repeat the first answer, else the last failure."""
    key = run.ordinal.astype(np.int64) * (int(run.repeat.max(initial=0)) + 1) + run.repeat
    mask = np.zeros(len(key), bool)
    answered = run.status < ANSWER_STATUSES
    answers = np.flatnonzero(answered)
    mask[answers[np.unique(key[answers], return_index=True)[1]]] = True
    failures = np.flatnonzero(~answered)[::-1]
    last = failures[np.unique(key[failures], return_index=True)[1]]
    mask[last[~np.isin(key[last], key[answers])]] = True
    return mask


def _results(run: RunColumns, key: str, number: int) -> Iterator[pa.Table]:
    mask, at = counting_records(run), 0
    texts = _text_batches(run)
    waiting: pa.Table | None = None
    for batch in run.rows.batches():
        rows = batch.num_rows
        while waiting is None or waiting.num_rows < rows:
            more = next(texts, None)
            if more is None:
                lacking = rows - (0 if waiting is None else waiting.num_rows)
                more = pa.table({"text": pa.nulls(lacking, pa.string()), "error": pa.nulls(lacking, pa.string())})
            waiting = more if waiting is None else pa.concat_tables([waiting, more])
        text, waiting = waiting.slice(0, rows), waiting.slice(rows)
        names = pa.array([*STATUSES, "other"])
        yield _table(
            run=_constant(key, rows),
            set_no=_constant(number, rows),
            ordinal=batch.column("ordinal"),
            repeat=batch.column("repeat"),
            status=names.take(batch.column("status")),
            text=text.column("text"),
            error_kind=batch.column("error_kind"),
            error=text.column("error"),
            **{name: batch.column(name) for name in _NUMBERS},
        ).filter(pa.array(mask[at : at + rows]))
        at += rows


_NUMBERS = ("attempts", "latency_s", "input_tokens", "output_tokens", "cost", "started_at", "finished_at")


def _text_batches(run: RunColumns) -> Iterator[pa.Table]:
    for file in run.state.texts:
        for batch in pq.ParquetFile(run.folder / file.name).iter_batches():
            yield pa.Table.from_batches([batch])


def _scores(run: RunColumns, key: str, number: int) -> Iterator[pa.Table]:
    mask = counting_records(run)[: run.scores.rows]
    names: list[str | None] = [None] * 256
    for verdict, code in CODE_OF_VERDICT.items():
        names[code] = verdict
    verdicts = pa.array(names, pa.string())
    ordinal, repeat, at = run.ordinal, run.repeat, 0
    for batch in run.scores.batches():
        part = slice(at, at + batch.num_rows)
        for profile, column in run.state.profiles.items():
            yield _table(
                run=_constant(key, batch.num_rows),
                set_no=_constant(number, batch.num_rows),
                ordinal=pa.array(ordinal[part]),
                repeat=pa.array(repeat[part]),
                profile=_constant(profile, batch.num_rows),
                value=batch.column(f"{column}.value"),
                extracted=batch.column(f"{column}.extracted"),
                verdict=verdicts.take(batch.column(f"{column}.code")),
                reason=batch.column(f"{column}.reason"),
            ).filter(pa.array(mask[part]))
        at += batch.num_rows


def _constant(value: Any, rows: int) -> pa.Array:
    return pa.repeat(pa.scalar(value, pa.int32() if isinstance(value, int) else pa.string()), rows)


def _table(**columns: Any) -> pa.Table:
    return pa.table(columns)


def _run_row(entry: RunEntry) -> dict[str, Any]:
    head, totals = entry.headline, entry.totals
    low, high = (None, None) if head is None or head.ci95 is None else head.ci95
    return {
        "run": entry.key,
        "path": entry.key,
        "benchmark": entry.benchmark,
        "benchmark_version": entry.version or None,
        "model": entry.model,
        "fingerprint": entry.fingerprint,
        "state": entry.shown_state,
        "date": _date(entry.started),
        "settings": entry.settings,
        "answered": totals.done,
        "coverage": entry.coverage,
        "headline": None if head is None else head.name,
        "value": None if head is None else head.value,
        "low": low,
        "high": high,
        "interval": None if head is None or head.interval is None else head.interval.text,
        "asked": None if entry.requested is None else entry.requested // max(1, entry.repeats),
        "questions": None if entry.expected is None else entry.expected // max(1, entry.repeats),
        "repeats": entry.repeats,
        "seed": entry.seed,
        "ok": totals.ok,
        "error": totals.error,
        "timeout": totals.timeout,
        "refused": totals.refused,
        "input_tokens": totals.input_tokens,
        "output_tokens": totals.output_tokens,
        "cost": totals.cost,
        "seconds": totals.seconds,
    }


def _date(started: float | None) -> str | None:
    return None if started is None else datetime.fromtimestamp(started, UTC).strftime("%Y-%m-%d %H:%M")


def _metrics(entry: RunEntry) -> Iterator[dict[str, Any]]:
    rows = (metric for metrics in entry.metrics.values() for metric in metrics)
    for row, metric in zip(metric_rows(entry.metrics), rows, strict=True):
        yield {
            **row,
            "run": entry.key,
            "interval": None if metric.interval is None else metric.interval.text,
            "headline": metric is entry.headline,
            "state": entry.shown_state,
            "answered": entry.totals.done,
            "date": _date(entry.started),
            "settings": entry.settings,
        }
