"""EmbSpatial-Bench: how objects lie to each other for an embodied agent.

Source: the task `embspatial` of lmms-eval and `EmbSpatialBench` of VLMEvalKit.
"""

from __future__ import annotations

from snellen.benchmarks.spatial.scorers.letters import compared, leading
from snellen.benchmarks.spatial.scorers.vlmevalkit_option import hit as vlmevalkit
from snellen.types import Score

__all__ = ["gold_letter", "lmms_eval", "vlmevalkit"]


def gold_letter(answer: int) -> str:
    """The letter of a gold answer that is given as the place of the option, counted from 0."""
    return chr(ord("A") + answer)


def lmms_eval(reply: str, gold: str) -> Score:
    """lmms-eval: the letter at the reply's head against the gold one; see `gold_letter`."""
    return compared(leading(reply), gold)
