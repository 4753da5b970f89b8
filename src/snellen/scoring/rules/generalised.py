"""Scores of short answers by their format, 0 to 1, and the reading that they need: the generalised accuracy of MMLongBench-Doc.

Sources: Ma et al. 2024, arXiv 2407.01523, and `eval/eval_score.py` of mayubo2333/MMLongBench-Doc at d73f0dc, whose rules VLMEvalKit
shares; `tasks/mmlongbench_doc/utils.py` of lmms-eval. Both reproduced from their description.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from math import isclose
from typing import Any

from snellen.scoring.rules.documents import edit_similarity
from snellen.scoring.rules.vlmevalkit import literal

NOT_ANSWERABLE = "Not answerable"
"""The answer that a document does not hold what was asked for."""
CLOSE = 0.01
_EXTRACTED = "Extracted answer:"
_EXACT = re.compile(r"\d+(?:-\d+|\s\d+)?|\d{4}[-\s]\d{2}[-\s]\d{2}|[a-z0-9._%+-]+@[a-z0-9.-]+\.[a-z]{2,}")
_NUMBER = re.compile(r"[-+]?\d*\.?\d+")


def extracted(reply: str) -> str:
    """Return what an extracting model names as the answer; a reply without its mark is returned whole."""
    behind = reply.partition("Answer format:")[0].split(_EXTRACTED)
    answer = behind[1] if len(behind) > 1 else reply
    return NOT_ANSWERABLE if _lmms_clean(answer) == NOT_ANSWERABLE.lower() else answer.strip()


def cleaned(text: object) -> str:
    """Return a text in lower case without brackets, outer quotes, a currency sign in front and a percent sign behind.

    The authors' script means to drop a unit too, as in `5 miles`, and drops none.
    """
    plain = re.sub(r"\s*\([^)]*\)", "", str(text).lower().strip()).strip()
    return re.sub(r"^['\"]|['\"]$", "", plain).strip().lstrip("$").strip().rstrip("%").strip()


def _lmms_clean(text: object) -> str:
    plain = cleaned(text or "")
    for unit in (" miles", " mile", " million"):
        plain = plain.removesuffix(unit).strip()
    return " ".join(plain.split())


def _is_exact(text: str, *signs: str, endings: tuple[str, ...]) -> bool:
    """Return True for what must be equal: an address, a file, a page, a number, a time, a date, an e-mail address."""
    marks = ("https://", "a.m.", "p.m.", *signs)
    return (
        any(mark in text for mark in marks)
        or text.endswith(endings)
        or text.startswith("page")
        or bool(_EXACT.fullmatch(text))
    )


def _must_equal(text: str) -> bool:
    return _is_exact(text, endings=(".py", "ipynb"))


def _lmms_must_equal(text: str) -> bool:
    return _is_exact(text, "http://", endings=(".py", ".ipynb"))


def _anls(answer: str, gold: str) -> float:
    similar = edit_similarity(answer, gold)
    return similar if similar > 0.5 else 0.0


def _number(text: object) -> float | None:
    try:
        return float(str(text))
    except ValueError:
        return None


def _decimals(number: float) -> int:
    _, point, decimals = str(number).partition(".")
    return len(decimals) if point else 3


def close(answer: float, gold: float) -> bool:
    """Return True where an answer is a gold number, a hundredth or a hundred times it, within 1 % or when both are rounded.

    Rounded to the fewer decimals of the two, and to two at least.
    """
    return any(
        isclose(answer, wanted, rel_tol=CLOSE)
        or round(answer, places := max(min(_decimals(answer), _decimals(wanted)), 2)) == round(wanted, places)
        for wanted in (gold / 100, gold, gold * 100)
    )


def generalised_score(answer: str, gold: str, form: str) -> float:
    """Score an answer by the format of the gold one: `Int`, `Float`, `Str`, `None`, and `List` for any other.

    Whole numbers are cut off; numbers may be `close`; texts are worth their ANLS, 0 up to a half, or must be equal where the gold
    one is a number, a date, an address or such; lists must be of one length, and are worth the least of their sorted pairs.
    What the authors' script breaks off at is worth 0.
    """
    if form == "Int":
        read, wanted = _number(answer), _number(gold)
        try:
            return float(read is not None and wanted is not None and int(gold) == int(read))
        except (ValueError, OverflowError):
            return 0.0
    if form == "Float":
        read, wanted = _number(cleaned(answer)), _number(cleaned(gold))
        return float(read is not None and wanted is not None and _close_or_none(read, wanted))
    if form in ("Str", "None"):
        read_text, wanted_text = cleaned(answer), cleaned(gold)
        return float(read_text == wanted_text) if _must_equal(wanted_text) else _anls(read_text, wanted_text)
    several = [_elements(text) for text in (answer, gold)]
    if None in several:
        return 0.0
    read_list, wanted_list = (sorted(map(cleaned, part or ())) for part in several)
    if not wanted_list:
        return 0.0
    return _of_lists(read_list, wanted_list, _number(wanted_list[0]) is not None or _must_equal(wanted_list[0]))


def _close_or_none(answer: float, gold: float) -> bool:
    try:
        return close(answer, gold)
    except (ValueError, OverflowError):  # nan and infinity cannot be rounded
        return False


def _elements(text: str) -> Sequence[Any] | None:
    """Return the elements of a list, a text as the one element; None for brackets that hold no list."""
    if not text.startswith("["):
        return [text]
    value = literal(text)
    return value if isinstance(value, list) else None if value is None else [value]


def _of_lists(answers: Sequence[str], golds: Sequence[str], equal: bool) -> float:
    if len(answers) != len(golds):
        return 0.0
    return float(answers == golds) if equal else min(map(_anls, answers, golds))


def lmms_score(answer: str, gold: str, form: str) -> float:
    """Score an answer as lmms-eval does: the first number of a reply counts, units are dropped, and nothing is extracted."""
    form = {"integer": "int", "string": "str"}.get(low := form.strip().lower(), low)
    if form in ("int", "float"):
        read, wanted = _first_number(answer), _first_number(gold)
        if read is None or wanted is None:
            return 0.0
        return float(int(wanted) == int(read) if form == "int" else _close_or_none(read, wanted))
    if form == "list":
        answers, golds = (sorted(map(_lmms_clean, _lmms_elements(text))) for text in (answer, gold))
        if not golds:
            return float(not answers)
        return _of_lists(answers, golds, _first_number(golds[0]) is not None or _lmms_must_equal(golds[0]))
    read_text, wanted_text = _lmms_clean(answer), _lmms_clean(gold)
    if form == "none":
        return float(read_text == NOT_ANSWERABLE.lower())
    return float(read_text == wanted_text) if _lmms_must_equal(wanted_text) else _anls(read_text, wanted_text)


def _first_number(text: str) -> float | None:
    found = _NUMBER.search(text.replace(",", ""))
    return None if found is None else float(found[0])


def _lmms_elements(text: str) -> Sequence[Any]:
    value = [] if text.strip() == "None" else literal(text)
    return [str(part) for part in value] if isinstance(value, list) else [text if value is None else str(value)]
