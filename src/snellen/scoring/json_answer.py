"""Answers in JSON replies: the first JSON object with an answer, else a short last line, else none."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Literal

from msgspec import Struct

CHARACTERS = 200_000
"""Maximum characters that are read: the last ones of a longer reply."""
TRIES = 2_000
PASSES = 8
"""Maximum passes over the text in search of an object, which keeps the search linear."""
LINE_CHARACTERS = 200
_THOUGHT = re.compile(r"\A.*</think>", re.DOTALL)
_FENCE = re.compile(r"^[ \t]*```[\w-]*[ \t]*$", re.MULTILINE)
_LABEL = re.compile(
    r"\A(?:the\s+)?(?:final\s+)?answer(?:\s+is)?\s*[:：]\s*|\A(?:最终)?答案(?:是|为)?\s*[:：]\s*", re.IGNORECASE
)
_MARKUP = "*_`#>- \t"


class JsonReply(Struct, frozen=True):
    """The answer of a reply, with the members of its JSON object.

    Attributes:
        answer: the name; empty if there is none.
        confidence: 0 to 1, or None.
        evidence: (url, note) of each piece.
        reasoning: the model's reasoning, verbatim.
        how: the place of the answer: in the JSON object, on the last line, or nowhere.
        fault: why there is no answer.
    """

    answer: str = ""
    confidence: float | None = None
    evidence: tuple[tuple[str, str], ...] = ()
    reasoning: str = ""
    how: Literal["object", "last line", "nowhere"] = "nowhere"
    fault: str = ""


def read(reply: str) -> JsonReply:
    """Read the answer of a reply.

    Thinking (up to the last `</think>`) and code fences are ignored. The first balanced JSON object with an `answer`
    counts, whatever surrounds it; an empty answer counts as none. Without such an object the last line counts, without
    a label such as `Answer:`, if it has at most 200 characters and is no piece of JSON.
    """
    text = _THOUGHT.sub("", reply[-CHARACTERS:])
    if "<think>" in text:
        return JsonReply(fault="it ends within its thoughts")
    text = _FENCE.sub("", text).strip()
    if not text:
        return JsonReply(fault="it is empty")
    for candidate in objects(text):
        if "answer" in candidate:
            return _of_object(candidate)
    line = text.splitlines()[-1].strip(_MARKUP)
    line = _LABEL.sub("", line).strip(_MARKUP).strip("\"'“”")
    if not any(character.isalnum() for character in line) or line[0] in "{[}]" or line.endswith(("}", "]", ",")):
        return JsonReply(fault="no JSON object with an answer, and no answer on the last line")
    if len(line) > LINE_CHARACTERS:
        return JsonReply(fault=f"no JSON object with an answer, and a last line of {len(line):,} characters")
    return JsonReply(line, how="last line")


def objects(text: str) -> Iterator[dict[str, Any]]:
    """Yield the JSON objects in a text, outer before inner, in the order in which they begin.

    At most 2,000 positions are tried, and fewer if each try scans much of the text.
    """
    decode = json.JSONDecoder().raw_decode
    budget = PASSES * len(text)
    at = text.find("{")
    for _ in range(TRIES):
        if at < 0 or budget <= 0:
            return
        value, end = None, at + 1
        try:
            value, end = decode(text, at)
        except json.JSONDecodeError as error:
            end = len(text) if error.msg.startswith("Unterminated") else error.pos
        except (ValueError, RecursionError):  # a number of too many digits; brackets nested too deeply
            end = len(text)
        budget -= end - at
        if isinstance(value, dict):
            yield value
        at = text.find("{", at + 1)


def _of_object(answer_object: dict[str, Any]) -> JsonReply:
    answer = _text(answer_object["answer"])
    if not answer:
        return JsonReply(fault="its answer is empty")
    confidence = answer_object.get("confidence")
    number = isinstance(confidence, (int, float)) and not isinstance(confidence, bool) and 0 <= confidence <= 1
    pieces = answer_object.get("evidence")
    return JsonReply(
        answer,
        float(confidence) if number else None,  # type: ignore[arg-type]
        tuple(_piece(piece) for piece in pieces) if isinstance(pieces, list) else (),
        _text(answer_object.get("reasoning")),
        "object",
    )


def _piece(piece: Any) -> tuple[str, str]:
    return (_text(piece.get("url")), _text(piece.get("note"))) if isinstance(piece, dict) else (_text(piece), "")


def _text(value: Any) -> str:
    """Return a value as text; several names are joined by semicolons, for the judge to decide."""
    if value is None or isinstance(value, bool):
        return ""
    if isinstance(value, list):
        return "; ".join(filter(None, map(_text, value)))
    text = value.strip() if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    # JSON can write half a surrogate pair, which no file and no request takes.
    return text.encode("utf-8", "backslashreplace").decode("utf-8")
