"""Serving a model: parse its name, bind the port, load it, answer until told to stop.

The web application over one model: the list of models, and chat completions.
"""

from __future__ import annotations

import asyncio
import hmac
import itertools
import secrets
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import Response as Reply
from starlette.responses import StreamingResponse
from starlette.routing import Route

from snellen.errors import ModelError, UsageError
from snellen.local_server import LOOPBACK_NAMES, address_of, bind, is_loopback, run_app
from snellen.models.base import Model
from snellen.models.serve import protocol
from snellen.types import Prompt, Response


class RequestRejectedError(Exception):
    """A request that is turned away before the model sees it, as the error object that the client gets."""

    def __init__(self, status: int, message: str, kind: str = "invalid_request_error", code: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.body = protocol.error_body(message, kind, code)


class ClientGoneError(Exception):
    """The client disconnected before its reply."""


def build_app(
    model: Model, name: str, *, key: str | None = None, max_body: int = 64 * 2**20, hosts: tuple[str, ...] = ("*",)
) -> Starlette:
    """Return an application that answers with `model`, which is known to clients as `name`.

    Args:
        key: what clients must send as `Authorization: Bearer …`; None lets everyone in who reaches the port.
        max_body: bytes that a request may have at most.
        hosts: values of the Host header that are served. Naming only loopback names keeps out web pages whose own
            name was made to resolve to this machine (DNS rebinding).
    """
    born = int(time.time())
    numbers = itertools.count(1)
    prefix = f"chatcmpl-{secrets.token_hex(6)}"

    async def models(request: Request) -> Reply:
        _check_key(request, key)
        return _json({"object": "list", "data": [_card(name, born)]})

    async def one_model(request: Request) -> Reply:
        _check_key(request, key)
        if request.path_params["name"] != name:
            raise _unknown(request.path_params["name"], name)
        return _json(_card(name, born))

    async def completions(request: Request) -> Reply:
        _check_key(request, key)
        # A browser may post text/plain across sites without asking; JSON makes it ask, and nobody says yes.
        if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
            raise RequestRejectedError(415, "Content-Type must be application/json.")
        chat = protocol.read_request(await _body(request, max_body))
        if chat.model != name:
            raise _unknown(chat.model, name)
        prompt = await asyncio.to_thread(protocol.prompt_of, chat)
        response = await _answer(model, prompt, request)
        request_id, now = f"{prefix}-{next(numbers)}", int(time.time())
        if not chat.stream:
            return _json(protocol.completion(request_id, now, name, response))
        with_usage = chat.stream_options is not None and chat.stream_options.include_usage
        return StreamingResponse(
            iter(protocol.chunks(request_id, now, name, response, with_usage)), media_type="text/event-stream"
        )

    return Starlette(
        routes=[
            Route("/v1/models", models),
            Route("/v1/models/{name:path}", one_model),
            Route("/v1/chat/completions", completions, methods=["POST"]),
            Route("/health", _health),
        ],
        middleware=[Middleware(TrustedHostMiddleware, allowed_hosts=list(hosts), www_redirect=False)],
        exception_handlers=dict.fromkeys(
            (ModelError, RequestRejectedError, ClientGoneError, HTTPException, Exception), _error_reply
        ),
    )


async def _answer(model: Model, prompt: Prompt, request: Request) -> Response:
    """Return the model's reply; the prompt is withdrawn when the client hangs up."""
    answer = asyncio.ensure_future(model.answer(prompt))
    disconnect = asyncio.ensure_future(_wait_for_disconnect(request))
    try:
        await asyncio.wait((answer, disconnect), return_when=asyncio.FIRST_COMPLETED)
        if not answer.done():
            raise ClientGoneError
        return answer.result()
    finally:
        answer.cancel()
        disconnect.cancel()


async def _wait_for_disconnect(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        continue


async def _body(request: Request, max_bytes: int) -> bytes:
    declared = request.headers.get("content-length", "0")
    pieces, size = [], int(declared) if declared.isdecimal() and len(declared) < 19 else 0
    if size <= max_bytes:
        size = 0
        async for piece in request.stream():
            size += len(piece)
            if size > max_bytes:
                break
            pieces.append(piece)
    if size > max_bytes:
        raise RequestRejectedError(413, f"The request is larger than the {max_bytes:,} bytes that are accepted.")
    return b"".join(pieces)


def _check_key(request: Request, key: str | None) -> None:
    if key is None:
        return
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not hmac.compare_digest(token.strip().encode(), key.encode()):
        raise RequestRejectedError(
            401, "The key is missing or wrong: send Authorization: Bearer KEY.", "authentication_error"
        )


async def _health(request: Request) -> Reply:
    return _json({"status": "ok"})


async def _error_reply(request: Request, error: Exception) -> Reply:
    match error:
        case ModelError():
            status, body = protocol.error_of(error)
        case RequestRejectedError():
            status, body = error.status, error.body
        case ClientGoneError():
            return Reply(status_code=499)  # nobody reads it
        case HTTPException():
            message = f"{request.method} {request.url.path}: {error.detail}"
            status, body = error.status_code, protocol.error_body(message, "invalid_request_error")
        case _:
            status, body = 500, protocol.error_body(f"fault of the server: {type(error).__name__}", "server_error")
    return _json(body, status)


def _unknown(requested: str, name: str) -> RequestRejectedError:
    return RequestRejectedError(
        404, f"There is no model {requested!r} here; this server has {name!r}.", code="model_not_found"
    )


def _card(name: str, born: int) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": born, "owned_by": "snellen"}


def _json(content: Any, status: int = 200) -> Reply:
    return Reply(msgspec.json.encode(content), status, media_type="application/json")


WAITING = 1000  # requests at once; more are answered 503 rather than held in memory


def parse_model(spec: str) -> tuple[str, str]:
    """Split `embedded`, `local:NAME`, a folder or a hub id into (folder or hub id, name for clients).

    A folder is known to clients by its last part only, for privacy.

    Raises:
        UsageError: a kind of model that is not on this machine, or no name.
    """
    if spec == "embedded":
        from snellen.models import embedded

        return str(embedded.path()), "embedded"
    kind, colon, rest = spec.partition(":")
    if colon and kind in ("api", "replay", "agent", "embedded"):
        raise UsageError(
            f"{spec!r} is not a model of this machine, so there is nothing to serve.",
            "Serve embedded, local:NAME, or the path of a model folder.",
        )
    name = rest if colon and kind == "local" else spec
    if not name:
        raise UsageError("no model is named.", "Serve embedded, local:NAME, or the path of a model folder.")
    return name, Path(name).resolve().name if Path(name).is_dir() else name


def serve(
    model: Model, name: str, host: str, port: int, key: str | None, max_body: int, tell: Callable[[str], None]
) -> None:
    """Serve until SIGINT or SIGTERM; requests under way then have 5 seconds.

    Args:
        port: 0 takes a free one.
        tell: gets the warnings, and one line with the address once the server answers.

    Raises:
        PreflightError: the port cannot be bound, or the model's own preflight fails.
    """
    if not is_loopback(host):
        unlocked = "" if key else ", without a key,"
        tell(f"warning: {host} is not a loopback address: whoever reaches this port may{unlocked} use the model.")
    listener = bind(host, port)
    try:
        asyncio.run(_serve(model, name, host, listener, key, max_body, tell))
    except KeyboardInterrupt:
        pass  # uvicorn has drained and raises the signal again
    finally:
        listener.close()


async def _serve(
    model: Model,
    name: str,
    host: str,
    listener: socket.socket,
    key: str | None,
    max_body: int,
    tell: Callable[[str], None],
) -> None:

    try:
        await model.preflight()
        hosts = LOOPBACK_NAMES if is_loopback(host) else ("*",)
        app = build_app(model, name, key=key, max_body=max_body, hosts=hosts)
        address = address_of(host, listener)
        await run_app(
            app,
            listener,
            started=lambda: tell(f"Serving {name} at {address}/v1 (Ctrl-C ends it)."),
            limit_concurrency=WAITING,
        )
    finally:
        await model.close()
