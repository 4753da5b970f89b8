"""Errors about the keys and values of a declaration: which are known, which is nearest, and where it stands."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
from msgspec import inspect

from snellen.errors import DataError

HINT = "docs: Declare a benchmark lists the sections and keys."
_ENUM = re.compile(r"Invalid enum value '(?P<value>[^']*)' - at (?P<key>`key` in )?`\$(?P<path>[^`]*)`")
_FIELD = re.compile(r"Object contains unknown field `(?P<value>.*?)`(?: - at `\$(?P<path>[^`]*)`)?$", re.DOTALL)


def declaration_error(error: msgspec.ValidationError, values: Mapping[str, Any], form: type, place: str) -> DataError:
    """Return the error of a TOML that is none of the type `form`; an unknown key or value comes with those that are known."""
    message = str(error)
    of: type[inspect.Type]
    if (match := _FIELD.match(message)) is not None:
        path, at_end = match["path"] or "", f".{match['value']}"
        said, of, is_key = f"Object contains unknown field `{match['value']}`", inspect.StructType, False
    elif (match := _ENUM.match(message)) is not None:
        is_key = bool(match["key"])
        path, at_end = match["path"] + ("[...]" if is_key else ""), ""
        said, of = f"Invalid enum value {match['value']!r}", inspect.LiteralType
    else:
        return DataError(f"{place}: {message}", HINT)
    typed, steps = match["value"], re.findall(r"\[[^\]]*\]|[^.\[]+", path)
    types = _types_at(inspect.type_info(form), steps, is_key=is_key)
    known = list(dict.fromkeys(word for one in types if isinstance(one, of) for word in _words(one)))
    pattern = re.escape(path + at_end).replace(re.escape("[...]"), r"(?:\[\d+\]|\.[^.\[]+)")
    where = next((one for one in _places(values, typed) if re.fullmatch(pattern, one)), path + at_end)
    said = f"{said} - at `${where.removesuffix(at_end)}`; one of {', '.join(known)} was expected"
    made = DataError(f"{place}: {said}", HINT).near(typed, known)
    if made.correction is not None:
        made.hint = f"The nearest is {made.correction[1]!r}."
    return made


def _words(of: inspect.Type) -> Iterator[str]:
    """Yield the values of a closed set of words, or the keys of a section."""
    if isinstance(of, inspect.LiteralType):
        yield from (str(value) for value in of.values if value)
    elif isinstance(of, inspect.StructType):
        yield from (one.encode_name for one in of.fields)


def _types_at(of: inspect.Type, steps: list[str], *, is_key: bool) -> Iterator[inspect.Type]:
    """Yield the types of what stands at a path in a type; the last step of a key's path is the key."""
    if isinstance(of, inspect.UnionType):
        parts = [(one, steps) for one in of.types]
    elif not steps:
        yield of
        return
    elif isinstance(of, inspect.DictType):
        parts = [(of.key_type if is_key and len(steps) == 1 else of.value_type, steps[1:])]
    elif isinstance(of, inspect.VarTupleType):
        parts = [(of.item_type, steps[1:])]
    elif isinstance(of, inspect.StructType):
        parts = [(one.type, steps[1:]) for one in of.fields if one.encode_name == steps[0]]
    else:
        return
    for part, rest in parts:
        yield from _types_at(part, rest, is_key=is_key)


def _places(values: Any, typed: str, at: str = "") -> Iterator[str]:
    """Yield where a word stands as a key or as a value."""
    several = isinstance(values, list | tuple)
    for key, value in enumerate(values) if several else values.items() if isinstance(values, Mapping) else ():
        place = f"{at}[{key}]" if several else f"{at}.{key}"
        if typed in (key, value):
            yield place
        yield from _places(value, typed, place)
