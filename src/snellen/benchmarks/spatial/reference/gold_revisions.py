"""Revisions of gold answers: which ones data holds, and which ones published figures rest on.

BLINK's answers to Relative_Reflectance were mixed up until 2025-09-03 on the hub, and until 2026-05-11 in VLMEvalKit's
table. A figure over the answers from before and one over the corrected answers differ without any change of the model.
"""

from __future__ import annotations

import datetime as dt
import re
import tomllib
from collections.abc import Iterable, Mapping
from functools import cache
from importlib import resources
from typing import Literal, TypeAlias

import msgspec
from msgspec import Struct

from snellen.benchmarks.spatial.question import SpatialQuestion

Revision: TypeAlias = Literal["before", "after", "other"]
_NUMBER = re.compile(r"(\d+)$")


class _TableDigests(Struct, frozen=True, forbid_unknown_fields=True):
    md5: str
    sha256: str


class Correction(Struct, frozen=True, forbid_unknown_fields=True):
    """One correction of gold answers.

    Attributes:
        benchmark: Snellen's name of it; `title` is the authors' name.
        group: the category whose answers were corrected.
        rows, of: how many rows that category has, and how many the whole set has.
        hub, vlmevalkit: when the hub's files and VLMEvalKit's table were corrected.
        first: gold letters of the group's first rows before the correction.
        before, after: digests of VLMEvalKit's table.
    """

    benchmark: str
    title: str
    group: str
    rows: int
    of: int
    hub: dt.date
    vlmevalkit: dt.date
    first: str
    before: _TableDigests
    after: _TableDigests

    def name(self, revision: Revision) -> str:
        """Return the revision in words, for a reader of a figure."""
        if revision == "before":
            return f"gold answers of {self.title} from before their correction of {self.hub}"
        if revision == "other":
            return f"gold answers of {self.title} other than those from before their correction of {self.hub}"
        return f"gold answers of {self.title} as corrected on {self.hub}"

    def sentence(self) -> str:
        """Return the correction and its dates in words."""
        return (
            f"The answers to {self.group}, {self.rows:,} of the {self.of:,} questions, were corrected on {self.hub} on the "
            f"hub and on {self.vlmevalkit} in VLMEvalKit's table"
        )

    def by_digest(self, digest: str) -> Revision | None:
        """Return the revision of a table with this MD5, or of data whose digest contains this SHA-256.

        None for any other.
        """
        for revision, table in (("before", self.before), ("after", self.after)):
            if table.md5 == digest or table.sha256 in digest:
                return "before" if revision == "before" else "after"
        return None

    def by_rows(self, questions: Iterable[SpatialQuestion]) -> Revision | None:
        """Return "before" where the group's first answers are those from before the correction, else "other".

        Rows go by the number at the end of their ids where all of them have one, as those of the hub have, else by their
        order. Other answers may be the corrected ones or anybody's own. None where there are too few rows.
        """
        letters = [
            (_NUMBER.search(question.id), question.gold)
            for question in questions
            if self.group in question.groups.values()
        ]
        if len(letters) < len(self.first):
            return None
        if all(number for number, _ in letters):
            letters.sort(key=lambda pair: int(pair[0][1]) if pair[0] else 0)
        return "before" if "".join(gold for _, gold in letters)[: len(self.first)] == self.first else "other"


@cache
def corrections() -> Mapping[str, Correction]:
    """By the benchmark's name."""
    text = resources.files(__package__).joinpath("gold.toml").read_text(encoding="utf-8")
    several = msgspec.convert(tomllib.loads(text)["correction"], tuple[Correction, ...])
    return {correction.benchmark: correction for correction in several}


def revision_of_data(benchmark: str, digest: str, questions: Iterable[SpatialQuestion]) -> Revision | None:
    """Return the revision of the gold answers in data: by the digest, else by the answers; None where neither tells."""
    correction = corrections().get(benchmark)
    if correction is None:
        return None
    return correction.by_digest(digest) or correction.by_rows(questions)
