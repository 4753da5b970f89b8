"""Texts: safe ones for terminals and spreadsheets, JSON, slugs for file names, cut texts, lists and sets of words."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any, Literal

GIT_LFS_START = b"version https://git-lfs"
"""The first bytes of the text that Git LFS leaves in place of a file that was not fetched."""

# C0 but for tab, line feed and carriage return; DEL and C1 (0x9b begins a command too); half characters; direction marks.
_CONTROLS = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_RETURN = re.compile("\r(?!\n)")
_COMMAND = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
"""What a program of one's own writes to move the cursor and to set colours (ECMA-48, control sequences)."""
# The four characters in every width, behind blanks and characters without a width, and a cell that begins with a line end
# or tab: some programs strip what stands before them.
_FORMULA = re.compile(
    "[\t\n\r]|[\\s\x00-\x1f\x7f-\x9f\xad\u200b-\u200f\u2060\ufeff]*[=+@\uff1d\uff0b\uff0d\uff20\ufe62-\ufe66\ufe6b-]"
)
_NOT_IN_FILE_NAMES = re.compile("[^A-Za-z0-9._]+")


def pretty_json(value: Any, enc_hook: Callable[[Any], Any] | None = None) -> bytes:
    """Encode a value as JSON, indented by two spaces, with a line end.

    `enc_hook` turns objects that msgspec cannot encode into ones that it can.
    """
    import msgspec  # lazy: `--help` needs this module, and not msgspec

    return msgspec.json.format(msgspec.json.encode(value, enc_hook=enc_hook), indent=2) + b"\n"


def whole_text(text: str) -> str:
    """Return a text with each half of a surrogate pair written as its escape, as UTF-8 can hold it."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode("utf-8")


def json_or_none(data: bytes) -> Any:
    """Decode untrusted JSON; None where it is none."""
    import msgspec

    try:
        return msgspec.json.decode(data)
    except (ValueError, RecursionError):  # bytes that are no UTF-8 are a UnicodeDecodeError
        return None


def json_with_constants(data: bytes) -> Any:
    """Decode untrusted JSON in which NaN and Infinity may stand as Python writes them, though JSON has neither.

    Raises:
        msgspec.DecodeError: it is no JSON.
        UnicodeDecodeError: it is no UTF-8.
        RecursionError: it is nested too deeply.
    """
    import msgspec

    try:
        return msgspec.json.decode(data)
    except msgspec.DecodeError:
        if b"NaN" in data or b"Infinity" in data:
            with suppress(ValueError):
                return json.loads(data)
        raise


def slug(text: str, limit: int | None = None) -> str:
    """Make a text part of a file name: ASCII letters, digits, `.`, `_` and single hyphens.

    Other characters become hyphens, the text is cut at `limit` characters, and hyphens and points at its ends are
    removed. Empty where nothing is left.
    """
    return _NOT_IN_FILE_NAMES.sub("-", text)[:limit].strip("-.")


def shorten(text: str, limit: int) -> str:
    """Cut a text to at most `limit` characters; the last one is then an ellipsis."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


def normalized(form: Literal["NFC", "NFD", "NFKC", "NFKD"], text: str) -> str:
    """Normalise a text of any length in time proportional to it.

    Marks on one letter are sorted in time quadratic in their number, so a long text goes in pieces of at most 576
    characters, cut before an ASCII character where one is near.
    """
    if text.isascii():
        return text
    return "".join(unicodedata.normalize(form, piece) for piece in _pieces(text))


def _pieces(text: str) -> Iterator[str]:
    at = 0
    while at < len(text):
        end = next((place for place in range(at + 512, min(at + 576, len(text))) if text[place].isascii()), at + 576)
        yield text[at:end]
        at = end


def comma_list(text: str | None) -> list[str]:
    """Split an option's value at its commas, without surrounding spaces and empty items."""
    return [item for part in (text or "").split(",") if (item := part.strip())]


def terms(text: str) -> frozenset[str]:
    """Return the set of words of a text."""
    return frozenset(text.split())


def without_controls(text: str, *, commands: bool = False, returns: bool = False) -> str:
    """Replace every control character by a readable escape, `\\x1b`.

    Args:
        text: any text; tabs and line feeds stay.
        returns: carriage returns that end no line are escaped too; on a terminal the text behind one covers that before it.
        commands: whole control sequences (colours, the cursor) stay; for a stream that a terminal library writes to.
    """
    if returns and "\r" in text:
        text = _RETURN.sub(_escape, text)
    if _CONTROLS.search(text) is None:
        return text
    if not commands:
        return _CONTROLS.sub(_escape, text)
    pieces, at = [], 0
    for command in _COMMAND.finditer(text):
        pieces += [_CONTROLS.sub(_escape, text[at : command.start()]), command.group()]
        at = command.end()
    return "".join([*pieces, _CONTROLS.sub(_escape, text[at:])])


def one_line(text: str) -> str:
    """Return the text on one line: without controls, with line ends and tabs as escapes too."""
    text = without_controls(text)
    return text if text.isprintable() else "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def spreadsheet_cell(value: Any) -> Any:
    """Return a value for a CSV cell: numbers stay numbers, text that looks like a formula gets a `'` in front.

    Source: OWASP, "CSV Injection": =, +, -, @, tab, carriage return and line feed at the head of a cell, in any width.
    """
    if not isinstance(value, str):
        return value if value is None or isinstance(value, (int, float)) else spreadsheet_text(value)
    formula = _FORMULA.match(value) is not None
    # A bare carriage return ends a row for a spreadsheet, and the CSV writer does not quote it.
    text = without_controls(value.replace("\r\n", "\n").replace("\r", "\\r"))
    return f"'{text}" if formula else text


def csv_text(lines: Iterable[Sequence[Any]]) -> str:
    """Return lines as CSV in which no text is a formula."""
    import csv
    from io import StringIO

    text = StringIO()
    csv.writer(text, lineterminator="\n").writerows([[spreadsheet_cell(cell) for cell in line] for line in lines])
    return text.getvalue()


def spreadsheet_text(value: Any) -> Any:
    """Return a value that is no text, such as a date or a list, as the CSV writer has it."""
    from decimal import Decimal

    return value if isinstance(value, Decimal) else spreadsheet_cell(str(value))


def _escape(match: re.Match[str]) -> str:
    return repr(match.group())[1:-1]
