"""Write docs/cli.md from the commands themselves, so that the page and `--help` say the same.

An option that several commands have is described once.

Usage: python docs/_scripts/cli_page.py
"""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from typer.main import get_command

from snellen.cli.app import COMMANDS, build
from snellen.cli.help_page import NO_PANEL, Word
from snellen.cli.help_page import words as taken_by

PAGE = Path(__file__).parent.parent / "cli.md"
HEAD = """# Command line

`snellen COMMAND --help` shows what most uses of a command need, `--help GROUP` the options of one group, and `--help-all`
all of them. This page is written from the commands (`python docs/_scripts/cli_page.py`), and a test keeps it current.
Exit statuses are listed under [Errors](errors.md). A key is never an argument: `--key-env NAME` names the environment
variable, or the line of `.env`, that holds it.

| command | what it does |
|---|---|
"""
SHARED = """
## Options of several commands

A command has those of them that its own section names.
"""


@cache
def commands() -> dict[str, Any]:
    """Every command and group of commands by name."""
    return dict(get_command(build(None)).commands)


def words(name: str) -> list[Word]:
    """What a command takes, in order; what the commands of a group take, one after the other."""
    return [word for _, command in _leaves(name, commands()[name]) for word in taken_by(command)]


def _leaves(name: str, command: Any) -> Iterator[tuple[str, Any]]:
    inner = getattr(command, "commands", None)
    if inner is None:
        yield name, command
    for part, each in (inner or {}).items():
        yield from _leaves(f"{name} {part}", each)


def page() -> str:
    """The whole page as Markdown."""
    every = [leaf for name, command in commands().items() for leaf in _leaves(name, command)]
    counts = Counter(word for _, command in every for word in set(taken_by(command)) if not word.argument)
    shared = {word: None for _, command in every for word in taken_by(command) if counts[word] > 1}
    rows = "".join(f"| [`{name}`](#snellen-{name}) | {command.help} |\n" for name, command in COMMANDS.items())
    top = "\n`snellen --version` prints the version, `-h` or `--help` the help of any command.\n"
    sections = "".join(_section(name, command, shared) for name, command in commands().items())
    return HEAD + rows + top + sections + SHARED + _tables(list(shared))


def _section(name: str, command: Any, shared: dict[Word, None], mark: str = "##") -> str:
    if inner := getattr(command, "commands", None):
        whole = "".join(_section(f"{name} {part}", each, shared, "###") for part, each in inner.items())
        return f"\n{mark} snellen {name}\n\n{command.help}\n{whole}"
    taken = taken_by(command)
    shown = "".join(
        f" {word.names[0] if word.required else f'[{word.names[0]}]'}"
        f"{'...' if word.many and not word.names[0].endswith('…') else ''}"
        for word in taken
        if word.argument
    )
    usage = f"snellen {name}{shown}{' [OPTIONS]' if any(not word.argument for word in taken) else ''}"
    text = inspect.cleandoc(command.help)
    own = _tables([word for word in taken if word not in shared])
    names = ", ".join(f"`{one}`" for word in taken if word in shared for one in word.names)
    also = f"\n[Described once](#options-of-several-commands): {names}.\n" if names else ""
    return f"\n{mark} snellen {name}\n\n```text\n{usage}\n```\n\n{text}\n{own}{also}"


def _tables(taken: list[Word]) -> str:
    by_heading: dict[str, list[Word]] = {"Arguments": [], NO_PANEL: []}
    for word in taken:
        by_heading.setdefault("Arguments" if word.argument else word.panel, []).append(word)
    parts = []
    for heading, rows in filter(lambda item: item[1], by_heading.items()):
        parts.append(f"\n| {heading} | |\n|---|---|\n")
        for word in rows:
            names = ", ".join(f"`{one}`" for one in word.names)
            value = f" `{_escaped(word.value)}`" if word.value else ""
            parts.append(f"| {names}{value} | {_escaped(word.text)} |\n")
    return "".join(parts)


def _escaped(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
