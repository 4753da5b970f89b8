"""Chat completions: untrusted bytes to a Response, or to the error that describes what is wrong with them."""

from __future__ import annotations

import json
from typing import Any

import msgspec
from msgspec import Struct

from snellen.errors import BadReplyError, RefusalError
from snellen.models.api.errors import error_object, excerpt, from_code
from snellen.models.api.prices import Price
from snellen.types import Response, Usage


class _Message(Struct):
    content: Any = None
    reasoning_content: Any = None
    reasoning: Any = None
    refusal: Any = None


class _Choice(Struct):
    message: _Message | None = None
    finish_reason: Any = None
    error: Any = None


class _Completion(Struct):
    """The members that are read; all others are skipped without being built. `Any` where servers differ."""

    choices: list[_Choice] | None = None
    usage: Any = None
    model: Any = None
    error: Any = None


_decoder = msgspec.json.Decoder(_Completion)


def read_reply(data: bytes, latency_s: float, price: Price | None = None, trace: Any = None) -> Response:
    """Return the answer in a reply of HTTP status 2xx.

    An empty or missing content is an empty answer; one that the server marks as refused or filtered is a refusal.
    Parts of a content list that hold text are joined; parts that hold thinking become `reasoning`.

    Raises:
        BadReplyError: not JSON, or no choice, or no message in it.
        RefusalError: `message.refusal` is set, or the finish reason is `content_filter`.
        ModelError: the reply holds an error object in place of an answer.
    """
    completion = _completion(data)
    if not completion.choices:
        raise _missing_answer(completion.error, data)
    choice = completion.choices[0]
    if choice.error:
        raise _missing_answer(choice.error, data)
    if choice.message is None:
        raise BadReplyError(f"The reply's first choice has no message. It begins: {excerpt(data, 120)}")
    message = choice.message
    text, thought = _content(message.content)
    finish = choice.finish_reason if isinstance(choice.finish_reason, str) else ""
    if message.refusal or finish == "content_filter":
        words = message.refusal if isinstance(message.refusal, str) else text
        reason = "The model declined to answer" if message.refusal else "The server's content filter cut the answer off"
        raise RefusalError(f"{reason}: {excerpt(words.encode('utf-8', 'replace'))}" if words else f"{reason}.")
    for reasoning in (message.reasoning_content, message.reasoning):
        if not thought and isinstance(reasoning, str):
            thought = reasoning
    return Response(
        text=text,
        usage=_usage(completion.usage, price),
        latency_s=latency_s,
        finish_reason=finish,
        reasoning=thought,
        model=completion.model if isinstance(completion.model, str) else "",
        trace=trace,
    )


def _completion(data: bytes) -> _Completion:
    try:
        try:
            return _decoder.decode(data)
        except msgspec.DecodeError:
            # A reply cut inside an emoji can hold half a surrogate pair, which strict JSON refuses; read it as U+FFFD.
            if b"\\ud" not in data.lower():
                raise
            mended = json.dumps(json.loads(data), ensure_ascii=False).encode("utf-16", "surrogatepass")
            return _decoder.decode(mended.decode("utf-16", "replace"))
    except (ValueError, RecursionError) as error:
        # A wrong type is a ValueError too, and says where in the reply it stands.
        begins = excerpt(data, 120) or "nothing at all"
        raise BadReplyError(f"The reply is not a chat completion: {error}. It begins: {begins}") from None


def _missing_answer(error: Any, data: bytes) -> Exception:
    """Return the error of a reply with HTTP 200 whose body is an error object, its status as `code`."""
    if not error:
        return BadReplyError(f"The reply holds no choices. It begins: {excerpt(data, 120)}")
    message, code = error_object(error)
    if code.isdecimal() and 400 <= int(code) < 600:
        return from_code(int(code), message, code)
    return BadReplyError(f"The reply holds an error in place of choices: {message}")


def _content(content: Any) -> tuple[str, str]:
    """Return (text, reasoning) of a content that is a string, a list of parts, or missing."""
    if isinstance(content, str):
        return content, ""
    if content is None:
        return "", ""
    if not isinstance(content, list):
        raise BadReplyError(f"The reply's content is neither text nor a list of parts, but {type(content).__name__}.")
    texts, thoughts = [], []
    for part in content:
        if isinstance(part, str):
            texts.append(part)
        elif isinstance(part, dict) and part.get("type") in ("thinking", "reasoning"):
            inner = part.get("thinking", part.get("reasoning", part.get("text")))
            thoughts.append("".join(_content(inner)) if isinstance(inner, (str, list)) else "")
        elif isinstance(part, dict) and part.get("type") == "refusal":
            raise RefusalError(f"The model declined to answer: {excerpt(str(part.get('refusal')).encode())}")
        elif isinstance(part, dict) and isinstance(part.get("text"), str):
            texts.append(part["text"])
    return "".join(texts), "".join(thoughts)


def _usage(usage: Any, price: Price | None) -> Usage:
    """Return token counts; what the server does not say, or says wrongly, counts as 0, and then no cost is made up."""
    if not isinstance(usage, dict):
        return Usage()
    read, written = _count(usage, "prompt_tokens"), _count(usage, "completion_tokens")
    cached = _count(usage.get("prompt_tokens_details"), "cached_tokens")
    cost = price.cost(read, written, cached) if price is not None and (read or written) else None
    return Usage(
        input_tokens=read,
        output_tokens=written,
        reasoning_tokens=_count(usage.get("completion_tokens_details"), "reasoning_tokens"),
        cost=cost,
        cached_tokens=cached,
    )


def _count(table: Any, name: str) -> int:
    value = table.get(name) if isinstance(table, dict) else None
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**53 else 0
