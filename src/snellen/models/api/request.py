"""Request bodies: pieces of bytes that are sent one after the other and never joined.

An image, or a video's file, is encoded once per run, not once per question: its data URI is a cached piece of bytes,
and no JSON encoder ever sees it. All requests in flight share that piece. What is left per question is its text.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import msgspec
from msgspec import structs

from snellen.errors import DataError, InputError, MediaError, ModelError, UsageError
from snellen.media import MediaCache, images_unchanged
from snellen.models.base import ModelOptions, effective
from snellen.sources import cache_folder
from snellen.types import Generation, Image, Part, Prompt, Text, Video

# OpenAI's reasoning models. They refuse max_tokens, which nearly every other server knows (and not all know the newer
# name), and any temperature or top_p; and the limit on new tokens counts their reasoning, which no benchmark allows for.
_REASONING_MODEL = re.compile(r"(?:.*/)?(?:o\d|gpt-[5-9])", re.IGNORECASE)

_TEXT, _IMAGE, _END = b'{"type":"text","text":', b'{"type":"image_url","image_url":{"url":', b"}},"
# As vLLM, SGLang and OpenRouter read it; it is no part of OpenAI's own protocol.
_VIDEO = b'{"type":"video_url","video_url":{"url":'


class Body(NamedTuple):
    """One request body: `pieces` as they go out, `traced` the same JSON with the digest of each image or video in its place."""

    pieces: tuple[bytes, ...]
    traced: bytes

    @property
    def sent(self) -> bytes:
        """The whole body in one piece; a copy."""
        return b"".join(self.pieces)


class BodyWriter:
    """Turns prompts into request bodies for one model.

    `tokens_field` is the name under which the limit on new tokens is sent; it may be changed while running.
    """

    def __init__(self, model: str, options: ModelOptions) -> None:
        _refuse_fixed_fields(options)
        self._reasons = _REASONING_MODEL.match(model) is not None
        self.tokens_field = "max_completion_tokens" if self._reasons else "max_tokens"
        self._head = b'{"model":' + msgspec.json.encode(model) + b',"messages":['
        self._generation = options.generation
        self._extra = dict(options.extra_body)
        self._media = MediaCache(options.media, shared=cache_folder() / "frames")
        self._native = options.media.video == "native"
        # An image behind a URL goes out as a URL, unless we were asked to change images.
        self._urls = images_unchanged(options.media)
        self._tail: tuple[Generation | None, str, bytes] | None = None

    async def write(self, prompt: Prompt) -> Body:
        """Return the body for one prompt.

        Raises:
            InputError: an image or video cannot be read or is over the limits, or the text is not valid Unicode.
        """
        head, tail = self._head, self.tail(prompt.generation)
        try:
            if prompt.system:
                head += b'{"role":"system","content":' + msgspec.json.encode(prompt.system) + b"},"
            head += b'{"role":"user","content":'
            if len(prompt.parts) == 1 and isinstance(prompt.parts[0], Text):
                # The plain string is what servers of text-only models understand too.
                body = head + msgspec.json.encode(prompt.parts[0].text) + tail
                return Body((body,), body)
            sent, traced = [head, b"["], [head, b"["]
            for part in prompt.parts:
                await self._put(part, sent, traced)
        except ModelError:
            raise
        except (MediaError, DataError) as error:
            raise InputError(error.message, error.hint) from error
        except UnicodeEncodeError as error:
            raise InputError(f"The prompt is not valid Unicode: {error.reason} at character {error.start}.") from error
        # Each part ends in a comma; the last one gives way to the bracket.
        end = b"]" + tail
        sent[-1] = sent[-1].removesuffix(b",")
        traced[-1] = traced[-1].removesuffix(b",")
        sent.append(end)
        traced.append(end)
        return Body(tuple(sent), b"".join(traced))

    async def _put(self, part: Part, sent: list[bytes], traced: list[bytes]) -> None:
        if isinstance(part, Video) and not self._native:
            for number, frame in enumerate(await self._media.fetch_frames(part)):
                if part.pick is not None and (label := part.pick.text_before(number)) is not None:
                    await self._put(label, sent, traced)
                await self._put(frame, sent, traced)
            return
        if isinstance(part, Text):
            piece = _TEXT + msgspec.json.encode(part.text) + b"},"
        else:
            kind = _IMAGE if isinstance(part, Image) else _VIDEO
            url = getattr(part.blob, "url", None) if self._urls else None
            if not isinstance(url, str) or not url.startswith(("http://", "https://")):
                fetching = self._media.fetch(part) if isinstance(part, Image) else self._media.fetch_video(part)
                encoded = await fetching
                sent += (kind, b'"', encoded.data_uri, b'"', _END)
                traced += (kind, b'"sha256:', encoded.digest.encode(), b'"', _END)
                return
            piece = kind + msgspec.json.encode(url) + _END  # the server may follow it
        sent.append(piece)
        traced.append(piece)

    def close(self) -> None:
        """Let the threads go that encode images."""
        self._media.close()

    def tail(self, prompted: Generation | None) -> bytes:
        """Return everything after the content: the end of the message, then the settings as JSON members."""
        # Prompts of one benchmark share their Generation, so nearly every call is answered from the last one.
        last = self._tail
        if last is not None and last[0] is prompted and last[1] == self.tokens_field:
            return last[2]
        fields = self.settings(prompted)
        members = b"," + msgspec.json.encode(fields)[1:] if fields else b"}"
        self._tail = (prompted, self.tokens_field, b"}]" + members)
        return self._tail[2]

    def settings(self, prompted: Generation | None) -> dict[str, Any]:
        """Return members of the request besides model and messages, under the names that the protocol gives them.

        A reasoning model by name gets the temperature, top_p and token limit that the user set, not the benchmark's.
        """
        if self._reasons and prompted is not None:
            prompted = structs.replace(prompted, max_tokens=None, temperature=None, top_p=None)
        chosen = effective(self._generation, prompted)
        fields = {
            self.tokens_field: chosen.max_tokens,
            "temperature": chosen.temperature,
            "top_p": chosen.top_p,
            "seed": chosen.seed,
            "stop": list(chosen.stop) or None,
        }
        extra = {**chosen.extra, **self._extra}
        if "max_tokens" in extra or "max_completion_tokens" in extra:
            del fields[self.tokens_field]
        return {**{name: value for name, value in fields.items() if value is not None}, **extra}


def _refuse_fixed_fields(options: ModelOptions) -> None:
    for field in ("model", "messages", "stream", "n"):
        if field in options.extra_body or field in options.generation.extra:
            raise UsageError(
                f"The extra body sets {field!r}, which Snellen itself decides: one whole answer to each question.",
                "Omit it. To ask each question several times, use --repeats.",
            )
