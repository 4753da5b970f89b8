"""What a benchmark reports beside its metrics: for JSON, for the terminal, and for pages about a run.

A page gets it by `details(run)`: the fields that the benchmark's `details` returned for the first profile, with the lines
for people under `lines`. Of acuity these are `conditions`, `pictures`, `resizing` and `prescription`
(snellen.benchmarks.acuity.prescription).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from snellen.benchmarks.base import ModelFacts
from snellen.engine.run_folder import RunMeta
from snellen.runs.scoring import LINES
from snellen.types import ProcessedImage

if TYPE_CHECKING:
    from snellen.runs.run import Run


def model_facts(meta: RunMeta) -> ModelFacts:
    """Return what a run recorded about its model. Sizes of images that cannot be read count as unknown."""
    executor = meta.environment.get("executor")
    recorded = executor.get("images") if isinstance(executor, Mapping) else None
    try:
        images = msgspec.convert(recorded or (), tuple[ProcessedImage, ...])
    except msgspec.ValidationError:  # a folder from elsewhere may hold anything
        images = ()
    usable = tuple(
        each for each in images if min(each.sent_width, each.sent_height, each.width or 1, each.height or 1) > 0
    )
    return ModelFacts(meta.spec.model, meta.spec.options.media, usable)


def details(run: Run, profile: str | None = None) -> Mapping[str, Any]:
    """Return the details of one profile (None: the first); from summary.json where it is current, else by scoring again.

    It is empty for a benchmark that reports metrics alone, and for a run without answers.
    """
    if run.benchmark.details is None:
        return {}
    name = profile or next(iter(run.benchmark.score))
    if run.summary_is_current():
        saved = msgspec.json.decode(run.folder.summary.read_bytes(), type=dict[str, Any])
        rows = [row for row in saved.get("profiles") or () if row.get("profile") == name and LINES in row]
        if rows:
            return {field: value for field, value in rows[0].items() if field not in ("profile", "metrics")}
    return run.summarize(name, save=False).details.get(name, {})


def detail_lines(run: Run, profile: str | None = None) -> list[str]:
    """Return the lines for people."""
    return [str(line) for line in details(run, profile).get(LINES, ())]
