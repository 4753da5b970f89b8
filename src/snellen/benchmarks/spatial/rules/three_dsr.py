"""3DSRBench: one question in up to eight forms, options rotated and images flipped.

Source: the tasks `3dsrbench` and `3dsrbench_circular` of lmms-eval and `3DSRBench` of VLMEvalKit.
"""

from __future__ import annotations

import re

from snellen.benchmarks.spatial.rules.constants import CONSTANTS
from snellen.benchmarks.spatial.rules.kit_choice import exact as vlmevalkit
from snellen.benchmarks.spatial.rules.letters import compared
from snellen.types import Score

__all__ = ["MAIN", "letter", "lmms_eval", "vlmevalkit"]

MAIN: dict[str, str] = CONSTANTS["three_dsr"]["main"]
"""The main category (height, location, orientation, multi_object) of each of the twelve."""

_RULES = [
    re.compile(pattern)
    for pattern in (
        r"^([A-D])[.\s)]",
        r"^([A-D])$",
        r"[Aa]nswer[:\s]+([A-D])",
        r"[Tt]he answer is[:\s]+([A-D])",
        r"[Mm]y answer is[:\s]+([A-D])",
        r"\(([A-D])\)",
        r"([A-D])\.",
        r"\b([A-D])\b",
    )
]


def letter(reply: str) -> str | None:
    """lmms-eval: the first match of the first of eight rules that matches anywhere; A to D in upper case alone.

    Behind `answer:` there is no boundary (`answer: Because` is B), before a letter with a dot neither.
    """
    text = reply.strip()
    for rule in _RULES:
        found = rule.search(text)
        if found:
            return found[1]
    return None


def lmms_eval(reply: str, gold: str) -> Score:
    """lmms-eval: the letter against the gold one."""
    return compared(letter(reply), gold)
