"""Servers with limits, and a client paced by `Pacer`, in simulated time: 600 requests take milliseconds."""

from __future__ import annotations

import heapq
import math
import random
from collections import deque
from collections.abc import Callable
from itertools import count
from typing import NamedTuple, Protocol

from snellen.engine.pacing import Pacer, Ticket

NETWORK_S = 0.0006


class Limit(Protocol):
    """`take` returns None where the request is taken, else the seconds until it might be."""

    rate: float

    def take(self, now: float, active: int) -> float | None: ...


class Bucket:
    """A token bucket: `rate` tokens a second, at most `burst` of them at once."""

    def __init__(self, rate: float, burst: float) -> None:
        self.rate, self._burst, self._tokens, self._at = rate, burst, burst, 0.0

    def take(self, now: float, active: int) -> float | None:
        self._tokens = min(self._burst, self._tokens + (now - self._at) * self.rate)
        self._at = now
        if self._tokens >= 1.0:
            self._tokens -= 1.0
            return None
        return (1.0 - self._tokens) / self.rate


class FixedWindow:
    """`most` requests in each window, which begins by the clock or, `anchored`, with its first request."""

    def __init__(self, most: int, seconds: float, *, anchored: bool = False) -> None:
        self.rate = most / seconds
        self._most, self._seconds, self._anchored = most, seconds, anchored
        self._start, self._taken = -math.inf, 0

    def take(self, now: float, active: int) -> float | None:
        if now >= self._start + self._seconds:
            self._start = now if self._anchored else now // self._seconds * self._seconds
            self._taken = 0
        if self._taken < self._most:
            self._taken += 1
            return None
        return self._start + self._seconds - now


class SlidingWindow:
    """At most `most` requests in any `seconds`."""

    def __init__(self, most: int, seconds: float) -> None:
        self.rate = most / seconds
        self._most, self._seconds = most, seconds
        self._taken: deque[float] = deque()

    def take(self, now: float, active: int) -> float | None:
        while self._taken and self._taken[0] <= now - self._seconds:
            self._taken.popleft()
        if len(self._taken) < self._most:
            self._taken.append(now)
            return None
        return self._taken[0] + self._seconds - now


class Spaced:
    """GCRA, and a leaky bucket: each request at least 1 / `rate` after the last one, `burst` - 1 of them may come early."""

    def __init__(self, rate: float, burst: float = 1.0) -> None:
        self.rate = rate
        self._early_s = (burst - 1.0) / rate
        self._due = -math.inf

    def take(self, now: float, active: int) -> float | None:
        if now < self._due - self._early_s:
            return self._due - self._early_s - now
        self._due = max(self._due, now) + 1.0 / self.rate
        return None


class Changing:
    """`first` up to so many seconds after the first request, `then` from there on."""

    def __init__(self, first: Limit, then: Limit, after_s: float) -> None:
        self.rate = then.rate
        self._first, self._then, self._after_s = first, then, after_s
        self._began: float | None = None

    def take(self, now: float, active: int) -> float | None:
        self._began = now if self._began is None else self._began
        return (self._first if now < self._began + self._after_s else self._then).take(now, active)


class Slots:
    """At most `most` requests at the same time, each of which takes `seconds`."""

    def __init__(self, most: int, seconds: float) -> None:
        self.rate = most / seconds
        self._most = most

    def take(self, now: float, active: int) -> float | None:
        return None if active < self._most else 0.01


class Figures(NamedTuple):
    """`refused`: share of all requests; `reached`: share of the rate that the limit allows; `settled`: the same, without
    the first sixth of the requests and the last twentieth, in which some wait for what a header asks."""

    refused: float
    reached: float
    seconds: float
    settled: float


def exact(wait_s: float) -> float | None:
    """The wait in fractions of seconds, as `retry-after-ms` has it."""
    return wait_s


def whole_seconds(wait_s: float) -> float | None:
    """The wait as `Retry-After` has it: rounded up."""
    return float(math.ceil(wait_s))


def dates(wait_s: float) -> float | None:
    """The wait as a date has it, of a server that adds a second to be sure."""
    return float(math.ceil(wait_s) + 1)


def silent(wait_s: float) -> float | None:
    """A server without headers."""
    return None


class Stalls:
    """Times at which a loaded machine does not run the client: what is due in between is done in one go at the end."""

    def __init__(self, every_s: float, length_s: float, chance: random.Random) -> None:
        self._every_s, self._length_s, self._chance = every_s, length_s, chance
        self._start = self._end = -math.inf

    def over(self, at: float) -> float:
        """Return `at`, or the end of the stall in which it lies. Times come in no order; within a stall that is enough."""
        if self._every_s <= 0.0:
            return at
        if self._end == -math.inf:
            self._start = self._end = at
        while at >= self._end:
            self._start = self._end + self._chance.expovariate(1.0 / self._every_s)
            self._end = self._start + self._chance.expovariate(1.0 / self._length_s)
        return self._end if at >= self._start else at


