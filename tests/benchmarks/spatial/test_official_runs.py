"""All twelve benchmarks from official files to figures with the embedded model, each killed half way and gone on with."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.spatial import killed_runs
from benchmarks.spatial import official_drawn as drawn
from snellen.benchmarks.spatial.tasks import TASKS
from snellen.runs.run import load_run

TESTS = Path(__file__).parents[2]
LONGEST_S = 900
"""Seconds that one benchmark may take, both runs together."""
FIGURES = {
    "vsi-bench": "object_rel_direction_accuracy",
    "site": "counting_and_existence_caa",
    "3dsrbench": "circ_eval_overall",
    "spar-bench": "middle",
}


def driven(root: Path, names: tuple[str, ...]) -> Iterator[dict[str, object]]:
    """Run benchmarks, each killed half way, in one process that imports torch once. A hang of one of them ends it."""
    path = os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")])
    words = [sys.executable, killed_runs.__file__, str(root), *names]
    errors = root / "errors.log"
    with (
        errors.open("wb") as stderr,
        subprocess.Popen(
            words, env={**os.environ, "PYTHONPATH": path}, stdout=subprocess.PIPE, stderr=stderr, text=True
        ) as process,
    ):
        assert process.stdout is not None
        for name in names:
            hang = threading.Timer(LONGEST_S, process.kill)
            hang.start()
            line = process.stdout.readline()
            hang.cancel()
            if not line:
                process.wait()
                logs = "".join(log.read_text()[-1500:] for log in root.glob("*.log"))
                raise AssertionError(f"{name}: no outcome within {LONGEST_S} s, status {process.returncode}: {logs}")
            outcome: dict[str, object] = json.loads(line)
            yield outcome
        assert process.stdout.read() == ""
    assert process.returncode == 0, errors.read_text()[-2000:]


@pytest.mark.slow
def test_all_twelve_run_to_their_figures_and_killed_half_way_ask_each_question_once(tmp_path: Path) -> None:
    outcomes = list(driven(tmp_path, tuple(drawn.DRAWN)))
    assert [one["name"] for one in outcomes] == list(TASKS)
    for one in outcomes:
        name, total = str(one["name"]), one["total"]
        log = (tmp_path / f"{name}.log").read_text(encoding="utf-8")
        assert one["killed"] and one["code"] == 0, (one, log[-2000:])
        records = [json.loads(line) for line in (tmp_path / "runs" / name / "results.jsonl").read_text().splitlines()]
        assert 0 < int(str(one["before"])) < len(records) == total, one
        assert set(Counter(record["sample_id"] for record in records).values()) == {1}
        assert all(record["status"] == "ok" for record in records), (name, records[0].get("error"))
        run = load_run(tmp_path / "runs" / name)
        assert run.meta.state == "complete" and run.meta.coverage.of == total
        metrics = {metric.name for metric in run.figures("easi")["easi"]}
        assert {"overall", FIGURES.get(name, "overall")} <= metrics, name


def test_a_damaged_video_costs_its_questions_and_the_rest_is_asked(tmp_path: Path) -> None:
    path = drawn.draw("vsi-bench", tmp_path / "data", each=2)
    drawn.packed(path / "scannet.zip", {"scannet/scene0011_00.mp4": drawn.film()[:200]})
    words = killed_runs.asked(path, "vsi-bench", tmp_path / "run")
    done = subprocess.run(
        [sys.executable, "-m", "snellen", *words], capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 9, done.stderr[-2000:]  # came to its end, with samples that have no answer
    records = [json.loads(line) for line in (tmp_path / "run" / "results.jsonl").read_text().splitlines()]
    failed = [record for record in records if record["status"] == "error"]
    assert len(records) == 20 and len(failed) == sum(at % 3 == 1 for at in range(20))
    assert all(record["error"]["kind"] == "input" and "scannet" in record["error"]["message"] for record in failed)
