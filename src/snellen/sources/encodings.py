"""What readers of tables share: encodings of text files, and rows with the choice of their columns.

A byte order mark or the user names the encoding; without either a file is UTF-8, or is refused.

No encoding is guessed. For the refusal the bytes are decoded strictly as each of CANDIDATES, and those that give a plausible
text are shown with a piece of it, so that the user can see which one is right.
"""

from __future__ import annotations

import codecs
import re
import unicodedata
from collections.abc import Iterator, Sequence
from io import BufferedReader, RawIOBase, TextIOWrapper
from typing import IO, Any, TypeAlias, cast

from snellen.errors import DataError, UsageError
from snellen.sources.blobs import stream
from snellen.types import Blob

UTF8 = "utf-8"
MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
"""Byte order marks, the longer ones first; that of UTF-8 is no more than a mark."""
CANDIDATES = (
    *(
        *("GB18030", "BIG5", "CP932", "EUC-JP", "CP949", "CP1252", "CP1250", "CP1251", "KOI8-R"),
        *("CP1253", "CP1254", "CP1255"),
    ),
    *("CP1256", "CP874"),
)
"""Encodings that a file without a byte order mark may have, by names that `iconv` knows too."""
COMMON = {
    "GB18030": ((0xB0, 0xD7),),
    "BIG5": ((0xA4, 0xC6),),
    "CP932": ((0x82, 0x83), (0x88, 0x97)),
    "EUC-JP": ((0xA4, 0xA5), (0xB0, 0xCF)),
    "CP949": ((0xB0, 0xC8),),
}
"""First bytes of the characters in common use, which these standards list before the others."""
RARE = 0.3
NAMED = 5
PIECE = 24
HEAD = 1 << 16
_QUOTED = re.compile(rb'"[^"]*(?:"|\Z)')


def checked_encoding(name: str) -> str:
    """Return the encoding that a user names, as Python calls it. Raises UsageError for an unknown one."""
    try:
        found = codecs.lookup(name)
    except (LookupError, ValueError):
        found = None
    if found is None or not getattr(found, "_is_text_encoding", True):
        raise UsageError(f"-o encoding={name}: there is no such encoding", f"For example: {', '.join(CANDIDATES)}.")
    return found.name


def text_stream(blob: Blob, encoding: str = "") -> tuple[IO[bytes], bool]:
    """Open a text file as UTF-8 whose lines end with a line feed, and say whether its bytes are those of the file.

    Args:
        encoding: as the user names it; empty: that of its byte order mark, else UTF-8.
    """
    file = stream(blob)
    head = file.read(HEAD)
    marked = next((name for mark, name in MARKS if head.startswith(mark)), UTF8)
    chosen = checked_encoding(encoding) if encoding else marked
    if chosen == UTF8 and not ends_with_returns(head):
        if file.seekable():
            file.seek(0)
            return file, True
        file.close()
        return stream(blob), True
    file.close()
    errors = "surrogateescape" if chosen == UTF8 else "strict"
    text = TextIOWrapper(cast(Any, stream(blob)), "utf-8-sig" if chosen == UTF8 else chosen, errors, newline=None)
    return BufferedReader(_Recoded(text, blob.key, chosen, errors), HEAD), False


def ends_with_returns(head: bytes) -> bool:
    """Return True if lines end with a carriage return alone, as old programs for the Macintosh write them."""
    if b"\r" not in head:
        return False
    plain = _QUOTED.sub(b"", head)
    return b"\r" in plain[:-1] and b"\n" not in plain


class _Recoded(RawIOBase):
    """A text as UTF-8, recoded while it is read."""

    def __init__(self, text: TextIOWrapper, name: str, encoding: str, errors: str) -> None:
        self._text, self._name, self._encoding, self._errors = text, name, encoding, errors
        self._ready = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if not self._ready:
            try:
                self._ready = self._text.read(HEAD).encode(UTF8, self._errors)
            except UnicodeError as error:
                raise DataError(
                    f"{self._name}: it is not {self._encoding.upper()} throughout: {error}",
                    "Name its encoding: -o encoding=NAME. Or save the file as UTF-8.",
                ) from error
        count = min(len(buffer), len(self._ready))
        buffer[:count], self._ready = self._ready[:count], self._ready[count:]
        return count

    def close(self) -> None:
        if not self.closed:
            self._text.close()
        super().close()


