"""The API model: one attempt per call. Retries, back-off and budgets belong to the engine."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from time import perf_counter
from typing import TYPE_CHECKING, Any

import msgspec

from snellen.errors import BadRequestError, UsageError
from snellen.event_loop import off_loop
from snellen.models.api.endpoint import check_temperature, parse_endpoint, warn_of_temperature
from snellen.models.api.errors import from_status
from snellen.models.api.keys import DEFAULT_VARIABLE, find_key
from snellen.models.api.prices import Price, load_price
from snellen.models.api.request import Body, BodyWriter
from snellen.models.api.response import read_reply
from snellen.models.base import Model, ModelOptions, changed_option
from snellen.models.shutdowns import announced
from snellen.models.trace import Exchange
from snellen.types import Prompt, Response

if TYPE_CHECKING:
    from snellen.models.api.transport import Transport


def open_model(name: str, options: ModelOptions) -> ApiModel:
    """Return the model behind `--model api:NAME`. Nothing is sent, and no key is read, until the first use."""
    return ApiModel(name, options)


class ApiModel(Model):
    """A model behind an OpenAI-compatible chat completions endpoint.

    Args:
        name: as typed after --model, with or without the leading `api:`.
        options: base URL, name of the key's variable, generation and media settings, extra body, prices, timeout.

    Raises:
        UsageError: no model name, an option that only local models know, an address or an extra body that cannot be
            used, no price for the model.
    """

    def __init__(self, name: str, options: ModelOptions) -> None:
        self._model = name.removeprefix("api:")
        self.name = f"api:{self._model}"
        if not self._model:
            raise UsageError("--model api: names no model.", "Write --model api:NAME, as the server calls it.")
        if self._model.startswith(("http://", "https://")):
            raise UsageError(
                f"--model api:{self._model} names an address; a model's name was expected.",
                f"Write --model api:NAME --base-url {self._model}",
            )
        if self._model != self._model.strip():
            raise UsageError(
                f"--model {self.name!r} has spaces around the name.", f"Write --model api:{self._model.strip()}"
            )
        _refuse_local_options(options)
        self._options = options
        self._endpoint = parse_endpoint(options.base_url)
        check_temperature(options.generation.temperature, self._endpoint)
        self._url = self._endpoint.url("/chat/completions")
        self.writer = BodyWriter(self._model, options)
        self.price: Price | None = load_price(options.prices, self._model) if options.prices else None
        self.patience_s = options.sample_patience_s()
        self._transport: Transport | None = None
        self._has_key = False

    def __repr__(self) -> str:
        return f"ApiModel({self._model!r}, {str(self._endpoint)!r})"

    def identity(self) -> Mapping[str, Any]:
        """Return everything that can change an answer: address, model, settings. Never the key, nor its source."""
        return {
            "kind": "api",
            "model": self._model,
            "base_url": str(self._endpoint),
            "generation": msgspec.to_builtins(self._options.generation),
            "media": msgspec.to_builtins(self._options.media),
            "extra_body": dict(self._options.extra_body),
        }

    async def preflight(self) -> None:
        """Check that the server answers, accepts the key and knows the model. Sends no question.

        Raises:
            PreflightError: no, and what to do about it.
        """
        from snellen.models.api import preflight
        from snellen.models.api.transport import Transport

        if (ended := announced(self._model)) is not None:
            print(f"snellen: warning: {ended.warning()}", file=sys.stderr)
        warn_of_temperature(self._options.generation.temperature, self._endpoint)
        # A transport of its own: its timeout is shorter, and it goes when the check is done.
        key = find_key(self._options.key_env)
        transport = Transport(self._endpoint, key, min(preflight.TIMEOUT_S, self._options.timeout_s))
        key_name = self._options.key_env or DEFAULT_VARIABLE
        try:
            wait_s = self._options.start_patience_s()
            await preflight.wait_and_check(transport, self._endpoint, self._model, key_name, key is not None, wait_s)
        finally:
            await transport.close()

    async def answer(self, prompt: Prompt) -> Response:
        """Send one request and return its reply.

        `trace` of the response is {"request", "reply"}: the raw JSON of both, images by digest.

        Raises:
            ModelError: there is no answer; the kind says why, and `retry_after_s` what the server asked for.
        """
        body = await self.writer.write(prompt)
        try:
            return await self._send(body)
        except BadRequestError as error:
            if not self.renamed(error, body):
                raise
            renamed = await self.writer.write(prompt)
            if renamed.traced == body.traced:
                raise
        return await self._send(renamed)

    def renamed(self, error: BadRequestError, body: Body) -> bool:
        """Return True if the server refused the name of the limit on new tokens; the newer one is used from here on.

        Models that want the newer name say so, and nothing was generated, so that the body may be written again.
        """
        if "max_completion_tokens" not in error.message or b'"max_tokens":' not in body.traced:
            return False
        self.writer.tokens_field = "max_completion_tokens"
        return True

    async def _send(self, body: Body) -> Response:
        data, latency = await self.exchange(body)
        return await off_loop(len(data), lambda: read_reply(data, latency, self.price, _trace(body, data)))

    async def exchange(self, body: Body) -> tuple[bytes, float]:
        """Send one request; return the bytes of the reply, keys struck out, and the seconds it took.

        Raises:
            ModelError: no whole reply, or one whose HTTP status is not 2xx.
        """
        transport = self._transport or self._open()
        started = perf_counter()
        reply = await transport.post(self._url, body.pieces)
        latency = perf_counter() - started
        if not 200 <= reply.status < 300:
            raise await off_loop(len(reply.body), from_status, reply.status, reply.headers, reply.body)
        return reply.body, latency

    def _open(self) -> Transport:
        # aiohttp takes 0.1 s to import, which a run without requests does not need.
        from snellen.models.api.transport import Transport

        self._transport = Transport(self._endpoint, find_key(self._options.key_env), self._options.timeout_s)
        return self._transport

    async def close(self) -> None:
        """Close the connections and the threads that encode images. A later `answer` opens new ones."""
        self.writer.close()
        transport, self._transport = self._transport, None
        if transport is not None:
            await transport.close()


def _refuse_local_options(options: ModelOptions) -> None:
    if flag := changed_option(options, ("dtype", "device", "batch_size", "stop_after_first_json", "revision")):
        raise UsageError(f"{flag} is for local models; a model behind an API cannot use it.", f"Omit {flag}.")


def _trace(body: Body, reply: bytes) -> Exchange:
    """Return both sides as they are, to be written without being parsed again; one line each, as the shards hold lines.

    Args:
        body: what was sent.
        reply: what `exchange` returned, keys struck out.
    """
    if b"\n" in reply or b"\r" in reply or not _is_utf8(reply):
        # Members that were skipped unread may hold anything; in the shard there is only UTF-8.
        text = reply.decode("utf-8", "replace")
        try:
            reply = msgspec.json.format(text, indent=-1).encode()
        except (msgspec.DecodeError, RecursionError):
            reply = msgspec.json.encode(text)
    return Exchange(request=msgspec.Raw(body.traced), reply=msgspec.Raw(reply))


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True
