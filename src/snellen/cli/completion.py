"""snellen completion

The scripts hold all words, so that no Python starts while somebody types: a completion takes some milliseconds.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from snellen.cli.option_parsing import argument

if TYPE_CHECKING:
    from snellen.cli.help_page import Word

MODELS, BENCHMARKS, RUNS, FILES = "@models", "@benchmarks", "@runs", "@files"
"""Kinds of values, which the scripts complete; other words between bars are the values themselves."""
_OPTION_KINDS = {"model": MODELS, "judge": MODELS, "reader": MODELS, "sampling": "@recipes", "profile": "@profiles"}
_ARGUMENT_KINDS = {"benchmark": BENCHMARKS, "benchmarks": BENCHMARKS, "run": RUNS, "runs": RUNS, "results": RUNS}


class CompletedCommand(NamedTuple):
    """What may follow a command: its options, each with the kind of its value (empty: none), and its arguments' kind."""

    path: str
    options: dict[str, str]
    argument: str


def completion(
    shell: Literal["bash", "zsh", "fish"] = argument("The shell."),
) -> None:
    """Print the script with which a shell completes commands, options, benchmarks, models and run folders.

    Write it anew after an update of Snellen or of a plug-in.

    bash: snellen completion bash > ~/.local/share/bash-completion/completions/snellen

    zsh: snellen completion zsh > FOLDER/_snellen, with FOLDER in fpath

    fish: snellen completion fish > ~/.config/fish/completions/snellen.fish
    """
    ending = "fish" if shell == "fish" else "bash"
    script = (files("snellen.cli") / "completions" / f"snellen.{ending}").read_text(encoding="utf-8")
    for mark, words in _words().items():
        script = script.replace(mark, " ".join(words))
    cases = _fish_cases if ending == "fish" else _bash_cases
    script = script.replace("    # COMMANDS\n", "".join(cases()))
    print(f"#compdef snellen\n{script}" if shell == "zsh" else script, end="")


def _words() -> dict[str, list[str]]:
    """Return the words in place of each mark of the scripts."""
    from importlib.metadata import entry_points

    from snellen.benchmarks import registry
    from snellen.models.registry import GROUP, KINDS
    from snellen.runs.recipes import recipes

    kinds = [kind if kind == "embedded" else f"{kind}:" for kind in KINDS]
    kinds += [f"{point.name}:" for point in entry_points(group=GROUP) if point.name not in KINDS]
    profiles = {profile for name in registry.BUILT_IN for profile in registry.find(name).profiles}
    return {
        "@MODELS@": kinds,
        "@BENCHMARKS@": [*registry.names(), *sorted(registry.entry_names())],
        "@RECIPES@": ["checkpoint", "none", *recipes()],
        "@PROFILES@": ["all", "reviewed", "audited", *sorted(profiles)],
    }


def commands() -> Iterator[CompletedCommand]:
    """Yield the commands; a group has its commands as `argument`, with bars between them."""
    from typer.main import get_command

    from snellen.cli.app import build
    from snellen.cli.help_page import words as words_of

    def walk(command: Any, path: tuple[str, ...]) -> Iterator[CompletedCommand]:
        inner, words = getattr(command, "commands", {}), words_of(command)
        options = {name: _kind(word) for word in words if not word.argument for name in word.names}
        taken = [_kind(word) for word in words if word.argument]
        yield CompletedCommand(" ".join(path), {**options, "--help": ""}, "|".join(inner) or "".join(taken[-1:]))
        for name, each in inner.items():
            yield from walk(each, (*path, name))

    yield from walk(get_command(build(None)), ())


def _kind(word: Word) -> str:
    """Return the kind of a value; empty for a flag."""
    if not word.argument and not word.value:
        return ""
    if known := (_ARGUMENT_KINDS if word.argument else _OPTION_KINDS).get(word.name):
        return known
    choices = word.names[0] if word.argument else word.value
    return choices if re.fullmatch(r"[a-z0-9-]+(\|[a-z0-9-]+)+", choices) else FILES


def _bash_cases() -> Iterator[str]:
    for each in commands():
        words = " ".join(f"{name}={kind}" if kind else name for name, kind in each.options.items())
        yield f"    '{each.path}') options='{words}'; taken='{each.argument}' ;;\n"


def _fish_cases() -> Iterator[str]:
    for each in commands():
        words = " ".join(f"'{name}={kind}'" if kind else f"'{name}'" for name, kind in each.options.items())
        yield f"        case '{each.path}'\n            set options {words}\n            set taken '{each.argument}'\n"
