"""One row, of a question file or of somebody's results, as a sample: its id, its gold answer, and its place in a pair."""

from __future__ import annotations

import re
from collections.abc import Mapping
from math import isfinite
from string import ascii_uppercase
from typing import Any

from snellen.benchmarks.vlm2.layout import Subtask
from snellen.types import Kind, Prompt, Sample

KINDS: Mapping[str, Kind] = {"pair": "truth", "count": "count", "group": "choice", "video": "open"}
HALVES = {"T": "p", "F": "n"}
DEFAULT_LENGTH = 2
BROKEN_DOWN_BY = (("cue", "task"), ("type", "type"))
NOT_OF_THE_ROW = ("images", "image", "model_answer")
_NUMBER = re.compile(r"\d+")
_CHOICE = re.compile(r"(?<![\w(])([A-Z])\)\s*([^;\n]*?)\s*(?=;|\n|\.?\s*\Z)")


def sample(subtask: Subtask, row: Mapping[str, Any], prompt: Prompt, turn: int = 0, **meta: Any) -> Sample:
    """Return the sample that a row stands for.

    Its meta holds what the scoring profiles go by: `gold` (the gold answer as the row gives it, where it is a text),
    `pair`, `half` (p or n), `kit_pair` and `no_kit_pair` (see `place`), `images` and `shown` (see `lengths`), `turn` (how often the id
    had occurred before, where it had), `no_gold` where a count has no gold answer that can be read
    (`vlmevalkit`: none that the kit can read), and `cue`, `type` or `pattern` for breaking results down; and where something is shown,
    `row`: the row itself without its images, for exports.

    Args:
        row: `q_id` or `vid`, `gt_answer`, `question` and whatever else there is; nothing about it is trusted.
        prompt: what is shown; an empty one for rows of results.
        turn: 0 for the first row with this id.
        meta: more meta, such as the prompting variant; `images` and `shown` where the row itself does not tell.
    """
    gold = row.get("gt_answer")
    if isinstance(gold, str) and subtask.family != "video":
        meta["gold"] = gold
    for field, column in BROKEN_DOWN_BY:
        value = row.get(column)
        if value and isinstance(value, str):
            meta[field] = value
    name = row_id(subtask, row)
    group = ""
    options: Mapping[str, str] = {}
    if subtask.family == "pair":
        places = place(subtask, row.get("q_id"), gold, row.get("index"))
        meta |= places
        group = places.get("pair", "")
        if subtask.cue == "gc":
            name = f"{name}_{places['half']}" if "half" in places else f"{name}_?"
    elif subtask.family == "count":
        if "images" not in meta:
            meta["images"], meta["shown"] = lengths(row)
        if kinds := pattern(meta["images"], target(subtask, gold)):
            meta["pattern"] = kinds
        if type(gold) is not int and kit_count(gold) is None:
            meta["no_gold"] = "yes" if _counted(gold) is None else "vlmevalkit"
    elif subtask.family == "group":
        options = choices(row.get("question"))
        if kinds := group_pattern(row.get("images"), gold):
            meta["pattern"] = kinds
    elif subtask.family == "video":
        meta["form"] = "ABA" if "ABA" in name else "AB"
    if prompt.parts:
        meta["row"] = {key: value for key, value in row.items() if key not in NOT_OF_THE_ROW}
    if turn:
        meta["turn"] = turn
        name = f"{name}#{turn + 1}"
    return Sample(
        id=name,
        prompt=prompt,
        target=target(subtask, gold),
        kind=KINDS[subtask.family],
        options=options,
        group=group,
        meta=meta,
    )


def row_id(subtask: Subtask, row: Mapping[str, Any]) -> str:
    """Return the row's own id as text: `vid` of a video, else `q_id`; `?` where it has none."""
    value = row.get("vid" if subtask.family == "video" else "q_id")
    if type(value) is str and value:
        return value
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return "?" if value is None or value == "" else str(value)


def target(subtask: Subtask, gold: Any) -> Any:
    """Return the gold answer in the type of the sample's kind; None where the row has none or a strange one."""
    if subtask.family == "pair":
        return {"T": True, "F": False}.get(gold.strip().upper()) if isinstance(gold, str) else None
    if subtask.family == "count":
        return gold if type(gold) is int else _counted(gold)
    if subtask.family == "group":
        return gold.partition(")")[0].strip() if isinstance(gold, str) else None
    return None


def _counted(gold: Any) -> int | float | None:
    """Return a gold count that is not an integer: what the authors' arithmetic makes of it (true is 1).

    A text as a number.
    """
    if not isinstance(gold, (int, float, str)):
        return None
    try:
        value = float(gold)
    except (ValueError, OverflowError):
        return None
    if not isfinite(value):
        return None
    return int(value) if value.is_integer() else value


