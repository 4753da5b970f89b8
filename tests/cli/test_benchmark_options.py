"""Settings that a benchmark declares are options of the command; all other words are left to the command."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from engine.stubs import ARITHMETIC
from snellen.benchmarks import registry
from snellen.cli.benchmark_options import tell_apart

Snellen = Callable[..., Any]

SUMS = replace(
    ARITHMETIC,
    options={**ARITHMETIC.options, "limit": "a name that the command has itself", "two-words": "of two words"},
)
OWN = {"--model": True, "-m": True, "--option": True, "-o": True, "--quiet": False, "-q": False, "--report": False}


@pytest.fixture(autouse=True)
def arithmetic(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The stub benchmark under its name, and answers to all of its questions."""
    monkeypatch.setitem(registry.BUILT_IN, "arithmetic", f"{__name__}:SUMS")
    rows = ({"id": f"q{i}", "reply": str(i % 7)} for i in range(100))
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def spec(folder: str) -> dict[str, Any]:
    meta = json.loads(Path(folder, "run_meta.json").read_text())
    return {"fingerprint": meta["fingerprint"], "options": meta["spec"]["data"]["options"]}


@pytest.mark.parametrize(
    "words",
    [
        ("arithmetic", "--n", 5),
        ("arithmetic", "--n=5"),
        ("--n", 5, "arithmetic"),
        ("--quiet", "--n", 5, "arithmetic", "--seed", 0),
        ("-q", "arithmetic", "--n", 5, "-o", "two-words=x"),
        ("arithmetic", "--two-words", "x", "--n=5"),
        ("arithmetic", "--two-words=--x", "--n=5"),
        ("arithmetic", "--two-words", "-1.5", "--n=5"),
        ("arithmetic", "--two-words", "a=b", "--n=5"),
    ],
)
def test_a_declared_setting_is_what_o_makes_of_it(snellen: Snellen, words: tuple[object, ...]):
    said = snellen("run", *words, "-m", "replay:a.jsonl", "--out", "here")
    assert said.status == 0, said.err
    found = spec("here")
    assert found["options"]["n"] == "5"
    settings = [word for name, value in found["options"].items() for word in ("-o", f"{name}={value}")]
    snellen("run", "arithmetic", *settings, "-m", "replay:a.jsonl", "--out", "there")
    assert spec("there") == found
    assert {"x", "--x", "-1.5", "a=b"} >= {v for k, v in found["options"].items() if k == "two-words"}


def test_an_option_of_the_command_stays_the_commands(snellen: Snellen):
    said = snellen("run", "arithmetic", "--limit", 3, "-m", "replay:a.jsonl", "--out", "run")
    assert said.status == 0 and "3 answered" in said.out
    assert spec("run")["options"] == {}


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("arithmetic", "--colour", "red"), "No such option: --colour"),
        (("arithmetic", "--n", 5, "--colour=red"), "No such option: --colour"),
        (("lights", "--n", 5), "No such option: --n"),
        (("arithmetic", "--", "--n", 5), "there is no benchmark '--n'"),
        (("arithmetic", "--n"), "--n needs a value"),
        (("arithmetic", "--n", "--quiet"), "--n needs a value"),
        (("arithmetci", "--n", 5), "Did you mean arithmetic?"),
        (("arithmetic", "lights", "--n", 5), "lights has no option 'n'"),
    ],
)
def test_what_is_no_setting_is_refused_in_the_commands_words(
    snellen: Snellen, words: tuple[object, ...], complaint: str
):
    said = snellen("run", "-m", "replay:a.jsonl", *words)
    assert said.status != 0 and "Traceback" not in said.err
    assert complaint in " ".join(said.err.split())


def test_settings_of_the_benchmark_that_was_answered_are_options_of_score(snellen: Snellen):
    said = snellen("score", "a.jsonl", "--benchmark", "arithmetic", "--n", 50, "--json")
    assert said.status == 0, said.err
    assert json.loads(said.out)["profiles"][0]["metrics"][0]["n"] == 50
    assert "50 rows without a sample" in said.err
    assert snellen("score", "a.jsonl", "--benchmark", "lights", "--n", 50).status == 2


