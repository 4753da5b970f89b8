"""Anthropic's Messages API: bodies and replies.

Source: the types of the Python SDK anthropic 2.12.0. There is no video in this protocol; videos go out as frames.
"""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec
from msgspec import Struct

from snellen.errors import BadReplyError, UsageError
from snellen.media.encode import Encoded
from snellen.models.api.errors import excerpt
from snellen.models.api.prices import Price
from snellen.models.api.reply import REFUSED, count, decode, finish_word, lacking, priced, refusal, string
from snellen.models.api.request import BodyWriter, Piece, merged
from snellen.models.api.response import missing_answer
from snellen.models.api.services import Service
from snellen.models.base import ModelOptions
from snellen.types import Generation, Image, Response, Usage, Video

_UNSCALED = b',"transformations":{"oversized_image":"error"}'


class MessagesWriter(BodyWriter):
    """Turns prompts into bodies of `POST /v1/messages`."""

    fixed_fields: ClassVar[tuple[str, ...]] = ("model", "messages", "stream", "system", "anthropic_version")
    takes_videos: ClassVar[bool] = False
    takes_files: ClassVar[bool] = True
    marks_parts: ClassVar[bool] = True
    supports: ClassVar[frozenset[str]] = frozenset({"system", "history", "schema"})

    def __init__(self, model: str, options: ModelOptions, row: Service) -> None:
        super().__init__(model, options, row)
        if options.generation.seed is not None:
            raise UsageError(f"Generation.seed is set, and {row.title} has no seed.", "Omit it.")

    def cached_head(self, system: str) -> bytes:
        """Return the head with the system text as a block, which has a mark."""
        return self._head(b"[" + self.marked(self.text_part(system)).removesuffix(b",") + b"]")

    def marked(self, part: bytes) -> bytes:
        """Return a block with `cache_control` in it."""
        block = part[: part.rindex(b"}")]
        control = {"type": "ephemeral", **({} if self.prompt_cache == "auto" else {"ttl": self.prompt_cache})}
        return block + b',"cache_control":' + msgspec.json.encode(control) + part[len(block) :]

    def head(self, system: str) -> bytes:
        """Return what stands before the first turn; the system text is a member of the body."""
        return self._head(msgspec.json.encode(system) if system else b"")

    def _head(self, system: bytes) -> bytes:
        text = b'"system":' + system + b"," if system else b""
        version = self.row.anthropic_version
        opening = {"anthropic_version": version} if version else {"model": self.model}
        return msgspec.json.encode(opening)[:-1] + b"," + text + b'"messages":['

    def media_part(self, part: Image | Video, encoded: Encoded) -> tuple[bytes, Piece, bytes]:
        """Return an image block."""
        source = b'{"type":"image","source":{"type":"base64","media_type":"' + encoded.mime.encode() + b'","data":"'
        return source, encoded.base64, b'"}' + self._scaling() + b"},"

    def file_part(self, part: Image | Video, encoded: Encoded) -> tuple[bytes, bytes]:
        """Return an image block that names an uploaded file."""
        return b'{"type":"image","source":{"type":"file","file_id":"', b'"}' + self._scaling() + b"},"

    def url_part(self, part: Image | Video, url: str) -> bytes:
        """Return an image block that the service fetches by itself."""
        source = b'{"type":"image","source":{"type":"url","url":' + msgspec.json.encode(url)
        return source + b"}" + self._scaling() + b"},"

    def _scaling(self) -> bytes:
        return _UNSCALED if self.detail == "original" else b""

    def settings(self, prompted: Generation | None) -> dict[str, Any]:
        """Return members of the body; the limit on new tokens is required, and includes the thinking."""
        chosen = self.chosen(prompted)
        fields: dict[str, Any] = {
            "max_tokens": chosen.max_tokens or self.row.max_tokens,
            "temperature": chosen.temperature,
            "top_p": chosen.top_p,
            "top_k": chosen.top_k,
            "stop_sequences": list(chosen.stop) or None,
        }
        if self.effort == "none":
            fields["thinking"] = {"type": "disabled"}
        elif self.effort is not None:
            fields["thinking"] = {"type": "adaptive", "display": "summarized"}
            fields["output_config"] = {"effort": self.effort}
        if chosen.reply_schema is not None:
            form = {"type": "json_schema", "schema": chosen.reply_schema}
            fields["output_config"] = {**fields.get("output_config", {}), "format": form}
        if self.stream:
            fields["stream"] = True
        return merged(fields, {**chosen.extra, **self.extra})


class _AnthropicMessage(Struct):
    """The members that are read; `Any` where a gateway may differ."""

    content: Any = None
    stop_reason: Any = None
    stop_details: Any = None
    usage: Any = None
    model: Any = None
    id: Any = None
    type: Any = None
    error: Any = None


_decoder = msgspec.json.Decoder(_AnthropicMessage)


def read_message(
    data: bytes, latency_s: float, price: Price | None = None, trace: Any = None, request_id: str = ""
) -> Response:
    """Return the answer in a message; arguments and errors as `response.read_reply`.

    Text blocks are joined. Thinking blocks become `reasoning`; redacted ones hold nothing that can be read.
    """
    message = decode(_decoder, data, "a message")
    if message.error or message.type == "error":
        raise missing_answer(message.error, data)
    if not isinstance(message.content, list):
        raise BadReplyError(f"The reply holds no list of content blocks. It begins: {excerpt(data, 120)}")
    texts: list[str] = []
    thoughts: list[str] = []
    for block in message.content:
        if not isinstance(block, dict):
            continue
        if block.get("type") == "text" and isinstance(block.get("text"), str):
            texts.append(block["text"])
        elif block.get("type") == "thinking" and isinstance(block.get("thinking"), str):
            thoughts.append(block["thinking"])
    response = Response(
        text="".join(texts),
        usage=_usage(message.usage, price),
        latency_s=latency_s,
        finish_reason=finish_word(message.stop_reason),
        reasoning="\n".join(thoughts),
        model=string(message.model),
        trace=trace,
        request_id=request_id or string(message.id),
    )
    if response.finish_reason == REFUSED:
        details = message.stop_details if isinstance(message.stop_details, dict) else {}
        words = details.get("explanation") or response.text or details.get("category")
        raise refusal("The model declined to answer", words, response)
    return response


def _usage(usage: Any, price: Price | None) -> Usage:
    """Return token counts: the service's three counts of input added up; thinking is part of the output."""
    table = usage if isinstance(usage, dict) else {}
    details, written = table.get("output_tokens_details"), table.get("cache_creation")
    return priced(
        Usage(
            input_tokens=count(usage, "input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens"),
            output_tokens=count(usage, "output_tokens"),
            reasoning_tokens=count(details, "thinking_tokens"),
            cached_tokens=count(usage, "cache_read_input_tokens"),
            cache_write_tokens=count(usage, "cache_creation_input_tokens"),
            lacks=lacking(usage, ("input_tokens",), ("output_tokens",)),
            cache_write_1h_tokens=count(written, "ephemeral_1h_input_tokens"),
        ),
        price,
    )
