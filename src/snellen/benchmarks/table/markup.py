"""Markup of training data around a gold answer: `<answer>no</answer>`, `\\boxed{1}`, `#### 4`, `The answer is B.`"""

from __future__ import annotations

import re

from snellen.scoring.answers.dress import undressed
from snellen.scoring.answers.text import Text
from snellen.scoring.extract.declared import declared
from snellen.scoring.replies.reply import visible
from snellen.scoring.replies.sentences import possible

_BEHIND_BOX = re.compile(r"[\s.。!$)\]\\*]*")
_HASHES, _BOX = "####", "\\boxed"
_WRAPPED = ("$", "\\", "<", "#")


def unmarked(text: str) -> str:
    """Return the answer that stands in the markup of training data; the text itself where there is none.

    A solution that ends with a boxed answer, with one behind `####` or behind `The answer is`, is that answer.

    >>> unmarked("Two and two are four.\\n#### 4"), unmarked("<think>no</think><answer>yes</answer>")
    ('4', 'yes')
    """
    if "<" in text and (tagged := _last_tagged(text)):
        return unmarked(tagged)
    if _HASHES in text and (behind := text.rpartition(_HASHES)[2].strip()):
        return undressed(behind)
    if _BOX in text and (boxed := _last_boxed(text)):
        return undressed(boxed)
    if text[:1] in _WRAPPED and text[-1:] in ("$", "}", ")", "]", ">"):
        return undressed(text)
    is_sentence = ":" in text or text.count(" ") > 1 or not text.isascii()
    return _announced(text) if is_sentence and _may_announce(text.lower()) else text


def _may_announce(low: str) -> bool:
    return any(word in low for word in possible(low, "answer"))


def _announced(text: str) -> str:
    """Return what stands behind `The answer is`, as a reply would be read; the text itself where it announces nothing."""
    reading = declared(visible(text), Text())
    return text if reading is None or not reading.value else str(reading.value)


def _last_tagged(text: str) -> str:
    """Return the content of the last `<answer>`; empty without one."""
    end = text.rfind("</answer>")
    start = text.rfind("<answer>", 0, max(end, 0))
    return text[start + len("<answer>") : end].strip() if start >= 0 else ""


def _last_boxed(text: str) -> str:
    """Return the content of the last box that a text ends with; empty if it ends otherwise."""
    start = text.rfind(_BOX) + len(_BOX)
    opening = text.find("{", start)
    if opening < 0 or text[start:opening].strip():
        return ""
    depth = 0
    for at in range(opening, len(text)):
        depth += (text[at] == "{") - (text[at] == "}")
        if depth == 0:
            ends = _BEHIND_BOX.fullmatch(text, at + 1) is not None
            return text[opening + 1 : at].strip() if ends else ""
    return ""
