"""lmms-eval's rules of the spatial benchmarks: for each a reader, reply to answer, and a scorer named after the benchmark.

Source: the tasks `vsibench*`, `mmsi_bench`, `mindcube_tiny`, `viewspatial`, `site_bench_*`, `blink`, `3dsrbench*`,
`embspatial`, `mmsi_video_u50`, `omnispatial_test`, `sparbench`, `stare_full`, `spatialviz_full`, `erqa`, `refspatial*`,
`robo_spatial*`, `vsisuper_*`, `spatial457*`, `osi_bench*` and `revsi` of lmms-eval at 75571cfe.
"""

from __future__ import annotations

import itertools
import json
import math
import re
from collections.abc import Callable, Iterator, Sequence
from string import ascii_uppercase

from snellen.benchmarks.spatial.scorers import base, points
from snellen.benchmarks.spatial.scorers.base import (
    MAX_SHOWN,
    OSI_NUMBER,
    REVSI_CHOICE,
    REVSI_NUMBER,
    answers_of,
    float_or_none,
    graded_score,
    is_yes_no,
    json_number,
    line_spans,
    mean,
    mean_relative_accuracy,
    moves_in,
    one_answer,
    osi_number,
    relative_error,
    score_letter,
    score_number,
    score_of_list,
    view_change,
)
from snellen.benchmarks.spatial.scorers.points import MAX_POINTS, MaskPixels, ReferenceFailsError, graded_points, stops
from snellen.benchmarks.spatial.tasks import CONSTANTS
from snellen.errors import DataError
from snellen.scoring.answers.base import ENGLISH_BELOW_HUNDRED
from snellen.scoring.rules.latex_value import latex_value, words_value
from snellen.types import Sample, Score

_LEADING = re.compile(r"[(\s]*([A-Za-z])")


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


def three_dsr_letter(reply: str) -> str | None:
    """Return the letter that lmms-eval reads: the first match of the first of eight rules that matches anywhere; A to D in upper case alone.

    Behind `answer:` there is no boundary (`answer: Because` is B), before a letter with a dot neither.
    """
    text = reply.strip()
    for rule in _RULES:
        match = rule.search(text)
        if match:
            return match[1]
    return None


_FOUR_LETTERS = "ABCD"


_FORMS = (("({})", 6), ("{}.", 5), ("{}:", 4), ("{})", 3), ("{} ", 2))


_PHRASE, _START, _END = 7, 10, 9


def erqa_letter(reply: str, letters: str = _FOUR_LETTERS) -> str | None:
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


def site_letter(reply: str, options: int) -> str | None:
    """Return the letter of one of the options as lmms-eval reads it, upper case, by the first of four forms that finds any.

    `(X)`; X between spaces; `X.`; a colon by X. Of several letters the one whose last place between spaces is furthest
    behind, and the first in the alphabet where none has such a place. None where no form finds any.
    """
    text = f" {reply.strip()} "
    letters = ascii_uppercase[:options]
    forms: tuple[tuple[str, ...], ...] = (("({})",), (" {} ",), ("{}.",), ("{}:", ":{}", ": {}"))
    for shapes in forms:
        matches = [letter for letter in letters if any(shape.format(letter) in text for shape in shapes)]
        if matches:
            return max(matches, key=lambda letter: text.rfind(f" {letter} "))
    return None


def site(reply: str, gold: str, n: int) -> Score:
    """Score as lmms-eval: the letter against the gold one.

    Where there is none the harness draws an option at random, without a seed. Here such a row gets what the draw is worth
    on average, 1/n, so that its chance-adjusted score is 0; `detail` says `random_fallback`.
    """
    letter = site_letter(reply, n)
    if letter is None and n > 0:
        why = f"no letter: lmms-eval draws one of {n} options at random"
        return Score(1 / n, None, "invalid", why, {"random_fallback": True})
    return score_letter(letter, gold)


_LETTER_TO_D = re.compile(r"[A-D]")


