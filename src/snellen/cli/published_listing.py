"""Published tables that come with Snellen: `snellen list [BENCHMARK]... --published`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from snellen.cli.console import new_table, show, show_json

if TYPE_CHECKING:
    from rich.table import Table

    from snellen.benchmarks.base import Published

EASI = "easi"
"""The name of EASI's own tables, which are about many benchmarks."""


def shipped_tables(names: Sequence[str] = ()) -> Iterator[tuple[str, Published]]:
    """Yield tables, each once, with the benchmark that they are about, or `easi`; without names all of them."""
    from snellen.benchmarks import registry
    from snellen.benchmarks.spatial.reference import published, verification
    from snellen.benchmarks.table.entries import names as declared
    from snellen.features.published import published_more, published_tables

    every = [*(name for name in registry.names() if "/" not in name), *declared(), EASI]
    for name in names or dict.fromkeys(every):
        if name == EASI:
            tables = [*published.tables(), *(table for _, table in verification.by_benchmark())]
        else:
            # A column of EASI's table is shown by its own benchmark, and in the list by the whole table alone.
            tables = [table for table in registry.find(name).published if names or table.whole is None]
            tables += [*published_tables(), *published_more()] if name == "fgbmk" else []
            tables += [table for of, table in verification.by_benchmark() if names and of == name]
        yield from ((name, table) for table in tables)


def list_published(names: Sequence[str], *, as_json: bool) -> None:
    """Print the tables about the named benchmarks with their sources and notes; without names, one line a table."""
    found = list(shipped_tables(names))
    if as_json:
        show_json({"published": [_facts(name, table) for name, table in found]})
    elif names:
        for _, table in found:
            show(f"{table.title} ({table.source})", _rows(table), *(f"- {note}" for note in table.notes), "")
        if not found:
            print("no published table; `snellen list --published` shows which benchmarks have one")
    else:
        lines = new_table(None, ["benchmark", "table", "source"], ["rows", "columns"])
        for name, each in found:
            lines.add_row(name, each.title, each.source, str(len(each.rows)), str(len(each.columns)))
        lines.caption = "snellen list BENCHMARK --published shows the figures."
        show(lines)


def _rows(published: Published) -> Table:
    table = new_table(None, ["row"], published.columns)
    for row in published.rows:
        table.add_row(
            row.name, *("–" if value is None else published.text(at, value) for at, value in enumerate(row.values))
        )
    return table


def _facts(name: str, table: Published) -> dict[str, Any]:
    rows = [{"name": row.name, "kind": row.kind, "values": row.values} for row in table.rows]
    facts = {"benchmark": name, "title": table.title, "source": table.source, "profile": table.profile}
    lists = {"columns": table.columns, "metrics": table.metrics, "numbers": table.numbers, "notes": table.notes}
    return {**facts, **lists, "rows": rows}
