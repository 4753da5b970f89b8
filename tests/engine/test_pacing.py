"""The pace of requests, in simulated time: how much is refused, and how much of the allowed rate is reached."""

from __future__ import annotations

import asyncio
import random
import statistics
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from simulated_limits import (
    Bucket,
    FixedWindow,
    Limit,
    SlidingWindow,
    Slots,
    exact,
    overload,
    silent,
    simulate,
    whole_seconds,
)

from snellen.engine.concurrency import Gate
from snellen.engine.pacing import Pacer, Ticket

LIMITS: dict[str, tuple[Callable[[float], Limit], int]] = {
    "token bucket, burst 20": (lambda latency_s: Bucket(20, 20), 600),
    "token bucket, burst 5": (lambda latency_s: Bucket(20, 5), 600),
    "token bucket, burst 1": (lambda latency_s: Bucket(20, 1), 1200),
    "token bucket, 3 a second": (lambda latency_s: Bucket(3, 3), 900),
    "fixed window of a second": (lambda latency_s: FixedWindow(20, 1), 900),
    "window from its first request": (lambda latency_s: FixedWindow(20, 1, anchored=True), 900),
    "one a second, burst 60": (lambda latency_s: Bucket(1, 60), 500),
    "token bucket, 200 a second": (lambda latency_s: Bucket(200, 200), 6000),
    "fixed window of a minute": (lambda latency_s: FixedWindow(600, 60), 3000),
    "120 in each minute": (lambda latency_s: FixedWindow(120, 60), 900),
    "120 in any minute": (lambda latency_s: SlidingWindow(120, 60), 900),
    "sliding window": (lambda latency_s: SlidingWindow(20, 1), 900),
    "sliding window of a minute": (lambda latency_s: SlidingWindow(300, 60), 3000),
    "4 at once": (lambda latency_s: Slots(4, latency_s), 600),
    "8 at once": (lambda latency_s: Slots(8, latency_s), 600),
}


@pytest.mark.parametrize("says", [silent, exact, whole_seconds], ids=lambda says: says.__name__)
@pytest.mark.parametrize("latency_s", [0.05, 0.3])
@pytest.mark.parametrize("name", LIMITS)
def test_at_most_five_percent_are_refused_and_95_percent_of_the_allowed_rate_are_reached(name, latency_s, says):
    make, requests = LIMITS[name]
    figures = [
        simulate(make(latency_s), requests, concurrency=64, latency_s=latency_s, says=says, seed=seed)
        for seed in range(5)
    ]
    assert statistics.median(each.refused for each in figures) <= 0.05
    assert statistics.median(each.reached for each in figures) >= 0.95 - 0.02 * (says is whole_seconds)
    assert min(each.reached for each in figures) >= 0.8


@pytest.mark.parametrize(
    "make, latency_s",
    [
        (lambda: Bucket(3, 3), 0.4),
        (lambda: Bucket(2, 2), 0.7),
        (lambda: FixedWindow(3, 1), 0.7),
        (lambda: SlidingWindow(3, 1), 0.7),
        (lambda: FixedWindow(6, 1), 1.0),
    ],
    ids=["bucket of 3", "bucket of 2", "3 in each second", "3 in any second", "6 in each second"],
)
def test_a_rate_that_looks_like_a_limit_in_number_is_told_apart_by_a_second_refusal(make, latency_s):
    """The window is used up just when as many answers come: two or three in flight were taken for all that is allowed."""
    figures = [simulate(make(), 900, concurrency=64, latency_s=latency_s, says=silent, seed=seed) for seed in range(5)]
    assert statistics.median(each.refused for each in figures) <= 0.05
    assert statistics.median(each.reached for each in figures) >= 0.95
    assert min(each.reached for each in figures) >= 0.7


@pytest.mark.parametrize("late", [{"load_s": 0.001}, {"linger_s": 0.0002}], ids=["late client", "late server"])
@pytest.mark.parametrize("most", [2, 4, 8])
def test_a_limit_in_number_is_not_taken_for_a_rate_where_one_side_is_late(most, late):
    figures = [
        simulate(Slots(most, 0.4), 600, concurrency=64, latency_s=0.4, says=silent, seed=seed, **late)
        for seed in range(5)
    ]
    assert statistics.median(each.refused for each in figures) <= 0.05
    assert statistics.median(each.reached for each in figures) >= 0.85


