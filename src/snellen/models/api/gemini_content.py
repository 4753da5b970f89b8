"""Google's Gemini API: bodies of `generateContent` and its replies.

Source: the types of the Python SDK google-genai 3.4.0; field names in camelCase, the documented form.
"""

from __future__ import annotations

from itertools import zip_longest
from typing import Any, ClassVar

import msgspec
from msgspec import Struct

from snellen.errors import BadReplyError
from snellen.media.encode import Encoded
from snellen.models.api.errors import excerpt
from snellen.models.api.prices import Price
from snellen.models.api.reply import (
    LENGTH,
    REFUSED,
    STOP,
    broken_off,
    count,
    decode,
    finish_word,
    priced,
    refusal,
    string,
)
from snellen.models.api.request import BodyWriter, Piece, merged
from snellen.models.api.response import missing_answer, read_logprobs
from snellen.models.api.services import Service
from snellen.models.base import ModelOptions
from snellen.types import Generation, Image, Response, TurnRole, Usage, Video


class GeminiWriter(BodyWriter):
    """Turns prompts into bodies of `POST /v1beta/models/MODEL:generateContent`; the model stands in the address.

    `videoMetadata` of the extra body goes to each video: {"fps", "startOffset", "endOffset"}.
    """

    fixed_fields: ClassVar[tuple[str, ...]] = ("model", "contents", "systemInstruction", "stream", "candidateCount")
    openings: ClassVar[dict[TurnRole, bytes]] = {
        "user": b'{"role":"user","parts":',
        "assistant": b'{"role":"model","parts":',
    }
    takes_string: ClassVar[bool] = False
    takes_urls: ClassVar[bool] = False
    takes_files: ClassVar[bool] = True
    takes_rate: ClassVar[bool] = True

    def __init__(self, model: str, options: ModelOptions, row: Service) -> None:
        super().__init__(model, options, row)
        # The frames a second at which the service reads videos, and where it begins and ends, belong to each part.
        metadata = self.extra.pop("videoMetadata", None)
        if metadata is None and options.media.fps is not None:
            metadata = {"fps": options.media.fps}
        self._video_end = b'"}' + (b',"videoMetadata":' + msgspec.json.encode(metadata) if metadata else b"")
        # The finest level exists for single parts alone, the others for the whole request too.
        self._image_end = b'"},"mediaResolution":{"level":"MEDIA_RESOLUTION_ULTRA_HIGH"}},'
        if self.detail != "original":
            self._image_end = b'"}},'

    def head(self, system: str) -> bytes:
        """Return what stands before the first turn; the system text is a member of the body."""
        text = b'"systemInstruction":{"parts":[{"text":' + msgspec.json.encode(system) + b"}]}," if system else b""
        return b"{" + text + b'"contents":['

    def text_part(self, text: str) -> bytes:
        """Return one text as a part."""
        return b'{"text":' + msgspec.json.encode(text) + b"},"

    def media_part(self, part: Image | Video, encoded: Encoded) -> tuple[bytes, Piece, bytes]:
        """Return an image, or a video's file with the frames a second at which the service reads it."""
        before = b'{"inlineData":{"mimeType":"' + encoded.mime.encode() + b'","data":"'
        return before, encoded.base64, self._image_end if isinstance(part, Image) else self._video_end + b"},"

    def file_part(self, part: Image | Video, encoded: Encoded) -> tuple[bytes, bytes]:
        """Return an image or video that names an uploaded file."""
        before = b'{"fileData":{"mimeType":"' + encoded.mime.encode() + b'","fileUri":"'
        return before, self._image_end if isinstance(part, Image) else self._video_end + b"},"

    def settings(self, prompted: Generation | None) -> dict[str, Any]:
        """Return the members of the body besides contents and system text."""
        chosen = self.chosen(prompted)
        config: dict[str, Any] = {
            "maxOutputTokens": chosen.max_tokens,
            "temperature": chosen.temperature,
            "topP": chosen.top_p,
            "topK": chosen.top_k,
            "presencePenalty": chosen.presence_penalty,
            "frequencyPenalty": chosen.frequency_penalty,
            "seed": chosen.seed,
            "stopSequences": list(chosen.stop) or None,
            "responseLogprobs": None if chosen.logprobs is None else True,
            "logprobs": chosen.logprobs,
            "responseMimeType": None if chosen.reply_schema is None else "application/json",
            "responseJsonSchema": chosen.reply_schema,
        }
        if self.effort == "none":
            config["thinkingConfig"] = {"thinkingBudget": 0}
        elif self.effort is not None:
            config["thinkingConfig"] = {"includeThoughts": True, "thinkingLevel": self.effort.upper()}
        if self.detail in ("low", "high"):
            config["mediaResolution"] = f"MEDIA_RESOLUTION_{self.detail.upper()}"
        config = {name: value for name, value in config.items() if value is not None}
        return merged({"generationConfig": config} if config else {}, {**chosen.extra, **self.extra})


