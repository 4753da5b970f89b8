"""Scorers of VLM2-Bench: true/false pairs, counts, groupings, and descriptions of videos.

For each family there is a scorer a profile: the authors' rules, VLMEvalKit's, and a careful reader's. A description is scored
by a judge; two rubrics decide, by the form of the clip.

Source: the released "3acc" scripts, the released count evaluator (PENALTY_FACTOR 10, L_MAX 4), section 4.5 of the released
evaluator (videos: AB from 0 to 1, ABA from 0 to 2), Zhang et al. 2025 (arXiv 2502.12084, section 3.2), and VLMEvalKit's
VLM2Bench before and after its pull request 1610.
"""

from __future__ import annotations

import re
from functools import cache, lru_cache
from typing import Any

from snellen.benchmarks.vlm2.parse_row import HALVES, kit_count
from snellen.benchmarks.vlm2.prompts import final_answer
from snellen.scoring.answers.base import ENGLISH_BELOW_HUNDRED
from snellen.scoring.extract import read
from snellen.scoring.rubric import Rubric, built_in
from snellen.types import Sample, Score


def scored_text(sample: Sample, reply: str) -> str:
    """Return the part of a reply that is scored.

    The released inference scripts strip a reply before they store it, so the reply to a question of ours is stripped;
    a row of imported results is taken as it stands. Under a prompting variant whose replies end in an answer marker, it is
    the text after the last marker. That is our own choice, since the released scorers know no marker.
    """
    if not sample.prompt.parts and "prompting" not in sample.meta:
        return reply
    return final_answer(reply.strip(), str(sample.meta.get("prompting", "vanilla")))


def question_text(sample: Sample) -> str:
    """Return the text of a question; empty for a row of results, which brings none."""
    return sample.prompt.words.strip()


_TRUTH = re.compile(r"\b(?:t|f|true|false)\b", re.IGNORECASE)


def truth_letter(reply: str) -> tuple[str | None, str | None]:
    """Return T or F, by the only whole word t, f, true or false in any case; else None and why there is none.

    Word boundaries are Unicode's, so "I can't" holds a t, and "T1" and a T glued to other letters do not.
    """
    matches = _TRUTH.findall(reply)
    if len(matches) == 1:
        return matches[0][0].upper(), None
    return None, "multiple" if matches else "none"


def score_truth_exact(sample: Sample, reply: str) -> Score:
    """Score general cues by the authors' rule: the reply equals the gold answer, exactly `T` or `F`; nothing is parsed."""
    text = scored_text(sample, reply)
    gold = sample.meta.get("gold")
    if gold not in HALVES:
        return Score(0.0, text, "wrong", f"the gold answer is {gold!r}, neither 'T' nor 'F'")
    if text == gold:
        return Score(1.0, text, "correct")
    return (
        Score(0.0, text, "wrong") if text in HALVES else Score(0.0, None, "invalid", "the reply is not exactly T or F")
    )


def score_truth_official(sample: Sample, reply: str) -> Score:
    """Score comparisons by the authors' rule: one T or F in the reply equals the stripped upper-case gold answer."""
    letter, why = truth_letter(scored_text(sample, reply))
    if "half" not in sample.meta:
        return Score(None, letter, "unscored", "the q_id is not <main>_p or <main>_n")
    return _score_truth_letter(sample, letter, why)


def score_truth_vlmevalkit(sample: Sample, reply: str) -> Score:
    """Score comparisons and general cues by VLMEvalKit's rule: the same reading; an index without `_` is unscored."""
    letter, why = truth_letter(scored_text(sample, reply).upper())
    if "no_kit_pair" in sample.meta or not {"pair", "kit_pair"} & sample.meta.keys():
        return Score(None, letter, "unscored", "the index has no underscore")
    return _score_truth_letter(sample, letter, why)


def _score_truth_letter(sample: Sample, letter: str | None, why: str | None) -> Score:
    if letter is None:
        return Score(0.0, None, "invalid", why)
    right = letter == str(sample.meta.get("gold", "")).strip().upper()
    return Score(float(right), letter, "correct" if right else "wrong")


def score_truth_strict(sample: Sample, reply: str) -> Score:
    """Score the one truth value that a careful reader finds; none, or both, are wrong, with the reason."""
    reading = read("truth", scored_text(sample, reply), question=question_text(sample), form="T/F")
    if sample.target is None or "half" not in sample.meta:
        return Score(None, reading.value, "unscored", "the question has no gold answer or no place in a pair")
    if reading.value is None:
        return Score(0.0, None, "invalid", reading.reason)
    right = reading.value is sample.target
    return Score(float(right), reading.value, "correct" if right else "wrong", reading.reason)


MAX_IMAGES = 4
EXPONENT = 0.1
_NUMBER_WORD = re.compile(rf"\b(?:{'|'.join([*ENGLISH_BELOW_HUNDRED, 'hundred', 'thousand'])})\b")
_DIGITS = re.compile(r"\d+")
SHORT_REPLY = 64
_HUGE = 18
"""Digits beyond which a number is only known to be out of any range."""


