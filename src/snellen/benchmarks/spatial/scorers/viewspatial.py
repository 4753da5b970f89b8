"""ViewSpatial-Bench: directions seen by the camera and by a person in the picture.

Source: the task `viewspatial` of lmms-eval and `ViewSpatialBench` of VLMEvalKit.
"""

from __future__ import annotations

import re

from snellen.benchmarks.spatial.scorers.letters import compared
from snellen.benchmarks.spatial.scorers.vlmevalkit_option import hit as vlmevalkit
from snellen.types import Score

__all__ = ["letter", "lmms_eval", "vlmevalkit"]

_LETTER = re.compile(r"\b[A-D]\b", re.IGNORECASE)


def letter(reply: str) -> str | None:
    """lmms-eval: the first letter A to D alone, in any case, behind the last line break (so that the article `a` is A)."""
    found = _LETTER.search(reply.rpartition("\n")[2])
    return found[0].upper() if found else None


def lmms_eval(reply: str, gold: str) -> Score:
    """lmms-eval: the letter against that of the gold answer (`A. left`), which is read by the same rule.

    Where neither has a letter, the harness takes the two for equal.
    """
    target = letter(gold)
    found = letter(reply)
    if found is None and target is None:
        return Score(
            1.0, None, "correct", f"no letter in the reply, none in the gold answer {gold!r}: counted as right"
        )
    return compared(found, target)
