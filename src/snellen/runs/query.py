"""SQL over runs; `snellen query` calls this. Runs are copied into tables, and the query sees nothing else.

The tables lie in a database file that is gone afterwards, so that neither a million replies nor a large join needs memory.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import duckdb
import pyarrow as pa

from snellen.engine.final_records import final_records
from snellen.errors import SnellenError, UsageError
from snellen.runs.answer_view import answer_view, run_names
from snellen.runs.arrow import METRICS, RECORDS, SCORES, metric_rows, record_row, run_figures, score_rows
from snellen.runs.run import Run, headline, load_run
from snellen.runs.scoring import profiles_of, scores_of
from snellen.runs.status import Overview, distinguishing, group_progress, overview, score_coverage
from snellen.sources.arrow import schema_of

BATCH = 10_000
BATCH_CHARACTERS = 16_000_000
"""Text that one batch of rows holds at most, except for one longer row: some replies are as long as books."""
RUNS = schema_of(
    "path VARCHAR, benchmark VARCHAR, benchmark_version VARCHAR, model VARCHAR, fingerprint VARCHAR, "
    "state VARCHAR, date VARCHAR, settings VARCHAR, answered BIGINT, coverage DOUBLE, headline VARCHAR, "
    "value DOUBLE, low DOUBLE, high DOUBLE, unit VARCHAR, interval VARCHAR, asked BIGINT, questions BIGINT, "
    "repeats INTEGER, seed BIGINT, ok BIGINT, error BIGINT, timeout BIGINT, refused BIGINT, input_tokens BIGINT, "
    "output_tokens BIGINT, cost DOUBLE, uncounted BIGINT, cached BIGINT, cost_per_correct DOUBLE, seconds DOUBLE"
)
OF_SAMPLES = schema_of("kind VARCHAR, target VARCHAR, meta MAP(VARCHAR, VARCHAR)")
OF_METRICS = schema_of(
    "interval VARCHAR, headline BOOLEAN, state VARCHAR, answered BIGINT, date VARCHAR, settings VARCHAR"
)
_FIGURES = re.compile(r"\b(?:headline|value|low|high|interval|cost_per_correct)\b|\*", re.IGNORECASE)
"""A query that may need the figures of the table `runs`: they take summary.json, or scoring again."""
ISOLATED: dict[str, str | bool | int | float | list[str]] = {
    "enable_external_access": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "python_enable_replacements": "false",
    "lock_configuration": "true",
}


@dataclass(frozen=True)
class QueryResult:
    """Result of a query: its columns, its rows as they are fetched, and notes for the reader."""

    columns: tuple[str, ...]
    rows: Iterator[tuple[Any, ...]]
    notes: tuple[str, ...] = ()


class _About(NamedTuple):
    """A run among those of a query: its state, its distinguishing settings, and whether its metrics are wanted."""

    overview: Overview
    settings: str
    figures: bool


_Source: TypeAlias = tuple[str, Run, _About]
"""A run of a query with its name and what is known about it."""


@dataclass
class _Faults:
    """Runs that cannot be read, by path, and whether a query goes on without them."""

    skip: bool
    errors: dict[Path, SnellenError] = field(default_factory=dict)

    @contextmanager
    def of(self, path: Path) -> Iterator[None]:
        """Keep the error of a run that cannot be read, if a query goes on without it."""
        try:
            yield
        except SnellenError as error:
            if not self.skip:
                raise
            self.errors[path] = error

    def require_some(self, runs: Iterable[Run]) -> None:
        """Raise the last error if no run could be read."""
        if self.errors and all(run.path in self.errors for run in runs):
            raise list(self.errors.values())[-1]

    def notes(self) -> list[str]:
        """Name each run that is left out, with the reason."""
        lines = []
        for path, error in self.errors.items():
            is_named = re.search(rf"{re.escape(str(path))}(?=[/:,;\s]|$)", error.message)
            lines.append(f"left out: {error.message}" if is_named else f"left out: {path}: {error.message}")
        return lines


@contextmanager
def query(
    sql: str, runs: Sequence[str | Path | Run], *, trust: bool = False, skip_unreadable: bool = False
) -> Iterator[QueryResult]:
    """Answer one SELECT about runs, from the tables `runs`, `results`, `scores` and `metrics` (docs/query.md).

    A table is filled where the query names it: `scores` takes the data that was asked about, the others do not. No file
    can be read or written by the query and nothing can be loaded by it. Of benchmarks with restricted gold answers these
    are left out of `scores`.

    Args:
        sql: one statement in DuckDB's dialect.
        runs: runs, or their folders; the column `run` has their names.
        trust: as for `load_run`.
        skip_unreadable: leave out of every table the runs of which the query cannot read what it needs, with a note that
            names each, unless none can be read.

    Raises:
        UsageError: it is no single SELECT, or it cannot be answered. RunError: there is no run in one of the folders.
        SnellenError: a run's samples cannot be read again.
    """
    require_single_select(sql)
    faults = _Faults(skip=skip_unreadable)
    opened = list(_open(runs, faults, trust=trust))
    names = run_names([run.path for run in opened])
    settings_of = distinguishing([run.meta for run in opened])
    wanted = _FIGURES.search(sql) is not None
    sources = []
    for run, name, settings in zip(opened, names, settings_of, strict=True):
        with faults.of(run.path):
            about = _About(overview(run.folder, run.sized_meta, group_progress(run)), settings, wanted)
            sources.append((name, run, about))
    with tempfile.TemporaryDirectory(prefix="snellen-query-") as folder:
        place = str(Path(folder, "runs.duckdb"))
        filled: list[str] = []
        with duckdb.connect(place) as filling:
            for name, (schema, rows_of) in TABLES.items():
                if re.search(rf"\b{name}\b", sql, re.IGNORECASE):
                    _fill(filling, name, schema, _named(rows_of, sources, faults))
                    filled.append(name)
            unread = [name for name, run, _ in sources if run.path in faults.errors]
            for table, name in product(filled, unread):
                filling.execute(f"DELETE FROM {table} WHERE run = ?", [name])  # noqa: S608 - a name from TABLES
        faults.require_some(opened)
        with duckdb.connect(place, read_only=True, config=ISOLATED) as connection:
            try:
                connection.execute(sql)
            except duckdb.Error as error:
                raise unanswerable(error) from error
            columns = connection.description or []
            notes = [run.unverified for run in opened if run.unverified and run.path not in faults.errors]
            column_names = tuple(str(column[0]) for column in columns)
            yield QueryResult(column_names, _rows(connection), (*faults.notes(), *notes))


def _open(runs: Iterable[str | Path | Run], faults: _Faults, *, trust: bool) -> Iterator[Run]:
    for run in runs:
        if isinstance(run, Run):
            yield run
            continue
        with faults.of(Path(run)):
            yield load_run(run, trust=trust)


def require_single_select(sql: str) -> None:
    """Raise UsageError if a text is no single SELECT (or EXPLAIN of one)."""
    try:
        sql.encode()
    except UnicodeEncodeError as error:
        raise UsageError(f"the query has a lone surrogate at {error.start + 1}", "Remove it.") from None
    try:
        statements = duckdb.extract_statements(sql)
    except duckdb.Error as error:
        raise unanswerable(error) from error
    kinds = [statement.type for statement in statements]
    if kinds not in ([duckdb.StatementType.SELECT], [duckdb.StatementType.EXPLAIN]):
        names = ", ".join(kind.name for kind in kinds) or "nothing"
        raise UsageError(
            f"a query is one SELECT, and this is {names}", "Runs are read only. See `snellen --help query`."
        )


def unanswerable(error: duckdb.Error) -> UsageError:
    """Build the error for a query that DuckDB refused."""
    if "pytz" in str(error):  # what DuckDB makes times with a time zone by; no other answer needs it
        return UsageError(
            "a column of the answer is a time with a time zone, which needs the package pytz",
            "For UTC without one: make_timestamp((started_at * 1000000)::BIGINT). As text: ::VARCHAR.",
        )
    tables = "\n".join(f"{name}: run, {', '.join(schema.names)}" for name, (schema, _) in TABLES.items())
    return UsageError(f"the query cannot be answered: {error}", f"The tables and their columns:\n{tables}")


def _rows(connection: duckdb.DuckDBPyConnection) -> Iterator[tuple[Any, ...]]:
    while True:
        try:
            some = connection.fetchmany(BATCH)
        except duckdb.Error as error:
            raise unanswerable(error) from error
        if not some:
            return
        yield from some


def _fill(database: duckdb.DuckDBPyConnection, name: str, schema: pa.Schema, rows: Iterator[dict[str, Any]]) -> None:
    full_schema = pa.schema([("run", pa.string()), *schema])
    database.from_arrow(full_schema.empty_table()).create(name)
    for batch in _batches(rows):
        database.from_arrow(pa.Table.from_pylist(batch, schema=full_schema)).insert_into(name)


def _batches(rows: Iterator[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    """Yield rows in lists of at most BATCH rows and, of more than one row, BATCH_CHARACTERS."""
    batch: list[dict[str, Any]] = []
    characters = 0
    for row in rows:
        length = sum(len(value) for value in row.values() if isinstance(value, str))
        if batch and (len(batch) == BATCH or characters + length > BATCH_CHARACTERS):
            yield batch
            batch, characters = [], 0
        batch.append(row)
        characters += length
        del row
    if batch:
        yield batch


def _named(
    rows_of: Callable[[Run, _About], Iterator[dict[str, Any]]], sources: Iterable[_Source], faults: _Faults
) -> Iterator[dict[str, Any]]:
    for name, run, about in sources:
        if run.path in faults.errors:
            continue
        with faults.of(run.path):
            for row in rows_of(run, about):
                yield {"run": name, **row}


def _of_runs(run: Run, about: _About) -> Iterator[dict[str, Any]]:
    meta, totals, coverage = run.meta, about.overview.totals, run.sized_meta.coverage
    head = headline(run) if about.figures else None
    known = [count for count in (coverage.limit, coverage.of) if count is not None]
    version = meta.identity.get("benchmark_version")
    yield {
        "path": str(run.path),
        "benchmark": meta.spec.benchmark,
        "benchmark_version": None if version is None else str(version),
        "model": meta.spec.model,
        "fingerprint": meta.fingerprint,
        "state": about.overview.state,
        "date": about.overview.date or None,
        "settings": about.settings,
        "coverage": score_coverage(about.overview.coverage, head),
        "asked": min(known) if known else None,
        "questions": coverage.of,
        "repeats": meta.spec.repeats,
        "seed": meta.spec.data.seed,
        **run_figures(head, totals),
    }


def _of_results(run: Run, about: _About) -> Iterator[dict[str, Any]]:
    return map(record_row, final_records(run.folder.results))


def _of_scores(run: Run, about: _About) -> Iterator[dict[str, Any]]:
    benchmark = run.benchmark
    scorers, judged = profiles_of(benchmark, "all"), run.verdicts()
    show_target = not (benchmark.restricted or run.meta.restricted)
    for sample, record in run.answers():
        view = answer_view(
            sample, record, scores_of(benchmark, sample, record, scorers, judged), show_target=show_target
        )
        of_sample = {
            "kind": view.kind,
            "target": None if view.target is None else str(view.target),
            "meta": [(name, None if value is None else str(value)) for name, value in view.meta.items()],
        }
        for row in score_rows(view.sample_id, view.repeat, view.scores):
            yield {**row, **of_sample}


def _of_metrics(run: Run, about: _About) -> Iterator[dict[str, Any]]:
    figures = run.figures("all")
    first = next(iter(figures), "")
    top = figures[first][0].name if figures.get(first) else ""
    standing = {
        "state": about.overview.state,
        "answered": about.overview.totals.done,
        "date": about.overview.date or None,
        "settings": about.settings,
    }
    for row in metric_rows(figures):
        yield {**row, "headline": row["profile"] == first and row["name"] == top, **standing}


TABLES: dict[str, tuple[pa.Schema, Callable[[Run, _About], Iterator[dict[str, Any]]]]] = {
    "runs": (RUNS, _of_runs),
    "results": (RECORDS, _of_results),
    "scores": (pa.schema([*SCORES, *OF_SAMPLES]), _of_scores),
    "metrics": (pa.schema([*METRICS, *OF_METRICS]), _of_metrics),
}
