"""Options that a benchmark declares, as options of the command: `--prompting cot` becomes `-o prompting=cot`.

The words are rewritten before the command parses them, and omitted values are added. A benchmark is imported only for an option
that the command lacks, or for --help.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import make_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from typer.main import get_command

from snellen.cli.console import note
from snellen.cli.help_page import HELP, SETTINGS_OF
from snellen.cli.option_parsing import Commands, option

if TYPE_CHECKING:
    from snellen.benchmarks.base import Benchmark

SETTING = "--option"
JUDGE_OPTION, JUDGE_DEFAULT = "--judge", "JUDGE_MODEL"
_OPTION = re.compile(r"-[^\d.]")


class Words(NamedTuple):
    """The words of a command line, classified.

    Attributes:
        positional: words that are neither options nor values of one.
        values: the command's options with their values.
        unknown: positions of options that the command lacks.
        asks_help: True if -h or --help is among the words.
        flags: the command's options without a value.
    """

    positional: list[str]
    values: Mapping[str, list[str]]
    unknown: list[int]
    asks_help: bool
    flags: Set[str]


OMITTED_VALUES = {
    "--cache": ("auto", r"(?!-).*"),
    JUDGE_OPTION: (JUDGE_DEFAULT, r"(?!-).*"),
    "--logprobs": ("5", r"[-+]?\d+"),
}
"""Options whose value may be omitted: the value that they then have, and the form of one that is given."""


def with_omitted_values(words: Sequence[str]) -> list[str]:
    """Return a command line with the omitted values of options; FIKA-Bench's scripts write --judge so, for a run."""
    line: list[str] = []
    command = next((word for word in words if not word.startswith("-")), "")
    for number, word in enumerate(words):
        line.append(word)
        if word == "--":
            return [*line, *words[number + 1 :]]
        value, form = OMITTED_VALUES.get(word, ("", ""))
        following = words[number + 1 : number + 2]
        if (
            value
            and (word != JUDGE_OPTION or command == "run")
            and not (following and re.fullmatch(form, following[0], re.DOTALL))
        ):
            line.append(value)
    return line


def prepare(root: Any, arguments: Sequence[str]) -> tuple[Any, list[str]]:
    """Return the command to call, and its arguments with each option of a benchmark as `-o name=value`.

    Options of a benchmark are those that the command lacks and a benchmark on the command line declares. For --help they
    are added to the command, in a panel for each benchmark.

    Raises:
        UsageError: an option has no value, or there is an unknown option and the benchmark does not exist.
    """
    line = list(arguments)
    at = next((number for number, word in enumerate(line) if not word.startswith("-")), len(line))
    command: Any = getattr(root, "commands", {}).get(line[at]) if at < len(line) else None
    if command is None or SETTING not in (own := own_options(command)):
        return root, line
    from snellen.errors import SnellenError  # not for every `snellen --help`

    head, tail = line[: at + 1], line[at + 1 :]
    words = tell_apart(tail, own)
    if words.asks_help:
        try:
            for benchmark in _benchmarks(command, words):
                command.params += _panel(benchmark, own)
        except SnellenError as error:  # the rest of the help is still shown
            note(f"snellen: {error.message}")
        return root, line
    if not words.unknown:
        return root, line
    declared = {name for benchmark in _benchmarks(command, words) for name in benchmark.options}
    return root, head + list(_rewritten(tail, words.unknown, declared))


