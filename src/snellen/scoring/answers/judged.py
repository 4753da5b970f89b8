"""Free text that a judge compares with a reference answer; the same words are right without a judge."""

from __future__ import annotations

from functools import lru_cache
from typing import ClassVar

from snellen.scoring.answers.base import AnswerType
from snellen.scoring.answers.dress import undressed
from snellen.text import normalized

_MOST = 100_000
"""Characters of a text that are compared."""


class Judged(AnswerType):
    """Free text, equal where the words are: NFC, case, blanks and outer punctuation do not count."""

    kind: ClassVar[str] = "judged"
    expected: ClassVar[str] = "a text"

    def parse(self, text: str) -> str | None:
        """Return the text as it is compared; None for one without a letter or digit."""
        return folded(text) or None


@lru_cache(maxsize=64)
def folded(text: str) -> str:
    """Return a text in NFC, in lower case, with single blanks and without quotes, emphasis and stops around it.

    Signs stay: `-2`, `C++`, `[0, 1]` and `<5` are not `2`, `C`, `(0, 1)` and `5`.
    """
    words = " ".join(normalized("NFC", text[:_MOST]).casefold().split())
    return undressed(undressed(words).rstrip(".,;:!?。，！？…").lstrip(",;:!?")) or words
