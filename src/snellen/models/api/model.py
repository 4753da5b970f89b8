"""The API model: one attempt per call. Retries, back-off and budgets belong to the engine."""

from __future__ import annotations

import contextlib
import json
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from msgspec import structs

from snellen.errors import BadRequestError, ModelError, UsageError
from snellen.event_loop import off_loop
from snellen.media import images_unchanged
from snellen.models.api.endpoint import check_temperature, warn_of_temperature
from snellen.models.api.prices import Price, find_price, provider_of
from snellen.models.api.protocol import open_protocol, request_id
from snellen.models.api.request import Body
from snellen.models.api.services import Service, service
from snellen.models.base import AUTO, CHECKPOINT, Model, ModelOptions, changed_option
from snellen.models.shutdowns import announced
from snellen.models.trace import Exchange
from snellen.types import MORE_SAMPLING, Image, Prompt, Response, Video

if TYPE_CHECKING:
    from snellen.models.api.batches.service import BatchService
    from snellen.models.api.image_files import ImageFiles
    from snellen.models.api.transport import HttpReply, Transport

OFFLINE_URL = "http://run-batch.invalid/v1"
"""Address of a model to which no request is sent: its requests are written to a file (`batches.files`)."""
_TRACED_DIGEST = re.compile(rb"\bsha256:([0-9a-f]{64})\b")
_NOT_FINITE = re.compile(rb"[:,\[]\s*-?(?:NaN|Infinity)\b")


class ApiReply(NamedTuple):
    """One reply: its bytes, the seconds that it took, the provider's id, and the seconds to the first text of a stream."""

    body: bytes
    latency_s: float
    request_id: str = ""
    first_token_s: float = 0.0


