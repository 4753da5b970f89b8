"""snellen query"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from decimal import Decimal
from itertools import islice
from pathlib import Path
from typing import Any

from snellen.cli import options as shared
from snellen.cli.console import note, print_notes, remark, show, show_json
from snellen.cli.option_parsing import argument, option
from snellen.errors import UsageError
from snellen.text import one_line, shorten, spreadsheet_cell

MAX_ROWS, MAX_CHARACTERS = 200, 300
RESULTS = Path("results")


def query(
    sql: str = argument("One SELECT over the tables runs, results, scores and metrics.", value="SQL"),
    runs: list[Path] | None = argument("Run folders.", None, value="RUN…", said="all under results/"),
    trust: shared.Trust = False,
    as_json: bool = option(
        "One JSON object on stdout: columns and rows.", False, names=("--json",), panel=shared.OUTPUT
    ),
    as_csv: bool = option(
        "CSV with a header on stdout, written row by row.", False, names=("--csv",), panel=shared.OUTPUT
    ),
) -> None:
    """Query runs in SQL (DuckDB). Does not call any model and writes no file; `snellen --help query` lists the columns."""
    from snellen.engine.run_folder import runs_in
    from snellen.runs.query import query as query_runs
    from snellen.runs.run_paths import find_runs

    if as_json and as_csv:
        raise UsageError("--json and --csv exclude each other", "Omit one of them.")
    folders = find_runs(runs, verdicts=True, say=remark) if runs else runs_in(RESULTS)
    if not folders:
        raise UsageError(f"there are no runs under {RESULTS}/", "Name the run folders after the query.")
    with query_runs(sql, folders, trust=trust, skip_unreadable=not runs) as result:
        if as_json:
            show_json({"columns": result.columns, "rows": [[_plain(cell) for cell in row] for row in result.rows]})
        elif as_csv:
            _csv(result.columns, result.rows)
        else:
            _table(result.columns, result.rows)
        print_notes(result.notes)


def _csv(columns: Iterable[str], rows: Iterable[tuple[Any, ...]]) -> None:
    import csv

    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow([spreadsheet_cell(column) for column in columns])
    writer.writerows([spreadsheet_cell(cell) for cell in row] for row in rows)


def _table(columns: Iterable[str], rows: Iterable[tuple[Any, ...]]) -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table()
    for column in columns:
        table.add_column(Text(one_line(column)))
    remaining = iter(rows)
    for row in islice(remaining, MAX_ROWS):
        table.add_row(*(Text(_cell(cell), justify=_alignment(cell)) for cell in row))
    omitted = sum(1 for _ in remaining)
    show(table)
    if omitted:
        note(f"note: {omitted:,} more rows; --csv and --json print all")


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return shorten(one_line(f"{value:.6g}" if isinstance(value, float) else str(value)), MAX_CHARACTERS)


def _alignment(value: Any) -> Any:
    return "right" if isinstance(value, (int, float, Decimal)) and not isinstance(value, bool) else "left"


def _plain(value: Any) -> Any:
    """Convert a value for JSON: decimals to floats, integers beyond 64 bits to text."""
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, int) and not -(1 << 63) <= value < 1 << 63:
        return str(value)
    if isinstance(value, dict):
        return {str(name): _plain(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value
