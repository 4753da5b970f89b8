"""VLMEvalKit's readers for the spatial benchmarks: the option matcher, the number matcher, and the choice matcher.

BLINK and 3DSRBench use the choice matcher, all other benchmarks the option matcher, VSI-Bench and SPAR-Bench also the number
matcher.

Source: the option matcher and the numeric matcher of VLMEvalKit's spatial suite, and its generic option matcher under the
`exact_matching` policy.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from snellen.scoring.answers.base import ENGLISH_BELOW_HUNDRED
from snellen.scoring.rules.literals import literal_list
from snellen.scoring.rules.options import infer
from snellen.types import Score

INVISIBLE = re.compile("[\u200b\u200c\u200d\ufeff]")
TAIL = 800
"""Characters of the end of a reply in which a tag's end, and the last lines, are looked for."""
LINES = 6

_OPEN, _CLOSE = r"[(\[{（【]", r"[)\]}）】]"
_TAG = re.compile(r"<\s*+answer\b", re.IGNORECASE)
_TAG_END = re.compile(r"<\s*+/\s*+answer\s*+>", re.IGNORECASE)
_AT_ONCE = re.compile(r"\s*+([A-J])", re.IGNORECASE)
_BEFORE = [
    re.compile(rf"(?<![A-Za-z]){_OPEN}?\s*([A-F])\s*{_CLOSE}?\s*<\s*/\s*{tag}\s*>", re.IGNORECASE)
    for tag in ("answer", "think")
]
_THOUGHT = re.compile(r"<\s*/\s*think\s*>", re.IGNORECASE)
_THINKING = re.compile(r"<\s*think\s*>", re.IGNORECASE)
_LISTED = re.compile(r"^[\s*_>\-]*(?:option|选项)\s*[A-J]\s*[:：]", re.IGNORECASE)
_ALONE = re.compile(r"^[\s*_`>(\[（【]*([A-F])[\s*_`)\]）】]*$", re.IGNORECASE)
_NUMBERED = re.compile(r"^\s*([A-F])[.:)\]：）】、－-]\s+", re.IGNORECASE)
_TOKEN = re.compile(r"(?<![A-Za-z])([A-F])(?=$|[\s.,:;!?)\]`，。：；！？、）】])")
_PHRASE = re.compile(
    r"(?:final\s+answer|the\s+answer\s+is|correct\s+answer|answer\s+is|answer|最终答案|答案是|答案|结论|所以|因此|我选择|我选|选择|选)"
    rf"\s*+[:：>=]?+\s*+{_OPEN}?+\s*+([A-F])\b",
    re.IGNORECASE,
)
_STANDING = re.compile(r"(?<![A-Za-z])([A-F])(?![A-Za-z])")


def cleaned(reply: str) -> str:
    """Strip blanks at the ends, and characters of no width."""
    text = reply.strip()
    return text if text.isascii() else INVISIBLE.sub("", text)


def after_thinking(text: str) -> str:
    """Return the text after the last `</think>`, else after the last `<think>`, else all of it."""
    for tag in (_THOUGHT, _THINKING) if "<" in text else ():
        ends = [match.end() for match in tag.finditer(text)]
        if ends:
            return text[ends[-1] :]
    return text


def in_tags(text: str, content: re.Pattern[str]) -> Iterator[re.Match[str]]:
    """Yield the matches of `content` behind the `>` of each opening answer tag; a tag reaches to the next `>`."""
    end = -1
    for tag in _TAG.finditer(text) if "<" in text else ():
        if tag.end() <= end:
            continue  # within the tag before, at whose end nothing matched
        end = text.find(">", tag.end())
        if end < 0:
            return
        match = content.match(text, end + 1)
        if match is not None:
            yield match


def _tagged(text: str) -> str | None:
    """Return the letter at the head of the first answer tag that has one and is closed somewhere behind it."""
    first = next(in_tags(text, _AT_ONCE), None)
    if first is None:
        return None
    closed = any(first.end() <= close.start() for close in _TAG_END.finditer(text, first.end()))
    return first[1].upper() if closed else None


