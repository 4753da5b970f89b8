"""Early ends of an answer: stop strings, and one whole JSON object. Pure functions over text."""

from __future__ import annotations

import re
from collections.abc import Sequence

THINKING, THOUGHT = "<think>", "</think>"
_STRING = r'"[^"\\\x00-\x1f]*(?:\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})[^"\\\x00-\x1f]*)*'
_TOKEN = re.compile(
    rf'[ \t\n\r]*(?:(?P<string>{_STRING}")|(?P<sign>[{{}}\[\]:,])'
    r"|(?P<other>-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?|true|false|null|NaN|-?Infinity))"
)
_CUT_STRING = re.compile(rf"[ \t\n\r]*{_STRING}(?:\\(?:u[0-9a-fA-F]{{0,3}})?)?\Z")


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

    Braces inside strings do not count. Braces that hold no JSON (`{x}`, `\\boxed{5}`) are passed over up to the place
    where they are none, and so is what stands between `<think>` and `</think>` before the object. Takes time
    proportional to the length of the text.
    """
    start = 0
    while (opened := text.find("{", start)) >= 0:
        thinking = text.find(THINKING, start, opened)
        if thinking >= 0:
            start = text.find(THOUGHT, thinking)
            if start < 0:
                return None
            continue
        is_whole, start = _read_object(text, opened)
        if is_whole:
            return start
    return None


def _read_object(text: str, opened: int) -> tuple[bool, int]:
    """Read JSON from the brace at `opened`; return True and the index after its end, or False and where it is no JSON.

    An object that the end of the text cuts is no JSON from there on.
    """
    at, wanted = opened + 1, "key }"
    closers = ["}"]
    while token := _TOKEN.match(text, at):
        sign = token["sign"]
        if sign == closers[-1] and wanted in ("key }", "value ]", ","):
            closers.pop()
            wanted = ","
        elif wanted.startswith("key") and token["string"]:
            wanted = ":"
        elif wanted == ":" == sign:
            wanted = "value"
        elif wanted == "," == sign:
            wanted = "key" if closers[-1] == "}" else "value"
        elif wanted.startswith("value") and sign in ("{", "["):
            closers.append("}" if sign == "{" else "]")
            wanted = "key }" if sign == "{" else "value ]"
        elif wanted.startswith("value") and sign is None:
            wanted = ","
        else:
            return False, at
        at = token.end()
        if not closers:
            return True, at
    return False, len(text) if _CUT_STRING.match(text, at) else at
