"""Gateway from a sandbox to the model: passes requests on to its endpoint, with a key that the agent never sees.

Each agent reaches a listener of its own at 127.0.0.1 inside its network namespace (supervisor.py). What it may ask is
POST /v1/chat/completions and GET /v1/models; of a request's fields, only those that request_fields.py lets through.
The gateway for web tools is below. Nothing else can be reached from there.

The way out of a sandbox to the web: for the tools that the user gave, by their rules, and for nothing else.

The tools run in the sandbox and have no network. What they must fetch, they ask here, on the machine's side, where the
address is checked (tools/url_policy.py) and bytes, seconds and calls are bounded; pages are read in the sandbox. An agent
with a shell can ask by itself and gets no more by it: it is public pages by GET, the user's search engine by words, and
the engines for images that the user named. No key, cookie or proxy of the user's goes with a request.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import AsyncIterator, Awaitable, Callable

import aiohttp
import msgspec
from aiohttp import web

from snellen.media import read_header
from snellen.models.agents.request_fields import RequestLimits, RequestRefusedError, rewrite_request
from snellen.models.agents.supervisor_client import MODEL_PORT
from snellen.models.tools.base import ToolError
from snellen.models.tools.definitions import open_web
from snellen.models.tools.settings import ToolSettings
from snellen.models.tools.web import GetPage, ReverseImage, Search, WebBackend, encode, encode_fault

BASE_URL = f"http://127.0.0.1:{MODEL_PORT}/v1"
MAX_BODY = 128 << 20  # bytes of one request: a conversation with all of its images
MAX_BODIES = MAX_BODY  # bytes of all requests of one agent that are waited for or passed on at the same time
MAX_AT_ONCE = 16  # requests of one agent that are passed on at the same time
MAX_CONNECTIONS = 64  # of one agent to one listener; each takes a descriptor of the run
BODY_S = 300.0  # for a body to arrive
CONNECT_S = 30.0
_OPEN = {("POST", "/v1/chat/completions"): "/chat/completions", ("GET", "/v1/models"): "/models"}
_PASSED = ("Accept", "User-Agent")
_SILENT = logging.getLogger("snellen.models.agents.gateway")
"""Takes what the HTTP server logs: an agent could write to the user's terminal by broken requests."""
_SILENT.disabled = True
_ANSWERED = ("Content-Type", "Retry-After", "Retry-After-Ms", "Date")

Respond = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


class Gateway:
    """Passes requests of one agent on to one endpoint.

    Args:
        base_url: the endpoint, up to and including /v1.
        key: sent as a bearer token; empty: none.
        allowed: what a request may ask for, and how many there may be.
    """

    def __init__(self, base_url: str, key: str, allowed: RequestLimits) -> None:
        self._base_url = base_url.rstrip("/")
        self._headers = {"Authorization": f"Bearer {key}"} if key else {}
        self._allowed = allowed
        self._session: aiohttp.ClientSession | None = None
        self._bodies = Budget(MAX_BODIES)
        self._listings = 0
        self.requests = 0

    @property
    def exhausted(self) -> bool:
        """True if the agent sent more requests than it may."""
        return self.requests > self._allowed.requests

    def open_to(self, listener: socket.socket) -> contextlib.AbstractAsyncContextManager[None]:
        """Serve one agent's listener during the block; connections that are open after it are closed."""
        return serve(listener, self._respond)

    async def close(self) -> None:
        """Close the connections to the endpoint."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def _respond(self, request: web.BaseRequest) -> web.StreamResponse:
        path = _OPEN.get((request.method, request.raw_path.partition("?")[0]))
        if path is None:
            return refusal(403, f"{request.method} {request.raw_path[:200]} is not open to agents")
        if request.method == "GET":
            self._listings += 1
            if self._listings > self._allowed.requests:
                return refusal(403, f"the models were listed {self._allowed.requests:,} times")
            return await self._passed_on(request, path, None)
        if (request.content_length or 0) > MAX_BODY:
            return refusal(413, f"a request holds {MAX_BODY >> 20} MB at most")
        async with self._bodies.share(request.content_length or MAX_BODY):
            try:
                raw_body = await read_body(request, MAX_BODY, BODY_S)
                body = await asyncio.to_thread(rewrite_request, raw_body, self._allowed)
            except TooLongError:
                return refusal(413, f"a request holds {MAX_BODY >> 20} MB at most")
            except RequestRefusedError as error:
                return refusal(error.status, str(error))
            self.requests += 1
            if self.exhausted:
                return refusal(403, f"all {self._allowed.requests:,} requests of this sample are used up")
            return await self._passed_on(request, path, body)

    async def _passed_on(self, request: web.BaseRequest, path: str, body: bytes | None) -> web.StreamResponse:
        headers = {name: request.headers[name] for name in _PASSED if name in request.headers}
        if body is not None:
            headers["Content-Type"] = "application/json"
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
                    return refusal(502, f"the endpoint answered {answer.status}, a redirection, which is not followed")
                passed = {name: answer.headers[name] for name in _ANSWERED if name in answer.headers}
                reply = web.StreamResponse(status=answer.status, reason=answer.reason, headers=passed)
                await reply.prepare(request)
                async for chunk in answer.content.iter_any():
                    await reply.write(chunk)
                await reply.write_eof()
                return reply
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            if reply is None:
                return refusal(502, f"the endpoint cannot be reached: {type(error).__name__}")
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


class TooLongError(Exception):
    """A body is longer than allowed."""


class Budget:
    """Bytes that are shared out to those who wait for them, in their order.

    Args:
        total: bytes; nobody may ask for more.
    """

    def __init__(self, total: int) -> None:
        self._left = total
        self._changed = asyncio.Condition()

    @contextlib.asynccontextmanager
    async def share(self, size: int) -> AsyncIterator[None]:
        """Wait for so many bytes, and give them back after the block."""
        async with self._changed:
            await self._changed.wait_for(lambda: self._left >= size)
            self._left -= size
        try:
            yield
        finally:
            async with self._changed:
                self._left += size
                self._changed.notify_all()


@contextlib.asynccontextmanager
async def serve(listener: socket.socket, respond: Respond) -> AsyncIterator[None]:
    """Serve a listener of one agent: MAX_AT_ONCE requests and MAX_CONNECTIONS connections at the same time."""
    slots = asyncio.Semaphore(MAX_AT_ONCE)

    async def in_turn(request: web.BaseRequest) -> web.StreamResponse:
        async with slots:
            return await respond(request)

    server = web.Server(in_turn, access_log=None, lingering_time=0.0, auto_decompress=False, logger=_SILENT)

    def protocol() -> asyncio.BaseProtocol:
        # Beyond the bound a connection is closed at once: the run would lose its own files if it had no descriptor left.
        return server() if len(server.connections) < MAX_CONNECTIONS else _Closed()

    served = await asyncio.get_running_loop().create_server(protocol, sock=listener.dup())
    try:
        yield
    finally:
        served.close()
        await server.shutdown(1.0)


class _Closed(asyncio.Protocol):
    """A connection that is not served."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if isinstance(transport, asyncio.Transport):
            transport.abort()