class ApiModel(Model):
    """A model behind an API: an OpenAI-compatible endpoint, or a provider's own protocol.

    Nothing is sent, and no key is read, until the first use.

    With `ModelOptions.offline`, requests go to `request_file`, and answers are read from `result_files`;
    `answering_ended` says that there will be no more of them.

    Args:
        name: as typed after --model, with or without the leading kind.
        options: base URL, name of the key's variable, generation and media settings, extra body, prices, timeout.
        kind: api, openai, anthropic, gemini, openrouter, azure, bedrock or vertex.

    Raises:
        UsageError: no model name, an option that only local models or other services know, an address or an extra body
            that cannot be used, no price for the model.
    """

    def __init__(self, name: str, options: ModelOptions, kind: str = "api") -> None:
        self._kind = kind
        self._model = name.removeprefix(f"{kind}:")
        if kind == "gemini":  # Google's lists of models have it in front
            self._model = self._model.removeprefix("models/")
        self.name = f"{kind}:{self._model}"
        if not self._model:
            raise UsageError(f"--model {kind}: names no model.", f"Write --model {kind}:NAME, as the server calls it.")
        if self._model.startswith(("http://", "https://")):
            raise UsageError(
                f"--model {kind}:{self._model} names an address; a model's name was expected.",
                f"Write --model {kind}:NAME --base-url {self._model}",
            )
        if self._model != self._model.strip():
            raise UsageError(
                f"--model {self.name!r} has spaces around the name.", f"Write --model {kind}:{self._model.strip()}"
            )
        _refuse_local_options(options)
        if options.offline and options.base_url is None:
            options = structs.replace(options, base_url=OFFLINE_URL)
        self._options = options
        self.protocol = open_protocol(kind, self._model, options)
        self._endpoint = self.protocol.endpoint
        check_temperature(options.generation.temperature, self._endpoint, self.protocol.row.max_temperature)
        _refuse_sampling(options, self.protocol.row, provider_of(kind, str(self._endpoint)))
        self._url = self.protocol.url()
        self.writer = self.protocol.writer
        self.supports = self.writer.supports
        model_price = find_price(provider_of(kind, str(self._endpoint)), self._model, options.prices)
        self.price: Price | None = None if model_price is None else model_price.price
        self.patience_s = options.sample_patience_s()
        self._transport: Transport | None = None
        self.writer.uploads = bool(self.protocol.row.image_upload)
        self._files: ImageFiles | None = None
        self._folders: list[Path] = []
        self.request_file: Path | None = None
        self.result_files: tuple[Path, ...] = ()
        self.answering_ended = False

    def __repr__(self) -> str:
        return f"ApiModel({self.name.removeprefix('api:')!r}, {str(self._endpoint)!r})"

    @property
    def shareable(self) -> bool:
        """True: runs that share the model share its uploaded files too, and each remembers them."""
        return True

    def attach(self, folder: Path) -> None:
        """Take the run's folder, in which uploaded images are remembered (`image_files`)."""
        self._folders.append(folder)
        if self._files is not None:
            self._files.attach(folder)

    def identity(self) -> Mapping[str, Any]:
        """Return everything that can change an answer: address, model, settings. Never the key, nor its source."""
        return {
            "kind": self._kind,
            "model": self._model,
            "base_url": str(self._endpoint),
            "generation": msgspec.to_builtins(self._options.generation),
            "media": msgspec.to_builtins(self._options.media),
            "extra_body": dict(self._options.extra_body),
            **self.protocol.identity(),
        }

    async def preflight(self) -> None:
        """Check that the server answers, accepts the key and knows the model. Sends no question.

        Raises:
            PreflightError: no, and what to do about it.
        """
        if self._options.offline:
            return
        from snellen.models.api import preflight
        from snellen.models.api.transport import Transport

        if (ended := announced(self._model)) is not None:
            print(f"snellen: warning: {ended.warning()}", file=sys.stderr)
        if self._kind == "api":
            warn_of_temperature(self._options.generation.temperature, self._endpoint)
        # A transport of its own: its timeout is shorter, and it goes when the check is done.
        key = self.protocol.key()
        transport = Transport(
            self._endpoint,
            self.protocol.headers(key),
            min(preflight.TIMEOUT_S, self._options.timeout_s),
            self.protocol.credentials(key),
        )
        try:
            wait_s = self._options.start_patience_s()
            await preflight.wait_and_check(transport, self.protocol, key is not None, wait_s)
        finally:
            await transport.close()

    async def request_identity(self, prompt: Prompt) -> bytes | None:
        """Return service, address, headers without the key, and the request body with images by digest.

        None for a prompt with an image that the server fetches: its content may change behind the address.

        Raises:
            InputError: an image or video cannot be read.
        """
        if images_unchanged(self._options.media) and any(
            getattr(part.blob, "url", None) for part in prompt.conversation_parts if isinstance(part, Image | Video)
        ):
            return None
        body = await self.writer.write(prompt)
        facts = [self._kind, self._url, self._model, self.protocol.identity()]
        return msgspec.json.encode(facts, order="deterministic") + b"\n" + body.traced

    async def answer(self, prompt: Prompt) -> Response:
        """Send one request and return its reply.

        `trace` of the response is {"request", "reply"}: the raw JSON of both, images by digest.

        Raises:
            ModelError: there is no answer; the kind says why, and `retry_after_s` what the server asked for.
        """
        body = await self.writer.write(prompt)
        placed = await self.placed(body)
        try:
            return await self._send(placed)
        except ModelError as error:
            if self._renews(error, placed):
                return await self._send(await self.placed(body))
            if not isinstance(error, BadRequestError) or not self.renamed(error, body):
                raise
            renamed = await self.writer.write(prompt)
            if renamed.traced == body.traced:
                raise
        return await self._send(await self.placed(renamed))

    async def placed(self, body: Body, valid_s: float | None = None) -> Body:
        """Return a body whose images above the inline limit are uploaded and named.

        Args:
            body: as the writer has written it.
            valid_s: seconds that the uploads have to live on; None: as an ordinary request needs.

        Raises:
            ModelError: an image could not be uploaded.
        """
        if not body.files:
            return body
        from snellen.models.api.image_files import VALID_S

        return await self._image_files().place(body, VALID_S if valid_s is None else valid_s)

    def _image_files(self) -> ImageFiles:
        if self._files is None:
            from snellen.models.api.batches.transport import BatchTransport
            from snellen.models.api.image_files import ImageFiles

            protocol, timeout_s = self.protocol, self._options.timeout_s

            def open_transport() -> BatchTransport:
                return BatchTransport(protocol.endpoint, lambda: protocol.headers(protocol.key()), timeout_s)

            self._files = ImageFiles(protocol.row, protocol.endpoint, open_transport)
            for folder in self._folders:
                self._files.attach(folder)
        return self._files

    def _renews(self, error: ModelError, placed: Body) -> bool:
        if not placed.files:
            return False
        references = [bytes(placed.pieces[file.place]).decode() for file in placed.files]
        return self._image_files().renew(error, [file.encoded.digest for file in placed.files], references)

    def renews_upload(self, error: ModelError, traced: bytes) -> bool:
        """Return True if a row of a batch failed because an uploaded image is gone; the next row uploads it anew."""
        if self._files is None and not (self.writer.uploads and _TRACED_DIGEST.search(traced)):
            return False
        digests = dict.fromkeys(digest.decode() for digest in _TRACED_DIGEST.findall(traced))
        return self._image_files().renew(error, digests)

    def renamed(self, error: BadRequestError, body: Body) -> bool:
        """Return True if the server refused the name of the limit on new tokens; the newer one is used from here on.

        Models that want the newer name say so, and nothing was generated, so that the body may be written again.
        """
        if "max_completion_tokens" not in error.message or b'"max_tokens":' not in body.traced:
            return False
        self.writer.tokens_field = "max_completion_tokens"
        return True

    async def _send(self, body: Body) -> Response:
        reply = await self.exchange(body)
        response = await off_loop(len(reply.body), self._read_reply, body, reply)
        if reply.first_token_s or body.oversized is not None:
            response = structs.replace(response, first_token_s=reply.first_token_s, oversized_images=body.oversized)
        return response

    def _read_reply(self, body: Body, reply: ApiReply) -> Response:
        data = reply.body
        try:
            return self.protocol.read_reply(data, reply.latency_s, self.price, _trace(body, data), reply.request_id)
        except ModelError as error:
            if error.trace is None:
                error.trace = _trace(body, _as_json(data))
            raise

    def _read_error(self, body: Body, reply: HttpReply) -> ModelError:
        error = self.protocol.read_error(reply.status, reply.headers, reply.body)
        error.trace = _trace(body, _as_json(reply.body))
        return error

    def read(self, body: Body, reply: bytes, request_id: str = "") -> Response:
        """Return the answer in a reply that came by another way than a request of its own.

        Args:
            body: what was asked; its `traced` stands in the trace.
            reply: as the server sent it, keys struck out.
            request_id: the provider's.

        Raises:
            ModelError: there is no answer in it.
        """
        return self.protocol.read_reply(reply, 0.0, self.price, _trace(body, reply), request_id)

    def batches(self) -> BatchService:
        """Return the service's batches. Nothing is sent, and no key is read, until the first call."""
        from snellen.models.api.batches.open import open_batches

        return open_batches(self, self._options)

    async def exchange(self, body: Body) -> ApiReply:
        """Send one request; return the reply, keys struck out.

        Raises:
            ModelError: no whole reply, or one whose HTTP status is not 2xx.
        """
        transport = self._transport or self._open()
        started = perf_counter()
        first_token_s = 0.0
        if self._options.stream:
            from snellen.models.api.stream import FirstText, assemble

            first_text = FirstText(self.protocol.row.protocol)

            def on_chunk(chunk: bytes) -> None:
                nonlocal first_token_s
                if not first_text.seen and first_text.add(chunk):
                    first_token_s = perf_counter() - started

            reply = await transport.post(self._url, body.pieces, on_chunk)
        else:
            reply = await transport.post(self._url, body.pieces)
        latency = perf_counter() - started
        if not 200 <= reply.status < 300:
            raise await off_loop(len(reply.body), self._read_error, body, reply)
        data = reply.body
        if self._options.stream:
            data = await off_loop(len(data), assemble, self.protocol.row.protocol, data)
        return ApiReply(data, latency, request_id(reply.headers), first_token_s)

    def _open(self) -> Transport:
        # aiohttp takes 0.1 s to import, which a run without requests does not need.
        from snellen.models.api.transport import Transport

        key = self.protocol.key()
        headers, credentials = self.protocol.headers(key), self.protocol.credentials(key)
        self._transport = Transport(self._endpoint, headers, self._options.timeout_s, credentials)
        return self._transport

    async def close(self) -> None:
        """Close the connections and the threads that encode images. A later `answer` opens new ones."""
        self.writer.close()
        transport, self._transport = self._transport, None
        if transport is not None:
            await transport.close()
        if self._files is not None:
            await self._files.close()