def match_option(reply: str) -> str | None:
    """Return the letter that VLMEvalKit reads: A to F (in an answer tag A to J), upper case; None where it reads none.

    Six places are tried in turn: the answer tag, the end of a tag, the last lines after the thinking, the last lines of the
    whole, a phrase of conclusion, the only letter there is.

    There is no boundary behind the letter of a tag (`<answer>Because</answer>` is B); a letter in lower case counts only in
    a tag, alone on its line, at the head of a line or after a phrase; the text of an option is never looked for.
    """
    text = cleaned(reply)
    tail = text[-TAIL:]
    tagged = _tagged(text)
    if tagged:
        return tagged
    for pattern in _BEFORE if "<" in tail else ():
        match = pattern.search(tail)
        if match:
            return match[1].upper()
    letter = _last_lines(after_thinking(text)) or _last_lines(tail)
    if letter:
        return letter
    match = _PHRASE.search(text)
    if match:
        return match[1].upper()
    unlisted = "\n".join(line for line in text.splitlines() if not _LISTED.match(line))
    return _only(_STANDING.findall(unlisted))


def _last_lines(text: str) -> str | None:
    lines = [line for line in text.splitlines() if line.strip()]
    for line in reversed(lines[-LINES:]):
        if _LISTED.match(line):
            continue
        match = _ALONE.match(line) or _NUMBERED.match(line)
        letter = match[1].upper() if match else _only(_TOKEN.findall(line))
        if letter:
            return letter
    return None


def _only(letters: Iterable[str]) -> str | None:
    different = set(letters)
    return different.pop() if len(different) == 1 else None


def score_option(reply: str, gold: str) -> Score:
    """Score 1 if `match_option` reads the same letter in the reply and in the gold answer.

    Where nothing is read in either, the kit compares one failure with the other and counts a hit. This is reproduced, and
    reported in `detail`, because it lifts the figure: a gold letter beyond F is right with any unparseable reply.
    """
    letter, target = match_option(reply), match_option(gold)
    if letter is None and target is None:
        why = f"no letter in the reply, none in the gold answer {gold!r}: the kit counts this as right"
        return Score(1.0, None, "correct", why, {"gold_unread": True})
    if letter is None:
        return Score(0.0, None, "invalid", "no letter")
    return Score(float(letter == target), letter, "correct" if letter == target else "wrong")


_NUMBER = r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?"
_ANY_NUMBER = re.compile(_NUMBER)
_NUMBER_AT_ONCE = re.compile(rf"\s*+({_NUMBER})")
_WORDS = {word: str(number) for word, number in ENGLISH_BELOW_HUNDRED.items() if number <= 20}
_WORD = re.compile(rf"\b(?=[efnostz])(?:{'|'.join(_WORDS)})\b", re.IGNORECASE)


def match_number(reply: str) -> float | None:
    """Return the number that VLMEvalKit reads: in an answer tag, else the last one; None where it reads none.

    A list literal stands for its first element (one that cannot be parsed for nothing). The words zero to twenty become
    digits one by one, so that `twenty-one` is -1; a comma parts numbers, and `7.5 m^2` is 2.
    """
    text = reply.strip()
    if text.startswith("[") and text.endswith("]"):
        items = literal_list(text)
        if not items:
            return None
        text = str(items[0])
    if not text.isascii():
        text = INVISIBLE.sub("", text)
    text = _WORD.sub(lambda match: _WORDS[match[0].lower()], text)
    tagged = next(in_tags(text, _NUMBER_AT_ONCE), None)
    if tagged:
        return float(tagged[1])
    for part in dict.fromkeys((after_thinking(text), text)):
        last: re.Match[str] | None = None
        for last in _ANY_NUMBER.finditer(part):  # noqa: B007 - no list: a reply may hold a hundred thousand numbers
            pass
        if last is not None:
            return float(last[0])
    return None


def score_choice(reply: str, choices: Mapping[str, str], gold: str) -> Score:
    """Score the kit's hit without a judge: an unparseable reply is worth 0, and counts as a failure of extraction.

    `detail` holds `failed_in_prefetch`, from which EASI takes the share of failures.
    """
    letter = infer(reply, choices)
    failed = {"failed_in_prefetch": letter is None}
    if letter is None:
        return Score(0.0, None, "invalid", "no letter and no choice's text", failed)
    right = letter == gold.strip()
    return Score(float(right), letter, "correct" if right else "wrong", None, failed)
