"""Parts that the replies of all protocols share: decoding, token counts, and one word for how a reply ended."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, TypeVar

import msgspec

from snellen.errors import BROKEN_OFF, BadReplyError, RefusalError, ServerError
from snellen.models.api.errors import excerpt
from snellen.models.api.prices import Price
from snellen.types import Response, Usage

STOP, LENGTH, REFUSED, BROKEN = "stop", "length", "refused", "broken"
_WORDS = {
    STOP: "stop end_turn stop_sequence tool_use tool_calls function_call pause_turn completed eos eos_token",
    LENGTH: "length max_tokens max_output_tokens model_context_window_exceeded model_length max_length",
    REFUSED: "content_filter content_filtered guardrail_intervened refusal safety recitation blocklist prohibited_content spii image_safety "
    "image_prohibited_content image_recitation model_armor",
    BROKEN: "other language malformed_function_call unexpected_tool_call too_many_tool_calls malformed_response malformed_model_output malformed_tool_use error abort",
}
_FINISH = {word: finish for finish, words in _WORDS.items() for word in words.split()}

_WORD_CHARACTERS, _COUNT_DIGITS = 64, 16
CALLS = re.compile(r"tool|function|call", re.IGNORECASE)
THOUGHTS = re.compile(r"reason|think|thought|analysis", re.IGNORECASE)
MEMBER = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,39}")
"""Names of members that hold calls and thinking, and of any that is shown to a reader."""
_TURNS = {"chat": ("choices", 0, "message"), "messages": ("content",), "responses": ("output",),
          "gemini": ("candidates", 0, "content", "parts"), "converse": ("output", "message", "content")}  # fmt: skip
"""Place of the model's turn in a reply of each protocol: an object, or a list of its parts."""
_ANSWER = {"content", "text", "output_text"}
"""Members and types of parts that hold the answer itself."""
_ABOUT = {"role", "id", "call_id", "index", "type", "status"}
"""Members of a turn or a part that hold nothing of what the model wrote."""

T = TypeVar("T")


def finish_word(reason: Any) -> str:
    """Return `stop`, `length`, `refused` or `broken` for a service's own word; the beginning of one that is not known."""
    if not isinstance(reason, str):
        return ""
    return _FINISH.get(reason.lower()) or excerpt(reason.encode("utf-8", "replace"), _WORD_CHARACTERS)


def decode(decoder: msgspec.json.Decoder[T], data: bytes, expected: str) -> T:
    """Decode a reply.

    Args:
        decoder: of the reply's type.
        data: the reply.
        expected: name of the expected reply, for the message: `a chat completion`.

    Raises:
        BadReplyError: no JSON, or not of that type.
    """
    try:
        try:
            return decoder.decode(data)
        except msgspec.DecodeError:
            # A reply cut inside an emoji can hold half a surrogate pair, which strict JSON refuses; read it as U+FFFD.
            # Servers in Python write probabilities that are not finite as NaN and Infinity; these become null.
            if b"\\ud" not in data.lower() and b"NaN" not in data and b"Infinity" not in data:
                raise
            value = json.loads(data, parse_constant=lambda name: None)
            mended = json.dumps(value, ensure_ascii=False).encode("utf-16", "surrogatepass")
            return decoder.decode(mended.decode("utf-16", "replace"))
    except (ValueError, RecursionError) as error:
        # A wrong type is a ValueError too, and says where in the reply it stands.
        begins = excerpt(data, 120) or "nothing at all"
        raise BadReplyError(f"The reply is not {expected}: {error}. It begins: {begins}") from None


def string(value: Any) -> str:
    """Return a string of a reply; "" for anything else."""
    return value if isinstance(value, str) else ""