def test_settings_of_a_runs_own_benchmark_are_options_of_score_and_export(snellen: Snellen):
    snellen("run", "arithmetic", "--n", 20, "-m", "replay:a.jsonl", "--out", "run")
    for words in (("score", "run"), ("score", "run/results.jsonl"), ("export", "run", "--format", "jsonl")):
        assert snellen(*words, "--n", 20).status == 0, words
        said = snellen(*words, "--two-word", 20)
        assert said.status == 2 and "No such option: --two-word" in said.err


def test_the_help_of_a_command_lists_the_settings_of_the_benchmark_in_a_panel_of_their_own(snellen: Snellen):
    said = snellen("run", "arithmetic", "lights", "--help")
    assert said.status == 0
    above, _, below = said.out.partition("Settings of arithmetic")
    assert "--n " in below and "how many questions" in below and "--n " not in above
    assert "--option limit=" in below and "Settings of lights" not in below
    assert "Settings of" not in snellen("run", "--help").out
    mistyped = snellen("run", "arithmetci", "--help")
    assert mistyped.status == 0 and "--model" in mistyped.out and "there is no benchmark" in mistyped.err


def test_list_shows_the_settings_and_export_formats_of_the_benchmark_that_is_named(snellen: Snellen):
    said = snellen("list", "arithmetic")
    assert said.status == 0 and "--n " in said.out and "how many questions" in said.out
    assert "export jsonl" in said.out and "lights" not in said.out
    (facts,) = json.loads(snellen("list", "arithmetic", "--json").out)["benchmarks"]
    assert facts["options"]["n"] == "how many questions" and facts["exports"] == [
        "jsonl",
        "lmms-eval",
        "vlmevalkit",
        "atif",
        "lm-eval",
        "inspect",
        "eee",
        "hf",
    ]
    assert "Did you mean arithmetic?" in snellen("list", "arithmetci").err


def test_list_shows_the_runs_of_the_benchmark_that_is_named(snellen: Snellen):
    snellen("run", "arithmetic", "--n", 3, "-m", "replay:a.jsonl", "--out", "results/sums")
    snellen("run", "lights", "-m", "pixels", "--limit", 3)
    said = snellen("list", "lights", "--runs")
    assert "results/lights-pixels" in said.out and "results/sums" not in said.out
    assert "no runs of chart under results/" in snellen("list", "chart", "--runs").out


def test_no_benchmark_is_imported_where_the_command_knows_every_option(tmp_path: Path):
    code = "import sys; from snellen.cli import main; main(sys.argv[1:]); print(*sorted(sys.modules))"
    # A line that is refused before anything else is read.
    line = ["score", "answers.jsonl", "--benchmark", "chart", "-o", "n=5", "--disagreements", "--profile", "strict"]

    def imported(*more: str) -> set[str]:
        words = [sys.executable, "-c", code, *line, *more]
        done = subprocess.run(words, capture_output=True, text=True, cwd=tmp_path, timeout=600)
        return {one for one in done.stdout.split() if one.startswith("snellen.")}

    assert "snellen.cli.score" in imported() and "snellen.benchmarks.chart" not in imported()
    assert "snellen.benchmarks.chart" in imported("--colour", "red")


@pytest.mark.parametrize(
    ("line", "positional", "unknown"),
    [
        ("vlm2 -m x", ["vlm2"], []),
        ("-m x vlm2 --prompting cot", ["vlm2"], ["--prompting"]),
        ("--prompting cot vlm2", ["vlm2"], ["--prompting"]),
        ("-qm x vlm2", ["vlm2"], []),
        ("-mx vlm2", ["vlm2"], []),
        ("--model=x vlm2", ["vlm2"], []),
        ("--model --prompting vlm2", ["vlm2"], []),
        ("vlm2 --prompting -q chart", ["vlm2", "chart"], ["--prompting"]),
        ("vlm2 --report chart", ["vlm2", "chart"], []),
        ("vlm2 -- --prompting cot", ["vlm2", "--prompting", "cot"], []),
        ("- --prompting -", ["-"], ["--prompting"]),
        ("vlm2 -m", ["vlm2"], []),
    ],
)
def test_words_are_told_apart_as_the_command_will(line: str, positional: list[str], unknown: list[str]):
    words = line.split()
    found = tell_apart(words, OWN)
    assert found.positional == positional
    assert [words[at] for at in found.unknown] == unknown
