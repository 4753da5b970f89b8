"""Readings of Chinese replies to choices, judgements and blanks, as CMMMU's authors make them.

Source: CMMMU's evaluation, as in lmms-eval at 75571cf (`tasks/cmmmu/utils.py`) and VLMEvalKit at e8e78f0
(`dataset/cmmmu.py`), reproduced from their description. Where these draw an answer at random, there is none here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

_TRUE = ("正确", "对", "准确", "肯定")
_FALSE = ("错误", "不合适", "否定", "错")
"""Words of an untrue statement; the authors' others hold a word of a true one, which is looked for first."""
_UNCLEAR = ("对错", "是否正确", "否正确", "或者", "是否", "正确性", "对不")
_TRUE_MARKS = ("是", "为", "所以", "判断", "陈述", "说法", "表达", "答案", "结果")
_BLANK_MARKS = ("是", "为", "所以", "等于", "方案", "选择", "正确答案", "因此", "最后", "答案", "结果")
_NUMBERS = (
    r"-?\d{1,3}(?:，\d{3})+",
    r"-?(?<!\d)\d++(?:\.\d++)?[eE][+-]?\d+",
    r"-?(?:\d+\.\d+|\.\d+|\d+)(?![eE][+-]?\d+)(?!，\d)",
)
_COMMAS = re.compile(r"[+-]?(?:\d[\d,]*+(?:\.\d*+)?|\.\d+)(?:[eE][+-]?\d{1,3})?")


def most_named(reply: str, options: Mapping[str, str]) -> str | None:
    """Return the letters that a reply names most often: in brackets, else anywhere, else by the text of their option."""
    text = reply.strip(",").strip(".").strip("!").strip("?").strip(";").strip(":").strip("'")
    for form in ("({letter})", "{letter}", "{text}"):
        counts = {
            letter: text.count(named) if (named := form.format_map({"letter": letter, "text": option})) else 0
            for letter, option in options.items()
        }
        if most := max(counts.values(), default=0):
            return "".join(letter for letter, count in counts.items() if count == most)
    return None


def _key_parts(reply: str, marks: Sequence[str], last: Sequence[str] = ()) -> list[str]:
    text = reply.strip("。").strip()
    return key_parts(re.split(r"。|\n", text), marks, last) or [text]


def key_parts(sentences: Sequence[str], marks: Sequence[str], last: Sequence[str]) -> list[str]:
    """Return for each sentence with a mark what stands behind the one nearest to its end; `last` are marks of the last one too."""
    parts = []
    for number, sentence in enumerate(sentences):
        known = (*marks, *(last if number == len(sentences) - 1 else ()))
        shortest = ""
        for mark in known:
            tail = sentence.rpartition(mark)[2].strip()
            if mark in sentence and (not shortest or len(tail) < len(shortest)):
                shortest = tail  # an empty one gives way to the next, as in the authors' script
        if shortest and shortest not in tuple(":,.!?;'"):
            parts.append(shortest)
    return parts


def chinese_truth(reply: str) -> bool | None:
    """Return whether more parts of a reply call a statement true than untrue; None where they are equally many."""
    parts = {part for part in _key_parts(reply, _TRUE_MARKS) if not any(word in part for word in _UNCLEAR)}
    true = sum(any(word in part for word in _TRUE) for part in parts)
    false = sum(any(word in part for word in _FALSE) for part in parts if not any(word in part for word in _TRUE))
    return None if true == false else true > false


def fills_blank(reply: str, gold: str) -> bool:
    """Return True where a number behind a mark is the gold answer, both to two decimals, or the text there contains it."""
    parts = _key_parts(reply, _BLANK_MARKS, ("=",))
    numbers = [number for part in parts for pattern in _NUMBERS for number in re.findall(pattern, part)]
    wanted = _normalised(gold)
    read = [value for text in (*parts, *numbers) if (value := _normalised(text)) is not None]
    if isinstance(wanted, float):
        return wanted in read
    return wanted is not None and any(
        isinstance(value, str) and wanted in value and _is_short(value, gold) for value in read
    )


def _normalised(text: str) -> float | str | None:
    text = text.strip()
    return round(float(text.replace(",", "")), 2) if _COMMAS.fullmatch(text) else text


def _is_short(text: str, gold: str) -> bool:
    letters = (len(re.findall("[A-Za-z]", part)) for part in (text, gold))
    return len(text) <= len(gold) + 20 and next(letters) <= next(letters) + 2
