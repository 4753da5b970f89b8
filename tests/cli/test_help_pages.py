"""Pages of --help: a screen for most uses, a page for each group of options, and one with everything."""

from __future__ import annotations

import ast
import copy
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.main import get_command

import snellen as snellen_package
from snellen.benchmarks import registry
from snellen.cli.app import build
from snellen.cli.benchmark_options import own_options
from snellen.cli.help_page import MOST, NO_PANEL, group_of, spelled, words
from snellen.cli.schema import OUTPUTS, schema_of
from snellen.installation import documentation

pytestmark = pytest.mark.installed

OPTIONS_BEFORE = Path(__file__).parent / "data" / "options_before.txt"
"""Options of version 0.2, as docs/cli.md had them: command, names, value (`/` stands for `|`)."""
VALUES = {"NUMBER": "1", "PATH": "here", "METRIC=VALUE": "accuracy=0.5"}


def leaves(name: str, command: Any) -> Iterator[tuple[str, Any]]:
    inner = getattr(command, "commands", None)
    if inner is None:
        yield name, command
    for part, each in (inner or {}).items():
        yield from leaves(f"{name} {part}".strip(), each)


COMMANDS = dict(leaves("", get_command(build(None))))
LONG = [name for name, command in COMMANDS.items() if sum(not word.argument for word in words(command)) >= MOST]


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_of_before_is_one_of_the_command_and_takes_what_it_took(name: str) -> None:
    own = own_options(COMMANDS[name])
    for line in OPTIONS_BEFORE.read_text(encoding="utf-8").splitlines():
        command, names, value = (part.strip() for part in line.split("|"))
        if command == name:
            for option in names.split():
                assert own.get(option) is bool(value), f"{name}: {option}"


def value_of(param: Any, text: str) -> str:
    """A value that an option accepts."""
    choices = getattr(param.type_descriptor, "choices", None)
    if choices:
        return str(getattr(choices[0], "value", choices[0]))
    least = param.type_descriptor.parameter_info.min
    return VALUES.get(text, "1") if least is None else f"{least:g}"


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_of_before_parses(name: str) -> None:
    command = COMMANDS[name]
    context = command.make_context(name, [], resilient_parsing=True)
    for line in OPTIONS_BEFORE.read_text(encoding="utf-8").splitlines():
        of, names, value = (part.strip() for part in line.split("|"))
        for option in names.split() if of == name else ():
            (param,) = [each for each in command.params if option in (*each.opts, *each.secondary_opts)]
            typed = [option, *([value_of(param, value)] if value else [])]
            parsed, rest, _ = command.make_parser(context).parse_args(args=typed)
            assert param.name in parsed and not rest, option
            param.process_value(context, parsed[param.name])


