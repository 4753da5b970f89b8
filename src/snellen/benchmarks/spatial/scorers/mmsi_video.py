"""MMSI-Video-Bench: one or several clips, each given as frames.

Source: the task `mmsi_video_u50` of lmms-eval and `MMSIVideoBench_50frame` of VLMEvalKit.
"""

from __future__ import annotations

import re

from snellen.benchmarks.spatial.scorers.constants import CONSTANTS
from snellen.benchmarks.spatial.scorers.vlmevalkit_option import hit as vlmevalkit
from snellen.types import Score

__all__ = ["letter", "lmms_eval", "vlmevalkit"]

LETTERS = "ABCDEF"
NO_ANSWER = "O"
_TAGS = re.compile(r"</?answer>")
_BOXED = re.compile(r"boxed\{([A-F])\}")
_MARKS = str.maketrans("", "", " \"'\n:")


def letter(reply: str) -> str:
    """lmms-eval: A to F, or `O` where there is none. Answer tags in lower case are taken out first.

    A boxed letter; what stands behind the last of each marker in turn, up to a comma or dot, if it is one letter; what
    stands before the first dot likewise; the first letter of the alphabet that is in brackets, between spaces or before a dot.
    """
    if "no answer" in reply:
        return NO_ANSWER
    text = _TAGS.sub("", reply)
    boxed = _BOXED.search(text)
    if boxed:
        return boxed[1]
    for marker in CONSTANTS["mmsi_video"]["markers"]:
        if marker in text:
            found = _one(text.rpartition(marker)[2].partition(",")[0])
            if found:
                return found
    found = _one(text)
    if found:
        return found
    padded = f" {text} "
    for one in LETTERS:
        if f"({one})" in padded or f" {one} " in padded or f"{one}." in padded:
            return one
    return NO_ANSWER


def _one(text: str) -> str | None:
    left = text.partition(".")[0].translate(_MARKS)
    return left if len(left) == 1 and left in LETTERS else None


def lmms_eval(reply: str, gold: str) -> Score:
    """lmms-eval: the letter against the first character of the gold answer, in upper case."""
    found = letter(reply)
    value = float(found == gold.strip().upper()[:1])
    if found == NO_ANSWER:
        return Score(value, None, "correct" if value else "invalid", "no letter")
    return Score(value, found, "correct" if value else "wrong")
