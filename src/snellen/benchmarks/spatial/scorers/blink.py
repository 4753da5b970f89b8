"""BLINK: fourteen perception tasks.

Source: the group `blink` of lmms-eval and `BLINK` of VLMEvalKit. Over the subtasks lmms-eval takes the plain mean of their
means (`rows.macro`), VLMEvalKit the mean over rows (`rows.micro`).
"""

from __future__ import annotations

from snellen.benchmarks.spatial.scorers.letters import compared, leading
from snellen.benchmarks.spatial.scorers.vlmevalkit_choice import exact as vlmevalkit
from snellen.types import Score

__all__ = ["lmms_eval", "vlmevalkit"]


def lmms_eval(reply: str, gold: str) -> Score:
    """lmms-eval: the letter at the reply's head against the gold one, which stands in brackets (`(B)`)."""
    return compared(leading(reply), gold.replace("(", "").replace(")", ""))
