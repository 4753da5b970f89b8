"""How a count is read and scored: the authors' rules, VLMEvalKit's, and a careful reader's.

Source: the released count evaluator (PENALTY_FACTOR 10, L_MAX 4), Zhang et al. 2025 (arXiv 2502.12084, section 3.2) and
VLMEvalKit's VLM2Bench before and after its pull request 1610.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

from snellen.benchmarks.vlm2.parse_row import whole
from snellen.benchmarks.vlm2.reply import question, said
from snellen.scoring.extract import read
from snellen.types import Sample, Score

MOST_IMAGES = 4
EXPONENT = 0.1
_SMALL = """zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen
eighteen nineteen"""
_TENS = """twenty thirty forty fifty sixty seventy eighty ninety"""
WORDS = {word: number for number, word in enumerate(_SMALL.split())}
WORDS |= {word: 10 * tens for tens, word in enumerate(_TENS.split(), 2)}
_WORD = re.compile(rf"\b(?:{'|'.join([*WORDS, 'hundred', 'thousand'])})\b")
_DIGITS = re.compile(r"\d+")
SHORT = 64
_HUGE = 18
"""Digits beyond which a number is only known to be out of any range."""


def normalised_count_score(predicted: float, target: float, images: int, *, least_error: float = 0.0) -> float:
    """Score of a count, 0 to 1, where a miss weighs more the fewer images were shown.

    1 - (4 / images) * e ** 0.1, floored at 0, with e = |predicted - target| / max(target - 1, images - target). Where
    that maximum is not positive, e is 0 (the authors), or the maximum is `least_error` (VLMEvalKit: 1).

    Args:
        predicted: the number read from the reply.
        target: the true number of identities.
        images: how many images were shown, at least 1.
        least_error: what stands for a maximum that is not positive; 0: a miss costs nothing then.
    """
    miss = abs(predicted - target)
    if miss == 0:
        return 1.0
    most = max(target - 1, images - target)
    if most <= 0:
        most = least_error
    share = miss / most if most > 0 else 0.0
    return max(0.0, 1.0 - MOST_IMAGES / images * float(share**EXPONENT))


def numbers(reply: str) -> list[int]:
    """Every number that the authors' parser finds in a reply.

    Each run of decimal digits is one (sign and decimal point are not looked at); all English number words of the reply,
    wherever they stand, are one phrase and make one number, which is left out where it is 0 and where the word
    "thousand" occurs.
    """
    text = reply.strip().lower()
    if text.isdecimal() and len(text) <= _HUGE:
        return [int(text)]
    found = [int(run) if len(run) <= _HUGE else 10**_HUGE for run in _DIGITS.findall(text)]
    words = _WORD.findall(text)
    if words and "thousand" not in words:
        total = running = 0
        for word in words:
            if word == "hundred":
                total, running = total + 100 * max(running, 1), 0
            else:
                running += WORDS[word]
        if total + running:
            found.append(total + running)
    return found


def official(sample: Sample, reply: str) -> Score:
    """The authors' evaluator: exactly one number, from 1 to the number of images; see `normalised_count_score`.

    Reasons are the evaluator's own codes. A row without a gold answer counts in the total alone.
    """
    text = said(sample, reply)
    score = _remembered if len(text) <= SHORT else _official
    return score(text, int(sample.meta["images"]), sample.target)


def _official(text: str, images: int, target: Any) -> Score:
    found = numbers(text)
    detail = {"numbers": found, "images": images}
    only = found[0] if len(found) == 1 else None
    if target is None:
        return Score(None, only, "unscored", "missing_gt_answer", detail)
    if only is None:
        return Score(0.0, None, "invalid", "invalid_answer_format", detail)
    if not 1 <= only <= images:
        return Score(0.0, only, "invalid", "answer_out_of_expected_range", detail)
    detail["raw_diff"] = abs(only - target)
    if only == target:
        return Score(1.0, only, "correct", None, detail)
    value = normalised_count_score(only, target, images)
    return Score(value, only, "partial" if value > 0 else "wrong", "incorrect_answer", detail)


# Most of a million replies are one of a few short texts.
_remembered = lru_cache(maxsize=1 << 14, typed=True)(_official)


def vlmevalkit(sample: Sample, reply: str) -> Score:
    """VLMEvalKit since August 2026: the same numbers, no range, every row counts whose gold answer `int` takes."""
    return _kit(sample, reply, int(sample.meta["shown"]))


def vlmevalkit_legacy(sample: Sample, reply: str) -> Score:
    """VLMEvalKit before: every question was taken to have two images, so that every miss is worth 0."""
    return _kit(sample, reply, 2)


def _kit(sample: Sample, reply: str, images: int) -> Score:
    found = numbers(said(sample, reply))
    only = found[0] if len(found) == 1 else None
    target = whole(sample.meta.get("gold", sample.target))
    if target is None:
        return Score(None, only, "unscored", "the gold answer is not a whole number")
    if only is None:
        return Score(0.0, None, "invalid", "no number" if not found else f"{len(found)} numbers")
    if only == target:
        return Score(1.0, only, "correct")
    # A question file may say 0 images, at which the kit would stop; with one image every miss is worth 0.
    value = normalised_count_score(only, target, max(1, images), least_error=1.0)
    return Score(value, only, "partial" if value > 0 else "wrong")


def strict(sample: Sample, reply: str) -> Score:
    """The one count that a careful reader finds, scored by the paper's formula; no count, or two, are worth 0."""
    reading = read("count", said(sample, reply), question=question(sample))
    images, target = max(int(sample.meta["images"]), int(sample.meta["shown"])), sample.target
    if target is None:
        return Score(None, reading.value, "unscored", "the question has no gold answer")
    if reading.value is None:
        return Score(0.0, None, "invalid", reading.reason)
    counted = int(reading.value)
    if counted == target:
        return Score(1.0, counted, "correct")
    if not 1 <= counted <= images:
        return Score(0.0, counted, "invalid", f"{counted} of {images} images")
    value = normalised_count_score(counted, target, images)
    return Score(value, counted, "partial" if value > 0 else "wrong")
