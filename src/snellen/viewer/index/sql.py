"""SQL over the index: the tables of `snellen query` (docs/query.md) and `samples`, read in a process that sees nothing else.

A query ends after a few seconds, gets a few thousand rows at most, and can neither write the index nor read another file.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import msgspec

from snellen.errors import UsageError
from snellen.runs.arrow import metric_rows, run_figures
from snellen.runs.query import ISOLATED, RUNS, TABLES, require_single_select, unanswerable
from snellen.sources.arrow import sql_types
from snellen.viewer.index.database import SCHEMA, IndexDatabase, fresh_folder
from snellen.viewer.index.entries import RunEntry
from snellen.viewer.index.sample_page import SqlTable

MOST_ROWS, CELL_CHARACTERS, QUERY_CHARACTERS = 10_000, 4_000, 20_000
SECONDS, GRACE_SECONDS = 10.0, 3.0
"""Time of a query until it is interrupted, and then until its process is killed: not every step heeds the interruption."""
WAIT_SECONDS = 5.0
"""Time that a query waits for another one; each waiting one keeps a thread of the server."""
QUERY_BYTES = 3 << 30
"""Address space of a query's process: DuckDB's own limit does not count long texts in flight."""
LIMITS: Mapping[str, str] = {"memory_limit": "1GB", "threads": "2", "max_temp_directory_size": "2GB"}
_TYPES = {arrow: sql for sql, arrow in sql_types().items()}
_NEEDED = re.compile(r"\b(?:results|scores|samples)\b", re.IGNORECASE)


class SqlSource:
    """The index as queries see it."""

    def __init__(self, database: IndexDatabase) -> None:
        self._database = database
        self._lock = threading.Lock()

    def answer(self, text: str, limit: int, entries: Sequence[RunEntry]) -> SqlTable:
        """Answer one SELECT.

        Raises:
            UsageError: it is no single SELECT, it cannot be answered, or it takes too long.
        """
        if len(text) > QUERY_CHARACTERS:
            raise UsageError(
                f"the query has {len(text):,} characters; at most {QUERY_CHARACTERS:,} are read", "Shorten it."
            )
        require_single_select(text)
        if not self._lock.acquire(timeout=WAIT_SECONDS):
            raise UsageError("another query is under way", "Wait for its answer, then try again.")
        try:
            with self._database.unchanged() as is_there, fresh_folder() as spill:
                place = str(self._database.file) if is_there else ""
                table = _ask(place, spill, text, max(1, min(limit, MOST_ROWS)), _given(entries))
        finally:
            self._lock.release()
        behind = [entry.key for entry in entries if entry.samples in ("waiting", "behind")]
        wanted = _NEEDED.search(text)
        notes = (f"{len(behind):,} runs are not, or not all, in the index yet",) if behind and wanted else ()
        return SqlTable(table.columns, table.rows, table.truncated, notes)


def _given(entries: Sequence[RunEntry]) -> list[tuple[str, str, str]]:
    """Return the tables that the catalogue makes: name, form and rows, the last two as JSON."""
    tables = (
        ("runs", RUNS, list(map(_run_row, entries))),
        ("metrics", TABLES["metrics"][0], [row for entry in entries for row in _metrics(entry)]),
    )
    given = []
    for name, schema, rows in tables:
        form = {"run": "VARCHAR", **{column.name: _TYPES[column.type] for column in schema}}
        given.append((name, json.dumps([form]), msgspec.json.encode(rows).decode()))
    return given


def _ask(place: str, spill: str, text: str, limit: int, given: Sequence[tuple[str, str, str]]) -> SqlTable:
    """Answer a query in a process of its own.

    Raises:
        UsageError: it cannot be answered, or takes too long or too much memory.
    """
    task = {
        "place": place, "given": given, "schema": SCHEMA, "text": text, "limit": limit, "characters": CELL_CHARACTERS, "seconds": SECONDS,
        "memory": QUERY_BYTES, "config": {**LIMITS, **ISOLATED, "temp_directory": spill},
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


def _run_row(entry: RunEntry) -> dict[str, Any]:
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
        "coverage": entry.coverage,
        "asked": None if entry.requested is None else entry.requested // max(1, entry.repeats),
        "questions": None if entry.expected is None else entry.expected // max(1, entry.repeats),
        "repeats": entry.repeats,
        "seed": entry.seed,
        **run_figures(entry.headline, entry.totals),
    }


def _date(started: float | None) -> str | None:
    return None if started is None else datetime.fromtimestamp(started, UTC).strftime("%Y-%m-%d %H:%M")


def _metrics(entry: RunEntry) -> Iterator[dict[str, Any]]:
    rows = (metric for metrics in entry.metrics.values() for metric in metrics)
    for row, metric in zip(metric_rows(entry.metrics), rows, strict=True):
        yield {
            **row,
            "run": entry.key,
            "headline": metric is entry.headline,
            "state": entry.shown_state,
            "answered": entry.totals.done,
            "date": _date(entry.started),
            "settings": entry.settings,
        }
