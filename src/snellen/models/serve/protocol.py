"""The chat completions protocol, as far as one question to one model needs it: requests in, replies out.

Whatever would change the answer and is not supported is refused, never ignored. Source: the OpenAI API reference,
"Create chat completion", with the further sampling settings that vLLM takes, and its error object {"error": {"message", "type", "param", "code"}}.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec import Meta, Struct

from snellen.errors import BadRequestError, InputError, ModelError, OutOfMemoryError
from snellen.sources.blobs import BytesBlob
from snellen.types import MORE_SAMPLING, Generation, Image, Part, Prompt, Response, Text

# The media type is not believed, only the bytes are; the pattern stops before the data, which can be megabytes.
_DATA_URI = re.compile(r"data:image/[\w.+-]+;base64,", re.ASCII)

Penalty: TypeAlias = Annotated[float, Meta(ge=-2, le=2)]
Tokens: TypeAlias = Annotated[int, Meta(ge=1, le=1_000_000)]


class TextPart(Struct, tag="text", tag_field="type", forbid_unknown_fields=True):
    """A piece of text in a message."""

    text: str


class ImageUrl(Struct, forbid_unknown_fields=True):
    """The address of an image: here always inside the request itself. `detail` is for models that have such a switch."""

    url: str
    detail: str = "auto"


class ImagePart(Struct, tag="image_url", tag_field="type", forbid_unknown_fields=True):
    """An image in a message."""

    image_url: ImageUrl


class Message(Struct, forbid_unknown_fields=True):
    """One message: system messages first, then one of the user."""

    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: str | list[TextPart | ImagePart]
    name: str | None = None


class StreamOptions(Struct, forbid_unknown_fields=True):
    """Options of a streamed reply."""

    include_usage: bool = False


class ResponseFormat(Struct, forbid_unknown_fields=True):
    """The form of the answer: only text."""

    type: Literal["text"]


class ChatRequest(Struct, forbid_unknown_fields=True):
    """A request body. Fields that only accept one value are there because clients send them with that value."""

    model: str
    messages: list[Message]
    max_tokens: Tokens | None = None
    max_completion_tokens: Tokens | None = None
    temperature: Annotated[float, Meta(ge=0, le=2)] | None = None
    top_p: Annotated[float, Meta(gt=0, le=1)] | None = None
    seed: int | None = None
    stop: str | Annotated[list[str], Meta(max_length=16)] | None = None
    stream: bool = False
    stream_options: StreamOptions | None = None
    n: Annotated[int, Meta(ge=1, le=1)] | None = None
    top_k: Annotated[int, Meta(ge=1)] | None = None
    min_p: Annotated[float, Meta(ge=0, le=1)] | None = None
    repetition_penalty: Annotated[float, Meta(gt=0, le=10)] | None = None
    frequency_penalty: Penalty | None = None
    presence_penalty: Penalty | None = None
    chat_template_kwargs: dict[str, Any] | None = None
    logprobs: Literal[None] = None
    response_format: ResponseFormat | None = None
    user: str | None = None
    metadata: dict[str, str] | None = None


_decoder = msgspec.json.Decoder(ChatRequest)


def read_request(body: bytes) -> ChatRequest:
    """Return a request body, checked. Raises BadRequestError that names the field."""
    try:
        return _decoder.decode(body)
    except (msgspec.DecodeError, RecursionError) as error:
        raise BadRequestError(f"The request body is not accepted: {error}") from None


def prompt_of(request: ChatRequest) -> Prompt:
    """Return the one question that a request asks.

    Raises:
        BadRequestError: several turns, an empty message, or an image that is not a data URI. URLs are never fetched:
            a server that fetches what it is told to can be sent into the network behind it.
    """
    system, parts, seen_user = [], [], False
    for number, message in enumerate(request.messages):
        where = f"messages[{number}]"
        if message.role in ("system", "developer"):
            system.append(_only_text(message, where))
        elif message.role == "user" and not seen_user:
            seen_user = True
            parts = _parts(message, where)
        else:
            raise BadRequestError(
                f"{where} has the role {message.role!r}; one user message, after the system messages, is what a "
                "question consists of here. Conversations of several turns are not supported."
            )
    if not parts:
        raise BadRequestError("messages holds no user message with content.")
    stop = (request.stop,) if isinstance(request.stop, str) else tuple(request.stop or ())
    generation = Generation(
        max_tokens=request.max_completion_tokens or request.max_tokens,
        temperature=request.temperature,
        top_p=request.top_p,
        seed=request.seed,
        stop=tuple(word for word in stop if word),
        **{name: value for name in MORE_SAMPLING if (value := getattr(request, name)) is not None},
    )
    return Prompt(tuple(parts), "\n".join(system), generation)


def completion(request_id: str, created: int, model: str, response: Response) -> dict[str, Any]:
    """Return the body of a whole reply. `created` is in seconds since the epoch."""
    choice = {
        "index": 0,
        "message": {"role": "assistant", "content": response.text, "refusal": None},
        "logprobs": None,
        "finish_reason": response.finish_reason or "stop",
    }
    return {
        "id": request_id,
        "object": "chat.completion",
        "created": created,
        "model": model,
        "choices": [choice],
        "usage": _usage(response),
    }


def chunks(request_id: str, created: int, model: str, response: Response, with_usage: bool) -> list[bytes]:
    """Return the same reply as server-sent events. It is sent when it is whole, so the text is one event."""
    head = {"id": request_id, "object": "chat.completion.chunk", "created": created, "model": model}
    opening = {"index": 0, "delta": {"role": "assistant", "content": response.text}, "finish_reason": None}
    closing = {"index": 0, "delta": {}, "finish_reason": response.finish_reason or "stop"}
    events: list[dict[str, Any]] = [{**head, "choices": [opening]}, {**head, "choices": [closing]}]
    if with_usage:
        events.append({**head, "choices": [], "usage": _usage(response)})
    return [b"data: " + msgspec.json.encode(event) + b"\n\n" for event in events] + [b"data: [DONE]\n\n"]


def error_body(message: str, kind: str, code: str | None = None) -> dict[str, Any]:
    """Return the error object of the OpenAI protocol."""
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


def error_of(error: ModelError) -> tuple[int, dict[str, Any]]:
    """Return (HTTP status, body) for a model that gave no answer. Only what asking again can help is a 5xx."""
    if isinstance(error, OutOfMemoryError):
        return 413, error_body(str(error), "invalid_request_error", error.kind)
    if isinstance(error, BadRequestError | InputError):
        return 400, error_body(str(error), "invalid_request_error", error.kind)
    return 500, error_body(str(error), "server_error", error.kind)


def _parts(message: Message, where: str) -> list[Part]:
    if isinstance(message.content, str):
        return [Text(message.content)]
    parts: list[Part] = []
    for number, part in enumerate(message.content):
        if isinstance(part, TextPart):
            parts.append(Text(part.text))
        else:
            parts.append(_image(part.image_url.url, f"{where}.content[{number}].image_url"))
    return parts


def _image(url: str, where: str) -> Image:
    head = _DATA_URI.match(url)
    if head is None:
        raise BadRequestError(
            f"{where}: {url[:40]!r} is not a data URI. Images are sent inside the request, as "
            "data:image/png;base64,…; addresses are never fetched."
        )
    try:
        data = base64.b64decode(url[head.end() :], validate=True)
    except (binascii.Error, ValueError) as error:
        raise BadRequestError(f"{where}: the data URI is not base64: {error}") from None
    return Image(BytesBlob(f"sha256:{hashlib.sha256(data).hexdigest()}", data))


def _only_text(message: Message, where: str) -> str:
    if isinstance(message.content, str):
        return message.content
    if not all(isinstance(part, TextPart) for part in message.content):
        raise BadRequestError(f"{where}: a {message.role} message holds text only.")
    return "".join(part.text for part in message.content if isinstance(part, TextPart))


def _usage(response: Response) -> dict[str, int]:
    read, written = response.usage.input_tokens, response.usage.output_tokens
    return {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}
