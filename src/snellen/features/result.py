"""Shared JSON result of a measure over a store."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from snellen.types import Metric


def json_result(
    store: Path, measure: str, settings: Mapping[str, Any], metrics: Iterable[Metric], notes: Iterable[str]
) -> dict[str, Any]:
    """Build the result that `snellen features MEASURE --json` prints and that a report includes."""
    return {
        "store": str(store),
        "measure": measure,
        "settings": dict(settings),
        "metrics": list(metrics),
        "notes": list(notes),
    }
