"""Parts that the replies of all protocols share: decoding, token counts, and one word for how a reply ended."""

from __future__ import annotations

import json
from typing import Any, TypeVar

import msgspec

from snellen.errors import BadReplyError, RefusalError
from snellen.models.api.errors import excerpt
from snellen.models.api.prices import Price
from snellen.types import Response, Usage

STOP, LENGTH, REFUSED = "stop", "length", "refused"
_WORDS = {
    STOP: "stop end_turn stop_sequence tool_use tool_calls function_call pause_turn completed eos eos_token",
    LENGTH: "length max_tokens max_output_tokens model_context_window_exceeded model_length max_length",
    REFUSED: "content_filter refusal safety recitation blocklist prohibited_content spii language image_safety "
    "image_prohibited_content image_recitation model_armor",
}
_FINISH = {word: finish for finish, words in _WORDS.items() for word in words.split()}

_WORD_CHARACTERS, _COUNT_DIGITS = 64, 16

T = TypeVar("T")


def finish_word(reason: Any) -> str:
    """Return `stop`, `length` or `refused` for a service's own word; the beginning of a word that is not known."""
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


def priced(usage: Usage, price: Price | None) -> Usage:
    """Return the usage with its cost; without one where no price is known or no token was counted."""
    if price is None or not (usage.input_tokens or usage.output_tokens):
        return usage
    cost = price.usage_cost(usage)
    return msgspec.structs.replace(usage, cost=cost)


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
