"""The package as pip installed it: its data, its program, and every command. `make test-installed` runs it on the wheel."""

from __future__ import annotations

import json
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from importlib import metadata, resources
from pathlib import Path

import pytest

import snellen
from snellen.benchmarks import registry
from snellen.cli.app import COMMANDS

pytestmark = pytest.mark.installed

PROGRAM = Path(sysconfig.get_path("scripts")) / "snellen"
DATA = (
    "py.typed",
    "models/embedded/weights/model.safetensors",
    "models/embedded/weights/config.json",
    "benchmarks/chart/digits.png",
    "benchmarks/fika/prompts",
    "questions/templates",
    "reports/assets",
    "viewer/templates",
    "viewer/assets/htmx.min.js",
)


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Call the program by its entry point; return what it prints."""
    (entry,) = metadata.entry_points(group="console_scripts", name="snellen")
    main = entry.load()

    def call(*words: str) -> str:
        assert main(list(words)) == 0, capsys.readouterr().err
        return capsys.readouterr().out

    return call


@pytest.mark.parametrize("path", DATA)
def test_data_are_found_as_resources(path: str) -> None:
    place = resources.files("snellen").joinpath(path)
    assert any(place.iterdir()) if place.is_dir() else place.is_file()


def test_the_version_is_that_of_the_metadata() -> None:
    assert metadata.version("snellen") == snellen.__version__


@pytest.mark.parametrize("start", [[str(PROGRAM)], [sys.executable, "-m", "snellen"]], ids=["program", "module"])
def test_the_program_starts_in_any_folder(start: list[str], tmp_path: Path) -> None:
    done = subprocess.run([*start, "--version"], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"snellen {snellen.__version__}\n", "")


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_a_help_page(name: str, command: Callable[..., str]) -> None:
    assert f"snellen {name}" in command(name, "--help")


def test_every_benchmark_is_listed(command: Callable[..., str]) -> None:
    listed = command("list")
    assert not [name for name in registry.BUILT_IN if name.partition("/")[0] not in listed]
    assert len(json.loads(command("list", "--json"))["benchmarks"]) >= len(registry.BUILT_IN)


def test_questions_of_ones_own_are_answered_scored_and_reported(
    tmp_path: Path, command: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("my.csv").write_text("question,answer\nIs ice cold?,yes\nHow many legs has a cat?,4\n")
    Path("answers.jsonl").write_text('{"id": "0", "reply": "yes"}\n{"id": "1", "reply": "5"}\n')
    command("run", "my.csv", "--model", "replay:answers.jsonl", "--out", "run", "--quiet", "--report")
    (profile,) = json.loads(command("score", "run", "--json"))["profiles"]
    assert profile["metrics"][0]["value"] == snellen.load_run("run").metric("accuracy").value == 0.5
    assert Path("run/report.html").is_file()
