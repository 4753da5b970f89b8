"""How a true/false reply is read: exactly (general cues), by the one T or F in it (comparisons, VLMEvalKit), with care.

Source: the released "3acc" scripts and VLMEvalKit's VLM2Bench.
"""

from __future__ import annotations

import re

from snellen.benchmarks.vlm2.parse_row import HALVES
from snellen.benchmarks.vlm2.reply import question, said
from snellen.scoring.extract import read
from snellen.types import Sample, Score

_HIT = re.compile(r"\b(?:t|f|true|false)\b", re.IGNORECASE)


def letter(reply: str) -> tuple[str | None, str | None]:
    """(T or F, or None; why there is none): the first letter of the only whole word t, f, true or false in any case.

    Word boundaries are Unicode's, so "I can't" holds a t, and "T1" and a T glued to other letters do not.
    """
    hits = _HIT.findall(reply)
    if len(hits) == 1:
        return hits[0][0].upper(), None
    return None, "multiple" if hits else "none"


def exact(sample: Sample, reply: str) -> Score:
    """General cues, the authors' rule: the reply equals the gold answer, which is exactly `T` or `F`; nothing is parsed."""
    text = said(sample, reply)
    gold = sample.meta.get("gold")
    if gold not in HALVES:
        return Score(0.0, text, "wrong", f"the gold answer is {gold!r}, neither 'T' nor 'F'")
    if text == gold:
        return Score(1.0, text, "correct")
    return (
        Score(0.0, text, "wrong") if text in HALVES else Score(0.0, None, "invalid", "the reply is not exactly T or F")
    )


def official(sample: Sample, reply: str) -> Score:
    """Comparisons, the authors' rule: one T or F in the reply, compared with the stripped upper-case gold answer."""
    found, why = letter(said(sample, reply))
    if "half" not in sample.meta:
        return Score(None, found, "unscored", "the q_id is not <main>_p or <main>_n")
    return _compared(sample, found, why)


def vlmevalkit(sample: Sample, reply: str) -> Score:
    """VLMEvalKit: the same reading for comparisons and general cues; rows whose index has no `_` are not looked at."""
    found, why = letter(said(sample, reply).upper())
    if "pair" not in sample.meta and "kit_pair" not in sample.meta:
        return Score(None, found, "unscored", "the index has no underscore")
    return _compared(sample, found, why)


def _compared(sample: Sample, found: str | None, why: str | None) -> Score:
    if found is None:
        return Score(0.0, None, "invalid", why)
    right = found == str(sample.meta.get("gold", "")).strip().upper()
    return Score(float(right), found, "correct" if right else "wrong")


def strict(sample: Sample, reply: str) -> Score:
    """The one truth value that a careful reader finds; none, or both, count as wrong and say why."""
    reading = read("truth", said(sample, reply), question=question(sample), form="T/F")
    if sample.target is None or "half" not in sample.meta:
        return Score(None, reading.value, "unscored", "the question has no gold answer or no place in a pair")
    if reading.value is None:
        return Score(0.0, None, "invalid", reading.reason)
    right = reading.value is sample.target
    return Score(float(right), reading.value, "correct" if right else "wrong", reading.reason)
