"""Rows that are no table yet: those of nested objects, lines of a text, and rows whose further cells a second file has."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import IO, Any

from snellen.benchmarks.table.declaration import Join
from snellen.errors import DataError
from snellen.sources.rows import LINE_BYTES

KEY, VALUE = "@key", "@value"
_NAMED = re.compile(r"\{(@?\w+)\}")


def is_every(step: str) -> bool:
    """Return True for the step of a path that stands for every member: `*`, `*[]`, or `{name}`."""
    return step in ("*", "*[]") or _NAMED.fullmatch(step) is not None


def nested_rows(value: Any, steps: Sequence[str], keys: Mapping[str, Any] = {}) -> Iterator[Any]:
    """Yield the rows at a path in parsed JSON: objects, or elements of lists, with the keys on their way as columns.

    Args:
        steps: names of members; `{name}` stands for every member, whose key becomes the column `name`, and `*` is `{@key}`.
            An object that lacks a member has no rows there.
        keys: the columns so far. A value at the end of named keys that is no object becomes the column `@value`.
    """
    if not steps:
        for row in value if isinstance(value, list) else [value]:
            yield {**keys, **row} if isinstance(row, dict) else {**keys, VALUE: row} if keys.keys() - {KEY} else row
        return
    step, *rest = steps
    if not is_every(step):
        if isinstance(value, dict) and step.removesuffix("[]") in value:
            yield from nested_rows(value[step.removesuffix("[]")], rest, keys)
    elif isinstance(value, dict):
        named = _NAMED.fullmatch(step)
        for key, part in value.items():
            yield from nested_rows(part, rest, {**keys, named[1] if named else KEY: key})
    elif isinstance(value, list):
        for part in value:
            yield from nested_rows(part, rest, keys)


def line_rows(file: IO[bytes], form: str, name: str) -> Iterator[tuple[int, dict[str, str] | DataError]]:
    """Yield the number of each line that is not blank, and its columns or why it has none.

    Args:
        form: a line, with the columns in braces: `{video} {start} {end}##{caption}`. A column ends where the sign behind
            it stands first; the last one is the rest of the line.
    """
    literal, *parts = _NAMED.split(form)
    pattern = re.escape(literal)
    for behind in parts[1::2]:
        pattern += f"({f'[^{re.escape(behind[0])}]+' if behind else '.+'}){re.escape(behind)}"
    with file:
        for number, line in enumerate(iter(lambda: file.readline(LINE_BYTES), b""), 1):
            if text := line.decode(errors="replace").strip("\ufeff \t\r\n"):
                found = re.fullmatch(pattern, text)
                fault = f"{name}, line {number:,}: {text[:80]!r} is no line of the form {form!r}"
                row = dict(zip(parts[::2], found.groups(), strict=True)) if found else None
                yield number, row or DataError(fault, "Correct it, or fetch the file again.")


def joined(
    rows: Iterable[tuple[str, dict[str, Any] | DataError]],
    join: Join,
    others: Iterable[tuple[str, dict[str, Any] | DataError]],
) -> Iterator[tuple[str, dict[str, Any] | DataError]]:
    """Yield the rows with the cells of the first row of `others` with the same keys; rows without one are no part of the table."""
    by_keys: dict[tuple[str, ...], dict[str, Any]] = {}
    for place, row in others:
        if isinstance(row, DataError):
            yield f"{join.file}, {place}", row
        else:
            by_keys.setdefault(tuple(str(row.get(name)) for name in join.on), row)
    absent = dict.fromkeys(by_keys)
    for place, row in rows:
        if isinstance(row, DataError):
            yield place, row
        elif (other := by_keys.get(keys := tuple(str(row.get(name)) for name in join.on))) is not None:
            absent.pop(keys, None)
            yield place, {**row, **{column: other.get(theirs) for column, theirs in join.columns.items()}}
    if absent:
        fault = (
            f"{join.file}: {len(absent):,} of its rows belong to absent rows, such as {', '.join(next(iter(absent)))}"
        )
        yield join.file, DataError(fault, "Fetch both files again.")