_SPATIALVIZ_PHRASES = (
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


def spatialviz_letters(reply: str) -> list[str]:
    """Return the different letters that lmms-eval reads, in order of the alphabet; anything but one letter is wrong.

    With a whole `<think>` and a whole `<answer>` in the reply, those inside the first answer tag; else those of a reply of one
    character; else those behind the last place of the first phrase that occurs. They are read up to the first dot.
    """
    inside = _first_inside(reply, "<answer>", "</answer>")
    if inside is not None and _first_inside(reply, "<think>", "</think>") is not None:
        text = inside.strip()
    elif len(reply) == 1:
        return _LETTER_TO_D.findall(reply)
    else:
        phrase = next((phrase for phrase in _SPATIALVIZ_PHRASES if phrase in reply), None)
        if phrase is None:
            return []
        text = reply.rpartition(phrase)[2].strip()
    return sorted(set(_LETTER_TO_D.findall(text.partition(".")[0])))


def _first_inside(text: str, opening: str, closing: str) -> str | None:
    start = text.find(opening)
    end = text.find(closing, start + len(opening)) if start >= 0 else -1
    return text[start + len(opening) : end] if end >= 0 else None


def spatialviz(reply: str, gold: str) -> Score:
    """Score 1 if exactly one letter is read, and it is the gold one."""
    letters = spatialviz_letters(reply)
    if len(letters) != 1:
        return Score(0.0, None, "invalid", f"letters {', '.join(letters)}" if letters else "no letter")
    right = letters[0] == gold
    return Score(float(right), letters[0], "correct" if right else "wrong")


_NUMBER_WORDS = {*ENGLISH_BELOW_HUNDRED, "hundred", "thousand"}


_BEYOND = 10**400  # more than any float; what grows further stays as long


_FIRST_DIGITS = re.compile(r"-?\d+(?:\.\d+)?")


_LETTERS_RUN = re.compile(r"[a-z]+")


def first_piece(reply: str) -> str:
    """Return what lmms-eval takes for the letter: the reply up to its first space, without dots behind and blanks around."""
    return reply.split(" ")[0].rstrip(".").strip()


def first_number(reply: str) -> float | None:
    """Return what lmms-eval takes for the number: the first one, in digits or English words; None where there is none.

    Digits have no exponent, and none may be left out before the point (`.91` is 91). A run of number words goes on over
    anything but another word, `and` excepted: hundred multiplies what stands before it, thousand closes a group.
    """
    text = reply.lower()
    digits = _FIRST_DIGITS.search(text)
    words = _LETTERS_RUN.finditer(text)
    first = next((word for word in words if word[0] in _NUMBER_WORDS), None)
    if first is None or (digits and digits.start() < first.start()):
        return float(digits[0]) if digits else None
    total = current = 0
    for word in itertools.chain((first,), words):
        if word[0] == "hundred":
            current = min(max(1, current) * 100, _BEYOND)
        elif word[0] == "thousand":
            total, current = min(total + max(1, current) * 1000, _BEYOND), 0
        elif word[0] in ENGLISH_BELOW_HUNDRED:
            current += ENGLISH_BELOW_HUNDRED[word[0]]
        elif word[0] != "and":
            break
    try:
        return float(total + current)
    except OverflowError:  # "hundred" some hundred and fifty times over
        return math.inf


def vsi(reply: str, gold: str, question_type: str) -> Score:
    """Score as lmms-eval: the first piece of the raw reply, or the first number with its error over the signed gold answer.

    With a gold answer of 0 the harness stops; such a row is left unscored here. With a negative one every number is right.

    Raises:
        DataError: if the question type is none of the ten.
    """
    if base.kind_of("vsi-bench", question_type) == "choice":
        return score_letter(first_piece(reply) or None, gold)
    predicted = first_number(reply)
    score = score_number(predicted, gold)
    if score.value is None or predicted is None:
        return score
    target = float(gold)
    if target == 0:
        return Score(None, json_number(predicted), "unscored", "the gold answer is 0, by which lmms-eval divides")
    return graded_score(mean_relative_accuracy(abs(predicted - target) / target), predicted)


_UNSIGNED = re.compile(r"(?<!\^)\d+\.\d+|(?<!\^)\d+")


def spar(reply: str, gold: str, question_type: str) -> Score:
    """Score as lmms-eval: the letter that begins the reply, the first number (of several views the last), or a view change.

    A reply to a choice is also right where it is part of the gold answer, so that silence is always right; nothing is
    stripped. Numbers have no sign; where there is none, 0 stands for it, -1 where several views are shown.

    Raises:
        DataError: if the task is none of the twenty.
    """
    kind = base.kind_of("spar-bench", question_type)
    if kind == "choice":
        text, target = reply.lower(), gold.lower()
        right = text in target or (len(text) > 0 and text[0] == target)
        return Score(float(right), reply[:1] or None, "correct" if right else "wrong" if reply else "invalid")
    if kind == "number":
        numbers = _UNSIGNED.findall(reply)
        several = question_type.endswith("_mv")
        if not numbers:
            score = base.score_number(-1.0 if several else 0.0, gold)
            return Score(score.value, None, "invalid" if score.value == 0 else score.verdict, "no number")
        return base.score_number(float(numbers[-1 if several else 0]), gold)
    return view_change(moves_in(reply), gold, relative_to_reply=True)


def revsi(reply: str, gold: str, question_type: str) -> Score:
    """Score the first piece: a letter in any case, or what Python reads as a number, with the error over the signed gold answer.

    With a negative gold answer every number is therefore right, and with 0 none is.

    Raises:
        DataError: if the question type is none of the thirteen.
    """
    piece = first_piece(reply.strip())
    if question_type in REVSI_CHOICE:
        return score_letter(piece or None, gold)
    if question_type not in REVSI_NUMBER:
        raise DataError(
            f"ReVSI has no question type {question_type!r}; expected one of {', '.join((*REVSI_CHOICE, *REVSI_NUMBER))}. "
            "Check that this is a file of ReVSI."
        )
    try:
        predicted, target = float(piece), float(gold)
    except ValueError:
        return Score(0.0, None, "invalid", "the reply does not begin with a number")
    if target == 0:
        return Score(0.0, str(predicted), "wrong", "the gold answer is 0, by which both harnesses divide")
    return graded_score(mean_relative_accuracy(abs(predicted - target) / target), predicted)


_OPTION = re.compile(r"[A-D]")


_SIGNED_DECIMAL = re.compile(r"-?\d+(?:\.\d+)?")


def recall_letter(text: str) -> str | None:
    """Return the first letter A to D in the upper-cased text, inside words too: `Answer: C` is A."""
    match = _OPTION.search(text.upper())
    return match[0] if match else None


def vsi_super_recall(reply: str, gold: str) -> Score:
    """Compare the letter with that of the gold answer, read by the same rule; neither having one counts as right."""
    letter, target = recall_letter(reply), recall_letter(gold)
    if letter is None and target is None:
        return Score(
            1.0, None, "correct", f"no letter in the reply, none in the gold answer {gold!r}: counted as right"
        )
    return score_letter(letter, target)


def count_number(reply: str) -> float:
    """Return the first signed decimal number in digits; 0 where there is none."""
    match = _SIGNED_DECIMAL.search(reply)
    return float(match[0]) if match else 0.0


def vsi_super_count(reply: str, gold: str) -> Score:
    """Score the first number by mean relative accuracy; silence is 0, and of a gold answer of 0 only 0 is right."""
    predicted = count_number(reply)
    target = float_or_none(gold) or 0.0
    value = float(predicted == 0) if target == 0 else mean_relative_accuracy(relative_error(predicted, target))
    if _SIGNED_DECIMAL.search(reply) is None:
        return Score(value, 0.0, "correct" if value == 1 else "invalid", "no number: lmms-eval takes 0 for it")
    return graded_score(value, predicted)


def vsi_super_streaming(reply: str, gold: str) -> Score:
    """Score the mean over the answers that a reply, a JSON list and nothing else, pairs with the gold ones.

    The shorter list says how many: answers that are missing cost nothing. An item that is no number is wrong.
    """
    try:
        items = json.loads(reply)
    except (ValueError, RecursionError):
        items = None
    if not isinstance(items, list):
        return Score(0.0, None, "invalid", "the reply is no JSON list")
    values = [one_answer(item, target) for item, target in zip(items, answers_of(gold), strict=False)]
    return score_of_list(mean(values) if values else 0.0, items)


def score_vsi_super_count(reply: str, gold: str, question_type: str) -> Score:
    """Score VSI-SUPER-Count: streaming questions by their list."""
    return (vsi_super_streaming if base.STREAMING in question_type else vsi_super_count)(reply, gold)


_SIGNED = re.compile(r"[+-]?\d+(?:\.\d+)?")


_CHINESE = re.compile(r"[(\[A-Z]\s*答案是?[:：]?\s*'?\"?([A-Z])", re.IGNORECASE)


_STANDING = re.compile(r"[\[(\s,.]([A-Z])[\])\s,.]")


_HEAD = re.compile(r"\s*([A-Z])")


def last_number(reply: str) -> float | None:
    """Return the last signed decimal number, commas taken out first; an exponent is a number of its own."""
    last: re.Match[str] | None = None
    for last in _SIGNED.finditer(reply.replace(",", "")):  # noqa: B007 - no list: a reply may hold a hundred thousand
        pass
    return None if last is None else float(last[0])


def osi_letter(reply: str) -> str | None:
    """Return the first capital letter between brackets, blanks, commas or dots, else the one at the head: `I think B` is I."""
    match = _CHINESE.search(reply) or _STANDING.search(f" {reply} ") or _HEAD.match(reply)
    return match[1].upper() if match else None


def osi(reply: str, gold: str, category: str, question_type: str = "") -> Score:
    """Score as lmms-eval: the last number, or the capital letter."""
    text = reply.strip()
    if question_type == "numerical" or category in OSI_NUMBER:
        return osi_number(last_number(text), gold, category)
    letter = osi_letter(text)
    if letter is None:
        return Score(0.0, None, "invalid", "no capital letter")
    right = letter == gold.strip().upper()
    return Score(float(right), letter, "correct" if right else "wrong")


_ANY_BOXED = re.compile(r"\\boxed\{")


_INNER = re.compile(r"\\text\{")


_ANSWER_PHRASES = ("final answer is", "correct answer is", "answer should be", "answer is", "answer:")


def stare_answer(reply: str) -> str:
    """Return what lmms-eval reads: a letter A to H, a number, what a box holds, what follows a phrase; empty for nothing.

    A letter is the whole reply in any case, or stands at its head in upper case with a colon or dot behind. Of boxes the last
    one counts, of a phrase the last place, up to the first dot or line break and in lower case.
    """
    text = reply.strip()
    for letter in "ABCDEFGH":
        if text.upper() == letter or text.startswith((f"{letter}:", f"{letter}.")):
            return letter
    if _is_number(text):
        return text
    boxed = _last_boxed(text)
    if boxed is not None:
        inner = list(line_spans(boxed, _INNER, "}"))
        return (inner[-1] if inner else boxed).strip()
    lowered = text.lower()
    phrase = next((phrase for phrase in _ANSWER_PHRASES if phrase in lowered), None)
    if phrase is None:
        return ""
    return lowered.rpartition(phrase)[2].strip().partition("\n")[0].partition(".")[0]


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


_BRACES = re.compile(r"[{}]")


def _last_boxed(text: str) -> str | None:
    """Return the content of the last box whose braces close; a box inside a box is part of it."""
    last: str | None = None
    at = 0
    while (opening := _ANY_BOXED.search(text, at)) is not None:
        depth, at = 1, len(text)
        for mark in _BRACES.finditer(text, opening.end()):
            depth += 1 if mark[0] == "{" else -1
            if not depth:
                last, at = text[opening.end() : mark.start()], mark.end()
                break
    return last


def stare(reply: str, gold: str) -> Score:
    """Score 1 if the answer is the gold one in any case, in number words, or as a LaTeX value to two decimals."""
    answer = stare_answer(reply)
    right = _equal(answer.lower(), gold.lower())
    if not answer and not right:
        return Score(0.0, "", "invalid", "no answer")
    return Score(float(right), answer, "correct" if right else "wrong")


def _equal(answer: str, gold: str) -> bool:
    if answer.strip() == gold.strip() or words_value(answer) == gold.strip():
        return True
    values = latex_value(answer), latex_value(gold)
    return values[0] is not None and values[1] is not None and round(values[0], 2) == round(values[1], 2)


_QUOTED = re.compile(r"['\"]?Answer['\"]?\s*+[:=]\s*+['\"]([^'\"]++)['\"]", re.IGNORECASE)


_ANSWER_WORD = re.compile(r"Answer['\"]?+\s*+:\s*+['\"]?(\w++)", re.IGNORECASE)


_YES_NO = ({"yes", "true", "1"}, {"no", "false", "0"})


def spatial457_answer(reply: str) -> str:
    """Return what lmms-eval reads: quoted text behind `Answer` in any case, else the word there, else the whole reply."""
    match = _QUOTED.search(reply) or _ANSWER_WORD.search(reply)
    return (match[1] if match else reply).strip()


def spatial457(reply: str, gold: str) -> Score:
    """Score 1 for the gold answer in any case, for yes as true or 1, no as false or 0, and for digits of the same value."""
    answer = spatial457_answer(reply)
    right = _spatial457_equal(answer.lower(), gold.strip().lower())
    return Score(float(right), answer, "correct" if right else "wrong" if answer else "invalid")


def _spatial457_equal(answer: str, gold: str) -> bool:
    if answer == gold or any(answer in words and gold in words for words in _YES_NO):
        return True
    try:
        return answer.isdigit() and gold.isdigit() and int(answer) == int(gold)
    except ValueError:  # `²` is a digit and no number
        return False


def refspatial(reply: str, mask: MaskPixels) -> Score:
    """Score the mean over the tuples of a reply; values of the mask below 128 count as off it."""
    return _mean_on_mask(points.lmms_tuples, reply, mask)


def refspatial_json(reply: str, mask: MaskPixels) -> Score:
    """Score likewise over pairs in square or round brackets, with the scale of the JSON variant."""
    return _mean_on_mask(points.lmms_pairs, reply, mask)


def _mean_on_mask(reader: Callable[[str, int, int], Sequence[tuple[int, int]]], reply: str, mask: MaskPixels) -> Score:
    try:
        read = reader(reply, *mask.size)
    except ReferenceFailsError as error:
        return Score(None, None, "unscored", stops(str(error)))
    on = mask.first >= 127.5  # round(mask / 255)
    value = points.pixel_hits(read, on) / len(read) if read else 0.0
    return graded_points(value, [list(point) for point in read[:MAX_POINTS]])


_THOUGHT = re.compile(r"</think>")


_THOUGHT_TOO = re.compile(r"</thought>")


_OPENING = re.compile(r"<answer>", re.IGNORECASE)


_CLOSING = re.compile(r"</answer>", re.IGNORECASE)


def without_thinking(reply: str) -> str:
    """Return what lmms-eval reads: behind the first `</think>` and `</thought>`, inside the first answer tag, stripped."""
    for end in (_THOUGHT, _THOUGHT_TOO):
        if match := end.search(reply):
            reply = reply[match.end() :]
    opening = _OPENING.search(reply)
    closing = _CLOSING.search(reply, opening.end()) if opening else None
    return reply[opening.end() : closing.start()].strip() if opening and closing else reply.strip()


def robospatial(reply: str, gold: str, mask: MaskPixels | None) -> Score:
    """Score as lmms-eval: the gold word and not the other one in the last line, or any point of a fenced list on the mask.

    A row without a mask is worth -1, and enters the mean.
    """
    text = without_thinking(reply)
    if is_yes_no(gold):
        line = text.lower().split("\n")[-1]
        yes, no = "yes" in line, "no" in line
        right = yes and not no if gold.strip().lower() == "yes" else no and not yes
        word = "yes" if yes and not no else "no" if no and not yes else None
        reason = None if word else "the last line has neither word alone"
        return Score(float(right), word, "correct" if right else "wrong" if word else "invalid", reason)
    if mask is None:
        return Score(-1.0, None, "invalid", "the row has no mask: lmms-eval counts it as -1")
    try:
        pixels = points.lmms_fenced(text, *mask.size)
    except ReferenceFailsError as error:
        return Score(None, None, "unscored", stops(str(error)))
    if not pixels:
        return Score(0.0, None, "invalid", "no fenced list with point_2d")
    right = points.pixel_hits(pixels, mask.first > 0) > 0
    return Score(float(right), [list(pixel) for pixel in pixels[:MAX_SHOWN]], "correct" if right else "wrong")


def score_robospatial(sample: Sample, reply: str) -> Score:
    """Score RoboSpatial-Home; a row whose column for the mask is empty has none, and others without a mask are left unscored."""
    gold = str(sample.meta["gold"])
    if is_yes_no(gold) or ("mask" in sample.meta and sample.meta["mask"] is None):
        return robospatial(reply, gold, None)
    return points.masked(sample, lambda mask: robospatial(reply, gold, mask))
