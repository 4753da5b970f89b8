"""lmms-eval's scoring of the spatial benchmarks that are answered by a letter alone.

For each benchmark there is a reader, reply to letter, and a scorer, which compares the letter with the gold answer. VSI-Bench,
SITE, 3DSRBench and SPAR-Bench have files of their own.

Source: the tasks `blink`, `embspatial`, `mindcube_tiny`, `mmsi_bench`, `mmsi_video_u50`, `omnispatial_test` and `viewspatial`
of lmms-eval.
"""

from __future__ import annotations

import re

from snellen.benchmarks.spatial.tasks import CONSTANTS
from snellen.types import Score

_LEADING = re.compile(r"[(\s]*([A-Za-z])")


def score_letter(letter: str | None, gold: str | None) -> Score:
    """Score 1 if the letter is the gold one in any case; 0 if it is another one, or none was read."""
    if letter is None:
        return Score(0.0, None, "invalid", "no letter")
    right = gold is not None and letter.lower() == gold.strip().lower()
    return Score(float(right), letter, "correct" if right else "wrong")


def leading_letter(reply: str) -> str | None:
    """Return the Latin letter that the stripped reply begins with, in upper case (BLINK and EmbSpatial-Bench).

    An opening bracket and blanks may stand before it. What follows is ignored: `Because` gives B, `The answer is C`
    gives T, `**A**` gives nothing.
    """
    match = _LEADING.match(reply.strip())
    return match[1].upper() if match else None


def score_blink(reply: str, gold: str) -> Score:
    """Compare the leading letter with the gold one, which stands in brackets (`(B)`)."""
    return score_letter(leading_letter(reply), gold.replace("(", "").replace(")", ""))


def embspatial_gold_letter(place: int) -> str:
    """Return the letter of a gold answer that is given as the option's place, counted from 0."""
    return chr(ord("A") + place)


_ANSWER_TAG = "<Answer>"
_DOTTED = re.compile(r"([A-E])\.")
_ALONE = re.compile(r"\b([A-E])\b")
_MY_ANSWER = re.compile(r"[Mm]y answer is ([A-E])")
_IN_TAG = [_MY_ANSWER, re.compile(r"[Tt]he answer is ([A-E])"), _DOTTED, _ALONE]
# Forms with a description ("B. the sofa") are not among these: the dot alone, which goes first, finds them all.
_IN_TEXT = [
    re.compile(r"^(?:Answer: )?([A-E])(?:\.|\s|$)", re.MULTILINE),
    re.compile(r"[*\"]([A-E])[*\"]"),
    re.compile(r"\bAnswer:?\s*([A-E])\b"),
    _MY_ANSWER,
    re.compile(r"answer is ([A-E])"),
]


def mindcube_letter(reply: str) -> str | None:
    """Return the last match of the first rule that matches at all; A to E in upper case alone.

    The rules in order: a letter with a dot behind it anywhere (`U.S.A.` is A); the content of an `<Answer>` tag; a letter at
    the head of a line, in asterisks or quotes, or after a phrase; the first letter alone in the lowest line that has one.
    """
    text = reply.strip()
    letter = _last_match(_DOTTED, text)
    if letter is None and _ANSWER_TAG in text:
        inside = text.partition(_ANSWER_TAG)[2].partition("<")[0]
        letter = next(filter(None, (_last_match(rule, inside) for rule in _IN_TAG)), None)
    if letter is None:
        letter = next(filter(None, (_last_match(rule, text) for rule in _IN_TEXT)), None)
    if letter is None:
        alone = (_ALONE.search(line) for line in reversed(text.split("\n")))
        letter = next((match[1] for match in alone if match), None)
    return letter


def _last_match(rule: re.Pattern[str], text: str) -> str | None:
    matches: list[str] = rule.findall(text)
    return matches[-1] if matches else None


def mindcube_type(sample_id: str) -> str:
    """Return `among`, `around` or `rotation` from the head of an id, up to its first underscore; else `other`.

    `other` counts in the overall figure alone.
    """
    head = sample_id.partition("_")[0]
    if head in ("around", "aroundnew"):
        return "around"
    return head if head in ("among", "rotation") else "other"


