"""Request bodies: pieces of bytes that are sent one after the other and never joined.

`BodyWriter` writes those of chat completions; the writers of other protocols inherit its order of parts and its cache. An
image, or a video's file, is encoded once per run, not once per question. Its data URI is a cached piece of bytes, which no
JSON encoder handles. All requests in flight share that piece. What is left per question is its text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, TypeAlias

import msgspec
from msgspec import structs

from snellen.errors import DataError, InputError, MediaError, ModelError, UsageError
from snellen.media import MediaCache, clip_parts, images_unchanged
from snellen.media.clip_parts import file_text
from snellen.media.encode import Encoded
from snellen.models.api.services import Service, service
from snellen.models.base import ModelOptions, effective
from snellen.models.image_tokens import ImageLimit
from snellen.sources import cache_folder
from snellen.types import MORE_SAMPLING, Generation, Image, Part, Prompt, Text, TurnRole, Video

_END = b"}},"
MOST_PREFIXES = 10_000
"""Beginnings of questions that are remembered to find those that several questions share."""
Piece: TypeAlias = bytes | memoryview
ImageSize: TypeAlias = tuple[int, int] | None
"""Width and height in pixels; None of an image that the server fetches itself."""


class PendingFile(NamedTuple):
    """An image that is sent by its uploaded file: `place` is the number of the piece that will name the file."""

    place: int
    encoded: Encoded


class Body(NamedTuple):
    """One request body: `pieces` as they go out, `traced` the same JSON with the digest of each image or video in its place.

    `oversized` counts the images that are larger than the service takes without scaling them down; None: not known.
    `files` are images above the inline limit, whose pieces are empty until `image_files` has uploaded them.
    """

    pieces: tuple[Piece, ...]
    traced: bytes
    oversized: int | None = None
    files: tuple[PendingFile, ...] = ()

    @property
    def size(self) -> int:
        """Bytes of the whole body."""
        return sum(map(len, self.pieces))

    @property
    def sent(self) -> bytes:
        """The whole body in one piece; a copy."""
        return b"".join(self.pieces)


class BodyWriter:
    """Turns prompts into bodies of chat completions for one model.

    `tokens_field` is the name under which the limit on new tokens is sent; it may be changed while running. `uploads`
    is set where somebody uploads the images that are above the inline limit (`image_files`). `limit` is the size up to
    which the service does not scale images down; None: not known. `local_paths`: images that are files of this machine
    and go out unchanged are named by their paths, for a server that reads them from its disk.

    Args:
        model: as the service calls it.
        options: generation and media settings, effort, detail, extra body.
        row: the service; None: any server with chat completions.

    Raises:
        UsageError: the extra body sets what Snellen decides, or the service does not know the effort or the detail.
    """

    fixed_fields: ClassVar[tuple[str, ...]] = ("model", "messages", "stream", "n")
    openings: ClassVar[dict[TurnRole, bytes]] = {
        "user": b'{"role":"user","content":',
        "assistant": b'{"role":"assistant","content":',
    }
    takes_string: ClassVar[bool] = True
    """A turn of one text may be a plain string, which servers of text-only models understand too."""
    takes_urls: ClassVar[bool] = True
    takes_videos: ClassVar[bool] = True
    takes_rate: ClassVar[bool] = False
    supports: ClassVar[frozenset[str]] = frozenset({"system", "history", "logprobs", "schema"})
    """What of a prompt the protocol has."""
    takes_files: ClassVar[bool] = False
    """The protocol can name an uploaded image."""
    marks_parts: ClassVar[bool] = False
    """For the service's cache of prompts, the end of what questions share is marked; else the whole body has a key."""

    def __init__(self, model: str, options: ModelOptions, row: Service | None = None) -> None:
        self.row = row or service("api")
        self.model = model
        _refuse_fixed_fields(options, self.fixed_fields)
        _refuse_unknown_words(options, self.row)
        self._reasons = self.row.reasons(model)
        self.tokens_field = self.row.tokens_field or ("max_completion_tokens" if self._reasons else "max_tokens")
        self.generation = options.generation
        self.effort = options.effort
        self.detail = options.detail
        self.stream = options.stream
        self.prompt_cache = options.prompt_cache
        self._prefixes: dict[bytes, bytes] = {}
        self._sampling_of_benchmark = row is None or row is service("api")
        self.extra = dict(options.extra_body)
        self._media = MediaCache(options.media, shared=cache_folder() / "frames")
        self._native = options.media.video == "native"
        if self._native and not self.takes_videos:
            raise UsageError(
                f"--video native: {self.row.title} takes no videos, only images.", "Omit it: frames are sent instead."
            )
        if self._native and options.media.fps is not None and not self.takes_rate:
            raise UsageError(
                f"--fps {options.media.fps:g} with --video native: a request to {self.row.title} has no field for it.",
                "Pass --video frames. A server of vLLM takes it in --extra-body, as "
                '\'{"mm_processor_kwargs": {"fps": 2, "do_sample_frames": true}}\'.',
            )
        # An image behind a URL goes out as a URL, unless we were asked to change images.
        self._urls = self.takes_urls and images_unchanged(options.media)
        self.limit: ImageLimit | None = None
        self._tail: tuple[Generation | None, str, bytes] | None = None
        self.uploads = False
        self.local_paths = False
        if self.row.image_upload and not self.takes_files:
            raise UsageError(
                f"image_upload is set for {self.row.title}, and its protocol cannot name an uploaded image.",
                "Omit image_upload in the file of SNELLEN_SERVICES.",
            )

    async def write(self, prompt: Prompt) -> Body:
        """Return the body for one prompt.

        Raises:
            InputError: an image or video cannot be read or is over the limits, the body is larger than the service
                takes, or the text is not valid Unicode.
        """
        most = self.row.request_bytes
        body = await self._written(prompt, self.row.image_inline_bytes if self.uploads else None)
        if self.uploads and most is not None and body.size > most:
            body = await self._written(prompt, 0)
        if most is not None and body.size > most:
            raise InputError(
                f"The request has {body.size:,} bytes; {self.row.title} takes {most:,} at most.",
                "Send smaller images: --max-long-side PIXELS or --max-pixels NUMBER; of a video, fewer --frames.",
            )
        return body

    async def _written(self, prompt: Prompt, inline: int | None) -> Body:
        """Return the body; images of more base64 text than `inline` are left to be uploaded (None: none is)."""
        tail = self.tail(prompt.generation)
        draft = _Draft(inline, self.limit)
        try:
            head = self._add_head(prompt, draft)
            if prompt.history:
                return await self._conversation(prompt, head, tail, draft)
            head += self.openings["user"]
            if len(prompt.parts) == 1 and self.takes_string and isinstance(prompt.parts[0], Text):
                draft.add(head + msgspec.json.encode(prompt.parts[0].text) + tail)
                return self._ready(draft)
            draft.add(head)
            draft.add(b"[")
            await self._put_question(prompt.parts, draft)
        except ModelError:
            raise
        except (MediaError, DataError) as error:
            raise InputError(error.message, error.hint) from error
        except UnicodeEncodeError as error:
            raise InputError(f"The prompt is not valid Unicode: {error.reason} at character {error.start}.") from error
        # Each part ends in a comma; the last one gives way to the bracket.
        draft.drop_comma()
        draft.add(b"]" + tail)
        return self._ready(draft)

    def _add_head(self, prompt: Prompt, draft: _Draft) -> bytes:
        """Add what stands before the first turn if the cache is to keep it; return what is still to be added."""
        head = self.head(prompt.system)
        if self.prompt_cache == "off":
            return head
        marked = self.cached_head(prompt.system)
        draft.add(head, None if self.marks_parts else marked)
        if self.marks_parts and prompt.system and not prompt.history:
            draft.markable(marked)
        return b""

    async def _put_question(self, parts: Sequence[Part], draft: _Draft) -> None:
        """Add the parts of the last turn; its last image or video may be marked where a text follows it."""
        media = [at for at, part in enumerate(parts[:-1]) if not isinstance(part, Text)]
        marks = self.marks_parts and self.prompt_cache != "off" and bool(media) and isinstance(parts[-1], Text)
        for at, part in enumerate(parts):
            await self._put(part, draft)
            if marks and at == media[-1]:
                draft.markable(self.marked(draft.last))

    def _ready(self, draft: _Draft) -> Body:
        """Return the body, marked where another question began alike; the first one of a kind is not marked."""
        if draft.marks:
            whole = draft.digest(None)
            for place, length, marked in draft.marks:
                if self._prefixes.setdefault(prefix := draft.digest(length), whole) != whole:
                    self._prefixes[prefix] = b""
                    draft.replace(place, marked)
            while len(self._prefixes) > MOST_PREFIXES:
                del self._prefixes[next(iter(self._prefixes))]
        return draft.body()

    async def _conversation(self, prompt: Prompt, head: bytes, tail: bytes, draft: _Draft) -> Body:
        """Write a prompt with earlier turns; a turn of text alone is a plain string where the protocol has that."""
        draft.add(head)
        turns: list[tuple[TurnRole, Sequence[Part]]] = [(turn.role, turn.parts) for turn in prompt.history]
        turns.append(("user", prompt.parts))
        for number, (role, parts) in enumerate(turns):
            closing = tail if number == len(turns) - 1 else b"},"
            ends = self.marks_parts and self.prompt_cache != "off" and number == len(turns) - 2
            if role == "assistant":
                parts = (Text("\n".join(part.text for part in parts if isinstance(part, Text))),)
            piece = self.openings[role]
            if self.takes_string and len(parts) == 1 and isinstance(parts[0], Text):
                block = b"[" + self.marked(self.text_part(parts[0].text)).removesuffix(b",") + b"]" if ends else b""
                draft.add(piece + msgspec.json.encode(parts[0].text) + closing)
                if ends:
                    draft.markable(piece + block + closing)
                continue
            draft.add(piece + b"[")
            if number == len(turns) - 1:
                await self._put_question(parts, draft)
            else:
                for part in parts:
                    await self._put(part, draft)
            draft.drop_comma()
            if ends:
                draft.markable(self.marked(draft.last))
            draft.add(b"]" + closing)
        return self._ready(draft)

    async def _put(self, part: Part, draft: _Draft) -> None:
        if isinstance(part, Video) and not self._native:
            for shown in clip_parts(part, await self._media.fetch_frames(part), self._media.settings):
                await self._put(shown, draft)
            return
        if isinstance(part, Video) and (spoken := file_text(part)):
            await self._put(structs.replace(part, subtitles=None), draft)
            await self._put(Text(spoken), draft)
            return
        if isinstance(part, Text):
            piece = self.text_part(part.text)
        else:
            url = getattr(part.blob, "url", None) if self._urls else None
            if not isinstance(url, str) or not url.startswith(("http://", "https://")):
                fetching = self._media.fetch(part) if isinstance(part, Image) else self._media.fetch_video(part)
                encoded = await fetching
                path = getattr(part.blob, "path", None) if self.local_paths and not encoded.changed else None
                if isinstance(path, Path):
                    draft.add_path(
                        self.url_part(part, path.absolute().as_uri()), self.media_part(part, encoded), encoded
                    )
                elif draft.inline is not None and len(encoded.base64) > draft.inline:
                    before, after = self.file_part(part, encoded)
                    draft.add_media(before, None, after, encoded)
                else:
                    draft.add_media(*self.media_part(part, encoded), encoded)
                if isinstance(part, Image):
                    draft.sizes.append((encoded.width, encoded.height))
                return
            piece = self.url_part(part, url)  # the server may follow it
            draft.sizes.append(None)
        draft.add(piece)

    def close(self) -> None:
        """Let the threads go that encode images."""
        self._media.close()

    def head(self, system: str) -> bytes:
        """Return what stands before the first turn, with the system text."""
        opening = b'{"model":' + msgspec.json.encode(self.model) + b',"messages":['
        if system:
            opening += b'{"role":"system","content":' + msgspec.json.encode(system) + b"},"
        return opening

    def cached_head(self, system: str) -> bytes:
        """Return the head for the service's cache: with a mark behind the system text, or with a key for all questions."""
        facts: dict[str, Any] = {"prompt_cache_key": "snellen"}
        if self.prompt_cache != "auto":
            facts["prompt_cache_options"] = {"ttl": self.prompt_cache}
        return msgspec.json.encode(facts)[:-1] + b"," + self.head(system)[1:]

    def marked(self, part: bytes) -> bytes:
        """Return a part, of which this is the end, with a mark for the service's cache; a comma behind it stays."""
        raise NotImplementedError

    def text_part(self, text: str) -> bytes:
        """Return one text as a part, with a comma behind it."""
        return b'{"type":"text","text":' + msgspec.json.encode(text) + b"},"

    def media_part(self, part: Image | Video, encoded: Encoded) -> tuple[bytes, Piece, bytes]:
        """Return an image or a video's file as a part: what stands before its bytes, the bytes, what stands behind."""
        return _KINDS[type(part)] + b'"', encoded.data_uri, b'"' + self._detailed(part)

    def file_part(self, part: Image | Video, encoded: Encoded) -> tuple[bytes, bytes]:
        """Return an image or video as a part that names its uploaded file: what stands before the name, and behind it."""
        raise NotImplementedError

    def url_part(self, part: Image | Video, url: str) -> bytes:
        """Return an image or video that the service fetches by itself."""
        return _KINDS[type(part)] + msgspec.json.encode(url) + self._detailed(part)

    def _detailed(self, part: Image | Video) -> bytes:
        if self.detail == "auto" or isinstance(part, Video):
            return _END
        return b',"detail":"' + self.detail.encode() + b'"' + _END

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

    def chosen(self, prompted: Generation | None) -> Generation:
        """Return the generation settings of one prompt: the user's, else those of the benchmark that may be sent.

        A model that thinks unasked gets the temperature, top_p and token limit that the user set, not the benchmark's:
        its limit includes the thinking. A provider named by its own kind gets no sampling but the user's.
        """
        if prompted is not None and (self._reasons or (self.effort or "none") != "none"):
            prompted = structs.replace(prompted, max_tokens=None, temperature=None, top_p=None, **_UNSET)
        if prompted is not None and not self._sampling_of_benchmark:
            extra = {name: value for name, value in prompted.extra.items() if name not in _SAMPLING}
            prompted = structs.replace(prompted, temperature=None, top_p=None, extra=extra, **_UNSET)
        return effective(self.generation, prompted)

    def settings(self, prompted: Generation | None) -> dict[str, Any]:
        """Return members of the request besides model and messages, under the names that the protocol gives them."""
        chosen = self.chosen(prompted)
        fields: dict[str, Any] = {
            self.tokens_field: chosen.max_tokens,
            "temperature": chosen.temperature,
            "top_p": chosen.top_p,
            **chosen.more_sampling(),
            "seed": chosen.seed,
            "stop": list(chosen.stop) or None,
            "logprobs": None if chosen.logprobs is None else True,
            "top_logprobs": chosen.logprobs,
            "reasoning_effort": self.effort,
        }
        if chosen.reply_schema is not None:
            schema = {"name": SCHEMA_NAME, "schema": chosen.reply_schema, "strict": True}
            fields["response_format"] = {"type": "json_schema", "json_schema": schema}
        if self.stream:
            fields |= {"stream": True, "stream_options": {"include_usage": True}}
        extra = {**chosen.extra, **self.extra}
        if "max_tokens" in extra or "max_completion_tokens" in extra:
            del fields[self.tokens_field]
        return {**{name: value for name, value in fields.items() if value is not None}, **extra}


