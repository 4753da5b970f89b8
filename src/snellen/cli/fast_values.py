"""Values that are plainly what an option wants are taken as they are.

Typer reads each value of each option through pydantic, which takes longer to import than a run over an endpoint takes to
ask its first question. What is plain is the same either way (a test compares the two); all else is left to typer, and so
is every message about a value that does not do.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

MOST_INTEGER = (1 << 63) - 1
MOST_FLOAT = 1e12
NEVER_EMPTY = ("base_url", "key_env", "profile", "serve", "judge", "rubric", "benchmarks", "submission_configs")
"""Parameters whose empty value would mean the default, and would send requests that nobody asked for."""
_NOT_PLAIN: Any = object()
_INT = re.compile(r"0|-?[1-9][0-9]{0,14}")
_FLOAT = re.compile(r"(?:0|-?[1-9][0-9]{0,14})(?:\.[0-9]{1,15})?")


def take_plain_values(command: Any) -> None:
    """Let the parameters of a command, or of all commands of a group, take plain values without typer's reading."""
    for inner in getattr(command, "commands", {}).values():
        take_plain_values(inner)
    command.get_params = partial(_params, command.get_params)  # the option --help is made when it is asked for


def _params(params_of: Callable[[Any], list[Any]], context: Any) -> list[Any]:
    params = params_of(context)
    for param in params:
        # Older versions of typer have no descriptor; they read values without pydantic.
        if isinstance(param.process_value, partial):
            continue
        read = param.process_value
        if hasattr(param, "type_descriptor"):
            read = partial(_process, param, read)
        param.process_value = partial(_bounded, param, read)
    return params


def _process(param: Any, read: Callable[[Any, Any], Any], context: Any, value: Any) -> Any:
    many = param.multiple or param.nargs == -1
    if value is None:
        taken: Any = () if many else None
    else:
        taken = plain(param.type_descriptor.annotation, param.type_descriptor.parameter_info, value)
    if taken is _NOT_PLAIN or (param.required and param.value_is_missing(taken)):
        return read(context, value)
    return taken if param.callback is None else param.callback(context, param, taken)


def _bounded(param: Any, read: Callable[[Any, Any], Any], context: Any, value: Any) -> Any:
    """The value that `read` makes, if its numbers are finite and fit into 64 bits."""
    try:
        result = read(context, value)
    except Exception as error:
        if (
            type(error).__name__ == "BadParameter"
            and isinstance(value, str)
            and isinstance(message := getattr(error, "message", None), str)
        ):
            if repr(value) not in message:
                error.message = f"{message}; found {value!r}."  # type: ignore[attr-defined]
            if param.name == "limit":
                error.message += " Omit --limit to ask all samples."  # type: ignore[attr-defined]
        raise
    if value == "" and (isinstance(result, Path) or param.name in NEVER_EMPTY):
        from snellen.errors import UsageError

        name = param.opts[0] if param.param_type_name == "option" else param.name.upper()
        raise UsageError(
            f"{name} '' is empty; a value was expected",
            f"Omit {name}, or check the shell variable that it was made of: an unset one is empty.",
        )
    for number in result if isinstance(result, (list, tuple)) else (result,):
        if isinstance(number, bool) or not isinstance(number, (int, float)):
            continue
        if isinstance(number, int):
            fits, most = -MOST_INTEGER - 1 <= number <= MOST_INTEGER, f"whole numbers up to {MOST_INTEGER:,}"
        else:
            fits, most = abs(number) <= MOST_FLOAT, f"finite numbers up to {MOST_FLOAT:,.0f}"
        if not fits:
            from snellen.errors import UsageError

            shown = str(value)
            raise UsageError(
                f"{param.opts[0]} {shown if len(shown) <= 60 else shown[:57] + '...'}: {most} are accepted",
                f"snellen {context.info_name} --help has the range of each option.",
            )
    return result


def plain(annotation: Any, info: Any, value: Any) -> Any:
    """The value as the annotation's type, or a mark that it takes more than a glance to tell."""
    if info.parser is not None:
        return _NOT_PLAIN
    if get_origin(annotation) is list:
        if not isinstance(value, (list, tuple)):
            return _NOT_PLAIN
        (inner,) = get_args(annotation)
        items = [plain(inner, info, one) for one in value]
        return _NOT_PLAIN if any(one is _NOT_PLAIN for one in items) else items
    if get_origin(annotation) is Literal:
        return value if isinstance(value, str) and value in get_args(annotation) else _NOT_PLAIN
    if annotation is str or annotation is bool:
        return value if type(value) is annotation else _NOT_PLAIN
    if annotation is int or annotation is float:
        return _number(annotation, info, value)
    if annotation is Path:
        return _path(info, value)
    return _NOT_PLAIN


def _number(kind: type[int] | type[float], info: Any, value: Any) -> Any:
    if type(value) is str and (_INT if kind is int else _FLOAT).fullmatch(value):
        value = kind(value)
    if type(value) is not kind or info.clamp:
        return _NOT_PLAIN
    fits = (info.min is None or value >= info.min) and (info.max is None or value <= info.max)
    return value if fits else _NOT_PLAIN


def _path(info: Any, value: Any) -> Any:
    """A path of which nothing is asked but that it can be read if it is there."""
    asked = (info.exists, info.writable, info.resolve_path, info.allow_dash, info.path_type)
    if any(asked) or not (info.file_okay and info.dir_okay) or not isinstance(value, (str, Path)):
        return _NOT_PLAIN
    path = Path(value)
    try:
        path.stat()
    except OSError:
        return path  # whether it must be there is for the command to say
    except ValueError:
        return _NOT_PLAIN
    return path if os.access(path, os.R_OK) else _NOT_PLAIN
