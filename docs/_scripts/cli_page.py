"""Write docs/cli.md from the commands themselves, so that the page and `--help` say the same.

Usage: python docs/_scripts/cli_page.py
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from types import NoneType
from typing import Any, Literal, NamedTuple, get_args, get_origin, get_type_hints

import typer
from typer.models import ArgumentInfo

from snellen.cli.app import COMMANDS, load

PAGE = Path(__file__).parent.parent / "cli.md"
HEAD = """# Command line

`snellen COMMAND --help` shows what this page shows: it is written from the commands
(`python docs/_scripts/cli_page.py`), and a test keeps it current. Exit statuses are listed under
[Errors](errors.md). A key is never an argument: `--key-env NAME` names the environment variable, or the line of
`.env`, that holds it.

| command | what it does |
|---|---|
"""


class Word(NamedTuple):
    """An argument or an option of a command."""

    names: tuple[str, ...]
    value: str
    text: str
    panel: str
    argument: bool
    many: bool
    required: bool


def words(function: Callable[..., Any] | typer.Typer) -> Iterator[Word]:
    """What a command takes, in order; what the commands of a group take, one after the other."""
    if isinstance(function, typer.Typer):
        for _, inner in _inner(function):
            yield from words(inner)
        return
    hints = get_type_hints(function, include_extras=True)
    for name, parameter in inspect.signature(function).parameters.items():
        if hints[name] is typer.Context:
            continue
        type_, info = get_args(hints[name])
        default = info.show_default if isinstance(info.show_default, str) else parameter.default
        required = parameter.default is inspect.Parameter.empty
        said = "" if required or default is None or isinstance(default, bool) else f" Default: {default}."
        many = list in {get_origin(one) or one for one in (type_, *get_args(type_))}
        argument = isinstance(info, ArgumentInfo)
        given = [
            one for one in (info.default, *(info.param_decls or ())) if isinstance(one, str)
        ]  # as typer reads them
        names = tuple(name for one in given for name in one.split("/") if name.startswith("-"))
        if not names:
            names = (info.metavar or name.upper(),) if argument else (f"--{name.replace('_', '-')}",)
        value = "" if argument or type_ is bool else info.metavar or _kind(type_)
        yield Word(names, value, (info.help or "") + said, info.rich_help_panel or "Options", argument, many, required)


def _kind(type_: Any) -> str:
    inner = [one for one in get_args(type_) if one is not NoneType]
    if get_origin(type_) is Literal:
        return "|".join(get_args(type_))
    if get_origin(type_) is list or len(inner) == 1:
        return _kind(inner[0])
    return {int: "NUMBER", float: "NUMBER", Path: "PATH"}.get(type_, "TEXT")


def page() -> str:
    """The whole page as Markdown."""
    rows = "".join(f"| [`{name}`](#snellen-{name}) | {command.help} |\n" for name, command in COMMANDS.items())
    top = "\n`snellen --version` prints the version, `-h` or `--help` the help of any command.\n"
    return HEAD + rows + top + "".join(_section(name, load(command)) for name, command in COMMANDS.items())


def _inner(group: typer.Typer) -> Iterator[tuple[str, Callable[..., Any]]]:
    """The commands of a group, by name."""
    for command in group.registered_commands:
        if command.callback is not None:
            yield command.name or command.callback.__name__.replace("_", "-"), command.callback


def _section(name: str, function: Callable[..., Any] | typer.Typer, mark: str = "##") -> str:
    if isinstance(function, typer.Typer):
        whole = "".join(_section(f"{name} {one}", inner, "###") for one, inner in _inner(function))
        return f"\n## snellen {name}\n\n{function.info.help}\n{whole}"
    taken = list(words(function))
    shown = "".join(
        f" {word.names[0] if word.required else f'[{word.names[0]}]'}"
        f"{'...' if word.many and not word.names[0].endswith('…') else ''}"
        for word in taken
        if word.argument
    )
    options = [word for word in taken if not word.argument]
    usage = f"snellen {name}{shown}{' [OPTIONS]' if options else ''}"
    parts = [f"\n{mark} snellen {name}\n\n```text\n{usage}\n```\n\n{inspect.getdoc(function)}\n"]
    for heading, rows in _tables(taken):
        parts.append(f"\n| {heading} | |\n|---|---|\n")
        for word in rows:
            names = ", ".join(f"`{one}`" for one in word.names)
            value = f" `{_escaped(word.value)}`" if word.value else ""
            parts.append(f"| {names}{value} | {_escaped(word.text)} |\n")
    return "".join(parts)


def _tables(taken: list[Word]) -> Iterator[tuple[str, list[Word]]]:
    if arguments := [word for word in taken if word.argument]:
        yield "Arguments", arguments
    for panel in dict.fromkeys(word.panel for word in taken if not word.argument):
        yield panel, [word for word in taken if word.panel == panel and not word.argument]


def _escaped(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
