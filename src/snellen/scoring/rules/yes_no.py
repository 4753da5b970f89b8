"""VLMEvalKit's reading of yes or no without a judge, and the figures of POPE, MME, HallusionBench, AMBER and NaturalBench.

Source: VLMEvalKit at e8e78f0 (18 August 2026): `YOrN_Extraction`, `POPE_rating`, `MME_rating`, `Hallusion_rating`,
`AMBER_rating`, and NaturalBench's `extract_answer` and `get_scores`, reproduced from their description.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

Row = Mapping[str, Any]

_SIGNS = ';/[]"{}()=+\\_-><@`,?!'
_GROUPED_NUMBER = re.compile(r"\d,\d")
_FULL_STOP = re.compile(r"\.(?!\d)")
FULL_STOPS = 32
"""Full stops that are removed; the kit passes a flag where the number of replacements is expected."""


def without_punctuation(text: str) -> str:
    """Remove signs next to a blank, or all where the text has a number like `1,000`; replace the others by a blank.

    Colons, asterisks and apostrophes stay, as do full stops before a digit and those beyond the first `FULL_STOPS`.
    """
    grouped = _GROUPED_NUMBER.search(text) is not None
    cleaned = text
    for sign in _SIGNS:
        beside_blank = f"{sign} " in text or f" {sign}" in text
        cleaned = cleaned.replace(sign, "" if beside_blank or grouped else " ")
    return _FULL_STOP.sub("", cleaned, count=FULL_STOPS)


def read_yes_no(reply: str) -> str:
    """Return `Yes` or `No` if exactly one of the two words is in the reply, else `Unknown`."""
    words = without_punctuation(reply.lower()).split()
    yes, no = "yes" in words, "no" in words
    if yes == no:
        return "Unknown"
    return "Yes" if yes else "No"


def pope_report(rows: Sequence[Row]) -> dict[str, dict[str, float]]:
    """Return POPE's figures in per cent, over all rows and by category: F1 as `Overall`, acc, precision, recall.

    `Yes` is the positive class; any other reading counts as `No`. A row of several categories (separated by commas)
    counts once in each of them, and as often in `Overall`.
    """
    repeated = [(category, row) for row in rows for category in str(row["category"]).split(",")]
    report = {"Overall": _binary([row for _, row in repeated])}
    for category in dict.fromkeys(category for category, _ in repeated):
        report[category] = _binary([row for name, row in repeated if name == category])
    return report


def _binary(rows: Sequence[Row]) -> dict[str, float]:
    gold = [row["answer"] == "Yes" for row in rows]
    read = [row["extracted"] == "Yes" for row in rows]
    hits = sum(a and b for a, b in zip(gold, read, strict=True))
    precision = hits / sum(read) if any(read) else 0.0
    recall = hits / sum(gold) if any(gold) else 0.0
    both = precision + recall
    accuracy = sum(row["answer"] == row["extracted"] for row in rows) / len(rows)
    f1 = 2 * precision * recall / both if both else 0.0
    return {"Overall": 100 * f1, "acc": 100 * accuracy, "precision": 100 * precision, "recall": 100 * recall}


PERCEPTION = (
    "OCR", "artwork", "celebrity", "color", "count", "existence", "landmark", "position", "posters", "scene",
)  # fmt: skip
REASONING = ("code_reasoning", "commonsense_reasoning", "numerical_calculation", "text_translation")


def mme_report(rows: Sequence[Row]) -> dict[str, float]:
    """Return MME's figures: for each category 100 x accuracy plus 100 x share of images with both questions right.

    Of an image's rows the first two are its pair; `perception` and `reasoning` are sums over ten and four categories.

    Raises:
        KeyError: one of the fourteen categories has no row.
        IndexError: an image has one row only.
    """
    scores: dict[str, float] = {}
    for category in dict.fromkeys(str(row["category"]) for row in rows):
        chosen = [row for row in rows if row["category"] == category]
        pairs: dict[Hashable, list[bool]] = {}
        for row in chosen:
            pairs.setdefault(row["image_path"], []).append(row["answer"] == row["extracted"])
        accuracy = sum(row["answer"] == row["extracted"] for row in chosen) / len(chosen)
        both = sum(hits[0] and hits[1] for hits in pairs.values()) / len(pairs)
        scores[category] = 100 * accuracy + 100 * both
    sums = {
        "perception": sum(scores[name] for name in PERCEPTION),
        "reasoning": sum(scores[name] for name in REASONING),
    }
    return sums | scores


def hallusion_report(rows: Sequence[Row]) -> dict[str, dict[str, float]]:
    """Return HallusionBench's aAcc, fAcc and qAcc in per cent, over all rows, by `category` and by `l2-category`.

    fAcc is the share of figures, qAcc that of questions, with every row right. Set, figure and question are the fields 3,
    4 and 5 of the index between underscores, so that an underscore in a name shifts them.
    """
    report = {"Overall": _accuracies(rows)}
    for level in ("category", "l2-category"):
        for name in dict.fromkeys(str(row[level]) for row in rows):
            report[name] = _accuracies([row for row in rows if row[level] == name])
    return report


def _accuracies(rows: Sequence[Row]) -> dict[str, float]:
    def field(row: Row, at: int) -> str:
        return str(row["index"]).split("_")[at]

    return {
        "aAcc": 100 * sum(_hit(row) for row in rows) / len(rows),
        "fAcc": 100 * _all_right(rows, lambda row: (row["l2-category"], field(row, 3), field(row, 4))),
        "qAcc": 100 * _all_right(rows, lambda row: (row["l2-category"], field(row, 3), field(row, 5))),
    }


def _hit(row: Row) -> bool:
    return bool(row["answer"] == row["extracted"])


def _all_right(rows: Sequence[Row], key: Callable[[Row], Hashable]) -> float:
    """Return the share of groups in which every row is right."""
    groups: dict[Hashable, bool] = {}
    for row in rows:
        groups[key(row)] = groups.get(key(row), True) and _hit(row)
    return sum(groups.values()) / len(groups)


AMBER_GROUPS = {
    "Attribute": (
        "discriminative-attribute-state",
        "discriminative-attribute-number",
        "discriminative-attribute-action",
    ),
    "Existence": ("discriminative-hallucination",),
    "Relation": ("discriminative-relation", "relation"),
}


def amber_report(rows: Sequence[Row]) -> dict[str, float]:
    """Return AMBER's accuracies in per cent, case ignored, of the groups that have rows, and their plain mean `Avg ACC`."""
    report: dict[str, float] = {}
    for group, categories in AMBER_GROUPS.items():
        hits = [
            str(row["answer"]).lower() == str(row["extracted"]).lower() for row in rows if row["category"] in categories
        ]
        if hits:
            report[group] = 100 * sum(hits) / len(hits)
    return report | ({"Avg ACC": sum(report.values()) / len(report)} if report else {})


_YES_NO = re.compile(r"\b(?:(yes)|no)\b", re.IGNORECASE)
_A_B = re.compile(r"\b(?:(a)|b)\b", re.IGNORECASE)


def read_natural_bench(reply: str, question_type: str) -> int:
    """Return 1 for yes or A, 0 for no or B, whichever word comes first in any case; -1 if neither is there."""
    word = (_YES_NO if question_type == "yes_no" else _A_B).search(reply)
    return -1 if word is None else int(word[1] is not None)


RIGHT_PATTERN = (1, 0, 0, 1)


def natural_bench_report(groups: Sequence[Sequence[int]]) -> dict[str, float]:
    """Return NaturalBench's four accuracies of groups of readings (question 0 on images 0 and 1, question 1 on both)."""
    question = image = single = whole = 0
    for group in groups:
        a, b, c, d = (reading == gold for reading, gold in zip(group, RIGHT_PATTERN, strict=True))
        question += (a and b) + (c and d)
        image += (a and c) + (b and d)
        single += a + b + c + d
        whole += a and b and c and d
    n = len(groups)
    return {"Q_Acc": question / (2 * n), "I_Acc": image / (2 * n), "Acc": single / (4 * n), "G_Acc": whole / n}
