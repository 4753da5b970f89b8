"""Errors about the values of a declaration: which are known, which is nearest, and in which profile it stands."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
from msgspec import inspect

from snellen.errors import DataError

HINT = "docs: Declare a benchmark lists the sections and keys."
_ENUM = re.compile(r"Invalid enum value '(?P<value>[^']*)' - at (?P<key>`key` in )?`\$(?P<path>[^`]*)`")


def declaration_error(error: msgspec.ValidationError, values: Mapping[str, Any], form: type, place: str) -> DataError:
    """Return the error of a TOML that is no declaration; a value that is none of a few comes with them, and the nearest.

    Args:
        error: what msgspec found.
        values: the parsed TOML.
        form: the type of declarations.
        place: the file, for the message.
    """
    match = _ENUM.match(str(error))
    if match is None:
        return DataError(f"{place}: {error}", HINT)
    typed, steps = match["value"], re.findall(r"\[[^\]]*\]|[^.\[]+", match["path"])
    known = list(dict.fromkeys(_known(inspect.type_info(form), [*steps, "key"] if match["key"] else steps)))
    where = next(_places(values, steps, typed, is_key=bool(match["key"])), match["path"].removeprefix("."))
    said = f"Invalid enum value {typed!r} - at `$.{where}`; one of {', '.join(known)} was expected"
    made = DataError(f"{place}: {said}", HINT).near(typed, known)
    if made.correction is not None:
        made.hint = f"The nearest is {made.correction[1]!r}."
    return made


def _known(of: inspect.Type, steps: list[str]) -> Iterator[str]:
    """Yield the words that may stand at a path in a type."""
    if isinstance(of, inspect.UnionType):
        for one in of.types:
            yield from _known(one, steps)
    elif isinstance(of, inspect.LiteralType) and not steps:
        yield from (str(value) for value in of.values if value)
    elif isinstance(of, inspect.DictType) and steps:
        yield from _known(of.key_type, []) if steps == ["key"] else _known(of.value_type, steps[1:])
    elif isinstance(of, inspect.VarTupleType) and steps:
        yield from _known(of.item_type, steps[1:])
    elif isinstance(of, inspect.StructType) and steps:
        yield from (word for one in of.fields if one.encode_name == steps[0] for word in _known(one.type, steps[1:]))


def _places(values: Any, steps: list[str], typed: str, *, is_key: bool, at: str = "") -> Iterator[str]:
    """Yield where a word stands, with the keys that msgspec leaves out."""
    if not steps:
        if (typed in values) if is_key and isinstance(values, Mapping) else (not is_key and values == typed):
            yield f"{at}.{typed}" if is_key else at
        return
    step, rest = steps[0], steps[1:]
    if isinstance(values, Mapping):
        named = values if step == "[...]" else [step] if step in values else []
        for name in named:
            yield from _places(values[name], rest, typed, is_key=is_key, at=f"{at}.{name}".lstrip("."))
    elif isinstance(values, list | tuple) and step.startswith("["):
        numbers = range(len(values)) if step == "[...]" else [int(step[1:-1])]
        for number in numbers:
            yield from _places(values[number], rest, typed, is_key=is_key, at=f"{at}[{number}]")
