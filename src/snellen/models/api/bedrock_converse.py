"""Amazon Bedrock's Converse API: bodies of `POST /model/MODEL/converse` and its replies.

Source: the service model of botocore 1.44.8 (bedrock-runtime 2023-09-30).
"""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec
from msgspec import Struct

from snellen.errors import BadReplyError, InputError, UsageError
from snellen.media.encode import Encoded
from snellen.models.api.errors import excerpt
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
from snellen.models.api.request import BodyWriter, Piece, merged
from snellen.models.api.services import Service
from snellen.models.base import ModelOptions
from snellen.types import Generation, Image, Response, TurnRole, Usage, Video

_VIDEO_FORMATS = {
    "video/mp4": "mp4",
    "video/webm": "webm",
    "video/quicktime": "mov",
    "video/x-matroska": "mkv",
}


class ConverseWriter(BodyWriter):
    """Turns prompts into bodies of `converse`; the model stands in the address."""

    fixed_fields: ClassVar[tuple[str, ...]] = ("modelId", "messages", "system", "stream")
    openings: ClassVar[dict[TurnRole, bytes]] = {
        "user": b'{"role":"user","content":',
        "assistant": b'{"role":"assistant","content":',
    }
    takes_string: ClassVar[bool] = False
    takes_urls: ClassVar[bool] = False
    marks_parts: ClassVar[bool] = True
    supports: ClassVar[frozenset[str]] = frozenset({"system", "history"})

    def __init__(self, model: str, options: ModelOptions, row: Service) -> None:
        super().__init__(model, options, row)
        if options.stream:
            raise UsageError(f"--stream: streams of {row.title} are not read.", "Omit --stream.")
        if options.generation.seed is not None:
            raise UsageError(f"Generation.seed is set, and {row.title} has no seed.", "Omit it.")
        if options.generation.top_k is not None and not self._claude:
            raise UsageError(
                f"--top-k: {row.title} has it under another name for each model, and the name for {model} is not known.",
                """Omit it, or write it yourself: --extra-body '{"additionalModelRequestFields": {"top_k": 20}}'""",
            )

    @property
    def _claude(self) -> bool:
        return "anthropic.claude" in self.model

    def head(self, system: str) -> bytes:
        """Return what stands before the first turn; the system text is a member of the body."""
        return self._head(self.text_part(system) if system else b"")

    def cached_head(self, system: str) -> bytes:
        """Return the head with a mark behind the system text."""
        return self._head(self.marked(self.text_part(system)))

    def _head(self, system: bytes) -> bytes:
        text = b'"system":[' + system.removesuffix(b",") + b"]," if system else b""
        return b"{" + text + b'"messages":['

    def marked(self, part: bytes) -> bytes:
        """Return a block with a mark behind it, which is a block too."""
        block = part.removesuffix(b",")
        point = {"type": "default", **({} if self.prompt_cache == "auto" else {"ttl": self.prompt_cache})}
        return block + b"," + msgspec.json.encode({"cachePoint": point}) + part[len(block) :]

    def text_part(self, text: str) -> bytes:
        """Return one text as a block."""
        return b'{"text":' + msgspec.json.encode(text) + b"},"

    def media_part(self, part: Image | Video, encoded: Encoded) -> tuple[bytes, Piece, bytes]:
        """Return an image, or a video's file, as a block. Raises InputError for a video format that the service has not."""
        kind, form = "image", encoded.mime.removeprefix("image/")
        if isinstance(part, Video):
            kind, form = "video", _VIDEO_FORMATS.get(encoded.mime, "")
            if not form:
                raise InputError(
                    f"{self.row.title} takes videos as {', '.join(_VIDEO_FORMATS.values())}, and this one is {encoded.mime}.",
                    "Omit --video native: frames are sent instead.",
                )
        before = f'{{"{kind}":{{"format":"{form}","source":{{"bytes":"'
        return before.encode(), encoded.base64, b'"}}},'

    def settings(self, prompted: Generation | None) -> dict[str, Any]:
        """Return the members of the body besides messages and system text."""
        chosen = self.chosen(prompted)
        config: dict[str, Any] = {
            "maxTokens": chosen.max_tokens,
            "temperature": chosen.temperature,
            "topP": chosen.top_p,
            "stopSequences": list(chosen.stop) or None,
        }
        config = {name: value for name, value in config.items() if value is not None}
        fields: dict[str, Any] = {
            "inferenceConfig": config or None,
            "additionalModelRequestFields": None if chosen.top_k is None else {"top_k": chosen.top_k},
            "outputConfig": None if self.effort is None else {"effort": self.effort},
        }
        return merged(fields, {**chosen.extra, **self.extra})


class _ConverseReply(Struct):
    """The members that are read; `Any` where a gateway may differ."""

    output: Any = None
    stopReason: Any = None
    usage: Any = None


_decoder = msgspec.json.Decoder(_ConverseReply)


def read_converse(
    data: bytes, latency_s: float, price: Price | None = None, trace: Any = None, request_id: str = ""
) -> Response:
    """Return the answer in a reply of `converse`; arguments and errors as `response.read_reply`.

    Text blocks are joined. Reasoning becomes `reasoning`; redacted reasoning holds nothing that can be read.
    """
    reply = decode(_decoder, data, "a reply of converse")
    message = reply.output.get("message") if isinstance(reply.output, dict) else None
    content = message.get("content") if isinstance(message, dict) else None
    if not isinstance(content, list):
        raise BadReplyError(f"The reply holds no list of content blocks. It begins: {excerpt(data, 120)}")
    texts: list[str] = []
    thoughts: list[str] = []
    for block in content:
        if not isinstance(block, dict):
            continue
        texts.append(string(block.get("text")))
        reasoning = block.get("reasoningContent")
        thought = reasoning.get("reasoningText") if isinstance(reasoning, dict) else None
        thoughts.append(string(thought.get("text")) if isinstance(thought, dict) else "")
    reason = string(reply.stopReason)
    response = Response(
        text="".join(texts),
        usage=_usage(reply.usage, price),
        latency_s=latency_s,
        finish_reason=finish_word(reason),
        reasoning="\n".join(filter(None, thoughts)),
        trace=trace,
        request_id=request_id,
    )
    if response.finish_reason == REFUSED:
        raise refusal(f"The service declined to answer ({reason})", response.text, response)
    if response.finish_reason == BROKEN and not response.text.strip():
        raise broken_off(reason, None, response)
    return response


def _usage(usage: Any, price: Price | None) -> Usage:
    """Return token counts: the service's three counts of input added up."""
    written = usage.get("cacheDetails") if isinstance(usage, dict) else None
    rows = [row for row in written if isinstance(row, dict)] if isinstance(written, list) else []
    return priced(
        Usage(
            input_tokens=count(usage, "inputTokens", "cacheReadInputTokens", "cacheWriteInputTokens"),
            output_tokens=count(usage, "outputTokens"),
            cached_tokens=count(usage, "cacheReadInputTokens"),
            cache_write_tokens=count(usage, "cacheWriteInputTokens"),
            lacks=lacking(usage, ("inputTokens",), ("outputTokens",)),
            cache_write_1h_tokens=sum(count(row, "inputTokens") for row in rows if row.get("ttl") == "1h"),
        ),
        price,
    )
