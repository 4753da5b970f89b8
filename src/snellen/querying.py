"""SQL over runs, from Python; `snellen query` calls this. The runs are copied into tables, and the query sees nothing else.

The tables lie in a database file that is gone afterwards, so that neither a million replies nor a large join needs memory.
"""

from __future__ import annotations

import itertools
import re
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from snellen.engine.arrow import METRICS, RECORDS, SCORES, metric_rows, record_row, score_rows
from snellen.engine.rescore import final_records, match, profiles_of, scores_of
from snellen.errors import UsageError
from snellen.evaluation import Run, load_run
from snellen.report.view import answer_view, run_names

BATCH = 10_000
RUNS = pa.schema(
    [
        ("path", pa.string()),
        ("benchmark", pa.string()),
        ("benchmark_version", pa.string()),
        ("model", pa.string()),
        ("fingerprint", pa.string()),
        ("state", pa.string()),
        ("asked", pa.int64()),
        ("questions", pa.int64()),
        ("repeats", pa.int32()),
        ("seed", pa.int64()),
        ("ok", pa.int64()),
        ("error", pa.int64()),
        ("timeout", pa.int64()),
        ("refused", pa.int64()),
        ("input_tokens", pa.int64()),
        ("output_tokens", pa.int64()),
        ("cost", pa.float64()),
        ("seconds", pa.float64()),
    ]
)
OF_SAMPLES = pa.schema(
    [("kind", pa.string()), ("target", pa.string()), ("meta", pa.map_(pa.string(), pa.string()))],
)
ISOLATED: dict[str, str | bool | int | float | list[str]] = {
    "enable_external_access": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "python_enable_replacements": "false",
    "lock_configuration": "true",
}


@dataclass(frozen=True)
class Found:
    """What a query gave: the names of its columns, and its rows as they are fetched."""

    columns: tuple[str, ...]
    rows: Iterator[tuple[Any, ...]]


@contextmanager
def query(sql: str, runs: Sequence[str | Path | Run], *, trust: bool = False) -> Iterator[Found]:
    """Answer one SELECT about runs, from the tables `runs`, `results`, `scores` and `metrics` (docs/query.md).

    A table is filled where the query names it: `scores` takes the data that was asked about, the others do not. No file
    can be read or written by the query and nothing can be loaded by it. Of benchmarks with restricted gold answers these
    are left out of `scores`.

    Args:
        sql: one statement in DuckDB's dialect.
        runs: runs, or their folders; the column `run` has their names.
        trust: as for `load_run`.

    Raises:
        UsageError: it is no single SELECT, or it cannot be answered. RunError: there is no run in one of the folders.
        SnellenError: a run's samples cannot be read again.
    """
    _single_select(sql)
    opened = [run if isinstance(run, Run) else load_run(run, trust=trust) for run in runs]
    names = run_names([run.path for run in opened])
    with tempfile.TemporaryDirectory(prefix="snellen-query-") as folder:
        place = str(Path(folder, "runs.duckdb"))
        with duckdb.connect(place) as filling:
            for name, (schema, rows_of) in TABLES.items():
                if re.search(rf"\b{name}\b", sql, re.IGNORECASE):
                    _fill(filling, name, schema, _named(rows_of, opened, names))
        with duckdb.connect(place, read_only=True, config=ISOLATED) as asked:
            try:
                asked.execute(sql)
            except duckdb.Error as error:
                raise _unanswered(error) from error
            columns = asked.description or []
            yield Found(tuple(str(column[0]) for column in columns), _rows(asked))


def _single_select(sql: str) -> None:
    try:
        statements = duckdb.extract_statements(sql)
    except duckdb.Error as error:
        raise _unanswered(error) from error
    kinds = [statement.type for statement in statements]
    if kinds not in ([duckdb.StatementType.SELECT], [duckdb.StatementType.EXPLAIN]):
        found = ", ".join(kind.name for kind in kinds) or "nothing"
        raise UsageError(f"a query is one SELECT, and this is {found}", "Runs are read only. See docs/query.md.")