async def read_body(request: web.BaseRequest, max_bytes: int, seconds: float) -> bytearray:
    """Return the whole body.

    Raises:
        TooLongError: it has more than `max_bytes` bytes, or has not arrived after `seconds`.
    """
    body = bytearray()
    try:
        async with asyncio.timeout(seconds):
            async for chunk in request.content.iter_any():
                body += chunk
                if len(body) > max_bytes:
                    raise TooLongError
    except TimeoutError:
        raise TooLongError from None
    return body


def refusal(status: int, text: str) -> web.Response:
    """Return an error in the form that clients of the endpoint expect."""
    body = msgspec.json.encode({"error": {"message": f"snellen: {text}", "type": "gateway"}})
    return web.Response(status=status, body=body, content_type="application/json")


_OVERHEAD = 1 << 16  # bytes of a request besides its image


class WebGateway:
    """Asks the web for the tools of one agent.

    Args:
        settings: the user's; they say which calls there are, how many, and how large.
        backend: in place of the network, for tests.
    """

    def __init__(self, settings: ToolSettings, backend: WebBackend | None = None) -> None:
        self._limits = settings.limits
        self._tools = frozenset(settings.given())
        self._backend = open_web(settings) if backend is None else backend
        self._most = settings.limits.image_bytes + _OVERHEAD
        self._bodies = Budget(2 * self._most)
        self.calls = 0

    def open_to(self, listener: socket.socket) -> contextlib.AbstractAsyncContextManager[None]:
        """Serve one agent's listener during the block; connections that are open after it are closed."""
        return serve(listener, self._respond)

    async def _respond(self, request: web.BaseRequest) -> web.StreamResponse:
        if (request.method, request.raw_path) != ("POST", "/"):
            return refusal(403, f"{request.method} {request.raw_path[:200]} is not open to agents")
        async with self._bodies.share(self._most):
            try:
                body = await read_body(request, self._most, min(BODY_S, self._limits.seconds))
                call = msgspec.msgpack.decode(body, type=Search | GetPage | ReverseImage)
            except (TooLongError, msgspec.MsgspecError, RecursionError):
                return refusal(400, f"the request is none of the tools', or has more than {self._most:,} bytes")
            self.calls += 1
            try:
                if self.calls > self._limits.calls:
                    raise ToolError(f"all {self._limits.calls} calls are used up")
                async with asyncio.timeout(self._limits.seconds):
                    answer = encode(await self._result(call))
            except ToolError as error:
                answer = encode_fault(error)
            except TimeoutError:
                answer = encode_fault(ToolError(f"the call took more than {self._limits.seconds:g} s", transient=True))
        return web.Response(body=answer, content_type="application/msgpack")

    async def _result(self, call: Search | GetPage | ReverseImage) -> object:
        if isinstance(call, Search):
            self._require("web_search")
            return await self._backend.search(call.query, min(call.k, self._limits.results))
        if isinstance(call, ReverseImage):
            self._require("reverse_image_search")
            if read_header(call.image) is None:
                raise ToolError("what is to be searched for is not a picture")
            return await self._backend.reverse(call.image, min(call.k, self._limits.results))
        fetched = await self._backend.get(call.url)
        if "fetch_url" not in self._tools and read_header(fetched.data) is None:
            raise ToolError(f"{fetched.url} is not a picture; only pictures are fetched here")
        return fetched

    def _require(self, tool: str) -> None:
        if tool not in self._tools:
            raise ToolError(f"{tool} is not among the tools that are given")
