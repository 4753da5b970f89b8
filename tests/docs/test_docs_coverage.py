"""The page of coverage is true: commands parse, tests exist, and what needs no data runs."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from snellen.benchmarks import registry
from snellen.cli.app import COMMANDS

ROOT = Path(__file__).parent.parent.parent
sys.path.insert(0, str(ROOT / "docs" / "_scripts"))
import cli_page  # noqa: E402
import coverage_page  # noqa: E402

FEATURES = coverage_page.features()
NAMES = [f"{feature.body}-{feature.name}" for feature in FEATURES]
PLAIN = {"works", "in part"}
PAGE_OF_SCRIPTS = (ROOT / "docs" / "scripts.md").read_text(encoding="utf-8")
SCRIPTS = re.findall(r"`(snellen [^`]*)`", PAGE_OF_SCRIPTS)
"""Commands of docs/scripts.md, which stand beside those of the authors' documents."""


def test_the_page_is_what_the_data_says():
    assert coverage_page.PAGE.read_text(encoding="utf-8") == coverage_page.page(), (
        "run: python docs/_scripts/coverage_page.py"
    )


def test_every_feature_is_named_once_in_a_known_part():
    assert len(set(NAMES)) == len(NAMES)
    assert {feature.body for feature in FEATURES} <= set(coverage_page.BODIES)
    assert {feature.state for feature in FEATURES} <= set(coverage_page.STATES)


def own_options(words: list[str]) -> set[str]:
    """Options that the benchmarks among a command's words declare."""
    return {name for word in words if word in registry.names() for name in registry.find(word).options}


def check_words(line: str) -> None:
    """Assert that each command of a line exists and has the options that stand there."""
    for command in re.split(r"\s*(?:&&|;)\s*", line):
        words = shlex.split(command)
        while words and re.fullmatch(r"\w+=.*", words[0]):
            words.pop(0)
        if words[:1] != ["snellen"]:
            assert words[0] in ("python", "make", "pytest", "docker"), command
            continue
        assert words[1] in COMMANDS or words[1].startswith("--"), command
        if words[1] in COMMANDS:
            known = {name for word in cli_page.words(words[1]) for name in word.names}
            known |= {"--help"} | {f"--{name.replace('_', '-')}" for name in own_options(words[2:])}
            for word in words[2:]:
                option = word.partition("=")[0]
                if re.fullmatch(r"--?[a-z][\w-]*", option):
                    assert option in known, f"{command}: {option}"


@pytest.mark.parametrize("line", SCRIPTS)
def test_a_command_beside_an_authors_script_exists_with_its_options(line):
    check_words(line)


@pytest.mark.parametrize("feature", FEATURES, ids=NAMES)
def test_a_feature_has_a_command_with_its_options_and_a_test(feature):
    if feature.command or feature.state in PLAIN:
        check_words(feature.command)
    if feature.state in PLAIN and not feature.command.startswith("python "):
        assert feature.test, feature.name
    if feature.test:
        file, _, name = feature.test.partition("::")
        assert (ROOT / file).is_file(), feature.test
        if name:
            pattern = rf"^\s*(?:async )?def {re.escape(name.partition('[')[0])}\b"
            assert re.search(pattern, (ROOT / file).read_text(encoding="utf-8"), re.M), feature.test


@pytest.mark.parametrize("feature", [feature for feature in FEATURES if feature.run], ids=lambda feature: feature.name)
def test_a_command_that_needs_nothing_runs(feature, tmp_path, commands):
    for command in re.split(r"\s*&&\s*", feature.command):
        words = shlex.split(command)
        assert words[0] == "snellen"
        done = subprocess.run(
            [commands / words[0], *words[1:]], cwd=tmp_path, capture_output=True, text=True, timeout=600, check=False
        )
        assert done.returncode == 0, done.stderr[-2000:]