def kit_count(gold: Any) -> int | None:
    """Return a gold count as VLMEvalKit takes it, by Python's `int`.

    2.5 is 2, and the texts "2.5" and "3.0" are none.
    """
    try:
        return int(gold) if isinstance(gold, (int, float, str)) else None
    except (ValueError, OverflowError):
        return None


def place(subtask: Subtask, q_id: Any, gold: Any, index: Any = None) -> dict[str, str]:
    """Return the pair and the half of a row, under the authors' rule (`pair`, `half`) and VLMEvalKit's (`kit_pair`).

    A row of VLMEvalKit's has its `index`, whose last `_` ends the kit's pair, whatever stands behind it. An index without
    one is in no pair of the kit's (`no_kit_pair`), though it may be in one of the authors'.

    gc: the two questions of a pair carry one q_id, and the gold answer tells them apart: exactly `T` or exactly `F`.
    Rows without a q_id are together one pair, since no q_id is a value like any other to the authors' grouping.
    oc-cpr, pc-cpr: q_id is `<main>_p` or `<main>_n`, split at the first underscore; pc-cpr drops a leading `tf_`. What
    is not of that form has no pair. Of the authors' rows VLMEvalKit's index is the q_id, with the half behind it for gc.

    Source: the released scripts "3acc" (gc, oc, pc) and VLMEvalKit's VLM2Bench.
    """
    places = _authors_place(subtask, q_id, gold)
    if isinstance(index, str):
        places.pop("kit_pair", None)
        kit, mark, _ = index.rpartition("_")
        places |= {"kit_pair": kit} if mark else {"no_kit_pair": "yes"}
    return places


def _authors_place(subtask: Subtask, q_id: Any, gold: Any) -> dict[str, str]:
    if subtask.cue == "gc":
        whole = isinstance(q_id, float) and q_id.is_integer()
        places = {"pair": "" if q_id is None else str(int(q_id) if whole else q_id)}
        if isinstance(gold, str) and gold in HALVES:
            places["half"] = HALVES[gold]
        return places
    if not isinstance(q_id, str):
        return {}
    places = {}
    kit, mark, _ = q_id.rpartition("_")
    name = q_id.removeprefix("tf_") if subtask.cue == "pc" else q_id
    main, split, half = name.partition("_")
    if split and half in ("p", "n"):
        places |= {"pair": main, "half": half}
    if mark and kit != places.get("pair"):
        places["kit_pair"] = kit
    return places


def lengths(row: Mapping[str, Any]) -> tuple[int, int]:
    """Return the number of images of a counting question, as the authors' evaluator counts and as VLMEvalKit does.

    The authors': `image_seq_len`, else the length of the list `image_seq`, else 2; `images` is not looked at.
    VLMEvalKit: a positive `image_seq_len`, else the number of images, else 2.
    """
    length = row.get("image_seq_len")
    sequence, images = row.get("image_seq"), row.get("images")
    counted = len(images) if isinstance(images, list) and images else DEFAULT_LENGTH
    if type(length) is int or (isinstance(length, float) and isfinite(length)):
        return int(length), int(length) if int(length) > 0 else counted
    return len(sequence) if isinstance(sequence, list) else DEFAULT_LENGTH, counted


def pattern(images: int, things: Any) -> str:
    """Return who is who in a sequence: AAB for three images of two things; empty where these numbers fit no sequence.

    One thing alone occurs more than once in the released sequences, so that both numbers tell the pattern.
    Source: VLM2-Bench, Tables 10 to 17 (AA, AB, AAA, AAB, ABC, AAAA, AAAB, AABC, ABCD).
    """
    if type(things) is not int or not 1 <= things <= images <= len(ascii_uppercase):
        return ""
    return "A" * (images - things) + ascii_uppercase[:things]


def group_pattern(images: Any, gold: Any) -> str:
    """Return the pattern of a grouping question from its images and its gold option: `B) 1 and 3`, or `D) None`."""
    if not isinstance(images, list) or not isinstance(gold, str):
        return ""
    named = _NUMBER.findall(gold.partition(")")[2])
    if not named:
        return pattern(len(images), len(images)) if "none" in gold.casefold() else ""
    return pattern(len(images), len(images) - len(named) + 1)


def choices(question: Any) -> dict[str, str]:
    """Return the four groupings that a question offers, `A) 1 and 2; B) None; …`; empty where it offers none."""
    if not isinstance(question, str):
        return {}
    return {letter: text.rstrip(".") for letter, text in _CHOICE.findall(question)}
