"""The examples of a page: fenced blocks of console and python, in order, with the reason where one is not run."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

DOCS = Path(__file__).parent.parent.parent / "docs"
FENCE = re.compile(
    r"(?P<mark><!-- no-run: (?P<why>[^\n]+?) -->\n)?^```(?P<language>console|python)\n(?P<body>.*?)^```$", re.M | re.S
)


class Example(NamedTuple):
    """One block. `why_not` is the reason of a `<!-- no-run: reason -->` on the line before it, else empty."""

    page: str
    line: int
    language: str
    body: str
    why_not: str


class Step(NamedTuple):
    """One command of a console block, and the pieces of text that its output must have, in order."""

    command: str
    expected: list[str]


def examples(page: Path) -> list[Example]:
    """Every console and python block of a page."""
    text = page.read_text(encoding="utf-8")
    return [
        Example(
            page.name,
            text[: found.start("language")].count("\n") + 1,
            found["language"],
            found["body"],
            found["why"] or "",
        )
        for found in FENCE.finditer(text)
    ]


def steps(body: str) -> list[Step]:
    """The commands of a console block: `$ command`, then what it prints; `...` stands for lines left out."""
    found: list[Step] = []
    for line in body.splitlines():
        if line.startswith("$ "):
            found.append(Step(line[2:], []))
        elif line.strip() not in ("", "...") and found:
            found[-1].expected.append(line.strip())
    return found
