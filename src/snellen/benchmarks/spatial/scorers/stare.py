"""STARE: what transformations, foldings and tangrams come to; four of its ten kinds are answered by yes or no as letters.

Source: `StareBench` of VLMEvalKit, the tasks `stare_full` and `stare_*` of lmms-eval.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from snellen.benchmarks.spatial.scorers.latex_value import latex_value
from snellen.benchmarks.spatial.scorers.line_spans import line_spans
from snellen.benchmarks.spatial.scorers.rows import ScoredRow, mean, means
from snellen.benchmarks.spatial.scorers.vlmevalkit import INVISIBLE, score_option
from snellen.scoring.answers.base import ENGLISH_BELOW_HUNDRED
from snellen.types import Score

TERMS: tuple[tuple[str, ...], ...] = (
    ("2d_trans", "2d_trans_vsim"),
    ("3d_trans", "3d_trans_vsim"),
    ("folding_nets", "folding_nets_vsim"),
    ("tangram_puzzle", "tangram_puzzle_vsim"),
    ("temporal",),
    ("perspective",),
)
"""The six terms of the macro figure, each the mean of its categories."""
YES_NO = (*TERMS[2], *TERMS[3])
"""The categories whose figure in the macro mean is F1."""

_PAIR = re.compile(r"([A-F])\s*+(?:[.:：)）]\s*+)?+(yes|no)", re.IGNORECASE)


def yes_no_letters(question: str) -> str:
    """Return which letters of a question stand for yes and no, as `A:yes B:no`; empty where none does.

    A letter and the word may have a mark between them, and need no boundary, as in the kit.
    """
    letters = {letter.upper(): word.lower() for letter, word in _PAIR.findall(INVISIBLE.sub("", question))}
    return " ".join(f"{letter}:{word}" for letter, word in letters.items())


def vlmevalkit(reply: str, gold: str, yes_no: str) -> Score:
    """Score by the option matcher. `detail` holds the yes or no of both letters where the question maps them, for F1.

    Args:
        reply: the model's reply.
        gold: the gold letter.
        yes_no: as `yes_no_letters` returns it.
    """
    return with_classes(score_option(reply, gold), gold, yes_no)


def with_classes(score: Score, gold: str, yes_no: str) -> Score:
    """Return the score with `f1_gold` and `f1_predicted` in its detail, where these letters stand for yes or no."""
    words = dict(pair.split(":") for pair in yes_no.split())
    predicted, wanted = words.get(str(score.extracted).upper()), words.get(gold.strip().upper())
    if wanted is None:
        return score
    detail = {**score.detail, "f1_gold": wanted, **({"f1_predicted": predicted} if predicted else {})}
    return Score(score.value, score.extracted, score.verdict, score.reason, detail)


_BOXED = re.compile(r"\\boxed\{")
_INNER = re.compile(r"\\text\{")
_PHRASES = ("final answer is", "correct answer is", "answer should be", "answer is", "answer:")


def lmms_answer(reply: str) -> str:
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
    phrase = next((phrase for phrase in _PHRASES if phrase in lowered), None)
    if phrase is None:
        return ""
    return lowered.rpartition(phrase)[2].strip().partition("\n")[0].partition(".")[0]


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


_MARKS = re.compile(r"[{}]")


def _last_boxed(text: str) -> str | None:
    """Return the content of the last box whose braces close; a box inside a box is part of it."""
    last: str | None = None
    at = 0
    while (opening := _BOXED.search(text, at)) is not None:
        depth, at = 1, len(text)
        for mark in _MARKS.finditer(text, opening.end()):
            depth += 1 if mark[0] == "{" else -1
            if not depth:
                last, at = text[opening.end() : mark.start()], mark.end()
                break
    return last


def lmms_eval(reply: str, gold: str) -> Score:
    """Score 1 if the answer is the gold one in any case, in number words, or as a LaTeX value to two decimals."""
    answer = lmms_answer(reply)
    right = _equal(answer.lower(), gold.lower())
    if not answer and not right:
        return Score(0.0, "", "invalid", "no answer")
    return Score(float(right), answer, "correct" if right else "wrong")


def _equal(answer: str, gold: str) -> bool:
    if answer.strip() == gold.strip() or _words_value(answer) == gold.strip():
        return True
    values = latex_value(answer), latex_value(gold)
    return values[0] is not None and values[1] is not None and round(values[0], 2) == round(values[1], 2)


_WORDS: Mapping[str, int] = {**ENGLISH_BELOW_HUNDRED, "hundred": 100, "thousand": 1000}
_MAX_WORDS = 40


def _words_value(text: str) -> str | None:
    """Return the number that a text's number words come to, in digits; None where it has none."""
    words = [word for word in text.replace("-", " ").split()[:_MAX_WORDS] if word in _WORDS]
    total = current = 0
    for word in words:
        if word == "hundred":
            current = max(1, current) * 100
        elif word == "thousand":
            total, current = total + max(1, current) * 1000, 0
        else:
            current += _WORDS[word]
    return str(total + current) if words else None


def f1(pairs: Sequence[tuple[str, str]]) -> float | None:
    """Return F1 of yes over (predicted, gold); 0 where no yes was right, None for no pair."""
    if not pairs:
        return None
    hits = sum(pair == ("yes", "yes") for pair in pairs)
    if not hits:
        return 0.0
    precision = hits / sum(predicted == "yes" for predicted, _ in pairs)
    recall = hits / sum(gold == "yes" for _, gold in pairs)
    return 2 * precision * recall / (precision + recall)


def summary(rows: Sequence[ScoredRow], *, misses_count: bool = False) -> dict[str, float]:
    """Return `<category>_f1` of the yes-or-no categories, and `macro`, the mean of the six terms that there are.

    Args:
        rows: with the groups `category`, `f1_predicted` and `f1_gold`.
        misses_count: False as in the kit: rows whose letter is not read are left out of F1, and a category without any row
            counts as 0 in the macro mean if it is answered by other letters. True: unread replies count as the wrong
            answer, and categories without rows are left out.
    """
    by_category = means(rows, "category")
    if not by_category:
        return {}
    figures: dict[str, float] = {}
    for category in YES_NO:
        value = f1(
            [pair for row in rows if row.groups.get("category") == category and (pair := _pair(row, misses_count))]
        )
        if value is not None:
            figures[f"{category}_f1"] = value
    terms = []
    for term in TERMS:
        if term[0] in YES_NO:
            values = [figures[f"{category}_f1"] for category in term if f"{category}_f1" in figures]
        elif misses_count:
            values = [by_category[category] for category in term if category in by_category]
        else:
            values = [by_category.get(category, 0.0) for category in term]
        if values:
            terms.append(mean(values))
    return {**figures, "macro": mean(terms)} if terms else figures


def _pair(row: ScoredRow, misses_count: bool) -> tuple[str, str] | None:
    predicted, gold = row.groups.get("f1_predicted"), row.groups.get("f1_gold")
    if predicted and gold:
        return predicted, gold
    if misses_count and gold:
        return ("no" if gold == "yes" else "yes"), gold
    return None