def not_utf8(blob: Blob, line: int, byte: int) -> DataError:
    """Return the refusal of a file that is not UTF-8, with the encodings that it may have."""
    found = f"{blob.key}, line {line:,}: byte {byte:#04x} is not UTF-8"
    with stream(blob) as file:
        plausible = plausible_encodings(file.read(1 << 20))
    if not plausible:
        return DataError(found, "Save the file as UTF-8 (Excel: CSV UTF-8). No request was sent.")
    shown = ", ".join(f"{name} (it would read {piece!r})" for name, piece in plausible[:NAMED])
    first = plausible[0][0]
    return DataError(
        f"{found}, and the file does not say what it is. It may be {shown}",
        f"Name the one that reads right: -o encoding={first} if the file is in {first}. Or save the file as UTF-8 (Excel: CSV "
        f"UTF-8; iconv -f {first} -t UTF-8 OLD > NEW if the file is in {first}). No request was sent.",
    )


def plausible_encodings(data: bytes) -> list[tuple[str, str]]:
    """Return encodings that read some bytes strictly as a text, the likeliest first, each with a piece of the text."""
    ranked = []
    for at, name in enumerate(CANDIDATES):
        decoder = codecs.getincrementaldecoder(name)()  # the bytes may be cut off within a character
        try:
            text = decoder.decode(data)
        except UnicodeError:
            continue
        places = [match.start() for match in re.finditer(r"[^\x00-\x7f]", text[: 1 << 18])][:4096]
        if score := _plausibility(text, places, name):
            ranked.append((-score, at, name, _piece(text, places[0])))
    best = min(ranked, default=(0.0,))[0]
    return [(name, piece) for score, _, name, piece in sorted(ranked) if score <= 0.7 * best]


def _piece(text: str, at: int) -> str:
    """Return what stands around a character in its line."""
    before = re.split(r"[\r\n]", text[max(0, at - PIECE // 4) : at])[-1]
    return (before + re.split(r"[\r\n]", text[at : at + PIECE])[0]).strip()


def _plausibility(text: str, places: list[int], encoding: str) -> float:
    """Return from 0 to 1 how much the characters beyond ASCII look like words; 0 for a text with control characters."""
    if not places or "\0" in text:
        return 0.0
    total = 0.0
    for at in places:
        character = text[at]
        category = unicodedata.category(character)
        if category in ("Cc", "Cn", "Co", "Cs"):
            return 0.0
        before, after = text[at - 1 : at], text[at + 1 : at + 2]
        if category[0] in "LM":
            total += _fit(character, before, after, encoding)
        elif category[0] in "PS":
            total += 1.0 if category[0] == "P" else 0.5
    return total / len(places)


def _fit(character: str, before: str, after: str, encoding: str) -> float:
    """Return how well a letter fits between its neighbours, and how common it is in its encoding."""
    joined = (before.isascii() and before.isalpha()) or (after.isascii() and after.isalpha())
    if character.isupper() and before.islower():
        return 0.0
    if unicodedata.name(character, "").startswith("LATIN"):
        return 1.0 if joined or not (before.isalpha() or after.isalpha()) else RARE
    if joined:
        return 0.0
    if encoding in COMMON:
        return 1.0 if any(first <= character.encode(encoding)[0] <= last for first, last in COMMON[encoding]) else RARE
    return 1.0


Row: TypeAlias = dict[str, Any]
# The line or number of each row, from 1, and the row, or why it cannot be read.
RowsAndErrors: TypeAlias = Iterator[tuple[int, Row | DataError]]


def pick(header: Sequence[Any], columns: Sequence[str] | None, name: str) -> list[tuple[str, int]]:
    """Return (column, position) of the requested columns. Raises DataError for a missing or duplicate column."""
    names = [str(cell) for cell in header]
    twice = sorted({column for column in names if names.count(column) > 1}) if len(set(names)) < len(names) else []
    if twice:
        raise DataError(f"{name}: duplicate column {twice[0]!r}", "Rename one of them.")
    missing = [column for column in columns or () if column not in names]
    if missing:
        available = ", ".join(names[:30])
        raise DataError(f"{name}: no column {missing[0]!r}; the columns are {available}", "Check the file's name.")
    return [(column, names.index(column)) for column in (names if columns is None else columns)]