def _unanswered(error: duckdb.Error) -> UsageError:
    if "pytz" in str(error):  # what DuckDB makes times with a time zone by; no other answer needs it
        return UsageError(
            "a column of the answer is a time with a time zone, which takes the package pytz to show",
            "For UTC without one: make_timestamp((started_at * 1000000)::BIGINT). As text: ::VARCHAR.",
        )
    tables = "\n".join(f"{name}: run, {', '.join(schema.names)}" for name, (schema, _) in TABLES.items())
    return UsageError(f"the query cannot be answered: {error}", f"The tables and their columns:\n{tables}")


def _rows(asked: duckdb.DuckDBPyConnection) -> Iterator[tuple[Any, ...]]:
    while True:
        try:
            some = asked.fetchmany(BATCH)
        except duckdb.Error as error:
            raise _unanswered(error) from error
        if not some:
            return
        yield from some


def _fill(database: duckdb.DuckDBPyConnection, name: str, schema: pa.Schema, rows: Iterator[dict[str, Any]]) -> None:
    whole = pa.schema([("run", pa.string()), *schema])
    database.from_arrow(whole.empty_table()).create(name)
    while some := list(itertools.islice(rows, BATCH)):
        database.from_arrow(pa.Table.from_pylist(some, schema=whole)).insert_into(name)


def _named(
    rows_of: Callable[[Run], Iterator[dict[str, Any]]], runs: Sequence[Run], names: Sequence[str]
) -> Iterator[dict[str, Any]]:
    for run, name in zip(runs, names, strict=True):
        for row in rows_of(run):
            yield {"run": name, **row}


def _of_runs(run: Run) -> Iterator[dict[str, Any]]:
    meta, totals, coverage = run.meta, run.meta.totals, run.meta.coverage
    known = [count for count in (coverage.limit, coverage.of) if count is not None]
    version = meta.identity.get("benchmark_version")
    yield {
        "path": str(run.path),
        "benchmark": meta.spec.benchmark,
        "benchmark_version": None if version is None else str(version),
        "model": meta.spec.model,
        "fingerprint": meta.fingerprint,
        "state": meta.state,
        "asked": min(known) if known else None,
        "questions": coverage.of,
        "repeats": meta.spec.repeats,
        "seed": meta.spec.data.seed,
        "ok": totals.ok,
        "error": totals.error,
        "timeout": totals.timeout,
        "refused": totals.refused,
        "input_tokens": totals.input_tokens,
        "output_tokens": totals.output_tokens,
        "cost": totals.cost,
        "seconds": totals.seconds,
    }


def _of_results(run: Run) -> Iterator[dict[str, Any]]:
    return map(record_row, final_records(run.folder.results))


def _of_scores(run: Run) -> Iterator[dict[str, Any]]:
    benchmark, spec = run.benchmark, run.meta.spec
    scorers, judged = profiles_of(benchmark, "all"), run.verdicts()
    show_target = not (benchmark.restricted or run.meta.restricted)
    records = final_records(run.folder.results)
    for sample, record in match(benchmark, spec.data, records, repeats=spec.repeats):
        seen = answer_view(
            sample, record, scores_of(benchmark, sample, record, scorers, judged), show_target=show_target
        )
        about = {
            "kind": seen.kind,
            "target": None if seen.target is None else str(seen.target),
            "meta": [(name, None if value is None else str(value)) for name, value in seen.meta.items()],
        }
        for row in score_rows(seen.sample_id, seen.repeat, seen.scores):
            yield {**row, **about}


def _of_metrics(run: Run) -> Iterator[dict[str, Any]]:
    return metric_rows(run.figures("all"))


TABLES: dict[str, tuple[pa.Schema, Callable[[Run], Iterator[dict[str, Any]]]]] = {
    "runs": (RUNS, _of_runs),
    "results": (RECORDS, _of_results),
    "scores": (pa.schema([*SCORES, *OF_SAMPLES]), _of_scores),
    "metrics": (METRICS, _of_metrics),
}
