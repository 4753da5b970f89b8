"""Limits on an agent's requests to the endpoint, which the user pays for: fields, model, lengths, counts, addresses.

An agent with a shell can send any request by itself. So a body is read, and written anew with the known fields alone:
others choose models, providers, prices or addresses (`models`, `service_tier`, `api_base` …) at some servers. An address
in a message would be fetched by the endpoint, from its own network; a tool that is no function runs there. Both are refused.
"""

from __future__ import annotations

import re
from typing import TypeAlias

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

MAX_OBJECTS = 100_000
"""JSON objects of one request: each takes many times its bytes in memory while it is read."""
_LENGTHS = ("max_tokens", "max_completion_tokens")
_DATA = re.compile(rb'"data:', re.IGNORECASE)
"""The beginning of a JSON string that holds a data URI, written without escapes."""
_LENGTH = re.compile(rb"[0-9]{1,9}")
_LONGEST_NAME = 1000

_Field: TypeAlias = Raw | UnsetType


class RequestLimits(Struct, frozen=True):
    """The requests that one sample's agent may send.

    Attributes:
        model: the only model; empty: any.
        max_tokens: new tokens of one reply; a request for more, or for any number, gets this many.
        requests: in the sample; as many more may list the models.
    """

    model: str
    max_tokens: int
    requests: int


class RequestRefusedError(Exception):
    """A request that is not passed on; `status` is that of the reply."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


class _Media(Struct, omit_defaults=True):
    url: _Field = UNSET
    detail: _Field = UNSET
    format: _Field = UNSET


class _FileField(Struct, omit_defaults=True):
    filename: _Field = UNSET
    file_data: _Field = UNSET


class _Audio(Struct, omit_defaults=True):
    data: _Field = UNSET
    format: _Field = UNSET


class _ContentPart(Struct, omit_defaults=True):
    type: _Field = UNSET
    text: _Field = UNSET
    refusal: _Field = UNSET
    thinking: _Field = UNSET
    signature: _Field = UNSET
    cache_control: _Field = UNSET
    image_url: _Media | UnsetType = UNSET
    video_url: _Media | UnsetType = UNSET
    audio_url: _Media | UnsetType = UNSET
    file: _FileField | UnsetType = UNSET
    input_audio: _Audio | UnsetType = UNSET


class _ChatMessage(Struct, omit_defaults=True):
    role: _Field = UNSET
    content: _Field = UNSET
    name: _Field = UNSET
    tool_calls: _Field = UNSET
    tool_call_id: _Field = UNSET
    function_call: _Field = UNSET
    refusal: _Field = UNSET
    reasoning: _Field = UNSET
    reasoning_content: _Field = UNSET
    reasoning_details: _Field = UNSET
    extra_content: _Field = UNSET


class _Tool(Struct, omit_defaults=True):
    type: _Field = UNSET
    function: _Field = UNSET


class _ChatRequest(Struct, omit_defaults=True):
    """The fields of the chat completions API that OpenClaw and OpenCode send, and what else changes only the reply's text."""

    model: _Field = UNSET
    messages: list[_ChatMessage] | UnsetType = UNSET
    stream: _Field = UNSET
    stream_options: _Field = UNSET
    max_tokens: _Field = UNSET
    max_completion_tokens: _Field = UNSET
    tools: list[_Tool] | UnsetType | None = UNSET
    tool_choice: _Field = UNSET
    parallel_tool_calls: _Field = UNSET
    temperature: _Field = UNSET
    top_p: _Field = UNSET
    top_k: _Field = UNSET
    min_p: _Field = UNSET
    stop: _Field = UNSET
    seed: _Field = UNSET
    frequency_penalty: _Field = UNSET
    presence_penalty: _Field = UNSET
    response_format: _Field = UNSET
    reasoning_effort: _Field = UNSET
    verbosity: _Field = UNSET
    logit_bias: _Field = UNSET


def rewrite_request(body: bytes | bytearray, allowed: RequestLimits) -> bytes:
    """Return the request with its known fields, each once, and with a length that is allowed. Their values stay as they are.

    Raises:
        RequestRefusedError: it is no JSON object of this API, asks another model, or leads elsewhere.
    """
    if body.count(b"{") > MAX_OBJECTS:
        raise RequestRefusedError(413, f"a request holds {MAX_OBJECTS:,} objects at most")
    try:
        request = msgspec.json.decode(body, type=_ChatRequest)
        model = _name(request.model)
        for message in request.messages or ():
            message.content = _content(message.content)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        fault = str(error)[:200] if isinstance(error, msgspec.ValidationError) else "it is no JSON object"
        raise RequestRefusedError(400, f"the request cannot be read: {fault}") from None
    if allowed.model and model != allowed.model:
        raise RequestRefusedError(403, f"the model of this run is {allowed.model}, and no other is asked")
    if any(tool.type is UNSET or bytes(tool.type) != b'"function"' for tool in request.tools or ()):
        raise RequestRefusedError(403, "a tool that is no function runs at the endpoint; functions alone are passed on")
    limit = Raw(str(allowed.max_tokens).encode())
    lengths = [name for name in _LENGTHS if getattr(request, name) is not UNSET]
    for name in lengths or _LENGTHS[:1]:
        length = getattr(request, name)
        plain = length is not UNSET and _LENGTH.fullmatch(length) is not None
        if not plain or not 0 < int(bytes(length)) <= allowed.max_tokens:
            setattr(request, name, limit)
    return msgspec.json.encode(request)


def _name(raw: _Field) -> str | None:
    name = None if raw is UNSET or len(memoryview(raw)) > _LONGEST_NAME else msgspec.json.decode(raw)
    return name if isinstance(name, str) else None


def _content(content: _Field) -> _Field:
    """Return a message's text as it stands, and its parts with their known fields."""
    if content is UNSET or bytes(memoryview(content)[:1]) in (b'"', b"n"):
        return content
    parts = msgspec.json.decode(content, type=list[_ContentPart])
    for part in parts:
        _require_no_address(part)
    return Raw(msgspec.json.encode(parts))


def _require_no_address(part: _ContentPart) -> None:
    """Raise if a part of a message names an image, video, sound or file by an address, a path or an id."""
    media = [member.url for member in (part.image_url, part.video_url, part.audio_url) if member is not UNSET]
    if part.file is not UNSET:
        media.append(part.file.file_data)
    if any(url is UNSET or _DATA.match(url) is None for url in media):
        raise RequestRefusedError(403, "images and files of a request are passed on as data URIs (data:…) alone")
    data = UNSET if part.input_audio is UNSET else part.input_audio.data
    if data is not UNSET and any(mark in bytes(data) for mark in (b":", b".", b"\\")):
        raise RequestRefusedError(403, "sound of a request is passed on as base64 alone")
