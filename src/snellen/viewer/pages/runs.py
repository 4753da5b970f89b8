"""The runs page: every run below the root."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from snellen.engine.resume import verified_meta
from snellen.engine.run_folder import RunFolder
from snellen.errors import RunError
from snellen.reports.tables import format_percent
from snellen.runs.status import overview
from snellen.viewer.site import Page, Site
from snellen.viewer.states import RunsState


def view(site: Site, state: RunsState) -> Mapping[str, Any]:
    """List the runs below the root, and the folders that cannot be read."""
    root = site.settings.root
    rows, problems = [], []
    for path in sorted(root.glob("**/run_meta.json")):
        try:
            meta = verified_meta(RunFolder(path.parent))
        except RunError as error:
            problems.append(error.message)
            continue
        progress = overview(RunFolder(path.parent), meta)
        rows.append(
            {
                "key": path.parent.relative_to(root).as_posix(),
                "benchmark": meta.spec.benchmark,
                "model": meta.spec.model,
                "state": progress.state,
                "coverage": "–" if progress.coverage is None else format_percent(progress.coverage),
                "date": progress.date,
            }
        )
    return {"rows": rows, "problems": problems}


PAGE = Page(state=RunsState, view=view, title="Runs")
