"""The four parts of MMSI-Video-Bench that its rows are tagged for, and their figures: VLMEvalKit's `_subset_acc` table.

A row belongs to a part if its column of that name holds a tag. Each part has a mean over its rows (`(Easy2hard)Avg` in the kit)
and one per tag (`(Easy2hard)easy`). A row may belong to several parts, or to none.

Source: VLMEvalKit's MMSIVideoBench, as its column names and result file have them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from snellen.scoring import statistics
from snellen.scoring.scores import Scores
from snellen.types import Metric

BENCHMARK = "mmsi-video-bench"
SUB_BENCHES = ("Easy2hard", "Grounding", "Indoor_Scene_Perception", "Robot")
NO_TAG = frozenset({"", "none", "nan", "null", "[]", "false"})


def tags(row: Mapping[str, Any]) -> dict[str, str]:
    """Return part to tag of a row, without the parts that it does not belong to; names are compared without case."""
    columns = {str(name).replace(" ", "_").lower(): value for name, value in row.items()}
    values = {name: columns.get(name.lower()) for name in SUB_BENCHES}
    texts = {name: "" if value is None else str(value).strip() for name, value in values.items()}
    return {name: text[:200] for name, text in texts.items() if text.lower() not in NO_TAG}


def sub_bench_metrics(scores: Scores) -> list[Metric]:
    """Return `subset/<part>` and `subset/<part>/<tag>` for the parts and tags that rows have."""
    metrics: list[Metric] = []
    for name in SUB_BENCHES:
        column = scores.meta.get(name)
        if column is None or not (column.codes >= 0).any():
            continue
        metrics.append(statistics.mean(f"subset/{name}", scores.among(name, lambda _: True)))
        metrics += [
            statistics.mean(f"subset/{name}/{tag}", part)
            for tag, part in sorted(scores.by(name), key=lambda item: item[0])
            if tag and len(part)
        ]
    return metrics


def kit_line(rows: Iterable[tuple[float | None, Mapping[str, Any]]]) -> dict[str, float]:
    """Return the one row of the kit's table: column to points, 0 to 100.

    Args:
        rows: (score, meta of the sample); a row without a score is left out.
    """
    values: dict[str, dict[str, list[float]]] = {name: {} for name in SUB_BENCHES}
    for value, meta in rows:
        if value is None:
            continue
        for name, by_tag in values.items():
            if tag := str(meta.get(name) or ""):
                by_tag.setdefault("Avg", []).append(value)
                by_tag.setdefault(tag, []).append(value)
    return {
        f"({name}){tag}": 100 * float(np.mean(by_tag[tag]))
        for name, by_tag in values.items()
        for tag in sorted(by_tag, key=lambda tag: (tag != "Avg", tag))
    }
