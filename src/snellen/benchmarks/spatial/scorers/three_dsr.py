"""3DSRBench: one question in up to eight forms, options rotated and images flipped, scored in four settings.

The settings: every form by itself, with its flipped image, with its rotations, with all of them. A name is eight characters,
then `-N` for a rotation, `-flip`, or `-flip-N`.

Source: the tasks `3dsrbench` and `3dsrbench_circular` of lmms-eval and `3DSRBench` of VLMEvalKit.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from msgspec import structs

from snellen.benchmarks.spatial.scorers.rows import ScoredRow, micro
from snellen.benchmarks.spatial.tasks import CONSTANTS
from snellen.errors import DataError

BASE = 8
FLIP = "-flip"

KEYS: dict[str, Callable[[str], str]] = {
    "vanilla": lambda qid: qid,
    "flip": lambda qid: qid.replace(FLIP, ""),
    "circular": lambda qid: qid[: BASE + len(FLIP)] if FLIP in qid else qid[:BASE],
    "flip_circular": lambda qid: qid[:BASE],
}
"""Key that the rows of one unit share, by setting."""
SETTINGS = {"vanilla": "vanilla", "flip": "flip_eval", "circular": "circ_eval", "flip_circular": "flip_circ_eval"}
"""Setting to VLMEvalKit's name of it."""


def units(rows: Sequence[ScoredRow], setting: str) -> dict[str, float]:
    """Return 1 for each key whose rows are all right, else 0, in order of first rows (lmms-eval). `vanilla`: see `settings`."""
    key = KEYS[setting]
    right: dict[str, float] = {}
    for row in rows:
        if row.value is not None:
            right[key(row.qid)] = min(right.get(key(row.qid), 1.0), float(row.value == 1))
    return right


def settings(rows: Sequence[ScoredRow]) -> dict[str, float]:
    """Return `<setting>_accuracy` of lmms-eval: the mean over rows (vanilla) or over keys; empty for no rows."""
    vanilla = micro(rows)
    if vanilla is None:
        return {}
    figures = {"vanilla_accuracy": vanilla}
    for setting in ("flip", "circular", "flip_circular"):
        right = units(rows, setting)
        figures[f"{setting}_accuracy"] = sum(right.values()) / len(right)
    return figures


def main_rows(rows: Sequence[ScoredRow], setting: str) -> list[ScoredRow]:
    """Return VLMEvalKit's rows of a setting: those whose name is their key, worth 1 if all rows of the key are right.

    Raises:
        DataError: if a key has no row of its own name, where VLMEvalKit stops too.
    """
    if setting == "vanilla":
        return list(rows)
    right = units(rows, setting)
    scored = [structs.replace(row, value=right[row.qid]) for row in rows if row.qid in right]
    orphans = sorted(set(right) - {row.qid for row in scored})
    if orphans:
        raise DataError(
            f"3DSRBench, {setting}: {len(orphans)} of {len(right)} questions lack the row of their own name, "
            f"the first is {orphans[0]!r}. Score the whole file, or take lmms-eval's rule, which does without."
        )
    return scored


def with_main_row(rows: Sequence[ScoredRow], setting: str) -> list[ScoredRow]:
    """Return the rows whose key has the row of its own name, without which VLMEvalKit stops."""
    names, key = {row.qid for row in rows}, KEYS[setting]
    return [row for row in rows if setting == "vanilla" or key(row.qid) in names]


MAIN: dict[str, str] = CONSTANTS["three_dsr"]["main"]
"""The main category (height, location, orientation, multi_object) of each of the twelve."""

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
