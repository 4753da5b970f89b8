"""Rows for tests of a check: samples with lettered options, and images of one colour drawn in memory."""

from __future__ import annotations

from collections.abc import Sequence
from io import BytesIO
from typing import Any

from PIL import Image as Pillow

from snellen.benchmarks.table.question import Question
from snellen.runs.check.check import Check, CheckSettings, Origin
from snellen.runs.check.finding import CheckedRow, Finding, row_of_question
from snellen.runs.check.result import CheckResult
from snellen.sources.blobs import BytesBlob
from snellen.types import Blob, Image, Kind, Prompt, Text

ORIGIN = Origin("my.csv", "my", "")


def png(width: int = 40, height: int = 30, colour: str = "red", mode: str = "RGB") -> bytes:
    """Return an image of one colour."""
    buffer = BytesIO()
    Pillow.new(mode, (width, height), colour).save(buffer, "PNG")
    return buffer.getvalue()


def inline(data: bytes, key: str = "image") -> BytesBlob:
    return BytesBlob(key, data)


def row(
    number: int,
    question: str = "",
    options: Sequence[str] = (),
    answer: Any = "A",
    kind: Kind | None = None,
    images: Sequence[Blob] = (),
    sample_id: str = "",
) -> CheckedRow:
    """Return the row of a table, its prompt being images, question and lettered options."""
    text = question or f"Question {number}?"
    lettered = dict(zip("ABCDEFGH", options, strict=False))
    kind = kind or ("choice" if options else "short")
    own_id = sample_id or str(number)
    lines = [text, *(f"{letter}. {option}" for letter, option in lettered.items())]
    prompt = Prompt((*(Image(blob) for blob in images), Text("\n".join(lines))))
    question_ = Question(own_id, f"row {number}", number - 1, text, answer, kind, tuple(images), options=lettered)
    return row_of_question(question_, prompt)


def checked(rows: Sequence[Any], **settings: Any) -> CheckResult:
    check = Check(CheckSettings(**settings))
    check.run(rows)
    return check.result(ORIGIN)


def by_code(result: CheckResult) -> dict[str, Finding]:
    return {finding.code: finding for finding in result.findings}


def affected(result: CheckResult, code: str) -> list[str]:
    """Return the rows of a finding; empty without it."""
    finding = by_code(result).get(code)
    return [] if finding is None else [row.row for row in finding.rows]
