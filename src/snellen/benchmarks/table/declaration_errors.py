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
    """Return the error of a TOML that is none of the type `form`; a value that is none of a few comes with these."""
    match = _ENUM.match(str(error))
    if match is None:
        return DataError(f"{place}: {error}", HINT)
    typed, path = match["value"], match["path"] + ("[...]" if match["key"] else "")
    steps = re.findall(r"\[[^\]]*\]|[^.\[]+", path)
    known = list(dict.fromkeys(_known(inspect.type_info(form), steps, is_key=bool(match["key"]))))
    pattern = re.escape(path).replace(re.escape("[...]"), r"(?:\[\d+\]|\.[^.\[]+)")
    where = next((one for one in _places(values, typed) if re.fullmatch(pattern, one)), path)
    said = f"Invalid enum value {typed!r} - at `${where}`; one of {', '.join(known)} was expected"
    made = DataError(f"{place}: {said}", HINT).near(typed, known)
    if made.correction is not None:
        made.hint = f"The nearest is {made.correction[1]!r}."
    return made


def _known(of: inspect.Type, steps: list[str], *, is_key: bool) -> Iterator[str]:
    """Yield the words that may stand at a path in a type; the last step of a key's path is the key."""
    if isinstance(of, inspect.LiteralType) and not steps:
        yield from (str(value) for value in of.values if value)
    parts: list[tuple[inspect.Type, list[str]]] = []
    if isinstance(of, inspect.UnionType):
        parts = [(one, steps) for one in of.types]
    elif isinstance(of, inspect.DictType) and steps:
        parts = [(of.key_type if is_key and len(steps) == 1 else of.value_type, steps[1:])]
    elif isinstance(of, inspect.VarTupleType) and steps:
        parts = [(of.item_type, steps[1:])]
    elif isinstance(of, inspect.StructType) and steps:
        parts = [(one.type, steps[1:]) for one in of.fields if one.encode_name == steps[0]]
    for part, rest in parts:
        yield from _known(part, rest, is_key=is_key)


def _places(values: Any, typed: str, at: str = "") -> Iterator[str]:
    """Yield where a word stands as a key or as a value."""
    several = isinstance(values, list | tuple)
    for key, value in enumerate(values) if several else values.items() if isinstance(values, Mapping) else ():
        place = f"{at}[{key}]" if several else f"{at}.{key}"
        if typed in (key, value):
            yield place
        yield from _places(value, typed, place)
