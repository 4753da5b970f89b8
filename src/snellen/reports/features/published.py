"""Published figures on the page of feature stores: the user's figures first, then the cells of others, each with its source."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from snellen.features.published import PublishedFigure
from snellen.reports.tables import format_percent
from snellen.types import Metric

# The metric of each group that is nearest to a published figure of another name.
NEAREST = {"Linear probe": "accuracy"}


class MeasuredView(Protocol):
    """A store with its measures and the published cells about its data set."""

    @property
    def name(self) -> str: ...
    @property
    def measures(self) -> Mapping[str, Sequence[Metric]]: ...
    @property
    def published(self) -> Mapping[str, tuple[Sequence[PublishedFigure], Sequence[str]]]: ...


def published_tables(stores: Sequence[MeasuredView]) -> list[dict[str, Any]]:
    """Return a table for each published column that is about a store's data set."""
    tables: dict[tuple[str, str], dict[str, Any]] = {}
    for store in stores:
        for group, (figures, notes) in store.published.items():
            for cell in figures:
                key = cell.table, cell.column
                table = tables.setdefault(
                    key, {"title": f"{cell.table}: {cell.column}", "own": {}, "cells": {}, "notes": []}
                )
                measured = {metric.name: metric for metric in store.measures.get(group, ())}
                own = measured.get(cell.figure, measured.get(NEAREST.get(group, "")))
                if own is not None and own.value is not None:
                    table["own"][store.name] = (own.name, format_percent(own.value))
                same = [*table["cells"].get(cell.row, {"same": []})["same"], *([store.name] if cell.same else [])]
                table["cells"][cell.row] = {
                    "value": format_percent(cell.value),
                    "figure": cell.figure,
                    "source": cell.source,
                    "same": list(dict.fromkeys(same)),
                }
                table["notes"] = [note for note in notes if note.startswith(f"{cell.table}: ")]
    return list(tables.values())
