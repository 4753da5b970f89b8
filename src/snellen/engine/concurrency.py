"""Gate in front of the model: requests wait here, in order, until the pacer lets them go."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable

from snellen.engine.pacing import Pacer, Ticket, Waiting


class Gate:
    """Queue of requests that passes them on as `pacer` allows. Passing costs no task switch while the queue is empty.

    Each `enter` that returns a ticket must be followed by one of `answered`, `refused`, `timed_out` and `dropped`.
    """

    def __init__(self, pacer: Pacer, clock: Callable[[], float] = time.monotonic) -> None:
        self.pacer = pacer
        self.clock = clock
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
        if not self._queue:
            now = self.clock()
            if self.pacer.wait_s(now) == 0.0:
                return self.pacer.send(now, tokens)
        waiter: asyncio.Future[Ticket | None] = asyncio.get_running_loop().create_future()
        (self._queue.appendleft if first else self._queue.append)((tokens, waiter))
        self._release()
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
        self._release()

    def refused(self, ticket: Ticket, wait_s: float | None, *, down: bool) -> None:
        """Record that the server did not take the request; see `Pacer.refused`."""
        self.pacer.refused(ticket, self.clock(), wait_s, down=down)
        self._release()

    def timed_out(self, ticket: Ticket, timeout_s: float) -> None:
        """Record that no answer came within the timeout."""
        self.pacer.timed_out(ticket, self.clock(), timeout_s)
        self._release()

    def dropped(self, ticket: Ticket) -> None:
        """Record that this process gave the request up."""
        self.pacer.dropped(ticket)
        self._release()

    def stop(self) -> None:
        """Send nothing more: every waiting request gets None."""
        self._stopped = True
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

    def _release(self) -> None:
        while self._queue:
            tokens, waiter = self._queue[0]
            if waiter.done():  # cancelled meanwhile
                self._queue.popleft()
                continue
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
            waiter.set_result(self.pacer.send(now, tokens))

    def _on_timer(self) -> None:
        self._timer = None
        self._release()
