"""How a grouping is read: by what stands before the first bracket (the authors, VLMEvalKit), or with care.

Source: the released oc-grp and pc-grp evaluators, which are identical, and VLMEvalKit's, which gives the same result.
"""

from __future__ import annotations

import re

from snellen.benchmarks.vlm2.reply import question, said
from snellen.scoring.extract import read
from snellen.types import Sample, Score

_BRACKETED = re.compile(r"\([A-Z]\)")
LETTERS = dict.fromkeys("ABCD", "")


def key(text: str) -> str:
    """What stands before the first `)`, without outer blanks; the whole text where there is none."""
    return text.partition(")")[0].strip()


def official(sample: Sample, reply: str) -> Score:
    """The reply's key equals the gold answer's, case and all; more than one `(A)` in the reply is wrong.

    The option's text is never compared, so "A) 2 and 3" is right where the answer is "A) 1 and 3".
    """
    text = said(sample, reply)
    gold = sample.meta.get("gold")
    if not isinstance(gold, str):
        return Score(0.0, key(text), "wrong", "the row has no gold answer")
    if len(_BRACKETED.findall(text)) > 1:
        return Score(0.0, None, "invalid", "multi-choice")
    found = key(text)
    if found == key(gold):
        return Score(1.0, found, "correct")
    return Score(0.0, found, "wrong", "incorrect_answer")


def strict(sample: Sample, reply: str) -> Score:
    """The one option that a careful reader finds, by letter or text."""
    reading = read("choice", said(sample, reply), question=question(sample), options=sample.options or LETTERS)
    if not isinstance(sample.target, str):
        return Score(None, reading.value, "unscored", "the question has no gold answer")
    if reading.value is None:
        return Score(0.0, None, "invalid", reading.reason)
    right = reading.value == sample.target
    return Score(float(right), reading.value, "correct" if right else "wrong", reading.reason)
