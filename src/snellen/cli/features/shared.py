"""What the commands of `snellen features` have in common: their group, arguments, and how a result is told."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from snellen.cli import options as given
from snellen.cli.console import note, show, show_json
from snellen.errors import UsageError
from snellen.scoring.interval_text import span
from snellen.text import comma_list

if TYPE_CHECKING:
    from snellen.features.store import Features
    from snellen.types import Metric

group = typer.Typer(
    help="Extract or import features of pictures, and measure what they tell apart.", no_args_is_help=True
)

Store = Annotated[Path, typer.Argument(metavar="STORE", help="Folder of the features.")]
Output = Annotated[
    str | None, typer.Option(metavar="NAME", help="Which output of the store.", show_default="its first")
]
Images = Annotated[Path, typer.Option(help="Folder, zip or tar that the paths lie under.")]
Threads = Annotated[int | None, typer.Option(min=1, help="Threads.", show_default="one a core")]
TorchThreads = Annotated[
    int | None,
    typer.Option(min=1, help="Threads of the encoder.", show_default="what a batch gives work to, one a core at most"),
]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON object on stdout.", rich_help_panel=given.SHOWING)]


def tell(
    store: Path,
    measure: str,
    settings: Mapping[str, Any],
    metrics: Iterable[Metric],
    notes: Iterable[str],
    as_json: bool,
) -> None:
    """Show what a measure found: one JSON object, or a table with the settings above and the notes below it."""
    from snellen.features.result import json_result

    metrics, notes = list(metrics), list(notes)
    if as_json:
        show_json(json_result(store, measure, settings, metrics, notes))
        return
    from rich.table import Table

    table = Table(title=f"{measure} · {store}", title_justify="left")
    for heading in ("metric", "value", "95 % interval", "interval by", "n", "coverage", "chance"):
        table.add_column(heading, justify="left" if heading == "metric" else "right", no_wrap=True)
    for one in metrics:
        table.add_row(
            one.name,
            "–" if one.value is None else f"{one.value:.4f}" + ("" if one.unit == "fraction" else f" {one.unit}"),
            span(one.ci95, ".4f"),
            "" if one.interval is None else one.interval.text,
            f"{one.n:,}",
            f"{one.coverage:.1%}",
            "" if one.chance is None else f"{one.chance:.4f}",
        )
    show(table)
    note("; ".join(f"{name}: {value}" for name, value in settings.items() if value not in (None, "", [])))
    for line in notes:
        note(f"note: {line}")


def of_store(features: Features) -> list[str]:
    """What a reader of any number over this store has to know."""
    meta = features.meta
    if meta is None:
        return []
    lines = list(meta.notes)
    if meta.missing:
        lines.append(
            f"{len(meta.missing):,} of {meta.rows + len(meta.missing):,} pictures could not be read and are in no "
            "number; store.json lists them"
        )
    return lines


def numbers(text: str, option: str) -> list[int]:
    """Whole numbers by comma. Raises UsageError."""
    try:
        return [int(number) for number in comma_list(text)]
    except ValueError:
        raise UsageError(f"{option} {text}: whole numbers by comma were expected", f"As in {option} 1,5,10.") from None
