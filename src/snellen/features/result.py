"""The one shape in which a measure over a store is told as data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from snellen.types import Metric


def json_result(
    store: Path, measure: str, settings: Mapping[str, Any], metrics: Iterable[Metric], notes: Iterable[str]
) -> dict[str, Any]:
    """What `snellen features MEASURE --json` prints, and what a report holds of each measure."""
    return {
        "store": str(store),
        "measure": measure,
        "settings": dict(settings),
        "metrics": list(metrics),
        "notes": list(notes),
    }
