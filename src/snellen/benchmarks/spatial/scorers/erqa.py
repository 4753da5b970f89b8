"""ERQA: lmms-eval's shared letter finder, and the whole reply as VLMEvalKit's main branch compares it.

Source: the task `erqa` of lmms-eval with its `_task_utils/mcq_extract.py`, at 75571cfe; `ERQADataset` of VLMEvalKit.
"""

from __future__ import annotations

from collections.abc import Iterator

from snellen.benchmarks.spatial.tasks import CONSTANTS
from snellen.types import Score

LETTERS = "ABCD"
_FORMS = (("({})", 6), ("{}.", 5), ("{}:", 4), ("{})", 3), ("{} ", 2))
_PHRASE, _START, _END = 7, 10, 9


def lmms_letter(reply: str, letters: str = LETTERS) -> str | None:
    """Return the letter of the form that weighs most, of several in one form the one furthest behind; upper case alone.

    In order of weight: the head of the reply, its end, the first place of each letter behind the first place of a phrase, `(X)`,
    `X.`, `X:`, `X)`, `X` and a blank, any place. No form but the first two asks for a boundary before the letter.
    """
    text = reply.strip()
    if not text:
        return None
    for mark in ",.!?;:'\"":
        text = text.strip(mark)
    places = list(_places(f" {text} ", letters))
    if not places:
        places = [(0, text.rfind(letter), letter) for letter in letters if letter in text]
    return max(places, key=lambda place: place[:2])[2] if places else None


def _places(text: str, letters: str) -> Iterator[tuple[int, int, str]]:
    """Yield (weight, position, letter), in the order in which lmms-eval finds them, for its order decides between equals."""
    for form, weight in _FORMS:
        for letter in letters:
            position = text.rfind(form.format(letter))
            if position >= 0:
                yield weight, position, letter
    lowered = text.lower()
    for phrase in CONSTANTS["erqa"]["phrases"]:
        start = lowered.find(phrase)
        for letter in letters if start >= 0 else "":
            position = text.find(letter, start + len(phrase))
            if position >= 0:
                yield _PHRASE, position, letter
    bare = text.strip()
    for letter in letters:
        if bare.startswith(letter) and not bare[1:2].isalpha():
            yield _START, 0, letter
    for letter in letters:
        if bare.endswith(letter) and not bare[-2:-1].isalpha():
            yield _END, len(text) - 1, letter


def upstream(reply: str, gold: str) -> Score:
    """Score 1 if the whole reply is the gold letter, in any case and blanks aside: `B.` is wrong."""
    text = reply.strip()
    right = text.lower() == gold.strip().lower()
    return Score(float(right), text[:200], "correct" if right else "wrong")