@pytest.mark.parametrize("name", ["token bucket, burst 20", "token bucket, burst 5", "fixed window of a second"])
@pytest.mark.parametrize("concurrency", [16, 64])
def test_a_machine_under_load_keeps_the_pace(name, concurrency):
    """Each step of client and server is 10 ms late on average, now and then 100 ms."""
    make, _ = LIMITS[name]
    figures = [
        simulate(make(0.05), 900, concurrency=concurrency, latency_s=0.05, says=silent, seed=seed, load_s=0.01)
        for seed in range(5)
    ]
    assert statistics.median(each.refused for each in figures) <= 0.05
    assert statistics.median(each.reached for each in figures) >= 0.95


@pytest.mark.parametrize("latency_s", [0.05, 0.4])
def test_a_window_used_up_under_load_is_not_taken_for_a_limit_in_number(latency_s):
    for seed in range(8):
        figures = simulate(
            FixedWindow(20, 1), 600, concurrency=64, latency_s=latency_s, says=silent, seed=seed, load_s=0.003
        )
        assert figures.reached > 0.75, "0.16 to 0.29 while one request in flight was taken for all that is allowed"


@pytest.mark.parametrize("name", ["token bucket, burst 20", "fixed window of a second", "one a second, burst 60"])
def test_after_an_outage_the_old_rate_is_soon_reached(name):
    """A server that refuses everything for 45 s, and then has the limit it had before."""
    make, _ = LIMITS[name]
    limit = make(0.05)
    began: list[float] = []

    class Outage:
        rate = limit.rate

        def take(self, now: float, active: int) -> float | None:
            began.append(now)
            return 45.0 if 10.0 < now - began[0] < 55.0 else limit.take(now, active)

    figures = simulate(Outage(), 400, concurrency=64, latency_s=0.05, says=silent, seed=3)
    assert figures.seconds < 45.0 + 20.0 + 400 / limit.rate * 1.15
    assert figures.refused < 0.12


@pytest.mark.parametrize("says", [silent, exact, whole_seconds], ids=lambda says: says.__name__)
@pytest.mark.parametrize("before", [0, 1, 3, 8, 20])
def test_an_outage_after_a_few_requests_is_not_taken_for_a_low_rate(before, says):
    """A run that begins in an outage of 45 s. Before, up to 800 s went by after it until 400 requests were answered."""

    class Outage:
        rate = 320.0
        taken, began = 0, 0.0

        def take(self, now: float, active: int) -> float | None:
            if self.taken == before:
                self.began = self.began or now
                if now < self.began + 45.0:
                    return self.began + 45.0 - now
            else:
                self.taken += 1
            return None

    figures = simulate(Outage(), 400, concurrency=16, latency_s=0.05, says=says, seed=1)
    assert figures.seconds < 45.0 + 45.0


class Unlimited:
    """Takes what it gets, but for a share of the requests that it refuses by chance."""

    def __init__(self, rate: float, refuses: float = 0.0) -> None:
        self.rate = rate
        self._refuses = refuses
        self._chance = random.Random(5)

    def take(self, now: float, active: int) -> float | None:
        return 1.0 if self._chance.random() < self._refuses else None


@pytest.mark.parametrize("concurrency", [8, 64])
@pytest.mark.parametrize("resets", [0.01, 0.1])
def test_broken_connections_among_answers_do_not_slow_a_run(resets, concurrency):
    """Before, one broken connection in a hundred cost a third of the speed, one in ten more than half."""
    figures = simulate(
        Unlimited(concurrency), 2000, concurrency=concurrency, latency_s=1.0, says=silent, seed=1, resets=resets
    )
    assert figures.reached >= 0.75