def _refuse_local_options(options: ModelOptions) -> None:
    if flag := changed_option(options, ("dtype", "device", "batch_size", "stop_after_first_json", "revision")):
        raise UsageError(f"{flag} is for local models; a model behind an API cannot use it.", f"Omit {flag}.")


def _refuse_sampling(options: ModelOptions, row: Service, provider: str | None) -> None:
    """Refuse sampling settings that the service, or the provider at whose address an `api:` model is asked, does not take."""
    at = row if provider is None else service(provider)
    taken = {*row.sampling} & {*at.sampling} if at.protocol == row.protocol else {*row.sampling} - {*MORE_SAMPLING}
    if missing := [name for name in options.generation.more_sampling() if name not in taken]:
        flag = f"--{missing[0].replace('_', '-')}"
        raise UsageError(
            f"{flag} is set, and {at.title} takes no {missing[0]} in this protocol.",
            f"Omit {flag}, or choose another recipe; a server of your own takes it as api:NAME --base-url URL."
            if options.sampling
            else f"Omit {flag}; a server of your own takes it as api:NAME --base-url URL.",
        )
    if options.sampling in (AUTO, CHECKPOINT):
        raise UsageError(
            f"--sampling {options.sampling} reads a checkpoint, and a model behind an API has none here.",
            "Choose greedy or a recipe: snellen recipes",
        )


