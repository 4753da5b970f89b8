"""Spatial457: a word, a number or yes or no about synthetic vehicles, asked for in a JSON template.

Source: `Spatial457` of VLMEvalKit, the tasks `spatial457*` of lmms-eval.
"""

from __future__ import annotations

import re

from snellen.benchmarks.spatial.scorers.line_spans import line_spans
from snellen.benchmarks.spatial.scorers.vlmevalkit import after_thinking, cleaned
from snellen.benchmarks.spatial.tasks import CONSTANTS
from snellen.scoring.answers.base import UNITS
from snellen.types import Score

_VEHICLE = {word: vehicle for vehicle, words in CONSTANTS["spatial457"]["vehicles"].items() for word in words}
_DIGITS = {word: str(number) for word, number in UNITS.items() if number <= 10}
_SINGLE, _DOUBLE = re.compile(r"Answer': '"), re.compile(r"Answer\": \"")
_DIGIT = re.compile(r"Answer': (\d)")


def kit_answer(reply: str) -> str | None:
    """Return what the kit reads behind `Answer': '`, `Answer": "` or `Answer': ` (one digit); None where it takes the whole reply."""
    for opening, closing in ((_SINGLE, "'"), (_DOUBLE, '"')):
        answer = next(line_spans(reply, opening, closing), None)
        if answer is not None:
            return answer
    match = _DIGIT.search(reply)
    return match[1] if match else None


def vlmevalkit(reply: str, gold: str) -> Score:
    """Score 1 for the gold answer in any case, and for what the kit takes for it: see `kit_equal`.

    `detail` holds `format_error` where the whole reply was compared.
    """
    answer = kit_answer(reply)
    text = reply if answer is None else answer
    right = kit_equal(text, gold)
    verdict = "correct" if right else "wrong" if answer is not None or reply.strip() else "invalid"
    return Score(float(right), text, verdict, None, {"format_error": answer is None})  # type: ignore[arg-type]


def kit_equal(answer: str, gold: str) -> bool:
    """Return True for equal texts, `none` for no, 0 for `No`, a number word, 1 to 9 for yes, and vehicles of one class."""
    answer = "no" if answer.lower() == "none" else answer
    if answer.lower() == gold.lower() or (answer == "0" and gold == "No") or _DIGITS.get(answer.lower()) == gold:
        return True
    if gold.lower() == "yes" and len(answer) == 1 and answer in "123456789":
        return True
    vehicles = [_VEHICLE.get(text.lower().split(" ")[0]) for text in (answer, gold)]
    return vehicles[0] is not None and vehicles[0] == vehicles[1]


_QUOTED = re.compile(r"['\"]?Answer['\"]?\s*+[:=]\s*+['\"]([^'\"]++)['\"]", re.IGNORECASE)
_WORD = re.compile(r"Answer['\"]?+\s*+:\s*+['\"]?(\w++)", re.IGNORECASE)
_YES_NO = ({"yes", "true", "1"}, {"no", "false", "0"})


def lmms_answer(reply: str) -> str:
    """Return what lmms-eval reads: quoted text behind `Answer` in any case, else the word there, else the whole reply."""
    match = _QUOTED.search(reply) or _WORD.search(reply)
    return (match[1] if match else reply).strip()


def lmms_eval(reply: str, gold: str) -> Score:
    """Score 1 for the gold answer in any case, for yes as true or 1, no as false or 0, and for digits of the same value."""
    answer = lmms_answer(reply)
    right = _lmms_equal(answer.lower(), gold.strip().lower())
    return Score(float(right), answer, "correct" if right else "wrong" if answer else "invalid")


def _lmms_equal(answer: str, gold: str) -> bool:
    if answer == gold or any(answer in words and gold in words for words in _YES_NO):
        return True
    try:
        return answer.isdigit() and gold.isdigit() and int(answer) == int(gold)
    except ValueError:  # `²` is a digit and no number
        return False


_KEYED = re.compile(
    r"\banswer\b[\"'*]*+\s*+[:=]\s*+(?:\"([^\"\n]*+)\"|'([^'\n]*+)'|([^\s\"'{}\[\],][^\n{}\[\]\"']*+))",
    re.IGNORECASE,
)
_PLAIN_END = " \t\n.!*`\"'"
_TRUE, _FALSE = {"yes", "true"}, {"no", "false", "none"}


def strict_answer(reply: str) -> str | None:
    """Return the answer behind the last `Answer` key, without thinking; else a reply of one line; None where there is neither."""
    text = after_thinking(cleaned(reply))
    last: re.Match[str] | None = None
    for last in _KEYED.finditer(text):  # noqa: B007 - no list: a reply may hold a hundred thousand of them
        pass
    last_text = next(part for part in last.groups() if part is not None) if last else text
    last_text = " ".join(last_text.split()).strip(_PLAIN_END)
    return last_text if last_text and (last or len(last_text) <= MAX_WORDLESS) else None


MAX_WORDLESS = 40
"""Characters of a reply that counts as an answer without a key."""


def strict(reply: str, gold: str) -> Score:
    """Score 1 for the gold answer: number words are digits, yes is true, `school` is `school bus`; other shapes are wrong."""
    answer = strict_answer(reply)
    if answer is None:
        return Score(0.0, None, "invalid", "no answer")
    right = _plain(answer) == _plain(gold)
    return Score(float(right), answer, "correct" if right else "wrong")


def _plain(text: str) -> str:
    word = " ".join(text.lower().split()).strip(_PLAIN_END)
    word = word.removeprefix("a ").removeprefix("the ")
    if word in _TRUE or word in _FALSE:
        return "yes" if word in _TRUE else "no"
    head, _, kind = word.partition(" ")
    if head in _VEHICLE and kind in ("bike", "bus", "bicycle"):
        return head
    word = _DIGITS.get(word, word)
    return word.lstrip("0") or "0" if word.isdecimal() else word
