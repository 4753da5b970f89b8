"""SpatialViz-Bench in lmms-eval: the capital letters A to D of what follows a tag or a phrase, if they are all the same.

Source: the task `spatialviz_full` of lmms-eval.
"""

from __future__ import annotations

import re

from snellen.types import Score

_LETTER = re.compile(r"[A-D]")
_PHRASES = (
    "<answer>",
    "Answer:",
    "Final answer",
    "final answer",
    "Final Answer",
    "the answer is",
    "The answer is",
    "correct answer",
    "Correct answer",
    "Correct Answer",
    "答案",
    "correct path",
)


def lmms_letters(reply: str) -> list[str]:
    """Return the different letters that lmms-eval reads, in order of the alphabet; anything but one letter is wrong.

    With a whole `<think>` and a whole `<answer>` in the reply, those inside the first answer tag; else those of a reply of one
    character; else those behind the last place of the first phrase that occurs. They are read up to the first dot.
    """
    inside = _first_inside(reply, "<answer>", "</answer>")
    if inside is not None and _first_inside(reply, "<think>", "</think>") is not None:
        text = inside.strip()
    elif len(reply) == 1:
        return _LETTER.findall(reply)
    else:
        phrase = next((phrase for phrase in _PHRASES if phrase in reply), None)
        if phrase is None:
            return []
        text = reply.rpartition(phrase)[2].strip()
    return sorted(set(_LETTER.findall(text.partition(".")[0])))


def _first_inside(text: str, opening: str, closing: str) -> str | None:
    start = text.find(opening)
    end = text.find(closing, start + len(opening)) if start >= 0 else -1
    return text[start + len(opening) : end] if end >= 0 else None


def lmms_eval(reply: str, gold: str) -> Score:
    """Score 1 if exactly one letter is read, and it is the gold one."""
    letters = lmms_letters(reply)
    if len(letters) != 1:
        return Score(0.0, None, "invalid", f"letters {', '.join(letters)}" if letters else "no letter")
    right = letters[0] == gold
    return Score(float(right), letters[0], "correct" if right else "wrong")
