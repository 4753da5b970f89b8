"""The Slurm scripts, run by a stand-in for `sbatch`: an array of parts, the job that merges them, and the signal before the end."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

from servers import fast

SLURM = Path(__file__).parent.parent.parent / "examples" / "slurm"
ROWS = 12
DIRECTIVE = re.compile(r"^#SBATCH (--[\w-]+)(?:=(\S+))?$", re.MULTILINE)
# Options that sbatch documents; a directive with another name would be refused by it.
OPTIONS = {
    *("--job-name", "--array", "--gpus-per-task", "--cpus-per-task", "--time", "--requeue", "--signal", "--output"),
    *("--parsable", "--dependency"),
}


class StandInSlurm:
    """Runs batch scripts as Slurm does: a copy of the script, the directives at its head, a task for each number of an array."""

    def __init__(self, folder: Path, **variables: str) -> None:
        self.folder = folder
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("SLURM_", "SNELLEN_"))}
        self._environment = {**kept, "PATH": path, "OMP_NUM_THREADS": "1", **variables}
        self._jobs: dict[str, list[int]] = {}

    def submit(self, script: Path, *options: str) -> str:
        """Run a job to its end and return its id, as `sbatch --parsable` prints it; options come before directives."""
        directives = {name: value or "" for name, value in DIRECTIVE.findall(script.read_text(encoding="utf-8"))}
        typed = {name: value for name, _, value in (option.partition("=") for option in options)}
        assert set(directives) | set(typed) <= OPTIONS
        settings = {**directives, **typed}
        if "--dependency" in settings:
            condition, _, earlier = settings["--dependency"].partition(":")
            assert condition == "afterany" and earlier in self._jobs
        job = str(1000 + len(self._jobs))
        numbers = [""]
        if array := settings.get("--array"):
            first, last = array.split("-")
            numbers = [str(number) for number in range(int(first), int(last) + 1)]
        tasks = [self.start(script, settings, job, number, len(numbers)) for number in numbers]
        self._jobs[job] = [task.wait(timeout=120) for task in tasks]
        return job

    def start(
        self, script: Path, settings: dict[str, str], job: str, number: str, count: int
    ) -> subprocess.Popen[bytes]:
        """Start one task; its output goes to the file that `--output` names."""
        array = {"SLURM_ARRAY_JOB_ID": job, "SLURM_ARRAY_TASK_ID": number, "SLURM_ARRAY_TASK_COUNT": str(count)}
        log = self.folder / settings["--output"].replace("%A", job).replace("%a", number).replace("%j", job)
        spooled = self.folder / f"slurm_script_{job}_{number}"
        spooled.write_bytes(script.read_bytes())
        with log.open("wb") as output:
            return subprocess.Popen(
                ["bash", str(spooled)],
                cwd=self.folder,
                env={**self._environment, "SLURM_JOB_ID": job, **(array if number else {})},
                stdout=output,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
            )

    def statuses(self, job: str) -> list[int]:
        return self._jobs[job]

    def log(self, job: str, number: str = "") -> str:
        return (self.folder / (f"slurm-{job}_{number}.log" if number else f"slurm-{job}.log")).read_text()


def write_table(folder: Path) -> None:
    rows = [{"id": str(n), "question": f"Which is {n}?", "A": "one", "B": "two", "answer": "A"} for n in range(ROWS)]
    (folder / "quiz.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    replies = [{"id": str(n), "reply": "A" if n else "B"} for n in range(ROWS)]
    (folder / "answers.jsonl").write_text("".join(json.dumps(reply) + "\n" for reply in replies))


def test_an_array_runs_the_parts_and_the_second_job_merges_them(tmp_path: Path) -> None:
    write_table(tmp_path)
    slurm = StandInSlurm(tmp_path, BENCHMARK="quiz.jsonl", MODEL="replay:answers.jsonl")
    job = slurm.submit(SLURM / "array.sh", "--parsable", "--array=1-2")
    assert slurm.statuses(job) == [0, 0], slurm.log(job, "1") + slurm.log(job, "2")
    parts = sorted(path.name for path in (tmp_path / "results/parts").iterdir())
    assert parts == ["shard-1-of-2", "shard-2-of-2"]
    merge = slurm.submit(SLURM / "merge.sh", f"--dependency=afterany:{job}")
    assert slurm.statuses(merge) == [0], slurm.log(merge)
    meta = json.loads((tmp_path / "results/merged/run_meta.json").read_text())
    assert (meta["state"], meta["totals"]["ok"]) == ("complete", ROWS)
    assert f"{ROWS} of {ROWS} answered" in slurm.log(merge) and "accuracy" in slurm.log(merge)


def test_the_signal_before_the_end_loses_no_answer_and_the_requeued_task_goes_on(tmp_path: Path) -> None:
    write_table(tmp_path)
    with fast.running(latency_s=3.0) as server:
        variables = {"OPENAI_BASE_URL": server.url, "BENCHMARK": "quiz.jsonl", "MODEL": f"api:{fast.MODEL}"}
        script = tmp_path / "two_at_once.sh"
        text = (SLURM / "array.sh").read_text(encoding="utf-8")
        script.write_text(text.replace("snellen run ", "snellen run --concurrency 2 "))
        slurm = StandInSlurm(tmp_path, **variables)
        task = slurm.start(script, {"--output": "slurm-%A_%a.log"}, "7", "1", 1)
        end = time.monotonic() + 600
        while server.stats()["served"] < 2 and time.monotonic() < end and task.poll() is None:
            time.sleep(0.02)
        task.send_signal(signal.SIGTERM)  # to the batch shell alone, as `--signal=B:TERM` asks
        assert task.wait(timeout=600) != 0
        journal = tmp_path / "results/parts/shard-1-of-1/results.jsonl"
        answered = len(journal.read_text().splitlines())
        assert 2 <= answered == server.stats()["served"] < ROWS, slurm.log("7", "1")
        server.set_latency(0.0)
        requeued = slurm.submit(script, "--array=1-1")
        assert slurm.statuses(requeued) == [0], slurm.log(requeued, "1")
        assert server.stats()["served"] == ROWS
