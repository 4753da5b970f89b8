"""Shared parts of `snellen features`: the group, common options and the output of a result."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from snellen.cli.console import new_table, note, show, show_json
from snellen.cli.option_parsing import Commands
from snellen.errors import UsageError
from snellen.scoring.metric_text import counted, span
from snellen.text import comma_list

if TYPE_CHECKING:
    from snellen.features.published import PublishedFigure
    from snellen.features.store import Features
    from snellen.types import Metric

Published: TypeAlias = "tuple[Sequence[PublishedFigure], Sequence[str]]"

group = Commands(
    help="Extract or import features of images, and measure how well they separate classes.", no_args_is_help=True
)

Store = Annotated[Path, typer.Argument(metavar="STORE", help="Folder of a feature store.")]
Output = Annotated[str | None, typer.Option(metavar="NAME", help="Output of the store.", show_default="its first")]
Images = Annotated[Path, typer.Option(help="Folder, zip or tar with the images of the CSV files.")]
Threads = Annotated[int | None, typer.Option(min=1, help="Number of threads.", show_default="one per core")]
TorchThreads = Annotated[
    int | None,
    typer.Option(
        min=1, help="Number of threads of the encoder.", show_default="as the batch allows, at most one per core"
    ),
]


def show_result(
    store: Path,
    measure: str,
    settings: Mapping[str, Any],
    metrics: Iterable[Metric],
    notes: Iterable[str],
    as_json: bool,
    published: Published = ((), ()),
) -> None:
    """Print a result: one JSON object, or a table of metrics, then settings and notes on stderr.

    Args:
        published: cells of published tables about the same data set, with their notes; shown in a table of their own.
    """
    from snellen.features import json_result

    figures, published_notes = published
    metrics, notes = list(metrics), [*notes, *published_notes]
    if as_json:
        result = json_result(store, measure, settings, metrics, notes)
        show_json({**result, "published": list(figures)} if figures else result)
        return
    headings = ("value", "95 % interval", "interval by", "n", "coverage", "chance")
    table = new_table(f"{measure} · {store}", ["metric"], headings)
    for metric in metrics:
        unit = "" if metric.unit == "fraction" else f" {metric.unit}"
        table.add_row(
            metric.name,
            "–" if metric.value is None else f"{metric.value:.4f}{unit}",
            span(metric.ci95, ".4f"),
            "" if metric.interval is None else metric.interval.text,
            counted(metric.n, metric.interval),
            f"{metric.coverage:.1%}",
            "" if metric.chance is None else f"{metric.chance:.4f}",
        )
    show(table)
    if figures:
        beside = new_table("published", ["table", "row", "column"], ["value", "figure", "source"])
        for cell in figures:
            name = f"{cell.row} (this encoder)" if cell.same else cell.row
            beside.add_row(cell.table, name, cell.column, f"{cell.value:.4f}", cell.figure, cell.source)
        show(beside)
    note("; ".join(f"{name}: {value}" for name, value in settings.items() if value not in (None, "", [])))
    for line in notes:
        note(f"note: {line}")


def store_notes(features: Features) -> list[str]:
    """Return the notes of a store, with the number of its unreadable images."""
    meta = features.meta
    if meta is None:
        return []
    lines = list(meta.notes)
    if meta.missing:
        lines.append(
            f"{len(meta.missing):,} of {meta.rows + len(meta.missing):,} images could not be read and are in no "
            "metric; store.json lists them"
        )
    return lines


def numbers(text: str, option: str) -> list[int]:
    """Parse whole numbers separated by commas; raise UsageError for other text."""
    try:
        return [int(number) for number in comma_list(text)]
    except ValueError:
        raise UsageError(
            f"{option} {text}: whole numbers separated by commas were expected", f"Example: {option} 1,5,10."
        ) from None
