"""snellen query"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from decimal import Decimal
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

import typer

from snellen.cli import options as given
from snellen.cli.console import note, show, show_json
from snellen.errors import UsageError
from snellen.terminal_text import one_line, spreadsheet_cell

SHOWN_ROWS, SHOWN_CHARACTERS = 200, 300
RESULTS = Path("results")


def query(
    sql: Annotated[
        str, typer.Argument(metavar="SQL", help="One SELECT over the tables runs, results, scores and metrics.")
    ],
    runs: Annotated[
        list[Path] | None, typer.Argument(metavar="RUN…", help="Folders of runs.", show_default="all under results/")
    ] = None,
    trust: given.Trust = False,
    as_json: Annotated[
        bool,
        typer.Option("--json", help="One JSON object on stdout: columns and rows.", rich_help_panel=given.SHOWING),
    ] = False,
    as_csv: Annotated[
        bool, typer.Option("--csv", help="CSV with a heading on stdout, as it comes.", rich_help_panel=given.SHOWING)
    ] = False,
) -> None:
    """Ask runs in SQL (DuckDB's). Nothing is asked of a model and nothing is written; docs/query.md has the columns."""
    from snellen.runs.query import query as ask

    if as_json and as_csv:
        raise UsageError("--json and --csv exclude each other", "Give one of them.")
    folders = runs or [path.parent for path in sorted(RESULTS.glob("**/run_meta.json"))]
    if not folders:
        raise UsageError(f"there are no runs under {RESULTS}/", "Name their folders behind the query.")
    with ask(sql, folders, trust=trust) as found:
        if as_json:
            show_json({"columns": found.columns, "rows": [[_plain(cell) for cell in row] for row in found.rows]})
        elif as_csv:
            _csv(found.columns, found.rows)
        else:
            _table(found.columns, found.rows)
        for line in found.notes:
            note(f"note: {line}")


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
    coming = iter(rows)
    for row in islice(coming, SHOWN_ROWS):
        table.add_row(*(Text(_cell(cell), justify=_side(cell)) for cell in row))
    more = sum(1 for _ in coming)
    show(table)
    if more:
        note(f"note: {more:,} more rows; --csv and --json have all")


def _cell(value: Any) -> str:
    if value is None:
        return ""
    text = one_line(f"{value:.6g}" if isinstance(value, float) else str(value))
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]}…"


def _side(value: Any) -> Any:
    return "right" if isinstance(value, (int, float, Decimal)) and not isinstance(value, bool) else "left"


def _plain(value: Any) -> Any:
    """What JSON has no word for: a decimal is a number, one beyond 64 bits and everything else a text."""
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, int) and not -(1 << 63) <= value < 1 << 63:
        return str(value)
    if isinstance(value, dict):
        return {str(name): _plain(one) for name, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(one) for one in value]
    return value
