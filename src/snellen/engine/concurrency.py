"""Gate in front of the model: requests wait here, in order, until the pacer lets them go."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path

from snellen.engine.pacing import Pacer, Ticket, Waiting
from snellen.errors import RAISE_OPEN_FILES, open_files_limit
from snellen.models.registry import runtime_of

log = logging.getLogger(__name__)

RESERVED_FILES = 24
"""Open files that a run needs beside its connections: journal, traces, images, look-ups of hosts, modules."""


def fitting(wanted: int, each: int = 1, reserved: int = RESERVED_FILES) -> int:
    """Return how many of `wanted` requests, with `each` open files, fit beside those that are open now; at least 1."""
    most = open_files_limit()
    if most is None or most >= wanted * each + 4096:  # no need to count
        return wanted
    try:
        opened = sum(1 for _ in Path("/dev/fd").iterdir())
    except OSError:
        opened = 16
    return max(1, min(wanted, (most - opened - reserved) // each))


def fit_open_files(concurrency: int, kind: str = "api", reserved: int = RESERVED_FILES) -> int:
    """Return how many requests may be in flight under the limit of open files; warn where that is fewer."""
    each = runtime_of(kind).open_files
    fits = concurrency if each == 0 else fitting(concurrency, each, reserved)
    if fits < concurrency:
        _warn(
            f"at most {fits:,} requests are in flight, not the {concurrency:,} asked for: this process may have "
            f"{open_files_limit():,} files open. To raise that: {RAISE_OPEN_FILES}."
        )
    return fits


@lru_cache(maxsize=100)
def _warn(text: str) -> None:
    log.warning("%s", text)


class RequestLimit:
    """Limit of the requests in flight that several gates share: those to one endpoint, or of one process.

    A gate that finds no room waits here. Whoever ends a request wakes the gates in the order in which they came.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.active = 0
        self._waiting: dict[Gate, None] = {}

    @property
    def full(self) -> bool:
        return self.active >= self.limit

    def wait(self, gate: Gate) -> None:
        """Wake this gate when a request ends."""
        self._waiting[gate] = None

    def wake(self) -> None:
        """Let waiting gates send, as long as there is room."""
        for gate in list(self._waiting):
            if self.full:
                return
            del self._waiting[gate]
            gate.release()

    def forget(self, gate: Gate) -> None:
        """Drop a gate that sends nothing more."""
        self._waiting.pop(gate, None)


class Gate:
    """Queue of requests that passes them on as `pacer` allows. Passing costs no task switch while the queue is empty.

    Each `enter` that returns a ticket must be followed by one of `answered`, `refused`, `timed_out` and `dropped`.
    `limits` are shared with the gates of other runs.
    """

    def __init__(
        self, pacer: Pacer, clock: Callable[[], float] = time.monotonic, limits: Sequence[RequestLimit] = ()
    ) -> None:
        self.pacer = pacer
        self.clock = clock
        self._limits = limits
        self.last_answer = float("-inf")
        self._stopped = False
        self._timer: asyncio.TimerHandle | None = None
        self._queue: deque[tuple[float, asyncio.Future[Ticket | None]]] = deque()

    @property
    def active(self) -> int:
        """Return the number of requests in flight."""
        return self.pacer.active

    async def enter(self, tokens: float = 0.0, *, first: bool = False) -> Ticket | None:
        """Wait for a turn.

        Args:
            tokens: how many tokens the request may use.
            first: before all who wait already.

        Returns:
            The ticket of the request; None where the run is to end and nothing may be sent.
        """
        if self._stopped:
            return None
        if not self._queue and not (self._limits and any(limit.full for limit in self._limits)):
            now = self.clock()
            if self.pacer.wait_s(now) == 0.0:
                return self._send(now, tokens)
        waiter: asyncio.Future[Ticket | None] = asyncio.get_running_loop().create_future()
        (self._queue.appendleft if first else self._queue.append)((tokens, waiter))
        self.release()
        try:
            return await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled() and (ticket := waiter.result()) is not None:
                self.dropped(ticket)
            raise

    def answered(self, ticket: Ticket, tokens: int | None = None) -> None:
        """Record an answer of the server. `tokens`: those used, if the server says so."""
        now = self.last_answer = self.clock()
        self.pacer.answered(ticket, now, tokens)
        self._ended()

    def refused(self, ticket: Ticket, wait_s: float | None, *, down: bool) -> None:
        """Record that the server did not take the request; see `Pacer.refused`."""
        self.pacer.refused(ticket, self.clock(), wait_s, down=down)
        self._ended()

    def timed_out(self, ticket: Ticket, timeout_s: float) -> None:
        """Record that no answer came within the timeout."""
        self.pacer.timed_out(ticket, self.clock(), timeout_s)
        self._ended()

    def dropped(self, ticket: Ticket) -> None:
        """Record that this process gave the request up."""
        self.pacer.dropped(ticket)
        self._ended()

    def stop(self) -> None:
        """Send nothing more: every waiting request gets None."""
        self._stopped = True
        for limit in self._limits:
            limit.forget(self)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        while self._queue:
            _, waiter = self._queue.popleft()
            if not waiter.done():
                waiter.set_result(None)

    def silent_s(self) -> float:
        """Return the seconds since the first refusal after the last answer."""
        return self.pacer.silent_s(self.clock())

    def waiting(self) -> Waiting | None:
        """Return the reason why requests wait; None if they flow."""
        return self.pacer.waiting(self.clock())

    def _send(self, now: float, tokens: float) -> Ticket:
        for limit in self._limits:
            limit.active += 1
        return self.pacer.send(now, tokens)

    def _ended(self) -> None:
        """Give the places of an ended request back, and let the next ones go."""
        for limit in self._limits:
            limit.active -= 1
        for limit in self._limits:
            limit.wake()  # others first: they have waited longer
        self.release()

    def release(self) -> None:
        """Send what waits here, as far as the pacer and the limits allow."""
        while self._queue:
            tokens, waiter = self._queue[0]
            if waiter.done():  # cancelled meanwhile
                self._queue.popleft()
                continue
            if (full := next((limit for limit in self._limits if limit.full), None)) is not None:
                full.wait(self)
                return
            now = self.clock()
            wait_s = self.pacer.wait_s(now)
            if wait_s is None:
                return  # the end of a request in flight calls this again
            if wait_s > 0.0:
                if self._timer is not None:
                    self._timer.cancel()
                self._timer = asyncio.get_running_loop().call_later(max(wait_s, 1e-3), self._on_timer)
                return
            self._queue.popleft()
            waiter.set_result(self._send(now, tokens))

    def _on_timer(self) -> None:
        self._timer = None
        self.release()