class _Draft:
    """A body while it is written.

    Attributes:
        inline: base64 characters of an image above which it is uploaded; None: never.
        sizes: of the images so far.
        marks: (number of a piece, traced pieces up to its end, the piece with a mark) where the service may cache.
    """

    def __init__(self, inline: int | None, limit: ImageLimit | None) -> None:
        self.inline = inline
        self.sizes: list[ImageSize] = []
        self.marks: list[tuple[int, int, bytes]] = []
        self._limit = limit
        self._sent: list[Piece] = []
        self._traced: list[bytes] = []
        self._files: list[PendingFile] = []

    def add(self, piece: bytes, sent: bytes | None = None) -> None:
        """Add what is sent and traced alike, or `sent` in its place."""
        self._sent.append(piece if sent is None else sent)
        self._traced.append(piece)

    def add_media(self, before: bytes, data: Piece | None, after: bytes, encoded: Encoded) -> None:
        """Add an image or video between two pieces; `data` None leaves the place of its file's name empty."""
        if data is None:
            self._files.append(PendingFile(len(self._sent) + 1, encoded))
        self._sent += (before, b"" if data is None else data, after)
        self._traced += (before, b"sha256:", encoded.digest.encode(), after)

    def add_path(self, sent: bytes, inline: tuple[bytes, Piece, bytes], encoded: Encoded) -> None:
        """Add an image that is named by its path, and traced as if its bytes stood there."""
        before, _, after = inline
        self._sent.append(sent)
        self._traced += (before, b"sha256:", encoded.digest.encode(), after)

    @property
    def last(self) -> bytes:
        """The last piece that is sent."""
        return bytes(self._sent[-1])

    def markable(self, marked: bytes) -> None:
        """Let the last piece be replaced by this one, which has a mark for the service's cache."""
        self.marks.append((len(self._sent) - 1, len(self._traced), marked))

    def replace(self, place: int, piece: bytes) -> None:
        """Send this piece in the place of another; what is traced stays."""
        self._sent[place] = piece

    def digest(self, length: int | None) -> bytes:
        """Return a digest of the first traced pieces; None: of all."""
        return blake2b(b"".join(self._traced[:length]), digest_size=16).digest()

    def drop_comma(self) -> None:
        """Remove the comma behind the last part."""
        self._sent[-1] = bytes(self._sent[-1]).removesuffix(b",")
        self._traced[-1] = self._traced[-1].removesuffix(b",")

    def body(self) -> Body:
        return Body(tuple(self._sent), b"".join(self._traced), self._oversized(), tuple(self._files))

    def _oversized(self) -> int | None:
        """Count the images above the limit; None without a limit, or where the server fetches an image itself."""
        limit = self._limit
        if limit is None or None in self.sizes:
            return None
        return sum(size is not None and limit.exceeded(*size) for size in self.sizes)


