"""LEGO-Puzzles: options, and steps to be put in order as four letters; groups of rotated forms that must be right together.

Source: `LEGO` and `LEGO_circular` of VLMEvalKit, its `can_infer_lego` and `prefetch_circular_group`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from snellen.benchmarks.spatial.scorers.rows import ScoredRow, mean
from snellen.benchmarks.spatial.scorers.vlmevalkit import (
    after_thinking,
    cleaned,
    score_choice,
)
from snellen.scoring.rules.options import infer, infer_text
from snellen.types import Score

SORT = "sort"
STEPS = 4
_FOUR = re.compile(r"\b([A-D]{4})\b")
_LETTER = re.compile(r"[A-D]")
_ORDER = [
    re.compile(words, re.IGNORECASE)
    for words in ("first|1st|首先|第一步", "second|2nd|其次|第二步", "third|3rd|再次|第三步", "fourth|4th|最后|第四步")
]
_STEP = re.compile(r"step\s*+[\d一二三四]|步骤\s*+[\d一二三四]|第\s*+[\d一二三四]\s*+步", re.IGNORECASE)


def match_sequence(reply: str) -> str | None:
    """Return the four letters in order that the kit reads, in upper case; None where it reads none.

    The first run of four letters A to D, if all differ; else the letter behind each of first, second, third and fourth, in
    English or Chinese; else that behind each of four steps. A letter may stand inside the next word.
    """
    text = reply.upper()
    run = _FOUR.search(text)
    if run and len(set(run[1])) == STEPS:
        return run[1]
    named = [letters[0] for words in _ORDER if (letters := _letters_behind(words, text, 1))]
    for letters in (list(dict.fromkeys(named)), list(dict.fromkeys(_letters_behind(_STEP, text, STEPS)))):
        if len(letters) == STEPS:
            return "".join(letters)
    return None


def _letters_behind(head: re.Pattern[str], text: str, most: int) -> list[str]:
    """Return the first letter on the line behind each head, up to `most` of them; a head without one is passed over."""
    letters: list[str] = []
    at, letter_at, line_end = 0, -1, -1
    while len(letters) < most and (match := head.search(text, at)) is not None:
        if letter_at < match.end():
            letter = _LETTER.search(text, match.end())
            if letter is None:
                break
            letter_at = letter.start()
        if line_end < match.end():
            line_end = text.find("\n", match.end())
            line_end = len(text) if line_end < 0 else line_end
        if letter_at < line_end:
            letters.append(text[letter_at])
            at = letter_at + 1
        else:
            at = match.start() + 1
    return letters


def vlmevalkit(
    reply: str, gold: str, options: Mapping[str, str], question_type: str, *, circular: bool = False
) -> Score:
    """Score without a judge: the order of steps, or the choice matcher; what is not resolved is worth 0.

    In the circular set the kit uses the choice matcher for orders too, so that a right order is never resolved there.
    """
    if question_type != SORT or circular:
        return score_choice(reply, options, gold)
    order = match_sequence(reply) or infer_text(reply, options)
    failed = {"failed_in_prefetch": order is None}
    if order is None:
        return Score(0.0, None, "invalid", "no order of four letters", failed)
    right = order == gold.strip()
    return Score(float(right), order, "correct" if right else "wrong", None, failed)


def circular_group(rows: Iterable[tuple[str, Mapping[str, str], str]]) -> tuple[bool, bool]:
    """Return (right, resolved without a judge) of the forms of one question, each its reply, options and gold answer.

    One wrong form settles the group, others unread or not.
    """
    resolved = True
    for reply, options, gold in rows:
        letter = infer(reply, options)
        if letter is None:
            resolved = False
        elif letter != gold.strip():
            return False, True
    return resolved, resolved


_COMPACT = re.compile(r"(?<![A-Za-z])[A-D](?:[^A-Za-z\n]{0,8}[A-D]){3}(?![A-Za-z])")


def strict_order(reply: str) -> str | None:
    """Return the last order of four different letters that a reply gives, thinking aside; None where it gives none.

    Letters may be run together or parted by marks (`BDAC`, `B, D, A, C`, `(B) -> (D) -> ...`), or named as steps or by
    first to fourth.
    """
    text = after_thinking(cleaned(reply))
    orders = ["".join(_LETTER.findall(match[0])) for match in _COMPACT.finditer(text)]
    orders = [order for order in orders if len(set(order)) == STEPS]
    return orders[-1] if orders else match_sequence(text)


def strict(reply: str, gold: str) -> Score:
    """Score the order that `strict_order` reads."""
    order = strict_order(reply)
    if order is None:
        return Score(0.0, None, "invalid", "no order of four letters")
    right = order == gold.strip().upper()
    return Score(float(right), order, "correct" if right else "wrong")


def circular_rows(rows: Sequence[ScoredRow]) -> list[ScoredRow]:
    """Return one row a group of rotated forms, worth 1 if all of them are right, and every other row as it is."""
    groups: dict[str, list[ScoredRow]] = {}
    plain = []
    for row in rows:
        if "circle" in row.groups:
            groups.setdefault(row.groups["circle"], []).append(row)
        else:
            plain.append(row)
    return plain + [
        ScoredRow(float(all(row.value == 1 for row in group)), group[0].groups, group[0].options, circle)
        for circle, group in groups.items()
        if any(row.value is not None for row in group)
    ]


def accuracy(rows: Sequence[ScoredRow]) -> float | None:
    """Return the mean over questions, rotated forms of one question together."""
    values = [row.value for row in circular_rows(rows) if row.value is not None]
    return mean(values) if values else None