def tell_apart(words: Sequence[str], own: Mapping[str, bool]) -> Words:
    """Classify the words behind a command's name.

    The word behind an unknown option counts as its value, unless it looks like an option itself.

    Args:
        words: the words behind the command's name.
        own: the command's options; True if the option takes a value.
    """
    positional: list[str] = []
    values: dict[str, list[str]] = {}
    unknown: list[int] = []
    asks_help = False
    flags: set[str] = set()
    at = 0
    while at < len(words):
        word = words[at]
        at += 1
        if word == "--":
            positional += words[at:]
            break
        if word in HELP:
            asks_help = True
        elif word.startswith("--"):
            name, sign, value = word.partition("=")
            if name not in own:
                unknown.append(at - 1)
                if not sign and at < len(words) and not _OPTION.match(words[at]):
                    at += 1
            elif own[name]:
                if not sign:
                    value = words[at] if at < len(words) else ""
                    at += 1
                values.setdefault(name, []).append(value)
            else:
                flags.add(name)
        elif word.startswith("-") and len(word) > 1:
            # -qm NAME: flags come before the letter that takes a value, which follows it or is the next word.
            if f"-{word[1]}" not in own and not word[1].isdigit() and word[1] != ".":
                unknown.append(at - 1)
                if len(word) == 2 and at < len(words) and not _OPTION.match(words[at]):
                    at += 1
                continue
            takes = next((i for i in range(1, len(word)) if own.get(f"-{word[i]}")), None)
            if takes is not None and takes == len(word) - 1:
                at += 1
        else:
            positional.append(word)
    return Words(positional, values, unknown, asks_help, flags)


def is_plain_run(root: Any, words: Sequence[str]) -> bool:
    """Return True for a `run` with options that it has, and benchmarks that are no KIND:NAME: nothing in it is corrected."""
    command = getattr(root, "commands", {}).get("run")
    if words[0] != "run" or command is None:
        return False
    split = tell_apart(words[1:], own_options(command))
    return not split.unknown and bool(split.positional) and not any(":" in word for word in split.positional)


def own_options(command: Any) -> dict[str, bool]:
    """Return the options of a command; True if the option takes a value."""
    return {
        name: not (param.is_flag or param.count)
        for param in command.params
        if param.param_type_name == "option"
        for name in (*param.opts, *param.secondary_opts)
    }


def _benchmarks(command: Any, words: Words) -> Iterator[Benchmark]:
    """Yield the benchmarks that a line names as arguments, by --benchmark, or by the folder of a run."""
    from snellen.benchmarks import registry

    if any(param.name == "benchmark" and param.param_type_name == "argument" for param in command.params):
        yield from map(registry.find, words.positional)
    elif named := words.values.get("--benchmark"):
        yield registry.find(named[-1])
    elif words.positional:
        from snellen.engine.run_folder import RunFolder
        from snellen.runs.settings import find_benchmark

        path = Path(words.positional[0])
        folder = RunFolder(path if path.is_dir() else path.parent)
        if folder.exists():
            yield find_benchmark(folder.meta().spec, folder, trust="--trust" in words.flags)


def _rewritten(words: Sequence[str], unknown: Sequence[int], declared: set[str]) -> Iterator[str]:
    from snellen.errors import UsageError

    value_of: int | None = None
    for number, word in enumerate(words):
        if number == value_of:
            continue
        name, sign, value = word.removeprefix("--").partition("=")
        if number not in unknown or name not in declared:
            yield word
            continue
        if not sign:
            value_of = number + 1
            if value_of == len(words) or _OPTION.match(words[value_of]):
                raise UsageError(
                    f"--{name} needs a value",
                    f"Write --{name} VALUE, or --{name}=VALUE if the value begins with a hyphen.",
                )
            value = words[value_of]
        yield from ("-o", f"{name}={value}")


def _panel(benchmark: Benchmark, own: Mapping[str, bool]) -> list[Any]:
    """Return the options of a benchmark for --help; those that share a name with the command's have the form of -o."""

    def callback(settings: Any) -> None: ...

    fields = []
    for number, (name, text) in enumerate(benchmark.options.items()):
        flag = f"--option {name}=" if f"--{name}" in own else f"--{name}"
        setting = option(text, names=(flag,), value="VALUE", panel=f"{SETTINGS_OF}{benchmark.name}")
        fields.append((f"setting_{number}", str | None, setting))
    callback.__annotations__["settings"] = make_dataclass("BenchmarkSettings", fields)
    app = Commands(add_completion=False)
    app.command()(callback)
    return [param for param in get_command(app).params if param.name != "help"]
