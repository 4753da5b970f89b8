"""Early ends of an answer: stop strings, and one whole JSON object. Pure functions over text."""

from __future__ import annotations

import json
from collections.abc import Sequence

THINKING, THOUGHT = "<think>", "</think>"


def answer_end(text: str, stop: Sequence[str], first_json: bool) -> int | None:
    """Return the number of characters of `text` that are the answer; None while it has not ended.

    A stop string ends the answer before itself, as in the OpenAI protocol; a JSON object ends it after its last brace.
    The earliest end counts.
    """
    ends = [at for at in (text.find(word) for word in stop) if at >= 0]
    if first_json and (json_end := first_json_end(text)) is not None:
        ends.append(json_end)
    return min(ends, default=None)


def first_json_end(text: str) -> int | None:
    """Index after the first whole JSON object at the top level of `text`; None if there is none yet.

    Braces inside strings do not count. Braces that hold no JSON (`{x}`, `\\boxed{5}`) are passed over, and so is
    what stands between `<think>` and `</think>` before the object.
    """
    start = 0
    while (opened := text.find("{", start)) >= 0:
        thinking = text.find(THINKING, start, opened)
        if thinking >= 0:
            start = text.find(THOUGHT, thinking)
            if start < 0:
                return None
            continue
        closed = _closing_brace(text, opened)
        if closed is None:
            return None
        try:
            json.loads(text[opened:closed])
        except (ValueError, RecursionError):
            start = opened + 1
        else:
            return closed
    return None


def _closing_brace(text: str, opened: int) -> int | None:
    """Index after the brace that closes the one at `opened`; `opened + 1` if no JSON object can start there."""
    first = text[opened + 1 :].lstrip()[:1]
    if first and first not in '"}':
        return opened + 1
    depth, inside, escaped = 0, False, False
    for index in range(opened, len(text)):
        letter = text[index]
        if inside:
            if escaped:
                escaped = False
            elif letter == "\\":
                escaped = True
            elif letter == '"':
                inside = False
        elif letter == '"':
            inside = True
        elif letter == "{":
            depth += 1
        elif letter == "}":
            depth -= 1
            if depth == 0:
                return index + 1
    return None
