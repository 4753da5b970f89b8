"""Pages of --help: a short one of at most one screen, one a group of options, and one with everything.

`snellen run --help` shows the options of most runs, `--help media` one group, `--help-all` all of them. A page is printed
here because typer's own imports renderers of Markdown and of tracebacks, which double its CPU time.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping, Sequence, Set
from pathlib import Path
from types import NoneType
from typing import Any, Literal, NamedTuple, get_args, get_origin

HELP = ("-h", "--help")
ALL, ALL_OPTION = "all", "--help-all"
PAGE = "snellen_help"
"""Key of the requested page in the context of a command."""
MOST = 28
"""Options on the page of a command that has more of them; such a page fits on a screen of 60 lines."""
NO_PANEL = "Options"
SETTINGS_OF = "Settings of "
"""Start of the heading above the settings of a benchmark, which stand on every page."""
COMMON = frozenset(
    [
        *("model", "out", "limit", "repeats", "seed", "data", "images", "pairs", "column_map"),
        *("max_tokens", "temperature", "sampling", "system", "base_url", "key_env", "concurrency", "judge"),
        *("max_cost", "profile", "report", "every", "attributes", "as_json", "quiet", "batch", "help"),
    ]
)
"""Parameters on a short page, whatever their group; so are those without a group."""
GROUPS = {
    "How the model writes": "sampling",
    "Images and videos": "media",
    "Several GPUs or hosts": "workers",
    "Limits": "budget",
    "Batches": "batch",
    "What is measured": "measure",
    "Search and web pages": "search",
}
"""Headings whose group has another name than their first word, without its plural: `Agents (agent:)` is `agent`."""


class Word(NamedTuple):
    """An argument or an option, as --help and docs/cli.md show it.

    Attributes:
        name: of the command's parameter.
        names: as typed; of an argument, its place holder.
        value: place holder of an option's value; empty for a flag.
        text: what it does, and its default.
        panel: heading of its group.
        argument: True for an argument.
        many: it may be repeated.
        required: it has to be given.
    """

    name: str
    names: tuple[str, ...]
    value: str
    text: str
    panel: str
    argument: bool
    many: bool
    required: bool


def words(command: Any) -> list[Word]:
    """Return what a command takes, in order, without what is hidden."""
    return [_word(param) for param in command.params if not getattr(param, "hidden", False)]


def _word(param: Any) -> Word:
    argument = param.param_type_name == "argument"
    names = (param.metavar or param.name.upper(),) if argument else (*param.opts, *param.secondary_opts)
    flag = not argument and (param.is_flag or param.count)
    value = "" if argument or flag else param.metavar or _value(param)
    default = param.show_default if isinstance(param.show_default, str) else param.default
    unsaid = param.required or default is None or isinstance(default, bool) or (not default and default != 0)
    text = (param.help or "") + ("" if unsaid else f" Default: {default}.")
    many = param.multiple or param.nargs == -1
    return Word(param.name, names, value, text, param.rich_help_panel or NO_PANEL, argument, many, param.required)


def _value(param: Any) -> str:
    """Return the place holder of an option's value by its type."""
    descriptor = getattr(param, "type_descriptor", None)
    if descriptor is None:  # older versions of typer, which have types of click
        kind = param.type.name.upper()
        return "|".join(getattr(param.type, "choices", ())) or ("NUMBER" if kind.startswith(("INT", "FLOAT")) else kind)
    return _kind(descriptor.annotation)


def _kind(annotation: Any) -> str:
    inner = [one for one in get_args(annotation) if one is not NoneType]
    if get_origin(annotation) is Literal:
        return "|".join(inner)
    if get_origin(annotation) is list or len(inner) == 1:
        return _kind(inner[0])
    return {int: "NUMBER", float: "NUMBER", Path: "PATH"}.get(annotation, "TEXT")


def group_of(panel: str) -> str:
    """Return the name of a group of options, as typed behind --help, by its heading."""
    first = next(word for word in re.findall("[a-z]+", panel.lower()) if len(word) > 1)
    return GROUPS.get(panel) or first.removesuffix("s")


def requested(command: Any, typed: Sequence[str]) -> tuple[list[str], str]:
    """Return the words with a plain --help, and the page that they ask for: a group, `all`, or "" for the short one.

    Args:
        command: the command, or the group of commands, that the words begin with.
        typed: all words of the command line.
    """
    end = typed.index("--") if "--" in typed else len(typed)
    if ALL_OPTION in typed[:end]:
        return ["--help" if word == ALL_OPTION else word for word in typed], ALL
    at = next((number for number, word in enumerate(typed[: end - 1]) if word in HELP), None)
    if at is None:
        return list(typed), ""
    reached = [command]
    for word in typed:
        reached.append(getattr(reached[-1], "commands", {}).get(word, reached[-1]))
    group = typed[at + 1].lower()
    groups = {group_of(word.panel) for word in words(reached[-1])}
    if group not in groups:
        if typed[at + 1] not in getattr(reached[at + 1], "commands", {}):
            _refuse_unknown(typed, at + 1, groups)
        return list(typed), ""
    return [*typed[: at + 1], *typed[at + 2 :]], group


