"""Pages of the PDFs of a row: which are shown, and in what resolution."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from msgspec import structs

from snellen.benchmarks.table.operations import CellError, text_of
from snellen.benchmarks.table.set_sections import DocumentsRule
from snellen.errors import MediaError, UsageError
from snellen.media.pdf import Document, PdfPage, measure, page_pixels
from snellen.sources.blobs import FileBlob
from snellen.sources.tree import MemberBlob
from snellen.types import Blob

DPI, MOST = "dpi", "max_pages"
"""Options of a table: pixels an inch, and how many pages of a document are sent at most."""
BOUNDS: Mapping[str, tuple[int, int]] = {DPI: (10, 600), MOST: (1, 1_000)}
_SPAN = re.compile(r"['\"]?(\d{1,6})(?:\.0)?(?:\s*[-–]\s*(\d{1,6}))?['\"]?")


def chosen_pages(declared: DocumentsRule, options: Mapping[str, str]) -> DocumentsRule:
    """Return the declared resolution and limit as the user's options change them. Raises UsageError for no such number."""
    numbers: dict[str, int] = {DPI: declared.dpi, MOST: declared.max_pages}
    for name, (least, most) in BOUNDS.items():
        text = options.get(name, str(numbers[name]))
        if not (text.isascii() and text.isdigit() and len(text) < 5 and least <= int(text) <= most):
            raise UsageError(f"-o {name}={text}: a whole number from {least} to {most:,} was expected")
        numbers[name] = int(text)
    return structs.replace(declared, dpi=numbers[DPI], max_pages=numbers[MOST])


def is_pdf(blob: Blob) -> bool:
    """Return True for a file or member of an archive that is called a PDF, and for an inline one that begins as one."""
    if isinstance(blob, FileBlob | MemberBlob):
        return blob.key.lower().endswith(".pdf")
    return bool(getattr(blob, "is_pdf", False))


def shown(images: Sequence[Blob], cell: Any, rule: DocumentsRule) -> list[Blob]:
    """Return the images of a row with the pages of each PDF in its place.

    Args:
        cell: which pages of PDFs are shown, in the order of the document's pages or of the cell; empty: all.
        rule: resolution, and the limit, behind which pages are left out.

    Raises:
        CellError: a PDF cannot be read, or has no such page.
    """
    blobs: list[Blob] = []
    for blob in images:
        blobs += _pages(blob, cell, rule) if is_pdf(blob) else [blob]
    return blobs


def _pages(blob: Blob, cell: Any, rule: DocumentsRule) -> list[Blob]:
    name = blob.key if isinstance(blob, FileBlob | MemberBlob) else "PDF in a cell"
    try:
        document = _document(blob, name)
        numbers = page_numbers(cell, len(document.sizes), skip=rule.missing_pages == "skip")
        omitted = max(0, len(numbers) - rule.max_pages)
        return [
            PdfPage(blob, name, document.content, number, rule.dpi, pixels, omitted)
            for number in numbers[: rule.max_pages]
            if (pixels := page_pixels(*document.sizes[number - 1], f"{name}, page {number}", rule.dpi))
        ]
    except MediaError as error:
        raise CellError(f"image unreadable: {error.message}", error.hint) from error


def _document(blob: Blob, name: str) -> Document:
    """Return the facts of a PDF, known while its file stays as it is."""
    container = blob.tree if isinstance(blob, MemberBlob) else blob
    path = getattr(container, "path", None)
    if not isinstance(path, Path) or not path.is_file():
        return measure(blob, name)
    status = path.stat()
    return _measured(blob, name, status.st_mtime_ns, status.st_size)  # type: ignore[arg-type]  # blobs of files are hashable


@lru_cache(maxsize=1024)
def _measured(blob: Blob, name: str, changed: int, size: int) -> Document:
    return measure(blob, name)


def page_numbers(
    cell: Any, count: int, *, skip: bool = False, nouns: tuple[str, str] = ("pages", "document")
) -> list[int]:
    """Return the pages that a cell names, from 1, each once: `3`, `2-5`, `1,4,7`, a list, or a list as text; empty: all.

    Raises:
        CellError: it names none in such a way, or one that a document of `count` pages lacks. An empty list is no page.
        With `skip` pages that the document lacks are omitted. `nouns` call pages and document something else in messages.
    """
    if cell is None or cell == "" or cell != cell:
        return list(range(1, count + 1))
    text = ",".join(map(text_of, cell)) if isinstance(cell, list | tuple) else text_of(cell)
    numbers: list[int] = []
    for part in filter(None, map(str.strip, text.strip().strip("[]()").split(","))):
        if (span := _SPAN.fullmatch(part)) is None:
            raise CellError(f"its {nouns[0]} are {text[:80]!r}; 3, 2-5, 1,4,7 or a list of numbers from 1 was expected")
        first, last = int(span[1]), int(span[2] or span[1])
        if not 1 <= first <= last <= count and not skip:
            raise CellError(
                f"its {nouns[0]} are {text[:80]!r}, and the {nouns[1]} has {count:,}; numbers from 1 were expected"
            )
        numbers += range(max(first, 1), min(last, count) + 1)
        if len(numbers) > 10 * count:
            raise CellError(f"its {nouns[0]} are {text[:80]!r}, many times over the {count:,} of the {nouns[1]}")
    return list(dict.fromkeys(numbers))


def documents_note(omitted: Mapping[str, int], rule: DocumentsRule) -> str:
    """Return how the PDFs of a table are shown, in words, and what the limit leaves out; empty where it has none.

    Args:
        omitted: the digest of each PDF to how many of its pages are left out.
    """
    if not omitted:
        return ""
    text = f"{_counted(len(omitted), 'PDF')} at {rule.dpi} dpi, at most {_counted(rule.max_pages, 'page')} of each"
    if longer := [pages for pages in omitted.values() if pages]:
        several = _counted(sum(longer), "page")
        more = min(rule.max_pages + max(longer), BOUNDS[MOST][1])
        text += f": {several} of {_counted(len(longer), 'PDF')} left out, and what only they show cannot be answered"
        text += f" (more: -o {MOST}={more})"
    return text


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
