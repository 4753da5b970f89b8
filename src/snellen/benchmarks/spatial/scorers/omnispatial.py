"""OmniSpatial with the manual chain of thought.

Source: the task `omnispatial_test` of lmms-eval and `OmniSpatialBench_manual_cot` of VLMEvalKit.
"""

from __future__ import annotations

import re

from snellen.benchmarks.spatial.scorers.vlmevalkit_option import hit as vlmevalkit
from snellen.types import Score

__all__ = ["letter", "lmms_eval", "vlmevalkit"]

_LETTER = re.compile(r"Answer\s*:\s*([A-D])\b", re.IGNORECASE)


def letter(reply: str) -> str | None:
    """lmms-eval: the letter behind the last `Answer:` in any case, as it is written; None where there is none."""
    found: list[str] = _LETTER.findall(reply)
    return found[-1] if found else None


def lmms_eval(reply: str, gold: str) -> Score:
    """lmms-eval: the letter, equal to the gold one in its case too; where there is none, A is taken for it.

    The A that nobody said may be right; `reason` tells such a row from one that was read.
    """
    found = letter(reply)
    value = float((found or "A") == gold)
    why = None if found else "no letter: lmms-eval takes A for it"
    return Score(value, found, "correct" if value else "wrong" if found else "invalid", why)
