"""How many requests may be in flight: as many as asked for, fewer while the server says it is too much."""

from __future__ import annotations

import asyncio
import random
from collections import deque

from msgspec import Struct


class Backoff(Struct, frozen=True):
    """When a failed attempt is made again: exponential with full jitter, in seconds.

    Attempt k waits uniform(0, min(cap_s, base_s * 2 ** (k - 1))); what the server asks for by Retry-After is the
    least wait, bounded by `patience_s`. Source: "Exponential Backoff And Jitter", AWS Architecture Blog, 2015.
    """

    attempts: int = 6
    base_s: float = 1.0
    cap_s: float = 60.0
    patience_s: float = 600.0

    def wait_s(self, attempt: int, asked_s: float | None, chance: random.Random) -> float:
        own = chance.uniform(0.0, min(self.cap_s, self.base_s * 2.0 ** (attempt - 1)))
        return own if asked_s is None else min(self.patience_s, asked_s) + own


class Gate:
    """Adaptive concurrency: additive increase, multiplicative decrease (as TCP does; Chiu and Jain 1989).

    `limit` starts at `most`; each refusal by the server takes it down by 30 %, at most once a `hold_s`; each success
    takes it up again by 1 / limit. Leaving and entering cost nothing while the limit is not reached.
    """

    def __init__(self, most: int, *, hold_s: float = 1.0) -> None:
        self.most = most
        self.limit = float(most)
        self.active = 0
        self._hold_s = hold_s
        self._lowered_at = float("-inf")
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def enter(self) -> None:
        while self.active >= int(self.limit):
            turn = asyncio.get_running_loop().create_future()
            self._waiting.append(turn)
            await turn
        self.active += 1

    def leave(self) -> None:
        self.active -= 1
        self._wake()

    def succeeded(self) -> None:
        if self.limit < self.most:
            self.limit = min(float(self.most), self.limit + 1.0 / self.limit)
            self._wake()

    def refused(self, now: float) -> None:
        """The server answered 429 at `now` (seconds of a monotonic clock)."""
        if now - self._lowered_at >= self._hold_s:
            self._lowered_at = now
            self.limit = max(1.0, self.limit * 0.7)

    def _wake(self) -> None:
        room = int(self.limit) - self.active
        while self._waiting and room > 0:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                room -= 1
