"""MindCube-Tiny: a space imagined from a few views.

Source: the task `mindcube_tiny` of lmms-eval and `MindCubeBench_tiny_raw_qa` of VLMEvalKit.
"""

from __future__ import annotations

import re

from snellen.benchmarks.spatial.scorers.letters import compared
from snellen.benchmarks.spatial.scorers.vlmevalkit_option import hit as vlmevalkit
from snellen.types import Score

__all__ = ["kind", "letter", "lmms_eval", "vlmevalkit"]

_TAG = "<Answer>"
_DOTTED = re.compile(r"([A-E])\.")
_ALONE = re.compile(r"\b([A-E])\b")
_MINE = re.compile(r"[Mm]y answer is ([A-E])")
_IN_TAG = [_MINE, re.compile(r"[Tt]he answer is ([A-E])"), _DOTTED, _ALONE]
# Forms with a description ("B. the sofa") are not among these: the dot alone, which goes first, finds them all.
_IN_TEXT = [
    re.compile(r"^(?:Answer: )?([A-E])(?:\.|\s|$)", re.MULTILINE),
    re.compile(r"[*\"]([A-E])[*\"]"),
    re.compile(r"\bAnswer:?\s*([A-E])\b"),
    _MINE,
    re.compile(r"answer is ([A-E])"),
]


def letter(reply: str) -> str | None:
    """lmms-eval: the last match of the first rule that matches at all; A to E in upper case alone.

    A letter with a dot behind it anywhere (`U.S.A.` is A); what an `<Answer>` tag holds; a letter at the head of a line,
    in asterisks or quotes, or after a phrase; the first letter alone in the lowest line that has one.
    """
    text = reply.strip()
    found = _last(_DOTTED, text)
    if found is None and _TAG in text:
        inside = text.partition(_TAG)[2].partition("<")[0]
        found = next((one for one in (_last(rule, inside) for rule in _IN_TAG) if one), None)
    if found is None:
        found = next((one for one in (_last(rule, text) for rule in _IN_TEXT) if one), None)
    if found is None:
        alone = (_ALONE.search(line) for line in reversed(text.split("\n")))
        found = next((hit[1] for hit in alone if hit), None)
    return found


def _last(rule: re.Pattern[str], text: str) -> str | None:
    found: list[str] = rule.findall(text)
    return found[-1] if found else None


def lmms_eval(reply: str, gold: str) -> Score:
    """lmms-eval: the letter against the gold one."""
    return compared(letter(reply), gold)


def kind(sample_id: str) -> str:
    """`among`, `around` or `rotation` from what stands before the first underscore of an id; else `other`.

    `other` counts in the overall figure alone.
    """
    head = sample_id.partition("_")[0]
    if head in ("around", "aroundnew"):
        return "around"
    return head if head in ("among", "rotation") else "other"
