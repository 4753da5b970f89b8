"""A server that misbehaves in every way that model servers do, chosen by the address or by the question.

`HostileServer().url("reset")` is a base URL whose chat completions are all cut off; `url("429", times=2)` fails twice and
is good from then on; `url("by-question")` does what the question says in double brackets, as in `[[half_body]]`.
The list of models and the preflight probe are always answered well. Runs in a thread, so that clients in this process
and in others can reach it; `KIND` says under which error kind each behaviour must be recorded ("" is an answer).
"""

from __future__ import annotations

import asyncio
import gzip
import re
from collections import Counter
from collections.abc import Awaitable, Callable
from email.utils import formatdate
from time import time
from typing import Any

from aiohttp import web

from servers.fast import completion
from servers.loopback import LoopServer

KIND: dict[str, str] = {
    "ok": "",
    "null_content": "",
    "pretty": "",
    "429": "rate_limit",
    "429_seconds": "rate_limit",
    "429_date": "rate_limit",
    "no_credit": "auth",
    "401": "auth",
    "403": "auth",
    "400": "bad_request",
    "404": "bad_request",
    "redirect": "bad_request",
    "500": "server",
    "502_html": "server",
    "503_wait": "server",
    "hang": "timeout",
    "drip": "timeout",
    "reset": "connection",
    "half_body": "connection",
    "closed": "connection",
    "not_http": "bad_reply",
    "not_json": "bad_reply",
    "nothing": "bad_reply",
    "half_json": "bad_reply",
    "deep_json": "bad_reply",
    "wrong_json": "bad_reply",
    "empty_choices": "bad_reply",
    "null_choices": "bad_reply",
    "no_message": "bad_reply",
    "huge": "bad_reply",
    "huge_unannounced": "bad_reply",
    "bomb": "bad_reply",
    "429_in_200": "rate_limit",
    "refusal": "refusal",
    "filtered": "refusal",
    "filtered_400": "refusal",
    "echo_key": "bad_request",
}

_JSON: dict[str, bytes] = {
    "ok": completion("ANSWER: A"),
    "null_content": completion("X").replace(b'"X"', b"null"),
    "pretty": completion("ANSWER: A").replace(b", ", b",\n  "),
    "not_json": b"<html><body>It works!</body></html>",
    "nothing": b"",
    "half_json": completion("ANSWER: A")[:150],
    "deep_json": b'{"choices":' + b"[" * 100_000,
    "wrong_json": b'{"choices": {"message": "ANSWER: A"}}',
    "empty_choices": b'{"choices": []}',
    "null_choices": b'{"choices": null}',
    "no_message": b'{"choices": [{"finish_reason": "stop"}]}',
    "huge": completion("A" * 10_000_000),
    "429_in_200": b'{"error": {"code": 429, "message": "Provider is busy"}}',
    "refusal": b'{"choices": [{"message": {"content": null, "refusal": "I will not say."}, "finish_reason": "stop"}]}',
    "filtered": b'{"choices": [{"message": {"content": null}, "finish_reason": "content_filter"}]}',
}

_BOMB = gzip.compress(bytes(16 << 20)) * 16  # 256 MiB in 260 KB

_STATUS: dict[str, tuple[int, dict[str, str], bytes]] = {
    "429": (429, {}, b'{"error": {"message": "Slow down"}}'),
    "429_seconds": (429, {"Retry-After": "7"}, b""),
    "no_credit": (429, {}, b'{"error": {"message": "You exceeded your quota", "code": "insufficient_quota"}}'),
    "401": (401, {}, b'{"error": {"message": "Incorrect API key provided"}}'),
    "403": (403, {}, b'{"detail": "Not allowed to use this model"}'),
    "400": (400, {}, b'{"error": {"message": "This model\'s maximum context length is 4096 tokens"}}'),
    "404": (404, {}, b'{"error": "model not found"}'),
    "500": (500, {}, b'{"error": {"message": "CUDA error"}}'),
    "502_html": (502, {"Content-Type": "text/html"}, b"<html><h1>502</h1><hr>\x1b[31mnginx</html>"),
    "503_wait": (503, {"Retry-After": "3"}, b"warming up"),
    "redirect": (307, {"Location": "http://127.0.0.1:9/elsewhere"}, b""),
    "filtered_400": (400, {}, b'{"error": {"message": "Triggered the filter", "code": "content_filter"}}'),
}


