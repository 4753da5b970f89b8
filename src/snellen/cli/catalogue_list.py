"""snellen list catalogue"""

from __future__ import annotations

from msgspec import structs

from snellen.cli.console import new_table, show, show_json

CATALOGUE = "catalogue"


def list_catalogue(*, as_json: bool) -> None:
    """Print the declared benchmarks: name, what each probes, rows, metric, licence, and how the data comes."""
    from snellen.benchmarks.table.entries import all_facts

    listed = all_facts()
    if as_json:
        show_json({"catalogue": [structs.asdict(entry) for entry in listed]})
        return
    table = new_table(None, ["name", "probes"], ["rows"])
    for column in ("metric", "licence", "data"):
        table.add_column(column)
    for entry in listed:
        rows = "" if entry.rows is None else f"{entry.rows:,}"
        licence = f"{entry.licence}, gated" if entry.gated else entry.licence
        table.add_row(entry.name, entry.probes, rows, entry.metric, licence, entry.data)
    table.caption = "snellen run NAME --model KIND:NAME; UNKNOWN: no source names a licence, so ask the authors."
    show(table)


def catalogue_line() -> str:
    """Return one line that names the catalogue, for the list of benchmarks."""
    from snellen.benchmarks.table.entries import names

    return f"{len(names())} declared benchmarks, such as mmstar, pope and chartqa: snellen list catalogue"
