"""A chat completions server with limits: it refuses, goes away and comes back, or is slower than its clients wait.

It runs in a thread on loopback. Whether a request is taken is decided by `take(now, active)` of a limit object, which
returns None or the seconds to wait (tests/engine/simulated_limits.py has some). `received` counts the questions,
`refused` those that were not taken, `answered` the answers that were sent, by question.
"""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections import Counter
from collections.abc import Callable, Mapping
from email.utils import formatdate
from typing import Any

from aiohttp import web

from servers.fast import MODEL, completion
from servers.loopback import LoopServer

Take = Callable[[float, int], float | None]
Headers = Callable[[float], Mapping[str, str]]


def no_headers(wait_s: float) -> Mapping[str, str]:
    """The server does not say how long to wait."""
    return {}


def retry_after_seconds(wait_s: float) -> Mapping[str, str]:
    """Whole seconds, rounded up, as most servers do it."""
    return {"Retry-After": str(max(1, -int(-wait_s // 1)))}


def retry_after_ms(wait_s: float) -> Mapping[str, str]:
    """Milliseconds, rounded up, as OpenAI and Azure send them."""
    return {"retry-after-ms": str(int(wait_s * 1000) + 1)}


def retry_after(value: str) -> Headers:
    """Always the same, whatever the wait."""
    return lambda wait_s: {"Retry-After": value}


def retry_after_date(wait_s: float) -> Mapping[str, str]:
    """A date by a server's clock that is a day behind."""
    now = time.time() - 86_400
    return {"Date": formatdate(now, usegmt=True), "Retry-After": formatdate(now + wait_s + 1, usegmt=True)}


def openai_reset(wait_s: float) -> Mapping[str, str]:
    """OpenAI's headers without Retry-After."""
    return {"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": f"{int(wait_s * 1000) + 1}ms"}


class LimitedServer(LoopServer):
    """Use as a context manager.

    Args:
        take: the limit; None: none.
        headers: of a refusal, from the seconds to wait.
        latency_s: time to answer; `slots` questions are worked on at once, the others wait in a queue.
        status: of a refusal.
        body: of a refusal.
        resets: share of the requests whose connection is reset before anything is answered.
    """

    def __init__(
        self,
        take: Take | None = None,
        *,
        headers: Headers = no_headers,
        latency_s: float = 0.02,
        slots: int | None = None,
        status: int = 429,
        body: Mapping[str, Any] | None = None,
        resets: float = 0.0,
    ) -> None:
        super().__init__()
        self.received = 0
        self.refused = 0
        self.answered: Counter[str] = Counter()
        self.arrivals: list[float] = []
        self.taken: list[bool] = []
        self.bodies: list[bytes] = []
        self.keep_bodies = False
        self._take = take
        self._headers = headers
        self._latency_s = latency_s
        self._slots = slots
        self._status = status
        self._resets = resets
        self._chance = random.Random(0)
        self._body = dict(body or {"error": {"message": "Slow down", "code": "rate_limit_exceeded"}})
        self._active = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def go_down(self, seconds: float, after: int) -> None:
        """Close the port and all connections after so many questions, and open it again later."""
        self._down_after, self._down_s = after, seconds

    _down_after: int | None = None
    _down_s = 0.0

    async def _serve(self) -> None:
        if self._slots is not None:
            self._slot = asyncio.Semaphore(self._slots)
        while not self._over.is_set():
            self._leave = asyncio.Event()
            app = web.Application(client_max_size=256 << 20)
            app.router.add_get("/v1/models", self._list)
            app.router.add_post("/v1/chat/completions", self._chat)
            runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.01, handler_cancellation=True)
            await runner.setup()
            await web.TCPSite(runner, "127.0.0.1", self.port, reuse_address=True).start()
            self.port = runner.addresses[0][1]
            self._up.set()
            both = [asyncio.ensure_future(self._over.wait()), asyncio.ensure_future(self._leave.wait())]
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            await runner.cleanup()
            for waiting in both:
                waiting.cancel()
            if not self._over.is_set():
                await asyncio.sleep(self._down_s)

    async def _list(self, request: web.Request) -> web.StreamResponse:
        return web.json_response({"object": "list", "data": [{"id": MODEL}]})

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        data = await request.read()
        body = json.loads(data)
        if "messages" not in body:
            return web.json_response({"error": {"message": "messages is required"}}, status=400)
        self.received += 1
        if self.keep_bodies:
            self.bodies.append(data)
        now = time.monotonic()
        self.arrivals.append(now)
        if self._down_after is not None and self.received > self._down_after:
            self._down_after = None
            self.taken.append(False)
            self._leave.set()
            await asyncio.sleep(60)  # cancelled with all that is under way when the port is closed
        if self._chance.random() < self._resets and request.transport is not None:
            self.taken.append(False)
            self.refused += 1
            request.transport.abort()
            return web.Response()
        wait_s = None if self._take is None else self._take(now, self._active)
        self.taken.append(wait_s is None)
        if wait_s is not None:
            self.refused += 1
            return web.json_response(self._body, status=self._status, headers=self._headers(wait_s))
        self._active += 1
        try:
            if self._slots is None:
                await asyncio.sleep(self._latency_s)
            else:
                async with self._slot:
                    await asyncio.sleep(self._latency_s)
        finally:
            self._active -= 1
        self.answered[str(body["messages"][-1]["content"])[-80:]] += 1
        return web.Response(body=completion("ANSWER: A"), content_type="application/json")


def by_chance(share: float) -> Take:
    """Refuse so many of the requests, however fast they come."""
    chance = random.Random(0)
    return lambda now, active: 1.0 if chance.random() < share else None


def refuses_for(seconds: float, after: int = 0) -> Take:
    """A limit that refuses everything for so long, once so many questions were taken."""
    taken, began = 0, None

    def take(now: float, active: int) -> float | None:
        nonlocal taken, began
        if taken < after:
            taken += 1
            return None
        began = now if began is None else began
        left = began + seconds - now
        return left if left > 0 else None

    return take