def normalised_count_score(predicted: float, target: float, images: int, *, least_error: float = 0.0) -> float:
    """Return the score of a count, 0 to 1, where a miss weighs more the fewer images were shown.

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
    largest = max(target - 1, images - target)
    if largest <= 0:
        largest = least_error
    share = miss / largest if largest > 0 else 0.0
    return max(0.0, 1.0 - MAX_IMAGES / images * float(share**EXPONENT))


def reply_numbers(reply: str) -> list[int]:
    """Return every number that the authors' parser finds in a reply.

    Each run of decimal digits is one (sign and decimal point are ignored); all English number words of the reply,
    wherever they stand, are one phrase and make one number, which is left out where it is 0 and where the word
    "thousand" occurs.
    """
    text = reply.strip().lower()
    if text.isdecimal() and len(text) <= _HUGE:
        return [int(text)]
    numbers = [int(run) if len(run) <= _HUGE else 10**_HUGE for run in _DIGITS.findall(text)]
    words = _NUMBER_WORD.findall(text)
    if words and "thousand" not in words:
        total = running = 0
        for word in words:
            if word == "hundred":
                total, running = total + 100 * max(running, 1), 0
            else:
                running += ENGLISH_BELOW_HUNDRED[word]
        if total + running:
            numbers.append(total + running)
    return numbers


def score_count_official(sample: Sample, reply: str) -> Score:
    """Score by the authors' rule: exactly one number, from 1 to the number of images; see `normalised_count_score`.

    Reasons are the evaluator's own codes. A row without a gold answer counts in the total alone.
    """
    text = scored_text(sample, reply)
    score = _score_short_count if len(text) <= SHORT_REPLY else _score_count
    return score(text, int(sample.meta["images"]), sample.target)


def _score_count(text: str, images: int, target: Any) -> Score:
    numbers = reply_numbers(text)
    detail = {"numbers": numbers, "images": images}
    only = numbers[0] if len(numbers) == 1 else None
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
_score_short_count = lru_cache(maxsize=1 << 14, typed=True)(_score_count)


def score_count_vlmevalkit(sample: Sample, reply: str) -> Score:
    """Score as VLMEvalKit since August 2026: the same numbers, no range, every row whose gold answer `int` takes."""
    return _score_kit_count(sample, reply, int(sample.meta["shown"]))


def score_count_vlmevalkit_legacy(sample: Sample, reply: str) -> Score:
    """Score as VLMEvalKit before: every question was taken to have two images, so that every miss is worth 0."""
    return _score_kit_count(sample, reply, 2)


def _score_kit_count(sample: Sample, reply: str, images: int) -> Score:
    numbers = reply_numbers(scored_text(sample, reply))
    only = numbers[0] if len(numbers) == 1 else None
    target = kit_count(sample.meta.get("gold", sample.target))
    if target is None:
        return Score(None, only, "unscored", "the gold answer is not a whole number")
    if only is None:
        return Score(0.0, None, "invalid", "no number" if not numbers else f"{len(numbers)} numbers")
    if only == target:
        return Score(1.0, only, "correct")
    # A question file may say 0 images, at which the kit would stop; with one image every miss is worth 0.
    value = normalised_count_score(only, target, max(1, images), least_error=1.0)
    return Score(value, only, "partial" if value > 0 else "wrong")


def score_count_strict(sample: Sample, reply: str) -> Score:
    """Score the one count that a careful reader finds by the paper's formula; no count, or two, are worth 0."""
    reading = read("count", scored_text(sample, reply), question=question_text(sample))
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


_BRACKETED = re.compile(r"\([A-Z]\)")
GROUP_LETTERS = dict.fromkeys("ABCD", "")


def group_key(text: str) -> str:
    """Return the text before the first `)`, without outer blanks; the whole text where there is none."""
    return text.partition(")")[0].strip()


def score_group_official(sample: Sample, reply: str) -> Score:
    """Score by the authors' rule: the reply's key equals the gold answer's, case included; two `(A)` are wrong.

    The option's text is never compared, so "A) 2 and 3" is right where the answer is "A) 1 and 3".
    """
    text = scored_text(sample, reply)
    gold = sample.meta.get("gold")
    if not isinstance(gold, str):
        return Score(0.0, group_key(text), "wrong", "the row has no gold answer")
    if len(_BRACKETED.findall(text)) > 1:
        return Score(0.0, None, "invalid", "multi-choice")
    key = group_key(text)
    if key == group_key(gold):
        return Score(1.0, key, "correct")
    return Score(0.0, key, "wrong", "incorrect_answer")


def score_group_strict(sample: Sample, reply: str) -> Score:
    """Score the one option that a careful reader finds, by letter or text."""
    reading = read(
        "choice", scored_text(sample, reply), question=question_text(sample), options=sample.options or GROUP_LETTERS
    )
    if not isinstance(sample.target, str):
        return Score(None, reading.value, "unscored", "the question has no gold answer")
    if reading.value is None:
        return Score(0.0, None, "invalid", reading.reason)
    right = reading.value == sample.target
    return Score(float(right), reading.value, "correct" if right else "wrong", reading.reason)


@cache
def _form_rubric(form: str) -> Rubric:
    return built_in(f"vlm2-{form.lower()}")


def video_rubric(sample: Sample) -> Rubric | None:
    """Return the rubric of a description: three clips where the vid contains `ABA`, else two; None for other kinds."""
    form = sample.meta.get("form")
    return _form_rubric(form) if form in ("AB", "ABA") else None


def score_unjudged(sample: Sample, reply: str) -> Score:
    """Leave a description unscored until a judge has read it."""
    return Score(None, None, "unscored", "not judged yet")