# A video as vLLM, SGLang and OpenRouter read it; it is no part of OpenAI's own protocol.
_KINDS = {
    Image: b'{"type":"image_url","image_url":{"url":',
    Video: b'{"type":"video_url","video_url":{"url":',
}
SCHEMA_NAME = "reply"
"""Name of the schema of replies where a protocol asks for one."""
_SAMPLING = ("temperature", "top_p", "top_k", "topP", "topK")
_UNSET: dict[str, Any] = {**dict.fromkeys(MORE_SAMPLING), "chat_template_kwargs": {}}


def merged(fields: dict[str, Any], extra: Mapping[str, Any]) -> dict[str, Any]:
    """Merge an extra body into settings, objects member by member; None leaves a member out."""
    result = dict(fields)
    for name, value in extra.items():
        under = result.get(name)
        result[name] = merged(under, value) if isinstance(under, dict) and isinstance(value, Mapping) else value
    return {name: value for name, value in result.items() if value is not None}


def _refuse_fixed_fields(options: ModelOptions, fields: tuple[str, ...]) -> None:
    for field in fields:
        if field in options.extra_body or field in options.generation.extra:
            raise UsageError(
                f"The extra body sets {field!r}, which Snellen itself decides: one whole answer to each question.",
                "Omit it. To ask each question several times, use --repeats.",
            )


def _refuse_unknown_words(options: ModelOptions, row: Service) -> None:
    """Refuse an effort, a detail or a lifetime of cached prompts that the service does not have."""
    for option, word, supported, default in (
        ("effort", options.effort, row.efforts, None),
        ("detail", options.detail, row.details, "auto"),
        ("prompt-cache", options.prompt_cache, row.prompt_caches, "off"),
    ):
        if word == default or word in supported:
            continue
        words = (*((default,) if default else ()), *supported)
        raise UsageError(
            f"--{option} {word}: {row.title} has {', '.join(words) or 'none'}.", "Use one of these, or omit it."
        )
