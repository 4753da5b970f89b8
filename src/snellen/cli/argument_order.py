"""Arguments in each other's place: a model where a benchmark or a run belongs, and the other way round."""

from __future__ import annotations

import itertools
import shlex
from collections.abc import Sequence
from pathlib import Path

from snellen.errors import UsageError

MODEL_OPTIONS = ("--model", "-m")
TAKING_RUN = ("judge", "score", "report", "failures", "export", "rerun", "compare")
SQL_STARTS = ("select ", "with ", "describe ", "show ", "from ")


def check_order(path: Sequence[str], words: Sequence[str], positional: Sequence[str]) -> None:
    """Refuse arguments that stand in each other's place, with the command to type.

    Args:
        path: the command, in words.
        words: all words behind it.
        positional: those that are neither options nor values of one.

    Raises:
        UsageError: such arguments; others are left to the command.
    """
    name = path[0]
    if name == "query" and positional and _is_run(positional[0]):
        own = next((word for word in positional if word.lstrip().lower().startswith(SQL_STARTS)), None)
        rest = list(words)
        if own is not None:
            rest.remove(own)
        line = shlex.join(["snellen", "query", own or "SELECT run, state, value FROM runs", *rest])
        raise UsageError(f"the first argument of query is SQL, and {positional[0]} is a run", f"Type: {line}")
    if name == "score" and len(positional) == 2:
        run = next((word for word in positional if Path(word).exists()), "")
        other = next((word for word in positional if word != run), "")
        if run and other and not Path(other).exists():
            rest = [word for word in words if word != other]
            line = shlex.join(["snellen", "score", *rest, "--benchmark", other])
            raise UsageError(f"score takes one file or run, and {other} is none", f"Type: {line}")
    models = [word for word in positional if _is_model(word)]
    if not models or name not in ("run", *TAKING_RUN):
        return
    named = [after for word, after in itertools.pairwise(words) if word in MODEL_OPTIONS]
    named += [word.partition("=")[2] for word in words if word.startswith("--model=")]
    expected = "a benchmark" if name == "run" else "a run's folder"
    if len(named) == 1 and len(models) == 1 and not _is_model(typed := named[0]):
        better = [models[0] if word == typed else typed if word == models[0] else word for word in words]
    elif name in ("run", "judge") and not named:
        better = [word for word in words if word not in models]
        better += [part for model in models for part in ("--model", model)]
        if len(models) == len(positional):
            better.insert(0, "BENCHMARK" if name == "run" else "RUN")
    else:
        better = [word for word in words if word not in models]
    line = shlex.join(["snellen", name, *better])
    raise UsageError(f"{models[0]} is a model, and {expected} was expected there", f"Type: {line}")


def _is_model(word: str) -> bool:
    from snellen.models.registry import KINDS

    kind, colon, name = word.partition(":")
    return bool(colon and name and kind in KINDS) and not Path(word).exists()


def _is_run(word: str) -> bool:
    return (Path(word) / "run_meta.json").is_file()