@pytest.mark.parametrize("name", LONG)
def test_the_help_of_a_command_with_many_options_fits_on_a_screen(
    name: str, snellen: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    said = snellen(*name.split(), "--help")
    lines = said.out.splitlines()
    assert said.status == 0 and len(lines) <= 60 and max(map(len, lines)) <= 80
    assert 5 <= sum(bool(re.match(r"│ -", line)) for line in lines) <= MOST
    assert "--help-all" in said.out and "--help GROUP" in said.out


def test_the_short_help_of_run_has_what_most_runs_need(snellen: Any) -> None:
    short = snellen("run", "--help").out
    for option in [
        "--model",
        "--data",
        "--limit",
        "--out",
        "--repeats",
        "--temperature",
        "--concurrency",
        "--judge",
        "--max-cost",
        "--report",
    ]:
        assert f"{option} " in short, option
    assert "--agent-depth" not in short and "--resume" not in short


@pytest.mark.parametrize("name", LONG)
def test_help_all_shows_every_option_and_each_is_in_one_group(name: str, snellen: Any) -> None:
    taken = [word for word in words(COMMANDS[name]) if not word.argument]
    every = snellen(*name.split(), "--help-all").out
    panels = {word.panel for word in taken} - {NO_PANEL}
    assert len({group_of(panel) for panel in panels}) == len(panels)
    for word in taken:
        assert word.names[0] in every
    for panel in panels:
        page = snellen(*name.split(), "--help", group_of(panel)).out
        assert panel in page
        for word in taken:
            shown = re.search(rf"^│ (-\w, )?{word.names[0]} ", page, re.M) is not None
            assert shown is (word.panel == panel), word.names


@pytest.mark.parametrize(
    "group", ["sampling", "media", "endpoint", "agent", "local", "batch", "check", "judge", "data"]
)
def test_run_has_these_groups(group: str, snellen: Any) -> None:
    said = snellen("run", "lights", "--help", group)
    assert said.status == 0 and "All options" not in said.out and group in snellen("run", "--help").out


def test_a_word_behind_help_that_is_no_group_is_an_argument(snellen: Any) -> None:
    assert "--model" in snellen("run", "--help", "lights").out
    assert "--model" in snellen("run", "--help", "chart").out
    assert snellen("--help-all").status == 0


def test_a_misspelt_group_is_refused_with_the_near_one(snellen: Any) -> None:
    said = snellen("run", "q.jsonl", "--help", "sampler")
    assert said.status == 2 and "Type: snellen run q.jsonl --help sampling" in said.err


def test_a_word_that_is_no_group_and_no_benchmark_is_refused_with_the_groups(snellen: Any) -> None:
    said = snellen("run", "--help", "nope")
    assert said.status == 2 and "no group 'nope'" in said.err and "sampling" in said.err and "benchmark" in said.err
    assert snellen("features", "--help", "knn").status == 0


def test_each_page_that_a_message_names_is_shipped_and_printed(snellen: Any) -> None:
    """Docstrings may name files of the repository; what a user reads names what a wheel has."""
    pages = {path.stem for path in documentation().glob("*.md")}
    named: set[str] = set()
    for path in Path(snellen_package.__file__).parent.rglob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        bodies = [
            each.body
            for each in ast.walk(tree)
            if isinstance(each, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef))
        ]
        prose = {id(first.value) for body in bodies for first in body if isinstance(first, ast.Expr)}
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in prose:
                assert not {*re.findall(r"docs/([\w-]+)\.md", node.value)} & pages, (path, node.lineno)
                named |= {*re.findall(r"`snellen --help ([\w-]+)`", node.value)} - {"pages", "NAME"}
    texts = [str(schema_of(name)) for name in OUTPUTS]
    texts += [snellen(*name.split(), "--help-all").out for name in COMMANDS]
    assert not [text for text in texts if re.search(r"docs/[\w-]+\.md", text)]
    assert len(named) > 10 and named <= pages
    for page in sorted(named):
        assert snellen("--help", page).out == (documentation() / f"{page}.md").read_text(encoding="utf-8")
    listed = snellen("--help", "pages").out
    assert all(re.search(rf"^{page} ", listed, re.M) for page in pages)
    said = snellen("--help", "no-page")
    assert said.status == 2 and "--help pages" in said.err


def test_a_page_of_which_a_reader_takes_the_beginning_is_no_fault() -> None:
    words = [sys.executable, "-m", "snellen", "--help", "cli"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "# Command line\n"
        process.stdout.close()
        assert "fault" not in process.stderr.read()


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("run", "Default: OPENAI_API_KEY."),
        ("run", "Default: 16."),
        ("run", "Default: results/BENCHMARK-MODEL."),
        ("easi", "never complete"),
        ("judge", "Only for folders whose author you trust"),
        ("build curate", "required on the first call"),
        ("features probe", "DINOv2's grid"),
        ("score", "--all "),
        ("acuity", "--attributes "),
    ],
)
def test_the_short_page_has_defaults_and_warnings(
    line: str, said: str, snellen: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "400")
    assert said in snellen(*line.split(), "--help").out


@pytest.mark.parametrize("name", LONG)
def test_no_name_and_no_value_is_cut_at_the_end_of_its_column(
    name: str, snellen: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    column = "".join(line[2:32] for line in snellen(*name.split(), "--help-all").out.splitlines()).replace(" ", "")
    for word in words(COMMANDS[name]):
        assert spelled(word).replace(" ", "") in column


@pytest.mark.parametrize(("kind", "shown"), [("integer range", "NUMBER"), ("path", "PATH"), ("choice", "a|b")])
def test_the_value_of_an_option_is_shown_under_older_versions_of_typer(kind: str, shown: str) -> None:
    (param,) = [copy.copy(each) for each in COMMANDS["run"].params if each.name == "limit"]
    del param.type_descriptor
    param.type = SimpleNamespace(name=kind, **({"choices": ["a", "b"]} if kind == "choice" else {}))
    (word,) = words(SimpleNamespace(params=[param]))
    assert word.value == shown


def test_no_option_of_run_hides_a_setting_of_a_benchmark() -> None:
    options = set(own_options(COMMANDS["run"]))
    for name in registry.names():
        assert not options & {f"--{setting.replace('_', '-')}" for setting in registry.find(name).options}, name