def place_of_text(protocol: str, data: bytes) -> str:
    """Return the member or the type of part that holds text in a reply whose answer is empty; "" where none does.

    Calls of tools come first, then thinking: an answer that is a call may have been thought about.
    """
    try:
        value = msgspec.json.decode(data)
        for step in _TURNS[protocol]:
            value = value[step]
        names = [name for name, member in _members(value) if name not in _ANSWER and _holds_text(member)]
    except (ValueError, RecursionError, LookupError, TypeError):
        return ""
    for kind in (CALLS, THOUGHTS, MEMBER):
        for name in names:
            if kind.search(name):
                return name if MEMBER.fullmatch(name) else "another member"
    return ""


def _members(turn: Any) -> Iterator[tuple[str, Any]]:
    """Yield name and value of the members of a turn; of a part of a list its type, or the names of its members."""
    for part in turn if isinstance(turn, list) else [turn]:
        if not isinstance(part, dict):
            continue
        kind = None if part is turn else "thought" if part.get("thought") is True else part.get("type")
        for name, value in part.items():
            if name == "content" and isinstance(value, list):
                yield from _members(value)
            elif name not in _ABOUT:
                yield (kind if isinstance(kind, str) else name), value


def _holds_text(value: Any) -> bool:
    if isinstance(value, dict):
        return any(_holds_text(member) for name, member in value.items() if name not in _ABOUT)
    return any(map(_holds_text, value)) if isinstance(value, list) else bool(isinstance(value, str) and value.strip())


def count(table: Any, *names: str) -> int:
    """Return the sum of the counts of these names; what is missing or no count is 0.

    Some gateways write counts as whole decimals (`12.0`) or as texts (`"12"`).
    """
    if not isinstance(table, dict):
        return 0
    total = 0
    for name in names:
        total += _count(table.get(name))
    return total


def _count(value: Any) -> int:
    if type(value) is int:
        return value if 0 <= value < 2**53 else 0
    if isinstance(value, str):
        value = int(value) if value.isascii() and value.isdecimal() and len(value) <= _COUNT_DIGITS else 0
    elif isinstance(value, float) and value.is_integer():
        value = int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**53 else 0


def lacking(table: Any, input_names: Sequence[str], output_names: Sequence[str]) -> Literal["", "input", "output"]:
    """Return the half of a usage object under none of whose names a count stands; "" where both halves or none is there."""
    if not isinstance(table, dict):
        return ""
    has_input, has_output = _has_count(table, input_names), _has_count(table, output_names)
    return "" if has_input == has_output else "output" if has_input else "input"


def _has_count(table: Mapping[str, Any], names: Sequence[str]) -> bool:
    for name in names:
        value = table.get(name)
        if (type(value) is int and value >= 0) or str(value).partition(".")[0].isdecimal():
            return True
    return False


def broken_off(reason: str, words: Any, response: Response) -> ServerError:
    """Return the error of a reply that ended without an answer, for a reason that may pass; it is asked again."""
    own_words = excerpt(words.encode("utf-8", "replace")) if isinstance(words, str) else ""
    text = f"{BROKEN_OFF} ({excerpt(reason.encode('utf-8', 'replace'), _WORD_CHARACTERS)})"
    error = ServerError(f"{text}: {own_words}" if own_words else f"{text}.")
    error.trace = response.trace
    return error


def priced(usage: Usage, price: Price | None) -> Usage:
    """Return the usage with its cost; without one where no price is known or no token was counted."""
    if price is None or not (usage.input_tokens or usage.output_tokens):
        return usage
    return msgspec.structs.replace(usage, cost=price.usage_cost(usage), cache_saved=price.cache_saved(usage))


def refusal(reason: str, words: Any, response: Response) -> RefusalError:
    """Return the error of a declined question, with what is known of the reply.

    Args:
        reason: who declined.
        words: the service's or the model's own; anything but text is left out.
        response: the reply; its text is left out of the record, since no answer may be read from it.
    """
    own_words = excerpt(words.encode("utf-8", "replace"), 2000) if isinstance(words, str) else ""
    error = RefusalError(f"{reason}: {own_words}" if own_words else f"{reason}.")
    error.response = msgspec.structs.replace(response, text="", finish_reason=REFUSED, trace=None)
    error.trace = response.trace
    return error
