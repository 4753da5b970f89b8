"""From pictures in folders to accuracy by level: the chart's creatures as a user's own data set."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parent.parent.parent / "examples" / "chart_set.py"


def said(folder: Path, *words: str | Path) -> str:
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_finer_the_level_the_less_the_embedded_model_sees(tmp_path, commands):
    snellen = commands / "snellen"
    assert "54 pictures" in said(
        tmp_path, commands / "run-script", SCRIPT, "creatures", "--pictures", "2", "--fade", "0.6"
    )
    taxonomy = ("--taxonomy", "creatures/taxonomy.csv", "--noun", "creature", "--templates", "chart", "--copy-images")
    said(tmp_path, snellen, "build", "questions", "--images", "creatures", *taxonomy, "--out", "questions")
    (run,) = json.loads(said(tmp_path, snellen, "run", "questions", "-m", "embedded", "-q", "--json"))["runs"]
    value = {metric["name"]: metric["value"] for metric in run["profiles"][0]["metrics"]}
    assert run["totals"]["ok"] == 54 * 9
    assert value["accuracy/class"] > value["accuracy/species"] + 0.1
    assert value["accuracy/class"] > 0.8 and value["accuracy/species"] > 0.4


def test_a_folder_in_use_is_refused_in_words(tmp_path):
    (tmp_path / "mine.txt").write_text("mine")
    done = subprocess.run([sys.executable, str(SCRIPT), str(tmp_path)], capture_output=True, text=True, timeout=600)
    assert done.returncode == 1
    assert "not empty" in done.stderr and "Traceback" not in done.stderr
