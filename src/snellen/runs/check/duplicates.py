"""Duplicates by digest: equal questions, equal ids, and images with one content under several names."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence

import numpy as np

from snellen.runs.check.finding import Findings
from snellen.runs.check.options import RowOptions
from snellen.runs.check.row import CheckedRow


class Duplicates:
    """Hashes of the rows so far: of each row a few numbers and its name as bytes, never a text of its question.

    Args:
        findings: where duplicates are added.
        restricted: gold answers are not compared.
        ids: ids are compared; a survey has done so for the rows of a table.
    """

    def __init__(self, findings: Findings, *, restricted: bool = False, ids: bool = True) -> None:
        self._findings = findings
        self._restricted, self._compares_ids = restricted, ids
        self._questions, self._golds, self._ids = array("q"), array("q"), array("q")
        self._names, self._ends = bytearray(), array("Q")
        self._images: dict[int, str] = {}
        self._image_names: set[int] = set()

    def add(self, row: CheckedRow, images: Sequence[int], about: RowOptions) -> None:
        """Remember a row.

        Args:
            row: the row.
            images: a code for the content of each of its images and clips.
            about: what its options say.
        """
        question = " ".join(row.question.casefold().split())
        self._questions.append(hash((question, *about.folded, *row.options, *images)))
        self._golds.append(0 if self._restricted else hash((row.kind, str(row.answer))))
        if self._compares_ids:
            self._ids.append(hash(row.id))
        self._names += f"{row.place}\0{row.id}".encode("utf-8", "surrogatepass")
        self._ends.append(len(self._names))

    def report(self) -> None:
        """Add the findings about rows that repeat an earlier one, after all rows."""
        for at, first in _repeated(self._ids):
            self._add("duplicate-id", at, first)
        for at, first in _repeated(self._questions):
            contradicts = self._golds[at] != self._golds[first]
            self._add("contradicting-answers" if contradicts else "duplicate-question", at, first)

    def _add(self, code: str, at: int, first: int) -> None:
        self._findings.add(code, *self.name(at), f"as {self.name(first)[0]}")

    def name(self, at: int) -> tuple[str, str]:
        """Return place and id of a row by its number."""
        name = self._names[self._ends[at - 1] if at else 0 : self._ends[at]].decode(errors="surrogatepass")
        place, _, sample_id = name.partition("\0")
        return place, sample_id

    def add_image(self, name: str, content: int) -> None:
        """Compare a named image with those before it; an image with a name that was added before is skipped."""
        code = hash(name)
        if code in self._image_names:
            return
        self._image_names.add(code)
        before = self._images.setdefault(content, name)
        if before is not name:
            self._findings.add("duplicate-image", name, "", f"as {before}")


def _repeated(codes: array[int]) -> Iterator[tuple[int, int]]:
    """Yield the places of values that were there before, in order, with the place of the first one."""
    if not codes:
        return
    values = np.frombuffer(codes, np.int64)
    _, first, inverse = np.unique(values, return_index=True, return_inverse=True)
    firsts = first[inverse]
    for at in np.flatnonzero(firsts != np.arange(len(values))).tolist():
        yield at, int(firsts[at])