class HostileServer(LoopServer):
    """Use as a context manager. `seen` counts the questions that arrived, by behaviour."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: Counter[str] = Counter()
        self.models = ["stub-vlm"]
        self.key: str | None = None
        self._left: Counter[str] = Counter()

    def url(self, behaviour: str, times: int | None = None) -> str:
        """The base URL of one behaviour; with `times`, only so many requests meet it and the next ones are answered."""
        assert behaviour in KIND or behaviour == "by-question", behaviour
        if times is None:
            return f"http://127.0.0.1:{self.port}/{behaviour}/v1"
        self._left[behaviour] = times
        return f"http://127.0.0.1:{self.port}/first-{behaviour}/v1"

    async def _serve(self) -> None:
        app = web.Application(client_max_size=256 << 20)
        app.router.add_get("/{behaviour}/v1/models", self._list)
        app.router.add_post("/{behaviour}/v1/chat/completions", self._chat)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1, handler_cancellation=True)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        self.port = runner.addresses[0][1]
        self._up.set()
        await self._over.wait()
        await runner.cleanup()

    def _refuses(self, request: web.Request) -> bool:
        return self.key is not None and request.headers.get("Authorization") != f"Bearer {self.key}"

    async def _list(self, request: web.Request) -> web.StreamResponse:
        if self._refuses(request):
            return web.json_response({"error": {"message": "Incorrect API key provided"}}, status=401)
        return web.json_response({"object": "list", "data": [{"id": name} for name in self.models]})

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        if self._refuses(request):
            return web.json_response({"error": {"message": "Incorrect API key provided"}}, status=401)
        if "messages" not in body:
            return web.json_response({"error": {"message": "messages is required"}}, status=400)
        behaviour = request.match_info["behaviour"]
        if behaviour == "by-question":
            named = re.findall(r"\[\[(\w+)\]\]", str(body["messages"][-1]))
            behaviour = named[-1] if named else "ok"
        elif behaviour.startswith("first-"):
            behaviour = behaviour.removeprefix("first-")
            self._left[behaviour] -= 1
            behaviour = behaviour if self._left[behaviour] >= 0 else "ok"
        self.seen[behaviour] += 1
        if behaviour in _JSON:
            return web.Response(body=_JSON[behaviour], content_type="application/json")
        if behaviour in _STATUS:
            status, headers, said = _STATUS[behaviour]
            return web.Response(status=status, headers=headers, body=said)
        return await _WILD[behaviour](request)


def _transport(request: web.Request) -> asyncio.Transport:
    transport: Any = request.transport
    assert isinstance(transport, asyncio.Transport)
    return transport


async def _date(request: web.Request) -> web.StreamResponse:
    return web.Response(status=429, headers={"Retry-After": formatdate(time() + 30, usegmt=True)})


async def _hang(request: web.Request) -> web.StreamResponse:
    await asyncio.sleep(600)
    return web.Response()


async def _drip(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse()
    await response.prepare(request)
    for _ in range(6_000):
        await response.write(b" ")
        await asyncio.sleep(0.1)
    return response


async def _reset(request: web.Request) -> web.StreamResponse:
    _transport(request).abort()
    return web.Response()


async def _closed(request: web.Request) -> web.StreamResponse:
    _transport(request).close()
    return web.Response()


async def _half_body(request: web.Request) -> web.StreamResponse:
    body = completion("ANSWER: A")
    response = web.StreamResponse(headers={"Content-Length": str(len(body))})
    await response.prepare(request)
    await response.write(body[:100])
    _transport(request).close()
    return response


async def _not_http(request: web.Request) -> web.StreamResponse:
    _transport(request).write(b"SSH-2.0-OpenSSH_9.9\r\n\r\n")
    _transport(request).close()
    return web.Response()


async def _huge_unannounced(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse()
    await response.prepare(request)
    for _ in range(10_000):
        await response.write(b"A" * 65_536)
    return response


async def _bomb(request: web.Request) -> web.StreamResponse:
    return web.Response(body=_BOMB, headers={"Content-Encoding": "gzip"})


async def _echo_key(request: web.Request) -> web.StreamResponse:
    said = {"error": {"message": f"Bad headers: Authorization={request.headers.get('Authorization')}"}}
    return web.json_response(said, status=400)


_WILD: dict[str, Callable[[web.Request], Awaitable[web.StreamResponse]]] = {
    "429_date": _date,
    "hang": _hang,
    "drip": _drip,
    "reset": _reset,
    "closed": _closed,
    "half_body": _half_body,
    "not_http": _not_http,
    "huge_unannounced": _huge_unannounced,
    "bomb": _bomb,
    "echo_key": _echo_key,
}
