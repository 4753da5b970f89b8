"""VLMEvalKit's reading of multiple-choice answers without a judge, and what it reports over them.

Source: VLMEvalKit at e8e78f0 (18 August 2026): `can_infer_option`, `can_infer_text`, `prefetch_circular_group`, `report_acc`
and `report_acc_MMVP`, reproduced from their description.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

REFUSED = "Z"
"""The letter that stands for a refusal."""
API_FAILURE = "Failed to obtain answer via API"
REFUSALS = (
    "Sorry, I can't help with images of people yet.",
    "I can't process this file.",
    "I'm sorry, but without the image provided",
    "Cannot determine the answer",
)
LAST_WORDS = 5
"""The only letter counts where it first stands behind all but this many words of the reply."""
_TO_BLANK = str.maketrans(dict.fromkeys(".()[],:;!*#{}", " "))
_ANSWER_IS = re.compile(r"(?:correct\s*)?answer is\s*+\**+\s*+([abcd])", re.IGNORECASE)


def infer_option(reply: str, options: Mapping[str, str]) -> str | None:
    """Return the option whose letter the reply names, `Z` for a refusal, None where neither is read.

    One letter only must stand as a word, among the last words; else any letter A to D behind "answer is" counts, in either
    case and without a boundary: `the answer is a green pear` is A.
    """
    if API_FAILURE in reply:
        return None
    if any(refusal in reply for refusal in REFUSALS):
        return REFUSED
    words = reply.translate(_TO_BLANK).split()
    letters = [letter for letter in options if letter in words]
    if len(letters) == 1 and words.index(letters[0]) > len(words) - LAST_WORDS:
        return letters[0]
    if not letters and REFUSED in words:
        return REFUSED
    announced = _ANSWER_IS.search(reply)
    if announced and announced[1].upper() in options:
        return announced[1].upper()
    return None


def infer_text(reply: str, options: Mapping[str, str]) -> str | None:
    """Return the only option whose text the reply contains, case ignored; None for a reply over twice all texts' length."""
    lowered = reply.lower()
    if len(lowered) > 2 * sum(len(str(text)) for text in options.values()):
        return None
    named = [letter for letter, text in options.items() if str(text).lower() in lowered]
    return named[0] if len(named) == 1 else None


def infer(reply: str, options: Mapping[str, str]) -> str | None:
    """Return `infer_option`'s letter, else `infer_text`'s."""
    return infer_option(reply, options) or infer_text(reply, options)


def circular_hit(rolls: Iterable[Mapping[str, Any]]) -> int | None:
    """Return 1 if every roll of a question is right, 0 at the first decided wrong roll, None where one is undecided.

    Args:
        rolls: `answer`, `prediction` and `options` of each order in which the options were shown.
    """
    undecided = False
    for roll in rolls:
        letter = infer(str(roll["prediction"]), roll["options"])
        if letter is None:
            undecided = True
        elif letter != roll["answer"]:
            return 0
    return None if undecided else 1


ABBREVIATIONS = {
    "coarse_perception": "CP",
    "finegrained_perception (instance-level)": "FP-S",
    "finegrained_perception (cross-instance)": "FP-C",
    "logic_reasoning": "LR",
    "relation_reasoning": "RR",
    "attribute_reasoning": "AR",
}
"""MMBench's six categories, by the names under which the kit reports them."""


def accuracy_report(rows: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, float | None]]:
    """Return accuracy by split (`none` where rows have none): `Overall`, each `l2-category`, each `category`.

    Values are 0 to 1; None where a split has no row of a category. A name on both levels takes the category's value.
    """
    has_split = bool(rows) and "split" in rows[0]
    splits = list(dict.fromkeys(row["split"] for row in rows)) if has_split else ["none"]
    report: dict[str, dict[str, float | None]] = {}
    for split in splits:
        chosen = [row for row in rows if not has_split or row["split"] == split]
        cells: dict[str, float | None] = {"Overall": _mean(chosen)}
        for level in ("l2-category", "category"):
            if not rows or level not in rows[0]:
                continue
            for name in sorted({row[level] for row in rows}):
                key = ABBREVIATIONS.get(name, name)
                cells[key] = _mean([row for row in chosen if row[level] == name])
        report[str(split)] = cells
    return report


def _mean(rows: Sequence[Mapping[str, Any]]) -> float | None:
    return sum(float(row["hit"]) for row in rows) / len(rows) if rows else None


class PairingError(ValueError):
    """Rows of MMVP that form no pairs: an odd number, or two different questions side by side."""


def pair_report(rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Return MMVP's figures over rows sorted by index: `Overall`, pairs with both right, and `Average`, plain accuracy.

    Raises:
        PairingError: the rows form no pairs of one question.
    """
    if len(rows) % 2:
        raise PairingError(f"{len(rows)} rows form no pairs")
    pairs = list(zip(rows[::2], rows[1::2], strict=True))
    for at, (first, second) in enumerate(pairs):
        if first["question"] != second["question"]:
            raise PairingError(f"rows {2 * at} and {2 * at + 1} hold different questions")
    hits = [float(row["hit"]) for row in rows]
    both = [float(first["hit"]) * float(second["hit"]) for first, second in pairs]
    return {"Overall": sum(both) / len(both), "Average": sum(hits) / len(hits)}
