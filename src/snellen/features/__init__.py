"""Features of a vision encoder: extraction, storage, retrieval, probes and attacks.

`open_store` and `import_file` give features; every measure is a function over arrays.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from snellen.features.store import Features, Labels, import_file, open_store
from snellen.types import Metric

__all__ = ["Features", "Labels", "import_file", "json_result", "open_store"]


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
