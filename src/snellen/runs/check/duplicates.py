"""Duplicates by digest: equal questions, equal ids, and images with one content under several names."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b

import msgspec

from snellen.runs.check.finding import Findings
from snellen.runs.check.row import CheckedRow

_encode = msgspec.json.Encoder(enc_hook=str).encode


def content_code(value: object) -> int:
    """Return 64 bits of a digest: of a million values, two differing ones are equal with a chance of 3e-8."""
    return int.from_bytes(blake2b(_encode(value), digest_size=8).digest(), "little")


class Duplicates:
    """Hashes of the rows so far, of 64 bits; of each row a few numbers and its place are held, never a text.

    Args:
        findings: where duplicates are added.
        restricted: gold answers are not compared.
        ids: ids are compared; a survey has done so for the rows of a table.
    """

    def __init__(self, findings: Findings, *, restricted: bool = False, ids: bool = True) -> None:
        self._findings = findings
        self._restricted = restricted
        self._compares_ids = ids
        self._questions: dict[int, tuple[str, int]] = {}
        self._ids: dict[int, str] = {}
        self._images: dict[int, str] = {}
        self._names: set[int] = set()

    def add(self, row: CheckedRow, images: Sequence[int]) -> None:
        """Compare a row with those before it.

        Args:
            row: the row.
            images: a code for the content of each of its images and clips.
        """
        if self._compares_ids:
            self._add_id(row)
        plain = " ".join(row.question.casefold().split())
        options = tuple((letter, " ".join(text.casefold().split())) for letter, text in row.options.items())
        code = hash((plain, options, tuple(images)))
        gold = 0 if self._restricted else hash((row.kind, repr(row.answer)))
        before = self._questions.setdefault(code, (row.place, gold))
        if before[0] is row.place:
            return
        contradicts = before[1] != gold
        self._findings.add(
            "contradicting-answers" if contradicts else "duplicate-question", row.place, row.id, f"as {before[0]}"
        )

    def _add_id(self, row: CheckedRow) -> None:
        before = self._ids.setdefault(hash(row.id), row.place)
        if before is not row.place:
            self._findings.add("duplicate-id", row.place, row.id, f"as {before}")

    def add_image(self, name: str, content: int) -> None:
        """Compare a named image with those before it; an image with a name that was added before is skipped."""
        code = content_code(name)
        if code in self._names:
            return
        self._names.add(code)
        before = self._images.setdefault(content, name)
        if before is not name:
            self._findings.add("duplicate-image", name, "", f"as {before}")
