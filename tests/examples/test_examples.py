"""The examples work as they stand: the notebook runs to its end, the plug-in is found once it is installed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import nbformat

ROOT = Path(__file__).parent.parent.parent
EXAMPLES = ROOT / "examples"
sys.path.insert(0, str(ROOT / "docs" / "_scripts"))
import tutorial_page  # noqa: E402


def snellen(commands: Path, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([commands / "snellen", *words], cwd=folder, capture_output=True, text=True, timeout=600)


def test_the_notebook_runs_and_prints_what_the_page_shows(tmp_path, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    page = tutorial_page.page(tutorial_page.executed(tmp_path))
    assert page == tutorial_page.PAGE.read_text(encoding="utf-8"), "run: python docs/_scripts/tutorial_page.py"
    assert (tmp_path / "report.html").is_file()


def test_the_notebook_is_kept_without_outputs():
    notebook = nbformat.read(tutorial_page.NOTEBOOK, as_version=4)
    assert all(not cell.get("outputs") and cell.get("execution_count") is None for cell in notebook.cells)


def test_an_installed_plug_in_is_listed_and_run_by_its_name(commands, lights, tmp_path):
    listed = json.loads(snellen(commands, tmp_path, "list", "--json").stdout)
    assert "lights" in {one["name"] for one in listed["benchmarks"]}
    assert "pixels" in listed["models"]
    done = snellen(commands, tmp_path, "run", "lights", "--model", "pixels", "--json", "--quiet")
    assert done.returncode == 0, done.stderr
    (run,) = json.loads(done.stdout)["runs"]
    assert run["totals"]["ok"] == 60
    assert run["profiles"][0]["metrics"][0]["value"] == 1.0


def test_the_plug_in_cannot_see_the_lamp_when_the_pictures_are_grey(commands, lights, tmp_path):
    done = snellen(commands, tmp_path, "run", "lights", "--model", "pixels", "--blank-images", "--json", "--quiet")
    (run,) = json.loads(done.stdout)["runs"]
    assert run["profiles"][0]["metrics"][0]["value"] <= 0.5


def test_the_plug_in_is_a_whole_package_in_under_100_lines():
    lines = [
        line
        for path in sorted((EXAMPLES / "plugin").rglob("*"))
        if path.suffix in (".py", ".toml")
        for line in path.read_text(encoding="utf-8").splitlines()
    ]
    assert len(lines) < 100
