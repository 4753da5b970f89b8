"""The overview of a run that was stopped has the time that it took, beside the counts of its journal."""

from __future__ import annotations

from msgspec import structs

import snellen
from snellen.runs.status import overview


def test_a_stopped_run_has_its_seconds_in_the_overview(tmp_path):
    run = snellen.evaluate("chart/digits", "embedded", out=tmp_path / "run", limit=4)
    meta = run.meta
    stopped = structs.replace(meta, state="partial", totals=structs.replace(meta.totals, seconds=12.5, ok=1))
    run.folder.write_meta(stopped)
    seen = overview(run.folder, run.folder.meta())
    assert (seen.state, seen.totals.ok, seen.totals.seconds) == ("partial", 4, 12.5)
