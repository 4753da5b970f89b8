"""The way out of a sandbox to the web: for the tools that the user gave, by their rules, and for nothing else.

The tools run in the sandbox and have no network. What they must fetch, they ask here, on the machine's side, where the
address is checked (tools/url_policy.py) and bytes, seconds and calls are bounded; pages are read in the sandbox. An agent
with a shell can ask by itself and gets no more by it: it is public pages by GET, the user's search engine by words, and
the engines for images that the user named. No key, cookie or proxy of the user's goes with a request.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket

import msgspec
from aiohttp import web

from snellen.media import read_header
from snellen.models.agents.gateway import BODY_S, Budget, TooLongError, read_body, refusal, serve
from snellen.models.tools.base import ToolError
from snellen.models.tools.definitions import open_web
from snellen.models.tools.settings import ToolSettings
from snellen.models.tools.web import WebBackend
from snellen.models.tools.web_relay import GetPage, ReverseImage, Search, encode, encode_fault

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
