"""Free texts, which a judge compares. A reply that is the gold answer, word by word, is right without one."""

from __future__ import annotations

from typing import ClassVar

from snellen.scoring.answers.text import Text


class Judged(Text):
    """A free text."""

    kind: ClassVar[str] = "judged"
    expected: ClassVar[str] = "a text of any length"
