"""What commands print with --json is what `snellen schema` says, on small inputs."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from printed_schema import DRAFT, require_schema
from snellen.cli.completion import commands
from snellen.cli.schema import OUTPUTS, schema_of


def test_every_command_with_json_has_a_schema_and_every_schema_a_command():
    with_json = {each.path for each in commands() if "--json" in each.options}
    assert set(OUTPUTS) == with_json


@pytest.mark.parametrize("command", OUTPUTS)
def test_a_schema_is_one_and_allows_no_other_field(command):
    schema = schema_of(command)
    DRAFT.check_schema(schema)
    assert schema["$schema"].endswith("2020-12/schema")
    with pytest.raises(jsonschema.ValidationError):
        DRAFT(schema).validate([])
    if command not in ("build linking", "features report"):  # their names are those of benchmarks and sections
        with pytest.raises(jsonschema.ValidationError):
            DRAFT(schema).validate({"no such field": 1})


PLAN = """
models = ["pixels"]
benchmarks = ["lights"]
"""
READY = [
    ("run", "lights", "-m", "pixels", "--out", "a", "--json", "--quiet"),
    ("run", "lights", "-m", "pixels", "--out", "b", "--seed", "1", "--json", "--quiet"),
    ("run", "chart/digits", "-m", "embedded", "--limit", "4", "--out", "c", "--json", "--quiet"),
    ("run", "chart/digits", "-m", "embedded", "--limit", "4", "--out", "d", "--blank-images", "--json", "--quiet"),
    ("run", "own.jsonl", "-m", "replay:replies.jsonl", "--out", "own", "--json", "--quiet"),
]
"""Runs that the commands below read."""
ASKED = [
    ("run", "lights", "-m", "pixels", "--dry-run", "--json"),
    ("run", "lights", "-m", "pixels", "--out", "a", "--fail-under", "accuracy=0.9", "--json", "--quiet"),
    ("run", "own.jsonl", "-m", "replay:other.jsonl", "--out", "failed", "--json", "--quiet"),
    ("run", "plan.toml", "--json", "--out", "plan"),
    ("run", "plan.toml", "--json", "--dry-run"),
    ("rerun", "a", "--json", "--quiet"),
    ("reproduce", "chart/digits", "-m", "embedded", "--limit", "4", "--out", "c", "--json", "--quiet"),
    ("import", "replies.jsonl", "--benchmark", "own.jsonl", "--out", "imported", "--json"),
    ("merge", "merged", "s1", "s2", "--json"),
    ("leakage", "own.jsonl", "-m", "replay:replies.jsonl", "--out", "leak", "--json"),
    ("check", "own.jsonl", "--json"),
    ("check", "odd.jsonl", "--json"),
    ("power", "--samples", "100", "--json"),
    ("score", "c", "--profile", "all", "--json"),
    ("score", "replies.jsonl", "--benchmark", "own.jsonl", "--json"),
    ("compare", "c", "d", "--json", "--fail-if-worse"),
    ("compare", "c", "d", "--json", "--flips", "--metric", "accuracy"),
    ("report", "c", "--json"),
    ("report", "c", "--redact", "redacted", "--json"),
    ("show", "c", "--json", "--pictures", "2"),
    ("show", "own", "--json"),
    ("query", "SELECT * FROM results", "c", "--json"),
    ("query", "SELECT * FROM scores", "c", "--json"),
    ("failures", "d", "--json"),
    ("reviews", "status", "c", "--json"),
    ("reviews", "sample", "c", "--size", "2", "--json"),
    ("reviews", "export", "c", "--cases", "all", "--out", "tasks.json", "--json"),
    ("batch", "write", "chart/digits", "-m", "api:x", "--limit", "2", "--out", "r.jsonl", "--run", "w", "--json"),
    ("batch", "read", "w", "none.jsonl", "--json"),
    ("export", "c", "--json"),
    ("export", "c", "d", "--format", "csv", "--json"),
    ("export", "c", "d", "--format", "csv", "--out", "t.csv", "--json"),
    ("extract", "rows.jsonl", "--out", "read.jsonl", "--json"),
    ("agents", "list", "--json"),
    ("list", "--json"),
    ("list", "chart", "--json"),
    ("list", "own.jsonl", "--data", "own.jsonl", "--json"),
    ("list", "catalogue", "--json"),
    ("list", "--cards", "--json"),
    ("list", "--runs", "--results", ".", "--json"),
    ("list", "--published", "--json"),
    ("recipes", "--json"),
    ("doctor", "--json"),
    ("version", "--json"),
    ("view", ".", "--export", "pages", "--json"),
]


ELSEWHERE = {
    "demo": "cli/test_demo_command.py",
    "judge": "cli/test_show.py",
    "acuity": "cli/test_acuity_command.py",
    "watch": "training/test_watch.py",
    "easi": "easi/test_easi_command.py",
    "subset": "runs/test_subset.py",
    **dict.fromkeys(("batch list", "batch cancel", "batch drop"), "cli/test_cli_batch.py"),
    "agents install": "agents/test_install.py",
    "agents image": "agents/test_apptainer.py",
    "reviews import": "cli/test_reviews.py",
    "reviews card": "runs/reviews/test_judge_card.py",
    "submit easi": "easi/submit/test_submit_easi.py",
    **dict.fromkeys(("prompts import", "build questions", "build check"), "cli/test_fgbmk_templates.py"),
    **dict.fromkeys(("build boxes", "build masks"), "cli/test_build_boxes.py"),
    "build linking": "cli/test_build_linking.py",
    "features acuity": "features/test_acuity_thresholds.py",
    **dict.fromkeys(("features alignment", "features cka"), "features/test_alignment.py"),
    "features attack": "features/test_attack.py",
    "features probe": "features/test_probe.py",
    "features report": "features/test_features_page.py",
    **dict.fromkeys(("features retrieval", "features knn"), "features/test_retrieval.py"),
    **dict.fromkeys(("features extract", "features import"), "features/test_extract.py"),
    **dict.fromkeys(("features zero-shot", "features image-text"), "features/test_image_text.py"),
}
"""Commands whose inputs take more to make, and the file of tests that compares what they print."""
UNCOMPARED = {"read", "answer", "build curate"}
"""Commands that no test calls with --json to its end: the first two print as `run` does, by the same function."""


def test_every_command_is_compared_with_its_schema_here_or_elsewhere():
    here = {next(name for name in (" ".join(words[:2]), words[0]) if name in OUTPUTS) for words in (*READY, *ASKED)}
    assert here | ELSEWHERE.keys() | UNCOMPARED == set(OUTPUTS)
    for file in ELSEWHERE.values():
        text = (Path(__file__).parents[1] / file).read_text(encoding="utf-8")
        assert "printed_as_schema" in text or "require_schema" in text, file


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, lights_folder: Path) -> Iterator[Path]:
    """Questions, replies, a plan, and the runs of READY."""
    place = tmp_path_factory.mktemp("schema")

    def write(name: str, rows: list[dict[str, Any]]) -> None:
        (place / name).write_text("".join(json.dumps(row) + "\n" for row in rows))

    numbers = range(6)
    write(
        "own.jsonl",
        [{"id": f"q{n}", "question": f"{n} + 1 = ?", "A": "1", "B": "2", "answer": "AB"[n % 2]} for n in numbers],
    )
    write("odd.jsonl", [{"id": "x", "question": "?", "answer": "1"}, {"id": "x", "question": "", "answer": None}])
    write("replies.jsonl", [{"id": f"q{n}", "reply": "A"} for n in numbers])
    (place / "none.jsonl").write_text("")
    write("other.jsonl", [{"id": "none", "reply": "A"}])
    write("rows.jsonl", [{"kind": "choice", "reply": "A", "answer": "A", "options": {"A": "x", "B": "y"}}])
    (place / "plan.toml").write_text(PLAN)
    for words in READY:
        done = call(place, lights_folder, *words)
        assert done.returncode == 0, done.stderr
        require_schema("run", done.stdout)
    for part in ("1/2", "2/2"):
        call(place, lights_folder, "run", "lights", "-m", "pixels", "--shard", part, "--out", f"s{part[0]}", "--quiet")
    yield place


def call(place: Path, lights_folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    import os

    environment = {**os.environ, "PYTHONPATH": str(lights_folder), "HF_HUB_OFFLINE": "1"}
    return subprocess.run(
        [sys.executable, "-m", "snellen", *words],
        cwd=place,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )


@pytest.mark.parametrize("words", ASKED, ids=lambda words: " ".join(words)[:60])
def test_what_is_printed_is_as_the_schema_says(words, folder, lights_folder):
    done = call(folder, lights_folder, *words)
    assert done.stdout.startswith("{"), done.stdout[:300] + done.stderr
    command = next(name for name in (" ".join(words[:2]), words[0]) if name in OUTPUTS)
    require_schema(command, done.stdout)


def test_schema_prints_one_object_and_names_what_it_knows(snellen):
    assert snellen("schema").out.splitlines() == list(OUTPUTS)
    assert json.loads(snellen("schema", "reviews", "status").out) == schema_of("reviews status")
    wrong = snellen("schema", "ruun")
    assert wrong.status == 2 and "run" in wrong.err
