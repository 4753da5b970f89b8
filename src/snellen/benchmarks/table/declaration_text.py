"""A declaration as the text of a TOML, with comments; `declaration.read_declaration` reads it back."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from snellen.benchmarks.table.declaration import Declaration
from snellen.errors import DataError

_BARE = re.compile(r"[A-Za-z0-9_-]+")
_SECTIONS = ("source", "rows", "group", "prompt", "score")
_LISTS = ("report", "figure")
_NOT_TEXT = re.compile("[\ud800-\udfff]")


def declaration_text(declared: Declaration, comments: Mapping[str, str] = {}) -> str:
    """Return a declaration as TOML.

    Args:
        comments: by key, such as `rows.answer`, the comment above it; by section, such as `rows`, the one at its head; the
            empty key names the comment at the head of the file.

    Raises:
        DataError: a text of it cannot stand in a TOML: half a surrogate pair, as in a file name that is not UTF-8.
    """
    values: dict[str, Any] = msgspec.to_builtins(declared)
    values["rows"] = dict(values.get("rows", {}))
    if "without_image" in values:
        values["rows"]["without_image"] = values.pop("without_image")
    lines = [*_comment(comments.get("", ""))]
    for key, value in values.items():
        if key not in (*_SECTIONS, *_LISTS):
            lines += [*_comment(comments.get(key, "")), f"{_key(key)} = {_value(value)}"]
    for section in _SECTIONS:
        if section in values:
            lines += ["", f"[{section}]", *_section(section, values[section], comments)]
    for section in _LISTS:
        for entry in values.get(section, ()):
            lines += ["", f"[[{section}]]", *_section(section, entry, {})]
    return "\n".join(lines).lstrip("\n") + "\n"


def _section(section: str, values: Mapping[str, Any], comments: Mapping[str, str]) -> Iterator[str]:
    yield from _comment(comments.get(section, ""))
    for key, value in values.items():
        yield from _comment(comments.get(f"{section}.{key}", ""))
        yield f"{_key(key)} = {_value(value)}"


def _comment(text: str) -> list[str]:
    """Return a comment by lines; control characters, which TOML forbids in comments, become spaces."""
    plain = "".join(char if char.isprintable() or char == "\n" else " " for char in text)
    return [f"# {line}".rstrip() for line in plain.splitlines()]


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else _text(name)


def _text(text: str) -> str:
    if _NOT_TEXT.search(text):
        raise DataError(f"{text!r} is not UTF-8 and cannot stand in a TOML", "Rename the file or the column.")
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, float):
        return repr(value) if math.isfinite(value) else ("nan" if value != value else "inf" if value > 0 else "-inf")
    if isinstance(value, int):
        return str(value)
    if isinstance(value, Mapping):
        inner = ", ".join(f"{_key(str(key))} = {_value(part)}" for key, part in value.items())
        return f"{{ {inner} }}" if inner else "{}"
    return f"[{', '.join(map(_value, value))}]"
