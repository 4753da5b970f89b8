"""OpenAI's Responses API: bodies of `POST /v1/responses` and its replies.

Source: the types of the Python SDK openai 3.54.0. The service stores responses for 30 days unless `store` is false,
which is always sent: questions of a benchmark are nobody's to keep.
"""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec
from msgspec import Struct

from snellen.errors import BadReplyError, UsageError
from snellen.media.encode import Encoded
from snellen.models.api.errors import excerpt
from snellen.models.api.prices import Price
from snellen.models.api.reply import LENGTH, REFUSED, STOP, count, decode, finish_word, lacking, priced, refusal, string
from snellen.models.api.request import SCHEMA_NAME, BodyWriter, Piece, merged
from snellen.models.api.response import missing_answer, read_logprobs
from snellen.models.api.services import Service
from snellen.models.base import ModelOptions
from snellen.types import Generation, Image, Response, Usage, Video


class ResponsesWriter(BodyWriter):
    """Turns prompts into bodies of `POST /v1/responses`."""

    fixed_fields: ClassVar[tuple[str, ...]] = ("model", "input", "instructions", "stream", "store", "background")
    takes_videos: ClassVar[bool] = False
    takes_files: ClassVar[bool] = True

    def __init__(self, model: str, options: ModelOptions, row: Service) -> None:
        super().__init__(model, options, row)
        for name in ("seed", "stop"):
            if getattr(options.generation, name):
                raise UsageError(
                    f"--responses: the Responses API has no {name}, and one is set.", "Omit it, or omit --responses."
                )

    def head(self, system: str) -> bytes:
        """Return what stands before the first turn."""
        opening = b'{"model":' + msgspec.json.encode(self.model) + b',"input":['
        if system:
            opening += b'{"role":"system","content":' + msgspec.json.encode(system) + b"},"
        return opening

    def text_part(self, text: str) -> bytes:
        """Return one text as a part."""
        return b'{"type":"input_text","text":' + msgspec.json.encode(text) + b"},"

    def media_part(self, part: Image | Video, encoded: Encoded) -> tuple[bytes, Piece, bytes]:
        """Return an image part."""
        return b'{"type":"input_image","image_url":"', encoded.data_uri, b'"' + self._end()

    def file_part(self, part: Image | Video, encoded: Encoded) -> tuple[bytes, bytes]:
        """Return an image part that names an uploaded file."""
        return b'{"type":"input_image","file_id":"', b'"' + self._end()

    def url_part(self, part: Image | Video, url: str) -> bytes:
        """Return an image part that the service fetches by itself."""
        return b'{"type":"input_image","image_url":' + msgspec.json.encode(url) + self._end()

    def _end(self) -> bytes:
        return b',"detail":"' + self.detail.encode() + b'"},'

    def settings(self, prompted: Generation | None) -> dict[str, Any]:
        """Return the members of the body besides model and input."""
        chosen = self.chosen(prompted)
        fields: dict[str, Any] = {
            "max_output_tokens": chosen.max_tokens,
            "temperature": chosen.temperature,
            "top_p": chosen.top_p,
            "reasoning": None if self.effort is None else {"effort": self.effort},
            "top_logprobs": chosen.logprobs,
            "include": None if chosen.logprobs is None else ["message.output_text.logprobs"],
            "store": False,
            "stream": self.stream or None,
        }
        if (schema := chosen.reply_schema) is not None:
            fields["text"] = {"format": {"type": "json_schema", "name": SCHEMA_NAME, "schema": schema, "strict": True}}
        return merged(fields, {**chosen.extra, **self.extra})


class _ResponsesReply(Struct):
    """The members that are read; `Any` where a gateway may differ."""

    output: Any = None
    status: Any = None
    incomplete_details: Any = None
    usage: Any = None
    model: Any = None
    id: Any = None
    error: Any = None


_decoder = msgspec.json.Decoder(_ResponsesReply)


def read_response(
    data: bytes, latency_s: float, price: Price | None = None, trace: Any = None, request_id: str = ""
) -> Response:
    """Return the answer in a response; arguments and errors as `response.read_reply`.

    Texts of all messages are joined; summaries of the thinking become `reasoning`.
    """
    reply = decode(_decoder, data, "a response")
    if reply.error or reply.status == "failed":
        raise missing_answer(reply.error or {"message": "The response failed."}, data)
    if not isinstance(reply.output, list):
        raise BadReplyError(f"The reply holds no list of output items. It begins: {excerpt(data, 120)}")
    texts: list[str] = []
    thoughts: list[str] = []
    declined, logprobs = "", list[Any]()
    for item in reply.output:
        if not isinstance(item, dict):
            continue
        for member in ("content", "summary"):
            for part in item.get(member) or () if isinstance(item.get(member), list) else ():
                if not isinstance(part, dict):
                    continue
                if part.get("type") == "refusal":
                    declined = declined or str(part.get("refusal") or "no reason was given")
                elif isinstance(part.get("text"), str):
                    (thoughts if item.get("type") == "reasoning" else texts).append(part["text"])
                    logprobs += part["logprobs"] if isinstance(part.get("logprobs"), list) else []
    details = reply.incomplete_details
    reason = details.get("reason") if isinstance(details, dict) else None
    finish = finish_word(reason) if reason else STOP if reply.status == "completed" else finish_word(reply.status)
    response = Response(
        text="".join(texts),
        usage=_usage(reply.usage, price),
        latency_s=latency_s,
        finish_reason=LENGTH if finish == "incomplete" else finish,
        reasoning="\n".join(thoughts),
        model=string(reply.model),
        trace=trace,
        logprobs=read_logprobs({"content": logprobs}, "".join(texts)),
        request_id=request_id or string(reply.id),
    )
    if declined:
        raise refusal("The model declined to answer", declined, response)
    if response.finish_reason == REFUSED:
        raise refusal("The server's content filter cut the answer off", response.text, response)
    return response


def _usage(usage: Any, price: Price | None) -> Usage:
    """Return token counts; cached input and thinking are contained in the totals."""
    table = usage if isinstance(usage, dict) else {}
    details = table.get("input_tokens_details")
    return priced(
        Usage(
            input_tokens=count(table, "input_tokens"),
            output_tokens=count(table, "output_tokens"),
            reasoning_tokens=count(table.get("output_tokens_details"), "reasoning_tokens"),
            cached_tokens=count(details, "cached_tokens"),
            cache_write_tokens=count(details, "cache_write_tokens"),
            image_tokens=count(details, "image_tokens"),
            lacks=lacking(usage, ("input_tokens",), ("output_tokens",)),
        ),
        price,
    )