class _Content(Struct):
    parts: Any = None


class _Candidate(Struct):
    content: _Content | None = None
    finishReason: Any = None
    finishMessage: Any = None
    logprobsResult: Any = None


class _Feedback(Struct):
    blockReason: Any = None
    blockReasonMessage: Any = None


class _Generated(Struct):
    """The members that are read; `Any` where a gateway may differ."""

    candidates: list[_Candidate] | None = None
    promptFeedback: _Feedback | None = None
    usageMetadata: Any = None
    modelVersion: Any = None
    responseId: Any = None
    error: Any = None


_decoder = msgspec.json.Decoder(_Generated)


def read_generated(
    data: bytes, latency_s: float, price: Price | None = None, trace: Any = None, request_id: str = ""
) -> Response:
    """Return the answer of the first candidate; arguments and errors as `response.read_reply`.

    Parts marked as thoughts become `reasoning`. A blocked prompt has no candidate and is a refusal.
    """
    reply = decode(_decoder, data, "an answer of generateContent")
    if reply.error:
        raise missing_answer(reply.error, data)
    candidate = reply.candidates[0] if reply.candidates else _Candidate()
    parts = candidate.content.parts if candidate.content is not None else None
    texts: list[str] = []
    thoughts: list[str] = []
    for part in parts if isinstance(parts, list) else ():
        if isinstance(part, dict) and isinstance(part.get("text"), str):
            (thoughts if part.get("thought") is True else texts).append(part["text"])
    reason = string(candidate.finishReason)
    response = Response(
        text="".join(texts),
        usage=_usage(reply.usageMetadata, price),
        latency_s=latency_s,
        finish_reason=finish_word(reason),
        reasoning="".join(thoughts),
        model=string(reply.modelVersion),
        trace=trace,
        logprobs=read_logprobs({"content": _logprobs(candidate.logprobsResult)}, "".join(texts)),
        request_id=request_id or string(reply.responseId),
    )
    feedback = reply.promptFeedback
    if not reply.candidates:
        if feedback is None or not feedback.blockReason:
            raise BadReplyError(f"The reply holds no candidates. It begins: {excerpt(data, 120)}")
        words = feedback.blockReasonMessage
        raise refusal(
            f"The service blocked the prompt ({excerpt(str(feedback.blockReason).encode())})", words, response
        )
    if response.finish_reason == REFUSED:
        raise refusal(f"The service cut the answer off ({reason})", candidate.finishMessage or response.text, response)
    if response.finish_reason not in ("", STOP, LENGTH):
        # OTHER, MALFORMED_FUNCTION_CALL and such: an answer if there is text, else none.
        if not response.text.strip():
            raise broken_off(reason, candidate.finishMessage, response)
        response = msgspec.structs.replace(response, finish_reason=STOP)
    return response


def _logprobs(result: Any) -> list[dict[str, Any]]:
    """Return a candidate's `logprobsResult` in the form of chat completions."""
    table = result if isinstance(result, dict) else {}
    chosen, steps = table.get("chosenCandidates"), table.get("topCandidates")
    alternatives = [step.get("candidates") if isinstance(step, dict) else None for step in _list(steps)]
    return [
        {**_token(token), "top_logprobs": [_token(other) for other in _list(others) if isinstance(other, dict)]}
        for token, others in zip_longest(_list(chosen), alternatives[: len(_list(chosen))])
        if isinstance(token, dict)
    ]


def _token(candidate: dict[str, Any]) -> dict[str, Any]:
    return {"token": candidate.get("token"), "logprob": candidate.get("logProbability")}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _usage(usage: Any, price: Price | None) -> Usage:
    """Return token counts: thoughts are added to the output, of which the service counts them apart."""
    rows = usage.get("promptTokensDetails") if isinstance(usage, dict) else None
    rows = [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
    return priced(
        Usage(
            input_tokens=count(usage, "promptTokenCount"),
            output_tokens=count(usage, "candidatesTokenCount", "thoughtsTokenCount"),
            reasoning_tokens=count(usage, "thoughtsTokenCount"),
            cached_tokens=count(usage, "cachedContentTokenCount"),
            image_tokens=sum(count(row, "tokenCount") for row in rows if row.get("modality") == "IMAGE"),
        ),
        price,
    )
