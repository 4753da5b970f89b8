"""The only way out of a sandbox: requests to the model's endpoint, passed on with a key that the agent never sees.

Each agent reaches a listener of its own at 127.0.0.1 inside its network namespace (supervisor.py). What it may ask is
POST /v1/chat/completions and GET /v1/models. Anything else is refused here, and nothing else can be reached from there.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import msgspec
from aiohttp import web

from snellen.models.agents.supervision import MODEL_PORT

BASE_URL = f"http://127.0.0.1:{MODEL_PORT}/v1"
MOST_BODY = 512 << 20  # bytes of one request: a conversation with all of its pictures
MOST_UNSIZED = 32 << 20  # of one that does not say its length
MOST_AT_ONCE = 16  # requests of one agent that are passed on at the same time
CONNECT_S = 30.0
_OPEN = {("POST", "/v1/chat/completions"): "/chat/completions", ("GET", "/v1/models"): "/models"}
_ASKED = ("Content-Type", "Accept", "User-Agent")
_ANSWERED = ("Content-Type", "Retry-After", "Retry-After-Ms", "Date")


class Gateway:
    """Passes requests on to one endpoint.

    Args:
        base_url: the endpoint, up to and including /v1.
        key: sent as a bearer token; empty: none.
    """

    def __init__(self, base_url: str, key: str) -> None:
        self._base_url = base_url.rstrip("/")
        self._headers = {"Authorization": f"Bearer {key}"} if key else {}
        self._session: aiohttp.ClientSession | None = None

    @contextlib.asynccontextmanager
    async def open_to(self, listener: socket.socket) -> AsyncIterator[None]:
        """Serve one agent's listener during the block; connections that are open after it are closed."""
        slots = asyncio.Semaphore(MOST_AT_ONCE)

        async def respond(request: web.BaseRequest) -> web.StreamResponse:
            async with slots:
                return await self._respond(request)

        server = web.Server(respond, access_log=None, lingering_time=0.0)
        served = await asyncio.get_running_loop().create_server(server, sock=listener.dup())
        try:
            yield
        finally:
            served.close()
            await server.shutdown(1.0)

    async def close(self) -> None:
        """Close the connections to the endpoint."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def _respond(self, request: web.BaseRequest) -> web.StreamResponse:
        path = _OPEN.get((request.method, request.raw_path.partition("?")[0]))
        if path is None:
            return _refusal(403, f"{request.method} {request.raw_path[:200]} is not open to agents")
        if (request.content_length or 0) > MOST_BODY:
            return _refusal(413, f"a request holds {MOST_BODY >> 20} MB at most")
        headers = {name: request.headers[name] for name in _ASKED if name in request.headers}
        body: Any = None
        if request.method == "POST":
            # Not every server takes a body in chunks: the agent's own length is passed on, or the whole is waited for.
            body = _bounded(request, MOST_BODY)
            if request.content_length is not None:
                headers["Content-Length"] = str(request.content_length)
            else:
                try:
                    body = b"".join([chunk async for chunk in _bounded(request, MOST_UNSIZED)])
                except _TooLongError:
                    return _refusal(411, f"a request of more than {MOST_UNSIZED >> 20} MB needs a Content-Length")
        reply: web.StreamResponse | None = None
        try:
            async with self._opened().request(
                request.method,
                f"{self._base_url}{path}",
                data=body,
                headers={**headers, **self._headers},
                allow_redirects=False,
            ) as answer:
                if 300 <= answer.status < 400:
                    return _refusal(502, f"the endpoint answered {answer.status}, a redirection, which is not followed")
                kept = {name: answer.headers[name] for name in _ANSWERED if name in answer.headers}
                reply = web.StreamResponse(status=answer.status, reason=answer.reason, headers=kept)
                await reply.prepare(request)
                async for chunk in answer.content.iter_any():
                    await reply.write(chunk)
                await reply.write_eof()
                return reply
        except (aiohttp.ClientError, OSError, TimeoutError, _TooLongError) as error:
            if reply is None:
                return _refusal(502, f"the endpoint cannot be reached: {type(error).__name__}")
            if request.transport is not None:  # cut, so that the agent does not take it for the end of the reply
                request.transport.abort()
            return reply

    def _opened(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_S),
                connector=aiohttp.TCPConnector(limit=0),
                cookie_jar=aiohttp.DummyCookieJar(),
                trust_env=True,
            )
        return self._session


class _TooLongError(Exception):
    """A body is longer than MOST_BODY."""


async def _bounded(request: web.BaseRequest, most: int) -> AsyncIterator[bytes]:
    size = 0
    async for chunk in request.content.iter_any():
        size += len(chunk)
        if size > most:
            raise _TooLongError
        yield chunk


def _refusal(status: int, text: str) -> web.Response:
    body = msgspec.json.encode({"error": {"message": f"snellen: {text}", "type": "gateway"}})
    return web.Response(status=status, body=body, content_type="application/json")