def simulate(
    limit: Limit,
    requests: int,
    *,
    concurrency: int,
    latency_s: float,
    says: Callable[[float], float | None],
    seed: int,
    load_s: float = 0.0,
    linger_s: float = 0.0,
    resets: float = 0.0,
    clients: int = 1,
    wire_s: float = NETWORK_S,
    jitter_s: float = 0.0,
    stalls: tuple[float, float] = (0.0, 0.0),
    spread: float = 0.5,
    make: Callable[[], Pacer] | None = None,
) -> Figures:
    """Send requests until all are answered. A refused one is sent again, after the wait that the server asks for.

    `load_s`: the machine is loaded. Each step of client and server is late by so much on average, now and then ten times.
    `linger_s`: the server counts a request as in flight for so long, on average, after it has answered.
    `resets`: share of the requests whose connection breaks before anything is answered.
    `clients`: so many processes, each with a pacer, share the limit and the requests.
    `wire_s`, `jitter_s`: the way to the server takes so long, and on average so much longer.
    `spread`: an answer takes so much longer or shorter than `latency_s`, at most.
    `stalls`: the client does not run, so often and so long on average, in seconds.
    """
    chance = random.Random(seed)

    def late() -> float:
        return 0.0 if load_s == 0.0 else chance.expovariate(1.0 / load_s) * (10.0 if chance.random() < 0.02 else 1.0)

    def way() -> float:
        return wire_s + late() + (chance.expovariate(1.0 / jitter_s) if jitter_s else 0.0)

    pacers = [(make or (lambda: Pacer(concurrency, remote=True)))() for _ in range(clients)]
    frozen = [Stalls(*stalls, random.Random(seed + number)) for number in range(clients)]
    start = now = chance.uniform(0.0, 60.0)
    order = count()
    events: list[tuple[float, int, str, int, Ticket | None, float]] = []
    waiting, busy, answered, refused, last = requests, 0, 0, 0, start
    alarms = [-1] * clients
    taken: list[float] = []

    def plan(at: float, what: str, client: int, ticket: Ticket | None = None, wait_s: float = 0.0) -> int:
        number = next(order)
        if what in ("look", "answered", "refused", "reset", "again"):
            at = frozen[client].over(at)
        heapq.heappush(events, (at, number, what, client, ticket, wait_s))
        return number

    for client in range(clients):
        alarms[client] = plan(start, "look", client)
    while answered < requests:
        now, number, what, client, ticket, wait_s = heapq.heappop(events)
        pacer = pacers[client]
        assert now < start + 50.0 * requests, "the requests do not come to an end"
        if what == "look" and number != alarms[client]:
            continue
        if what == "arrives" and resets and chance.random() < resets:
            plan(now + latency_s * chance.uniform(0.0, 1.0), "reset", client, ticket)
        elif what == "arrives":
            asks = limit.take(now, busy)
            if asks is None:
                busy += 1
                taken.append(now)
                plan(now + latency_s * chance.uniform(1.0 - spread, 1.0 + spread), "ends", client, ticket)
            else:
                plan(now + way(), "refused", client, ticket, asks)
        elif what == "ends":
            if linger_s:
                plan(now + chance.expovariate(1.0 / linger_s), "free", client)
            else:
                busy -= 1
            plan(now + way(), "answered", client, ticket)
        elif what == "free":
            busy -= 1
        elif what == "answered" and ticket is not None:
            pacer.answered(ticket, now)
            answered, last = answered + 1, now
        elif what == "refused" and ticket is not None:
            refused += 1
            hint = says(wait_s)
            pacer.refused(ticket, now, hint)
            plan(now + (hint or 0.0), "again", client)
        elif what == "reset" and ticket is not None:
            refused += 1
            pacer.refused(ticket, now, None, down=True)
            waiting += 1
        elif what == "again":
            waiting += 1
        while waiting:
            delay = pacer.wait_s(now)
            if delay is None or delay > 0.0:
                if delay is not None:
                    alarms[client] = plan(now + delay + 0.0005 + late(), "look", client)
                break
            waiting -= 1
            plan(now + way(), "arrives", client, pacer.send(now))
    seconds = last - start - latency_s
    begun, end = max(len(taken) // 6, sum(at < start + 3.0 for at in taken)), max(1, len(taken) * 19 // 20)
    begun = begun if begun < end else 0
    settled = (end - begun) / max(1e-9, taken[end] - taken[begun]) / limit.rate
    return Figures(refused / (requests + refused), requests / seconds / limit.rate, seconds, settled)


class Overload(NamedTuple):
    """`reached`: share of what the server can do; `twice`: share of its work that was done in vain."""

    reached: float
    twice: float
    timeouts: int


def overload(
    requests: int, *, slots: int, seconds: float, timeout_s: float, concurrency: int, cancels: bool, seed: int
) -> Overload:
    """A server that takes every request into a queue and works on `slots` at once.

    `cancels`: it lets go of a request whose client has hung up, where not it works on.
    """
    chance = random.Random(seed)
    pacer = Pacer(concurrency, remote=True)
    order = count()
    events: list[tuple[float, int, str, Ticket]] = []
    queue: deque[Ticket] = deque()
    gone: set[int] = set()
    now, busy, waiting, answered, worked, timeouts, alarm = 0.0, 0, requests, 0, 0, 0, False
    while answered < requests:
        while waiting and (delay := pacer.wait_s(now)) is not None:
            if delay > 0.0:
                if not alarm:
                    alarm = True
                    heapq.heappush(events, (now + delay, next(order), "look", Ticket(0, now, 0, 0.0)))
                break
            waiting -= 1
            ticket = pacer.send(now)
            queue.append(ticket)
            heapq.heappush(events, (now + timeout_s, next(order), "timeout", ticket))
        while queue and busy < slots:
            ticket = queue.popleft()
            if cancels and ticket.number in gone:
                continue
            busy += 1
            heapq.heappush(events, (now + seconds * chance.uniform(0.9, 1.1), next(order), "ends", ticket))
        now, _, what, ticket = heapq.heappop(events)
        alarm = alarm and what != "look"
        if what == "ends":
            busy, worked = busy - 1, worked + 1
            if ticket.number not in gone:
                gone.add(ticket.number)
                answered += 1
                pacer.answered(ticket, now)
        elif what == "timeout" and ticket.number not in gone:
            gone.add(ticket.number)
            timeouts, waiting = timeouts + 1, waiting + 1
            pacer.timed_out(ticket, now, timeout_s)
    return Overload(requests / now / (slots / seconds), worked / requests - 1.0, timeouts)