def print_documentation(name: str) -> None:
    """Print a page of the documentation, or the list of them for `pages`. Raises UsageError for a name of none."""
    from snellen.errors import UsageError
    from snellen.installation import documentation

    pages = {path.stem: path for path in sorted(documentation().glob("*.md"))}
    if name == "pages":
        for stem, path in pages.items():
            with path.open(encoding="utf-8") as file:
                print(f"{stem:24}{file.readline().lstrip('# ').rstrip()}")
        return
    if name not in pages:
        raise UsageError(
            f"the documentation has no page {name!r}",
            "`snellen --help pages` lists them; options of a command: snellen COMMAND --help.",
        ).near(name, pages)
    print(pages[name].read_text(encoding="utf-8"), end="")


def _refuse_unknown(typed: Sequence[str], at: int, groups: Set[str]) -> None:
    """Refuse a word behind --help that is no group, and no path, address or benchmark either. Raises UsageError."""
    import difflib
    import shlex

    word = typed[at]
    if len(groups) < 2 or re.fullmatch(r"[\w-]+", word) is None or word.startswith("-") or Path(word).exists():
        return
    from snellen.benchmarks import registry
    from snellen.errors import UsageError

    if word in registry.names() or registry.is_entry(word):
        return
    near = difflib.get_close_matches(word.lower(), sorted(groups), n=1, cutoff=0.65)
    line = shlex.join(["snellen", *typed[:at], near[0], *typed[at + 1 :]]) if near else ""
    raise UsageError(
        f"--help knows no group {word!r} of options",
        f"Type: {line}" if near else f"Groups: {', '.join(sorted(groups))}. `snellen list` shows benchmarks.",
    )


def print_command(command: Any, context: Any) -> None:
    """Print the page of a command that its context asks for."""
    page = (context.obj or {}).get(PAGE, "")
    taken = words(command)
    options = [word for word in (*taken, _help_word(command, context)) if not word.argument]
    groups = list(dict.fromkeys(word.panel for word in options if word.panel != NO_PANEL))
    paragraphs, more = inspect.cleandoc(command.help or "").split("\n\n"), ""
    short = not page and len(options) > MOST
    if short:
        options = [word for word in options if word.panel == NO_PANEL or word.name in COMMON]
        named = ", ".join(group_of(panel) for panel in groups if not panel.startswith(SETTINGS_OF))
        more = f"All options: {ALL_OPTION}. Those of a group: --help GROUP, with {named}."
    elif page and page != ALL:
        options = [word for word in options if group_of(word.panel) == page]
    sections: dict[str, list[tuple[str, str]]] = {"Arguments": [], NO_PANEL: []}
    for word in [*(each for each in taken if each.argument), *options]:
        heading = "Arguments" if word.argument else NO_PANEL if short else word.panel
        sections.setdefault(heading, []).append((spelled(word), _short(word.text) if short else word.text))
    for panel in filter(lambda each: short and each.startswith(SETTINGS_OF), groups):
        sections[panel] = [(spelled(word), word.text) for word in taken if word.panel == panel]
    text = "\n\n".join(" ".join(each.split()) for each in paragraphs[: 1 if short or page not in ("", ALL) else None])
    print_page(command.get_usage(context), text, {title: rows for title, rows in sections.items() if rows}, more)


def _help_word(command: Any, context: Any) -> Word:
    option = command.get_help_option(context)
    return Word(
        "help", (*option.opts,), "[GROUP]", "Show this page, or a group of options.", NO_PANEL, False, False, False
    )


def spelled(word: Word) -> str:
    """Return an option as the page shows it: its letter, its first name and its value."""
    names = sorted(word.names, key=len)
    shown = [name for name in names if len(name) == 2][:1] + [name for name in word.names if len(name) > 2][:1]
    return " ".join(filter(None, (", ".join(shown), word.value)))


def _short(text: str) -> str:
    """Return the first statement of an option's text, and its default."""
    said, sign, default = text.partition(" Default: ")
    first = said.partition(". ")[0].partition("; ")[0] if len(text) > 52 else said
    return first.removesuffix(".") + "." + sign + default


def print_page(usage: str, text: str, sections: Mapping[str, Sequence[tuple[str, str]]], more: str) -> None:
    """Print usage, text, the rows of each section in a frame, and a last line."""
    from rich.console import Console
    from rich.padding import Padding
    from rich.panel import Panel
    from rich.table import Table
    from rich.text import Text

    console = Console(highlight=False)
    widest = max((len(name) for rows in sections.values() for name, _ in rows), default=0)
    longest = min(widest + 1, max(30, console.width // 3))
    console.print(Padding(Text(usage, "bold"), (0, 1)))
    if text:
        console.print(Padding(Text(text), (1, 1, 0, 1)))
    for title, rows in sections.items():
        table = Table.grid(padding=(0, 1), expand=True)
        table.add_column(style="bold cyan", width=longest, overflow="fold")
        table.add_column(ratio=1, overflow="fold")
        for name, about in rows:
            table.add_row(Text(name), Text(about))
        console.print(Panel(table, title=title, title_align="left", border_style="dim"))
    if more:
        console.print(Padding(Text(more), (0, 1)))
