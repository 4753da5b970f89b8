"""From a letter, read or not, to a score; and the shortest of lmms-eval's readings, which two benchmarks share."""

from __future__ import annotations

import re

from snellen.types import Score

_LEADING = re.compile(r"[(\s]*([A-Za-z])")


def compared(found: str | None, gold: str | None, reason: str = "no letter") -> Score:
    """1 where the letter is the gold one, whatever the case; 0 where it is another, or where none was read."""
    if found is None:
        return Score(0.0, None, "invalid", reason)
    right = gold is not None and found.lower() == gold.strip().lower()
    return Score(float(right), found, "correct" if right else "wrong")


def leading(reply: str) -> str | None:
    """BLINK and EmbSpatial-Bench in lmms-eval: the Latin letter that the stripped reply begins with, in upper case.

    An opening bracket and blanks may stand before it. What follows is not looked at: `Because` gives B, `The answer is C`
    gives T, `**A**` nothing.
    """
    hit = _LEADING.match(reply.strip())
    return hit[1].upper() if hit else None