def _trace(body: Body, reply: bytes) -> Exchange:
    """Return both sides as they are, to be written without being parsed again; one line each, as the shards hold lines.

    Args:
        body: what was sent.
        reply: what `exchange` returned, keys struck out.
    """
    if _NOT_FINITE.search(reply) is not None:  # no JSON, and written so by servers in Python
        with contextlib.suppress(ValueError, RecursionError):  # it stands in a text
            reply = json.dumps(json.loads(reply, parse_constant=lambda name: None), ensure_ascii=False).encode()
    if b"\n" in reply or b"\r" in reply or not _is_utf8(reply):
        # Members that were skipped unread may hold anything; in the shard there is only UTF-8.
        text = reply.decode("utf-8", "replace")
        try:
            reply = msgspec.json.format(text, indent=-1).encode()
        except (msgspec.DecodeError, RecursionError):
            reply = msgspec.json.encode(text)
    return Exchange(request=msgspec.Raw(body.traced), reply=msgspec.Raw(reply))


def _as_json(reply: bytes) -> bytes:
    """Return a reply that may be anything, such as a page of a proxy, as it is if it is JSON, else as a JSON text."""
    try:
        msgspec.json.decode(reply)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return msgspec.json.encode(reply.decode("utf-8", "replace"))
    return reply


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True
