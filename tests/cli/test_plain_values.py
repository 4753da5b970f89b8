"""Options take plain values as they are; what they take is what typer reads."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from typer.main import get_command

from snellen.cli import main
from snellen.cli.app import COMMANDS, build
from snellen.errors import UsageError

pytestmark = pytest.mark.installed

WORDS = [
    "",
    "0",
    "-0",
    "1",
    "007",
    "-3",
    "+5",
    "1_000",
    " 7",
    "7 ",
    "٣",
    "1.5",
    "1e3",
    ".5",
    "5.",
    "0.001",
    "1e400",
    "nan",
]
WORDS += ["inf", "-inf", "0x1f", "9" * 15, "9" * 16, "9" * 400, "true", "off", "jpeg", "JPEG", "frames", "native", "-"]
WORDS += [".", "/", "no/such/file", "a\0b", "a,b", "é", "\udce9", "x" * 5000, "none", "None"]


def leaves(command: Any) -> list[Any]:
    inner = getattr(command, "commands", None)
    return [command] if inner is None else [leaf for one in inner.values() for leaf in leaves(one)]


class ReadByTyper:
    """A parameter as typer itself has it."""

    def __init__(self, param: Any) -> None:
        self._param = param

    def __getattr__(self, name: str) -> Any:
        return getattr(self._param, name)

    def process_value(self, context: Any, value: Any) -> Any:
        return super(type(self._param), self._param).process_value(context, value)


def parameters() -> list[tuple[str, Any, Any]]:
    """(name, parameter, context) of every option and argument of every command."""
    parameters = []
    for command in leaves(get_command(build(None))):
        context = command.context_class(command, info_name=command.name, resilient_parsing=True)
        parameters += [(f"{command.name} {param.name}", param, context) for param in command.params]
    return parameters


TAKEN = parameters()
READ = [(name, ReadByTyper(param), context) for name, param, context in TAKEN]


def kind_of(param: Any) -> str:
    """What of a parameter its reading depends on."""
    info = param.type_descriptor.parameter_info
    asked = info.min, info.max, info.clamp, info.exists, info.file_okay, info.dir_okay, info.writable, info.resolve_path
    return repr((param.type_descriptor.annotation, param.required, param.multiple, param.nargs, *asked))


KINDS = list({kind_of(both[0][1]): both for both in zip(READ, TAKEN, strict=True)}.values())


def outcome(param: Any, context: Any, value: Any) -> tuple[Any, ...]:
    try:
        got = param.process_value(context, value)
    except Exception as error:  # noqa: BLE001 - whatever it is, both must say it
        return type(error), str(error).partition("; found ")[0]  # what was typed is named in addition
    return type(got), repr(got), [type(one) for one in got] if isinstance(got, list) else None


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(st.one_of(st.sampled_from(WORDS), st.text(max_size=6), st.integers(-5, 10**18).map(str), st.floats().map(str)))
@example("1")
def test_every_kind_of_option_takes_of_any_word_what_typer_reads(word: str):
    for (name, slow, there), (_, quick, here) in KINDS:
        value = [word, "b"] if slow.multiple or slow.nargs == -1 else word
        taken, read = outcome(quick, here, value), outcome(slow, there, value)
        if word == "" and taken[0] is UsageError:
            assert "is empty" in taken[1] and issubclass(read[0], (Path, str)), name
        elif taken[0] is UsageError:
            assert "are accepted" in taken[1] and issubclass(read[0], (int, float)), name
        else:
            assert taken == read, name


def test_every_option_takes_its_default_and_nothing_as_typer_does():
    assert len(READ) > 100
    for (name, slow, there), (_, quick, here) in zip(READ, TAKEN, strict=True):
        for value in (None, (), slow.get_default(there)):
            assert outcome(quick, here, value) == outcome(slow, there, value), (name, value)


def test_a_file_that_may_not_be_read_is_refused_as_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "shut").write_text("")
    monkeypatch.setattr("os.access", lambda *_: False)
    found = {name: (one, context) for name, one, context in TAKEN}
    assert "not readable" in outcome(*found["run prices"], str(tmp_path / "shut"))[1]
    assert outcome(*found["run prices"], str(tmp_path / "none"))[1] == repr(tmp_path / "none")


def test_plain_options_are_read_without_pydantic_and_help_without_a_renderer_of_markdown(tmp_path: Path):
    code = "import sys; from snellen.cli import main; main(sys.argv[1:]); print(*sorted(sys.modules), file=sys.stderr)"

    def modules(*words: str) -> set[str]:
        command = [sys.executable, "-c", code, *words]
        return set(subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=600).stderr.split())

    asked = modules("run", "nowhere", "-m", "api:x", "--limit", "3", "--temperature", "0.5", "--prices", "p", "-q")
    assert "snellen.cli.run" in asked and not asked & {"pydantic", "typer._adapters"}
    assert not modules("--help") & {"rich.markdown", "markdown_it", "pydantic", "typer.rich_utils"}


def test_the_front_page_names_every_command_with_what_it_does(capsys: pytest.CaptureFixture[str], monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    assert main(["--help"]) == 0
    said = capsys.readouterr().out
    for name, command in COMMANDS.items():
        assert any(line.strip("│ ").split(maxsplit=1) == [name, command.help] for line in said.splitlines()), name
    for text in ("Usage: snellen", "--version", "-h, --help", "snellen demo"):
        assert text in said
    assert all(f"─ {command.panel} ─" in said for command in COMMANDS.values())