@pytest.mark.parametrize("says", [silent, whole_seconds], ids=lambda says: says.__name__)
@pytest.mark.parametrize("concurrency", [8, 64])
@pytest.mark.parametrize("refuses", [0.03, 0.1])
def test_refusals_by_chance_do_not_slow_a_run(refuses, concurrency, says):
    """Before, one refusal in ten by chance slowed a run to 3 % of what the server could do."""
    figures = simulate(Unlimited(concurrency, refuses), 2000, concurrency=concurrency, latency_s=1.0, says=says, seed=1)
    assert figures.reached >= 0.75


@pytest.mark.parametrize("cancels", [True, False], ids=["lets go", "works on"])
@pytest.mark.parametrize("slots, seconds, concurrency", [(8, 1.0, 64), (25, 1.0, 256), (8, 2.0, 64)])
def test_an_overloaded_server_is_kept_busy_and_does_little_in_vain(slots, seconds, concurrency, cancels):
    figures = [
        overload(1500, slots=slots, seconds=seconds, timeout_s=5.0, concurrency=concurrency, cancels=cancels, seed=seed)
        for seed in range(3)
    ]
    assert min(each.reached for each in figures) >= (0.85 if cancels else 0.8)
    assert max(each.twice for each in figures) <= 0.2


@settings(deadline=None, max_examples=60)
@given(st.floats(0.5, 500.0), st.integers(1, 200), st.floats(0.001, 5.0), st.integers(1, 64), st.integers(0, 2**31))
def test_whatever_the_limit_every_request_is_answered(rate, burst, latency_s, concurrency, seed):
    figures = simulate(Bucket(rate, burst), 150, concurrency=concurrency, latency_s=latency_s, says=silent, seed=seed)
    assert figures.refused < 0.5


def test_a_server_without_limits_has_all_requests_in_flight_after_a_quarter_of_a_second():
    pacer = Pacer(64, remote=True)
    now = 0.0
    while now < 0.25:
        delay = pacer.wait_s(now)
        if delay == 0.0:
            pacer.send(now)
        else:
            now += 0.005
    assert pacer.active == 64
    local = Pacer(64)
    for _ in range(64):
        assert local.wait_s(0.0) == 0.0
        local.send(0.0)
    assert local.wait_s(0.0) is None


def test_a_long_wait_that_the_server_asks_for_holds_for_all_requests():
    pacer = Pacer(8)
    tickets = [pacer.send(0.0) for _ in range(4)]
    pacer.refused(tickets[0], 0.01, 37.0)
    pacer.answered(tickets[1], 0.5)
    waiting = pacer.waiting(1.0)
    assert waiting is not None and waiting.seconds == pytest.approx(36.01) and not waiting.server_down
    assert pacer.wait_s(1.0) == pytest.approx(36.01)
    assert pacer.wait_s(37.02) == 0.0


def test_a_server_that_is_down_is_probed_by_one_request_at_a_time():
    pacer = Pacer(64, remote=True)
    now, probes = 0.0, 0
    while now < 20.0:
        delay = pacer.wait_s(now)
        assert delay is not None
        if delay == 0.0:
            ticket = pacer.send(now)
            assert pacer.active == 1
            pacer.refused(ticket, now + 0.001, down=True)
            probes += 1
        now += max(0.001, delay)
    assert probes < 15
    assert pacer.silent_s(now) == pytest.approx(now, abs=0.1)
    assert pacer.waiting(now) is None or pacer.waiting(now).seconds <= 5.0


def test_timeouts_lower_the_number_in_flight_and_answers_raise_it_again():
    pacer = Pacer(64)
    tickets = [pacer.send(0.0) for _ in range(64)]
    for ticket in tickets:
        pacer.timed_out(ticket, 5.0, 5.0)
    assert 25 <= pacer.limit <= 40, "one decrease for all that were in flight together"
    now, flight = 11.0, []
    for _ in range(3000):
        while pacer.wait_s(now) == 0.0:
            flight.append(pacer.send(now))
        pacer.answered(flight.pop(0), now)
        now += 0.01
    assert pacer.limit == 64


def test_a_request_that_timed_out_takes_its_place_until_the_server_answers_a_later_one():
    pacer = Pacer(4)
    slow: list[Ticket] = [pacer.send(0.0) for _ in range(4)]
    pacer.answered(slow[3], 4.0)
    for ticket in slow[:3]:
        pacer.timed_out(ticket, 5.0, 5.0)
    first = pacer.send(5.0)  # one is always allowed
    assert pacer.wait_s(5.1) is None
    pacer.answered(first, 5.5)
    assert pacer.wait_s(5.5) == 0.0


