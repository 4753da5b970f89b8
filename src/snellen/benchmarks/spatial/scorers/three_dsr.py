"""3DSRBench's four settings: every form by itself, with its flipped image, with its rotations, with all of them.

Source: `3dsrbench_circular` of lmms-eval and `3DSRBench` of VLMEvalKit. A name is eight characters, then `-N` for a rotation,
`-flip`, or `-flip-N`.

3DSRBench: one question in up to eight forms, options rotated and images flipped.

Source: the tasks `3dsrbench` and `3dsrbench_circular` of lmms-eval and `3DSRBench` of VLMEvalKit.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from msgspec import structs

from snellen.benchmarks.spatial.scorers.constants import CONSTANTS
from snellen.benchmarks.spatial.scorers.letters import compared
from snellen.benchmarks.spatial.scorers.rows import Row, means, micro
from snellen.benchmarks.spatial.scorers.vlmevalkit_choice import exact as vlmevalkit
from snellen.errors import DataError
from snellen.types import Score

BASE = 8
FLIP = "-flip"

KEYS: dict[str, Callable[[str], str]] = {
    "vanilla": lambda qid: qid,
    "flip": lambda qid: qid.replace(FLIP, ""),
    "circular": lambda qid: qid[: BASE + len(FLIP)] if FLIP in qid else qid[:BASE],
    "flip_circular": lambda qid: qid[:BASE],
}
"""What the rows of one unit have in common, by setting."""


def units(rows: Sequence[Row], setting: str) -> dict[str, float]:
    """1 for each key whose rows are all right, else 0, in order of first rows (lmms-eval). `vanilla`: see `settings`."""
    key = KEYS[setting]
    found: dict[str, float] = {}
    for row in rows:
        if row.value is not None:
            found[key(row.qid)] = min(found.get(key(row.qid), 1.0), float(row.value == 1))
    return found


def settings(rows: Sequence[Row]) -> dict[str, float]:
    """`<setting>_accuracy` of lmms-eval: the mean over rows (vanilla) or over keys; empty for no rows."""
    vanilla = micro(rows)
    if vanilla is None:
        return {}
    found = {"vanilla_accuracy": vanilla}
    for setting in ("flip", "circular", "flip_circular"):
        right = units(rows, setting)
        found[f"{setting}_accuracy"] = sum(right.values()) / len(right)
    return found


def main_rows(rows: Sequence[Row], setting: str) -> list[Row]:
    """VLMEvalKit's rows of a setting: those whose name is their key, worth 1 if all rows of the key are right.

    Raises:
        DataError: if a key has no row of its own name, where VLMEvalKit stops too.
    """
    if setting == "vanilla":
        return list(rows)
    right = units(rows, setting)
    found = [structs.replace(row, value=right[row.qid]) for row in rows if row.qid in right]
    orphans = sorted(set(right) - {row.qid for row in found})
    if orphans:
        raise DataError(
            f"3DSRBench, {setting}: {len(orphans)} of {len(right)} questions lack the row of their own name, "
            f"the first is {orphans[0]!r}. Score the whole file, or take lmms-eval's rule, which does without."
        )
    return found


def kit_table(rows: Sequence[Row]) -> dict[str, dict[str, float]]:
    """VLMEvalKit's table: for each setting `Overall` and the mean of each category, over the main rows."""
    names = {"vanilla": "vanilla", "flip": "flip_eval", "circular": "circ_eval", "flip_circular": "flip_circ_eval"}
    table: dict[str, dict[str, float]] = {}
    for setting, name in names.items():
        some = main_rows(rows, setting)
        overall = micro(some)
        if overall is not None:
            table[name] = {"Overall": overall} | dict(sorted(means(some, "category").items()))
    return table


__all__ = ["MAIN", "letter", "lmms_eval", "vlmevalkit"]

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


def letter(reply: str) -> str | None:
    """lmms-eval: the first match of the first of eight rules that matches anywhere; A to D in upper case alone.

    Behind `answer:` there is no boundary (`answer: Because` is B), before a letter with a dot neither.
    """
    text = reply.strip()
    for rule in _RULES:
        found = rule.search(text)
        if found:
            return found[1]
    return None


def lmms_eval(reply: str, gold: str) -> Score:
    """lmms-eval: the letter against the gold one."""
    return compared(letter(reply), gold)
