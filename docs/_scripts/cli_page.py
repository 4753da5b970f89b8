"""Write docs/cli.md from the commands themselves, so that the page and `--help` say the same.

An option that several commands have is described once.

Usage: python docs/_scripts/cli_page.py
"""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence, Set
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

from typer.main import get_command

from snellen.cli.app import COMMANDS, build
from snellen.cli.help_page import NO_PANEL, Word, group_of
from snellen.cli.help_page import words as taken_by

PAGE = Path(__file__).parent.parent / "cli.md"
HEAD = """# Command line

`snellen COMMAND --help` describes a command with the options that most uses need, `--help GROUP` shows those of one group, and `--help-all`
all of them. This page is written from the commands (`python docs/_scripts/cli_page.py`), and a test keeps it current.
Exit statuses are listed under [Errors](errors.md). A key is never an argument: `--key-env NAME` names the environment
variable, or the line of `.env`, that holds it. `snellen --version` prints the version.

"""
SHARED = """
## Options of several commands

A command has those of them that its own section names, as an option or by its group.
"""
Option: TypeAlias = tuple[tuple[str, ...], str, str]
Groups: TypeAlias = dict[str, list[Word]]
GENERAL = "general"
FEW = 3
"""A command that has all of a group but for at most this many options names the group, and what it lacks."""
ONE_TABLE = 10
"""Own options of a command that stand in one table, whatever their groups."""


@cache
def commands() -> dict[str, Any]:
    """Every command and group of commands by name."""
    return dict(get_command(build(None)).commands)


def words(name: str) -> list[Word]:
    """What a command takes, in order; what the commands of a group take, one after the other."""
    return [word for _, command in leaves(name, commands()[name]) for word in taken_by(command)]


def leaves(name: str, command: Any) -> Iterator[tuple[str, Any]]:
    inner = getattr(command, "commands", None)
    if inner is None:
        yield name, command
    for part, each in (inner or {}).items():
        yield from leaves(f"{name} {part}", each)


def page() -> str:
    """The whole page as Markdown."""
    every = [leaf for name, command in commands().items() for leaf in leaves(name, command)]
    shared = _shared_by_group([word for _, command in every for word in taken_by(command) if not word.argument])
    contents = ", ".join(f"[`{name}`](#snellen-{name})" for name in COMMANDS)
    sections = "".join(_section(name, command, shared) for name, command in commands().items())
    groups = "".join(f"\n### {group}\n{_tables(members)}" for group, members in shared.items())
    return f"{HEAD}Commands: {contents}.\n{sections}{SHARED}{groups}"


def _option(word: Word) -> Option:
    """What a reader sees of an option: two commands that show the same have the same option."""
    return word.names, word.value, word.text


def _shared_by_group(taken: Sequence[Word]) -> dict[str, list[Word]]:
    """The options that several commands have, by the group in which most of them have it.

    Those of small groups, and those that few commands of their group have, are general.
    """
    panels: dict[Option, Counter[str]] = {}
    for word in taken:
        panels.setdefault(_option(word), Counter())[word.panel] += 1
    by_panel: dict[str, list[Word]] = {}
    for option, word in {_option(word): word for word in reversed(taken)}.items():
        if panels[option].total() > 1:
            panel = panels[option].most_common(1)[0][0]
            by_panel.setdefault(panel, []).insert(0, word._replace(panel=panel))
    groups: dict[str, list[Word]] = {GENERAL: []}
    for panel, members in by_panel.items():
        most = max(panels[_option(word)].total() for word in members)
        usual = [word for word in members if 4 * panels[_option(word)].total() >= most]
        if panel != NO_PANEL and len(usual) > FEW:
            groups[group_of(panel)] = usual
        rest = [word for word in members if word not in groups.get(group_of(panel), [])]
        groups[GENERAL] += [word._replace(panel=NO_PANEL) for word in rest]
    return groups


def _section(name: str, command: Any, shared: Groups, mark: str = "##") -> str:
    if inner := getattr(command, "commands", None):
        whole = "".join(_section(f"{name} {part}", each, shared, "###") for part, each in inner.items())
        return f"\n{mark} snellen {name}\n\n{command.help}\n{whole}"
    taken = taken_by(command)
    arguments = "".join(
        f" {word.names[0] if word.required else f'[{word.names[0]}]'}"
        f"{'...' if word.many and not word.names[0].endswith('…') else ''}"
        for word in taken
        if word.argument
    )
    usage = f"```text\nsnellen {name}{arguments}\n```\n\n" if arguments else ""
    about = inspect.cleandoc(command.help).partition("\n\n")[0]
    of_several = {_option(word) for members in shared.values() for word in members}
    own = _tables([word for word in taken if _option(word) not in of_several])
    also = _shared({_option(word) for word in taken} & of_several, shared)
    return f"\n{mark} snellen {name}\n\n{usage}{about}\n{own}{also}"


def _shared(taken: Set[Option], shared: Groups) -> str:
    """The line that names a command's shared options: a whole group by a link, others by name."""
    parts, single = [], []
    for group, members in shared.items():
        has = [word for word in members if _option(word) in taken]
        lacks = [word for word in members if _option(word) not in taken]
        if group != GENERAL and len(has) > max(2, len(lacks)) and len(lacks) <= FEW:
            parts.append(f"[{group}](#{group})" + (f" but for {_names(lacks)}" if lacks else ""))
        else:
            single += has
    parts += [_names(single)] if single else []
    return f"\n[Shared](#options-of-several-commands): {'; '.join(parts)}.\n" if parts else ""


def _names(listed: Iterable[Word]) -> str:
    return ", ".join(f"`{one}`" for word in listed for one in word.names)


def _tables(taken: list[Word]) -> str:
    by_heading: dict[str, list[Word]] = {"Arguments": [], NO_PANEL: []}
    few = sum(not word.argument for word in taken) <= ONE_TABLE
    for word in taken:
        by_heading.setdefault("Arguments" if word.argument else NO_PANEL if few else word.panel, []).append(word)
    parts = []
    for heading, rows in filter(lambda item: item[1], by_heading.items()):
        parts.append(f"\n| {heading} | |\n|---|---|\n")
        for word in rows:
            names = ", ".join(f"`{_escaped(one)}`" for one in word.names)
            value = f" `{_escaped(word.value)}`" if word.value else ""
            parts.append(f"| {names}{value} | {_escaped(word.text)} |\n")
    return "".join(parts)


def _escaped(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
