"""From VLMEvalKit's tables to figures with the embedded model, killed half way and gone on with."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

from benchmarks.spatial import kit_drawn, kit_runs
from snellen.runs.run import load_run

TESTS = Path(__file__).parents[2]
NAMES = ("site", "3dsrbench", "mmsi-video-bench")  # paths and videos; pictures and references to them; clips of frames


def test_runs_from_tables_killed_half_way_ask_each_question_once_and_come_to_their_figures(tmp_path: Path) -> None:
    path = os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, kit_runs.__file__, str(tmp_path), *NAMES],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:] + "".join(x.read_text()[-1500:] for x in tmp_path.glob("*.log"))
    outcomes = {one["name"]: one for one in map(json.loads, done.stdout.splitlines())}
    assert tuple(outcomes) == NAMES
    for name, one in outcomes.items():
        log = (tmp_path / f"{name}.log").read_text(encoding="utf-8")
        assert one["killed"] and one["code"] == 0, (one, log[-2000:])
        records = [json.loads(line) for line in (tmp_path / "runs" / name / "results.jsonl").read_text().splitlines()]
        assert 0 < one["before"] < len(records) == kit_drawn.COUNTS[name]
        assert set(Counter(record["sample_id"] for record in records).values()) == {1}
        assert all(record["status"] == "ok" for record in records), (name, records[0].get("error"))
        run = load_run(tmp_path / "runs" / name)
        assert run.meta.state == "complete" and run.meta.coverage.of == len(records)
        for profile in ("easi", "vlmevalkit"):
            assert "overall" in {metric.name for metric in run.figures(profile)[profile]}