_BACKTICKS = [re.compile(pattern) for pattern in (r"``([^`]*)``", r"`([^`]*)`")]
_MMSI_LETTER = re.compile(r"\b[A-F]\b(?!\s[A-Za-z])", re.IGNORECASE)


def mmsi_letter(reply: str) -> str | None:
    """Return the first letter A to F of MMSI-Bench, in the first double backticks, single backticks and braces in turn.

    The letter stands alone, in any case, and no blank and Latin letter follow it (`C because` has none).
    """
    text = reply
    for backticks in _BACKTICKS:
        match = backticks.search(text)
        if match:
            text = match[1]
    _, _, rest = text.partition("{")
    braced, closed, _ = rest.partition("}")
    match = _MMSI_LETTER.search(braced if closed else text)
    return match[0].upper() if match else None


VIDEO_LETTERS = "ABCDEF"
NO_ANSWER = "O"
_ANSWER_TAGS = re.compile(r"</?answer>")
_BOXED = re.compile(r"boxed\{([A-F])\}")
_MARKS = str.maketrans("", "", " \"'\n:")


def mmsi_video_letter(reply: str) -> str:
    """Return A to F, or `O` where there is none (MMSI-Video-Bench). Answer tags in lower case are taken out first.

    The rules in order: a boxed letter; the text behind the last of each marker in turn, up to a comma or dot, if it is one
    letter; the text before the first dot likewise; the first letter of the alphabet that is in brackets, between spaces or
    before a dot.
    """
    if "no answer" in reply:
        return NO_ANSWER
    text = _ANSWER_TAGS.sub("", reply)
    boxed = _BOXED.search(text)
    if boxed:
        return boxed[1]
    behind = [text.rpartition(marker)[2] for marker in CONSTANTS["mmsi_video"]["markers"] if marker in text]
    for candidate in (*(after.partition(",")[0] for after in behind), text):
        letter = _single_letter(candidate)
        if letter:
            return letter
    padded = f" {text} "
    for letter in VIDEO_LETTERS:
        if f"({letter})" in padded or f" {letter} " in padded or f"{letter}." in padded:
            return letter
    return NO_ANSWER


def _single_letter(text: str) -> str | None:
    head = text.partition(".")[0].translate(_MARKS)
    return head if len(head) == 1 and head in VIDEO_LETTERS else None


def score_mmsi_video(reply: str, gold: str) -> Score:
    """Compare `mmsi_video_letter` with the first character of the gold answer, in upper case."""
    letter = mmsi_video_letter(reply)
    value = float(letter == gold.strip().upper()[:1])
    if letter == NO_ANSWER:
        return Score(value, None, "correct" if value else "invalid", "no letter")
    return Score(value, letter, "correct" if value else "wrong")


_BEHIND_ANSWER = re.compile(r"Answer\s*:\s*([A-D])\b", re.IGNORECASE)


def omnispatial_letter(reply: str) -> str | None:
    """Return the letter behind the last `Answer:` in any case, as it is written; None where there is none."""
    return _last_match(_BEHIND_ANSWER, reply)


def score_omnispatial(reply: str, gold: str) -> Score:
    """Score 1 if the letter equals the gold one, its case included; a reply without a letter counts as A.

    That A may be right; `reason` marks such a row.
    """
    letter = omnispatial_letter(reply)
    value = float((letter or "A") == gold)
    why = None if letter else "no letter: lmms-eval takes A for it"
    return Score(value, letter, "correct" if value else "wrong" if letter else "invalid", why)


_VIEWSPATIAL_LETTER = re.compile(r"\b[A-D]\b", re.IGNORECASE)


def viewspatial_letter(reply: str) -> str | None:
    """Return the first letter A to D alone, in any case, behind the last line break; the article `a` is A."""
    match = _VIEWSPATIAL_LETTER.search(reply.rpartition("\n")[2])
    return match[0].upper() if match else None


def score_viewspatial(reply: str, gold: str) -> Score:
    """Compare the letter with that of the gold answer (`A. left`), which is read by the same rule.

    Where neither has a letter, the harness takes the two for equal.
    """
    target = viewspatial_letter(gold)
    letter = viewspatial_letter(reply)
    if letter is None and target is None:
        return Score(
            1.0, None, "correct", f"no letter in the reply, none in the gold answer {gold!r}: counted as right"
        )
    return score_letter(letter, target)