@given(st.lists(st.floats(0.0, 3.0), min_size=5, max_size=200), st.integers(6, 6000))
def test_no_minute_has_more_requests_than_rpm(gaps, rpm):
    pacer, now, sent = Pacer(10_000, rpm=rpm), 0.0, []
    for gap in gaps:
        now += gap
        while len(sent) < 5000 and pacer.wait_s(now) == 0.0:
            pacer.send(now)
            sent.append(now)
    allowed = rpm + rpm * 0.02 / 60 + 2
    assert all(sum(start <= at < start + 60.0 for at in sent) <= allowed for start in sent[:: max(1, len(sent) // 20)])


def test_tpm_is_kept_by_what_replies_really_used():
    pacer, now, used, flight = Pacer(1000, tpm=60_000), 0.0, [], []
    while now < 300.0:
        if pacer.wait_s(now) == 0.0:
            flight.append((now + 2.0, pacer.send(now, 100.0)))  # an estimate of a tenth of what is used
        while flight and flight[0][0] <= now:
            pacer.answered(flight.pop(0)[1], now, 1000)
            used.append((now, 1000))
        now += 0.05
    after_a_minute = sum(tokens for at, tokens in used if 60.0 <= at < 240.0) / 3.0
    assert 55_000 <= after_a_minute <= 61_000


def test_a_refused_request_gives_its_tokens_back():
    pacer = Pacer(10, tpm=600)
    ticket = pacer.send(0.0, 600.0)
    assert pacer.wait_s(1.0) == pytest.approx(59.0, abs=0.1)
    pacer.refused(ticket, 1.0, 2.0)
    assert pacer.wait_s(3.0) == 0.0


async def test_the_gate_hands_out_turns_in_order_and_none_after_the_end():
    gate = Gate(Pacer(1))
    ticket = await gate.enter()
    assert ticket is not None
    order: list[str] = []

    async def wait(name: str, first: bool = False) -> None:
        mine = await gate.enter(first=first)
        order.append(name if mine is not None else f"{name} ended")
        if mine is not None:
            gate.answered(mine)

    waiters = [asyncio.create_task(wait("a")), asyncio.create_task(wait("b"))]
    await asyncio.sleep(0)
    waiters.append(asyncio.create_task(wait("again", first=True)))
    gone = asyncio.create_task(wait("gone"))
    await asyncio.sleep(0)
    gone.cancel()
    await asyncio.sleep(0)
    gate.answered(ticket)
    await asyncio.gather(*waiters)
    assert order == ["again", "a", "b"]
    last = await gate.enter()
    late = asyncio.create_task(wait("late"))
    await asyncio.sleep(0)
    gate.stop()
    await late
    assert order[-1] == "late ended" and await gate.enter() is None
    assert last is not None and gate.active == 1


class Outage:
    """Refuses everything for so many seconds from the first request on, then nothing."""

    def __init__(self, seconds: float, rate: float) -> None:
        self.rate = rate
        self._seconds, self._began = seconds, -1.0

    def take(self, now: float, active: int) -> float | None:
        self._began = now if self._began < 0.0 else self._began
        left = self._began + self._seconds - now
        return left if left > 0.0 else None


@pytest.mark.parametrize("seconds", [0.5, 1.0, 2.0, 3.0, 4.0])
@pytest.mark.parametrize("seed", range(4))
def test_a_server_that_refuses_only_its_first_requests_is_asked_at_full_speed_afterwards(seconds: float, seed: int):
    """Nothing was taken before, so the time until the first answer says nothing of a rate."""
    figures = simulate(Outage(seconds, 80.0), 600, concurrency=16, latency_s=0.2, says=silent, seed=seed)
    # 7.5 s of work after an outage, which is noticed after at most twice its length, and a second for the ramp
    assert figures.seconds < 7.5 + 3.2 * seconds + 1.0
    assert figures.refused < 0.02
