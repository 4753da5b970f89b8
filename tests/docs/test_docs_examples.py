"""The examples of the documentation do what the documentation says. Those of one page share a folder and run in order."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from pages import DOCS, Example, examples, steps

SKILL = DOCS.parent / "src" / "snellen" / "cli" / "mcp" / "SKILL.md"
PAGES = [page for page in (*sorted(DOCS.glob("*.md")), SKILL) if any(not one.why_not for one in examples(page))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_examples_of_a_page_run_as_printed(page, tmp_path, commands, lights_folder):
    environment = {
        **os.environ,
        "PATH": os.pathsep.join([str(commands), str(Path(sys.executable).parent), os.environ["PATH"]]),
        "PYTHONPATH": str(lights_folder),
        "COLUMNS": "200",
        "HF_HUB_OFFLINE": "1",
    }
    python: list[Example] = []
    for example in examples(page):
        if example.why_not:
            continue
        if example.language == "python":
            python.append(example)
            continue
        for step in steps(example.body):
            done = subprocess.run(
                ["bash", "-c", step.command], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=600
            )
            place = f"{page.name}:{example.line}: {step.command}\n{done.stdout}\n{done.stderr}"
            assert done.returncode == 0, place
            at = 0
            for piece in step.expected:
                found = done.stdout.find(piece, at)
                assert found >= 0, f"{piece!r} is not in the output of {place}"
                at = found + len(piece)
    if python:  # in one process, as a reader would paste them
        code = "\n".join("\n" * (one.line - 1) + one.body if i == 0 else one.body for i, one in enumerate(python))
        (tmp_path / "page.py").write_text(code)
        done = subprocess.run(
            [commands / "run-script", "page.py"],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            timeout=600,
        )
        assert done.returncode == 0, f"{page.name}: {done.stdout}\n{done.stderr}"


@pytest.mark.parametrize("page", sorted([*DOCS.glob("*.md"), DOCS.parent / "README.md"]), ids=lambda page: page.stem)
def test_an_example_that_is_not_run_says_why(page):
    for example in examples(page):
        assert not example.why_not or len(example.why_not) > 3
    text = page.read_text(encoding="utf-8")
    assert "```bash" not in text and "```sh\n" not in text and "```shell" not in text, (
        "write `console`, so that it is run"
    )
