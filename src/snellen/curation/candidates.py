"""Candidates: possible questions, read from JSONL or CSV and checked before any request is sent."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from msgspec import Struct

from snellen.errors import DataError, MediaError
from snellen.media import read_header
from snellen.questions.image_rows import ENDINGS, strip_metadata
from snellen.sources import Tree, numbered

NEEDED = ("id", "image", "question", "answer")
PLAIN = ("domain", "subcategory", "source", "language", "target")
LISTS = ("aliases", "evidence")
_SHOWN = 10


class Candidate(Struct, frozen=True, kw_only=True):
    """One possible question.

    Attributes:
        id: as the user named it; it may give the answer away and stays in the working folder.
        number: its place in the file, from 1; what it is called in a pack.
        image: name of the copy under images/ of the working folder: a number and an ending.
        sha256: digest of that copy.
        question, answer, aliases: what is asked, and every accepted name.
        evidence: addresses of pages that support the answer.
        domain, subcategory, source, language: what results are broken down by.
        target: what candidates share that show the same thing; empty: the answer.
    """

    id: str
    number: int
    image: str
    sha256: str
    question: str
    answer: str
    aliases: tuple[str, ...] = ()
    evidence: tuple[str, ...] = ()
    domain: str = ""
    subcategory: str = ""
    source: str = ""
    language: str = ""
    target: str = ""

    @property
    def forms(self) -> tuple[str, ...]:
        """All accepted names, the answer first."""
        return tuple(dict.fromkeys((self.answer, *self.aliases)))


class CandidateRow(Struct, frozen=True):
    """A row of a candidates file, before its image is read. `where` is file and line."""

    where: str
    values: Mapping[str, Any]


def read_rows(path: Path) -> list[CandidateRow]:
    """Read every row of a candidates file: .jsonl, .json, .csv, .tsv, .parquet or .xlsx.

    Lists are JSON lists, or one text with `|` between the parts; a piece of evidence may be an object with a `url`.

    Raises:
        DataError: no rows, a field is missing or of another kind, an id twice, evidence that is no http address. All
            faults of the file are counted, and the first ten shown with their lines.
    """
    rows_read, faults, first_rows = [], [], dict[str, str]()
    for line, row in numbered(path):
        where = f"{path.name}, line {line}"
        try:
            values = _values(row)
        except ValueError as error:
            faults.append(f"{where}: {error}")
            continue
        if values["id"] in first_rows:
            faults.append(f"{where}: id {values['id']!r} is also that of {first_rows[values['id']]}")
        first_rows.setdefault(values["id"], where)
        rows_read.append(CandidateRow(where, values))
    if faults:
        rest = f"\n  and {len(faults) - _SHOWN:,} more" if len(faults) > _SHOWN else ""
        raise DataError(
            f"{path}: {len(faults):,} faults in its rows\n  " + "\n  ".join(faults[:_SHOWN]) + rest,
            f"Each row needs {', '.join(NEEDED)}; it may have {', '.join((*LISTS, *PLAIN))}.",
        )
    if not rows_read:
        raise DataError(f"{path} holds no candidates", f"Each row needs {', '.join(NEEDED)}.")
    return rows_read


def _values(row: Mapping[str, Any]) -> dict[str, Any]:
    """Read the fields of a row. Raises ValueError for the first invalid one."""
    values: dict[str, Any] = {}
    for name in NEEDED:
        value = row.get(name)
        if isinstance(value, bool) or not isinstance(value, (str, int)) or not str(value).strip():
            raise ValueError(f"{name} is {'missing' if value in (None, '') else repr(value)[:60]}; a text was expected")
        values[name] = str(value).strip()
    for name in PLAIN:
        value = row.get(name)
        if value is not None and not isinstance(value, (str, int)):
            raise ValueError(f"{name} is {repr(value)[:60]}; a text was expected")
        values[name] = "" if value is None else str(value).strip()
    for name in LISTS:
        values[name] = tuple(_listed(name, row.get(name)))
    for url in values["evidence"]:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"evidence {url[:80]!r} is not an http address")
    return values


def _listed(name: str, value: Any) -> Iterator[str]:
    if value is None:
        return
    parts: Sequence[Any] = value.split("|") if isinstance(value, str) else value
    if not isinstance(parts, (list, tuple)):
        raise ValueError(f"{name} is {repr(value)[:60]}; a list was expected, or texts with | between them")
    texts = set()
    for part in parts:
        text = part.get("url") if isinstance(part, dict) else part
        if not isinstance(text, str):
            raise ValueError(f"{name} holds {repr(part)[:60]}; a text was expected")
        if (text := text.strip()) and text not in texts:
            texts.add(text)
            yield text


def copy_images(rows: Sequence[CandidateRow], images: Tree, to: Path) -> list[Candidate]:
    """Copy each image into the folder `to` under a number, without its metadata, and return the candidates.

    Raises:
        DataError: an image is missing, or is none; with file and line.
    """
    to.mkdir(parents=True, exist_ok=True)
    width = max(6, len(str(len(rows))))
    candidates = []
    for number, row in enumerate(rows, 1):
        name = row.values["image"]
        if not images.exists(name):
            raise DataError(f"{row.where}: there is no image {name!r} in {images.path}", "Check --images.")
        try:
            data = strip_metadata(images.read(name), name)
        except MediaError as error:
            raise DataError(f"{row.where}: {error.message}", error.hint) from error
        header = read_header(data)
        ending = ENDINGS.get(header.format, ".png") if header is not None else ".png"
        copy = f"{number:0{width}d}{ending}"
        (to / copy).write_bytes(data)
        values = {**row.values, "image": copy}
        values["aliases"] = tuple(alias for alias in values["aliases"] if alias != values["answer"])
        candidates.append(Candidate(number=number, sha256=sha256(data).hexdigest(), **values))
    return candidates
