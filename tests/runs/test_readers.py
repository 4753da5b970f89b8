"""Exports read by the programs that they are for: inspect-ai, every-eval-ever and lm-eval, which `make test-external` installs.

These need an environment of their own, since their dependencies exclude those of this project.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

import snellen
from runs.animals import ANIMALS, IDS, Zoologist
from snellen.benchmarks import registry
from snellen.runs.interchange.source import ExportSettings

ROOT = Path(__file__).resolve().parents[2]
PYTHON = os.environ.get("SNELLEN_TEST_READERS_PYTHON") or str(ROOT / ".external" / "readers" / "bin" / "python")

READ_LOG = """
import json, sys
from inspect_ai.log import read_eval_log, read_eval_log_sample, read_eval_log_sample_summaries
from inspect_ai.model import ContentImage
from inspect_ai.scorer import value_to_float
path = sys.argv[1]
log = read_eval_log(path)
header = read_eval_log(path, header_only=True)
to_float = value_to_float()
print(json.dumps({
    "status": header.status,
    "model": log.eval.model,
    "accuracy": {score.name: score.metrics["accuracy"].value for score in log.results.scores},
    "means": {
        score.name: sum(to_float(sample.scores[score.name].value) for sample in log.samples) / len(log.samples)
        for score in log.results.scores
    },
    "images": sum(
        isinstance(part, ContentImage) and part.image.startswith("data:image/")
        for sample in log.samples for message in sample.messages
        for part in (message.content if isinstance(message.content, list) else [])
    ),
    "errors": sum(sample.error is not None for sample in log.samples),
    "input_tokens": next(iter(log.stats.model_usage.values())).input_tokens,
    "found": [
        read_eval_log_sample(path, id=line.id, epoch=line.epoch).id == line.id
        for line in read_eval_log_sample_summaries(path)
    ],
}))
"""
WRITE_JSON = """
import sys
from inspect_ai.log import read_eval_log, write_eval_log
write_eval_log(read_eval_log(sys.argv[1]), sys.argv[2])
"""
READ_RESULTS = """
import json, sys
from lm_eval.utils import get_file_task_name, get_results_filenames, get_sample_results_filenames, make_table
(results,) = get_results_filenames(sys.argv[1:])
(samples,) = get_sample_results_filenames(sys.argv[1:])
print(json.dumps([get_file_task_name(samples), make_table(json.load(open(results)))]))
"""

pytestmark = [
    pytest.mark.external,
    pytest.mark.skipif(
        not Path(PYTHON).exists(), reason="the readers are not installed: make test-external PROGRAMS=readers"
    ),
]


def execute(*arguments: str, folder: Path | None = None, timeout: int = 600) -> str:
    """Run the readers' interpreter and return what it prints."""
    done = subprocess.run(
        [PYTHON, *arguments], capture_output=True, text=True, timeout=timeout, cwd=folder, check=False
    )
    if "ModuleNotFoundError" in done.stderr or ": No module named " in done.stderr:  # the latter of `python -m`
        pytest.skip(f"a reader is not installed: {done.stderr.strip().splitlines()[-1]}")
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> snellen.Run:
    monkeypatch.setitem(registry.BUILT_IN, "animals", "runs.animals:ANIMALS")
    monkeypatch.chdir(tmp_path)
    return snellen.evaluate(ANIMALS, Zoologist(), out="run", concurrency=1)


@pytest.mark.parametrize("no_gold", [False, True])
def test_inspect_reads_the_log_with_images_errors_usage_and_every_profile(run: snellen.Run, no_gold: bool):
    (path,) = snellen.export(run, "inspect", out="out", no_gold=no_gold).files
    log: dict[str, Any] = json.loads(execute("-c", READ_LOG, str(path)))
    wanted = {profile: run.metric("accuracy", profile).value for profile in ("strict", "lenient")}
    assert log["status"] == "success" and log["model"] == "snellen/zoologist"
    assert log["accuracy"] == wanted and log["means"] == pytest.approx(wanted)
    assert log["images"] == 3 and log["errors"] >= 1 and log["input_tokens"] == 240
    assert log["found"] == [True] * len(IDS)


def test_a_log_that_inspect_wrote_again_gives_the_same_figures(run: snellen.Run):
    (path,) = snellen.export(run, "inspect", out="out").files
    for ending in ("json", "eval"):
        execute("-c", WRITE_JSON, str(path), f"theirs.{ending}")
        again = snellen.import_run(f"theirs.{ending}", "animals", out=f"again-{ending}")
        assert again.figures("all") == run.figures("all")


def test_inspect_dumps_and_bundles_the_log(run: snellen.Run, tmp_path: Path):
    (path,) = snellen.export(run, "inspect", out="out").files
    program = str(Path(PYTHON).with_name("inspect"))
    dumped = subprocess.run([program, "log", "dump", str(path)], capture_output=True, check=True, timeout=600)
    assert len(json.loads(dumped.stdout)["samples"]) == len(IDS)
    bundle = [program, "view", "bundle", "--log-dir", "out", "--output-dir", "site"]
    subprocess.run(bundle, capture_output=True, check=True, timeout=600)
    assert (tmp_path / "site" / "index.html").exists()


@pytest.mark.parametrize("no_gold", [False, True])
def test_the_validator_of_every_eval_ever_accepts_both_files(run: snellen.Run, no_gold: bool):
    settings = ExportSettings(model_id="zoo/zoologist")  # an unknown developer is a warning
    files = snellen.export(run, "eee", out="out", no_gold=no_gold, settings=settings).files
    names = [str(path.relative_to("out")) for path in files]
    execute("-m", "every_eval_ever", "validate", *names, folder=Path("out"))


def test_lm_eval_finds_its_files_and_makes_its_table(run: snellen.Run):
    files = snellen.export(run, "lm-eval", out="out").files
    task, table = json.loads(execute("-c", READ_RESULTS, *map(str, files)))
    assert task == "animals" and "strict" in table and "lenient" in table
