"""MMSI-Bench: several images, one question in space.

Source: the task `mmsi_bench` of lmms-eval and `MMSIBench_wo_circular` of VLMEvalKit.
"""

from __future__ import annotations

import re

from snellen.benchmarks.spatial.scorers.letters import compared
from snellen.benchmarks.spatial.scorers.vlmevalkit_option import hit as vlmevalkit
from snellen.types import Score

__all__ = ["letter", "lmms_eval", "vlmevalkit"]

_INSIDE = [re.compile(pattern) for pattern in (r"``([^`]*)``", r"`([^`]*)`")]
_LETTER = re.compile(r"\b[A-F]\b(?!\s[A-Za-z])", re.IGNORECASE)


def letter(reply: str) -> str | None:
    """lmms-eval: narrowed to the first double backticks, single backticks and braces in turn, the first letter A to F there.

    The letter stands alone, in any case, and no blank and Latin letter follow it (`C because` has none).
    """
    text = reply
    for inside in _INSIDE:
        found = inside.search(text)
        if found:
            text = found[1]
    _, _, rest = text.partition("{")
    braced, closed, _ = rest.partition("}")
    hit = _LETTER.search(braced if closed else text)
    return hit[0].upper() if hit else None


def lmms_eval(reply: str, gold: str) -> Score:
    """lmms-eval: the letter against the gold one."""
    return compared(letter(reply), gold)
