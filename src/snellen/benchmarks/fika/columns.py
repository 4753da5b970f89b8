"""The fields of a manifest's row: a table of candidate names, and values read by it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct, structs

from snellen.errors import UsageError
from snellen.scoring.rubric import plain_letters
from snellen.sources.encodings import Row
from snellen.sources.safe_paths import regular_file
from snellen.toml_text import parse_toml

NEEDED = ("id", "image", "question", "answer")
KNOWN = (*NEEDED, "aliases", "target", "domain", "subcategory", "source", "language")
FILE_BYTES = 1 << 20
_CHINESE = re.compile("[\u3400-\u9fff]")


class Expected(Struct, frozen=True, forbid_unknown_fields=True):
    """Counts of the whole benchmark; None: not known, and not compared."""

    samples: int | None = None
    domains: int | None = None
    subcategories: int | None = None
    targets: int | None = None


class FieldMap(Struct, frozen=True, forbid_unknown_fields=True):
    """A map of fields.

    Attributes:
        rows: members of a manifest that is an object, of which one is the list of rows.
        fields: thing to candidate fields, tried in this order.
        values: thing to spellings: what they all mean to how they are written.
        expected: counts of the whole benchmark.
    """

    rows: tuple[str, ...] = ()
    fields: Mapping[str, tuple[str, ...]] = {}
    values: Mapping[str, Mapping[str, tuple[str, ...]]] = {}
    expected: Expected = Expected()

    def first(self, row: Row, field: str) -> Any:
        """Return the value of the first candidate that the row has and that is not empty; None where there is none."""
        return next(self.all(row, field), None)

    def all(self, row: Row, field: str) -> Iterator[Any]:
        """Yield the values of every candidate that the row has."""
        for name in self.fields.get(field, ()):
            value = _at(row, name)
            if value is not None and value != "" and value != [] and value != {}:
                yield value

    def spelled(self, field: str, text: str) -> str:
        """Return the text as the map spells it."""
        plain = plain_letters(text)
        for meaning, spellings in self.values.get(field, {}).items():
            if plain in (plain_letters(meaning), *map(plain_letters, spellings)):
                return meaning
        return text


@cache
def built_in() -> FieldMap:
    return _parsed(files(__package__).joinpath("columns.toml").read_text("utf-8"), "columns.toml")


def read(path: Path | None) -> FieldMap:
    """Return the map of the package, or one of the user's own, laid over it.

    Raises:
        UsageError: the file cannot be read, is no such map, or names a thing that nobody asks for.
    """
    if path is None:
        return built_in()
    status = regular_file(path)
    return _own(path, status.st_mtime_ns, status.st_size)


@cache
def _own(path: Path, changed: int, size: int) -> FieldMap:
    if size > FILE_BYTES:
        raise UsageError(f"-o fields={path}: larger than {FILE_BYTES:,} bytes", "Give a file like columns.toml.")
    try:
        own = _parsed(path.read_text("utf-8"), str(path))
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"-o fields={path}: cannot be read: {error}", "Check the path; it is a TOML file.") from error
    base = built_in()
    return structs.replace(
        base,
        rows=own.rows or base.rows,
        fields={**base.fields, **own.fields},
        values={**base.values, **own.values},
        expected=own.expected if own.expected != Expected() else base.expected,
    )


def _parsed(text: str, name: str) -> FieldMap:
    hint = "`snellen --help fika` shows what such a file holds."
    try:
        field_map = msgspec.convert(parse_toml(text), FieldMap)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"fields {name}: {error}", hint) from error
    unknown = sorted({*field_map.fields, *field_map.values} - set(KNOWN))
    if unknown:
        raise UsageError(f"fields {name}: {unknown[0]!r} is unknown; known are {', '.join(KNOWN)}", hint)
    return field_map


def _at(row: Row, name: str) -> Any:
    if name in row:
        return row[name]
    value: Any = row
    for part in name.split("."):
        if not isinstance(value, Mapping) or part not in value:
            return None
        value = value[part]
    return value


def text(value: Any, language: str = "") -> str:
    """Return one text: that of a language where the value has one for each, the first of a list.

    Empty for what is no text.
    """
    return next(texts(value, language), "")


def texts(value: Any, language: str = "") -> Iterator[str]:
    """Yield every text in a value, without white space around it.

    Of an object with one a language, that language's first.
    """
    if isinstance(value, bool) or value is None:
        return
    if isinstance(value, (str, int, float)):
        if stripped := str(value).strip():
            yield stripped
    elif isinstance(value, Mapping):
        for name in _text_members(value, language):
            yield from texts(value[name], language)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from texts(item, language)


def _text_members(value: Mapping[str, Any], language: str) -> list[str]:
    """Return the members of an object that are texts: one a language, or the one that says so, or all there are."""
    spoken = [name for name in value if name.lower().replace("_", "-").partition("-")[0] in ("en", "zh", "cn")]
    named = spoken or [name for name in ("text", "name", "value", "answer", "url") if name in value][:1] or list(value)
    return sorted(named, key=lambda name: name != language)


def language_of(question: str) -> str:
    """`zh` for a question with Chinese characters in it, else `en`: the two languages that the data set is tagged with."""
    return "zh" if _CHINESE.search(question) else "en"
