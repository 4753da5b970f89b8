"""Chat completions: untrusted bytes to a Response, or to the error that describes what is wrong with them."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

from snellen.errors import BadReplyError, ModelError
from snellen.models.api.errors import STATUS_OF_TYPE, error_object, excerpt, from_code
from snellen.models.api.prices import Price
from snellen.models.api.reply import (
    BROKEN,
    REFUSED,
    broken_off,
    count,
    decode,
    finish_word,
    lacking,
    priced,
    refusal,
    string,
)
from snellen.types import Response, TokenLogprob, Usage


class _Message(Struct):
    content: Any = None
    reasoning_content: Any = None
    reasoning: Any = None
    refusal: Any = None


class _Choice(Struct):
    message: _Message | None = None
    finish_reason: Any = None
    error: Any = None
    logprobs: Any = None


class _Completion(Struct):
    """The members that are read; all others are skipped without being built. `Any` where servers differ."""

    choices: list[_Choice] | None = None
    usage: Any = None
    model: Any = None
    error: Any = None
    id: Any = None


_decoder = msgspec.json.Decoder(_Completion)


def read_reply(
    data: bytes, latency_s: float, price: Price | None = None, trace: Any = None, request_id: str = ""
) -> Response:
    """Return the answer in a reply of HTTP status 2xx.

    An empty or missing content is an empty answer; one that the server marks as refused or filtered is a refusal.
    Parts of a content list that hold text are joined; parts that hold thinking become `reasoning`.

    Args:
        data: the reply's bytes.
        latency_s: seconds that it took.
        price: of the model's tokens; None: no cost is computed.
        trace: kept in the response.
        request_id: the provider's, from a header; "": that of the reply.

    Raises:
        BadReplyError: not JSON, or no choice, or no message in it.
        RefusalError: `message.refusal` is set, or the finish reason is `content_filter`.
        ModelError: the reply holds an error object in place of an answer, or was broken off before one.
    """
    completion = decode(_decoder, data, "a chat completion")
    if not completion.choices:
        raise missing_answer(completion.error, data)
    choice = completion.choices[0]
    if choice.error:
        raise missing_answer(choice.error, data)
    if choice.message is None:
        raise BadReplyError(f"The reply's first choice has no message. It begins: {excerpt(data, 120)}")
    message = choice.message
    text, thought, declined = _content(message.content)
    for reasoning in (message.reasoning_content, message.reasoning):
        if not thought and isinstance(reasoning, str):
            thought = reasoning
    response = Response(
        text=text,
        usage=_usage(completion.usage, price),
        latency_s=latency_s,
        finish_reason=finish_word(choice.finish_reason),
        reasoning=thought,
        model=string(completion.model),
        trace=trace,
        logprobs=read_logprobs(choice.logprobs, text),
        request_id=request_id or string(completion.id),
    )
    if declined or message.refusal:
        raise refusal("The model declined to answer", declined or message.refusal, response)
    if response.finish_reason == REFUSED:
        raise refusal("The server's content filter cut the answer off", text, response)
    if response.finish_reason == BROKEN and not text.strip():
        raise broken_off(string(choice.finish_reason), thought, response)
    return response


def read_logprobs(logprobs: Any, text: str) -> tuple[TokenLogprob, ...] | None:
    """Return the answer's tokens of a choice's `logprobs` member; None where the server gave none that can be read."""
    content = logprobs.get("content") if isinstance(logprobs, dict) else None
    if not isinstance(content, list) or not content:
        return None
    from snellen.scoring.logprobs import ServedToken, answer_tokens  # a run without probabilities does not need it

    tokens = [
        ServedToken(token.get("token"), token.get("logprob"), _alternatives(token), _bytes_of(token.get("bytes")))
        for token in content
        if isinstance(token, dict)
    ]
    return answer_tokens(tokens, text)


def _alternatives(token: dict[str, Any]) -> list[tuple[Any, Any]]:
    listed = token.get("top_logprobs")
    if not isinstance(listed, list):
        return []
    return [(other.get("token"), other.get("logprob")) for other in listed if isinstance(other, dict)]


def _bytes_of(numbers: Any) -> bytes | None:
    if not isinstance(numbers, list):
        return None
    try:
        return bytes(numbers)
    except (TypeError, ValueError):  # no bytes: the token's text is used
        return None


def missing_answer(error: Any, data: bytes) -> ModelError:
    """Return the error of a reply with HTTP 200 whose body is an error object, its status as `code` or by its type."""
    if not error:
        return BadReplyError(f"The reply holds no choices. It begins: {excerpt(data, 120)}")
    message, code = error_object(error)
    status = int(code) if code.isdecimal() and len(code) < 5 else STATUS_OF_TYPE.get(code, 0)
    if 400 <= status < 600:
        return from_code(status, message, code)
    return BadReplyError(f"The reply holds an error in place of an answer: {message}")


def _content(content: Any) -> tuple[str, str, str]:
    """Return (text, reasoning, words of a refusal) of a content that is a string, a list of parts, or missing."""
    if isinstance(content, str):
        return content, "", ""
    if content is None:
        return "", "", ""
    if not isinstance(content, list):
        raise BadReplyError(f"The reply's content is neither text nor a list of parts, but {type(content).__name__}.")
    texts, thoughts, declined = [], [], ""
    for part in content:
        if isinstance(part, str):
            texts.append(part)
        elif isinstance(part, dict) and part.get("type") in ("thinking", "reasoning"):
            inner = part.get("thinking", part.get("reasoning", part.get("text")))
            thoughts.append("".join(_content(inner)) if isinstance(inner, (str, list)) else "")
        elif isinstance(part, dict) and part.get("type") == "refusal":
            declined = declined or str(part.get("refusal") or "no reason was given")
        elif isinstance(part, dict) and isinstance(part.get("text"), str):
            texts.append(part["text"])
    return "".join(texts), "".join(thoughts), declined


def _usage(usage: Any, price: Price | None) -> Usage:
    """Return token counts; what the server does not say, or says wrongly, counts as 0, and then no cost is made up."""
    if not isinstance(usage, dict):
        return Usage()
    details = usage.get("prompt_tokens_details")
    return priced(
        Usage(
            input_tokens=count(usage, "prompt_tokens"),
            output_tokens=count(usage, "completion_tokens"),
            reasoning_tokens=count(usage.get("completion_tokens_details"), "reasoning_tokens"),
            cached_tokens=count(details, "cached_tokens"),
            cache_write_tokens=count(details, "cache_write_tokens"),
            image_tokens=count(details, "image_tokens"),
            lacks=lacking(usage, ("prompt_tokens",), ("completion_tokens",)),
        ),
        price,
    )
