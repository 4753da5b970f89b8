"""The pace of requests, in simulated time: how much is refused, and how much of the allowed rate is reached."""

from __future__ import annotations

import asyncio
import random
import statistics
from collections.abc import Callable
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from simulated_limits import (
    Bucket,
    Changing,
    FixedWindow,
    Limit,
    SlidingWindow,
    Slots,
    Spaced,
    dates,
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


STRICT = {
    "least interval": Spaced,
    "least interval, one early": lambda rate: Spaced(rate, 2),
    "bucket of 1": lambda rate: Bucket(rate, 1),
    "bucket of 3": lambda rate: Bucket(rate, 3),
}
WINDOWS = {
    "in each second": lambda rate: FixedWindow(rate, 1),
    "in any second": lambda rate: SlidingWindow(rate, 1),
}
RATES = {**STRICT, **WINDOWS}


class Figures:
    """Simulated runs against one limit, each with another seed: medians, or the least of them."""

    def __init__(self, make, requests=1000, seeds=range(3), **options):
        given = {"concurrency": 64, "latency_s": 0.05, "says": silent, **options}
        self.runs = [simulate(make(), requests, seed=seed, **given) for seed in seeds]

    def __getattr__(self, name):
        return statistics.median(getattr(each, name) for each in self.runs)

    @property
    def least(self):
        return min(each.reached for each in self.runs)


@pytest.mark.parametrize("says", [silent, exact, whole_seconds], ids=lambda says: says.__name__)
@pytest.mark.parametrize("latency_s", [0.05, 0.3])
@pytest.mark.parametrize("name", LIMITS)
def test_at_most_five_percent_are_refused_and_95_percent_of_the_allowed_rate_are_reached(name, latency_s, says):
    make, requests = LIMITS[name]
    found = Figures(lambda: make(latency_s), requests, range(5), latency_s=latency_s, says=says)
    assert found.refused <= 0.05
    assert found.reached >= 0.95 - 0.02 * (says is whole_seconds)
    assert found.least >= 0.8


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
    found = Figures(make, 900, range(5), latency_s=latency_s)
    assert found.refused <= 0.05
    assert found.reached >= 0.95
    assert found.least >= 0.7


@pytest.mark.parametrize("late", [{"load_s": 0.001}, {"linger_s": 0.0002}], ids=["late client", "late server"])
@pytest.mark.parametrize("most", [2, 4, 8])
def test_a_limit_in_number_is_not_taken_for_a_rate_where_one_side_is_late(most, late):
    found = Figures(lambda: Slots(most, 0.4), 600, range(5), latency_s=0.4, **late)
    assert found.refused <= 0.05
    assert found.reached >= 0.85


@pytest.mark.parametrize("most", [3, 4])
def test_a_limit_in_number_that_was_taken_for_a_rate_is_found_by_its_refusals(most):
    """The client is 1 to 3 ms late: the first probes mislead. Before, every second run stayed at two thirds."""
    found = Figures(lambda: Slots(most, 0.4), 600, range(7), latency_s=0.4, load_s=0.001 * (most - 2))
    assert found.refused <= 0.05
    assert sum(each.reached >= 0.9 for each in found.runs) >= 6


@pytest.mark.parametrize("name", ["token bucket, burst 20", "token bucket, burst 5", "fixed window of a second"])
@pytest.mark.parametrize("concurrency", [16, 64])
def test_a_machine_under_load_keeps_the_pace(name, concurrency):
    """Each step of client and server is 10 ms late on average, now and then 100 ms."""
    found = Figures(lambda: LIMITS[name][0](0.05), 900, range(5), concurrency=concurrency, load_s=0.01)
    assert found.refused <= 0.05
    assert found.reached >= 0.95


@pytest.mark.parametrize("latency_s", [0.05, 0.4])
def test_a_window_used_up_under_load_is_not_taken_for_a_limit_in_number(latency_s):
    found = Figures(lambda: FixedWindow(20, 1), 600, range(8), latency_s=latency_s, load_s=0.003)
    assert found.least > 0.75, "0.16 to 0.29 while one request in flight was taken for all that is allowed"


@pytest.mark.parametrize("says", [silent, exact, whole_seconds, dates], ids=lambda says: says.__name__)
@pytest.mark.parametrize("latency_s", [0.05, 0.3, 2.0])
@pytest.mark.parametrize("rate", [2, 10, 30, 50])
@pytest.mark.parametrize("name", STRICT)
def test_a_limit_without_a_burst_refuses_little_and_is_used(name, rate, latency_s, says):
    """Before, 35 to 95 % of the rate at 50/s: late requests were made up for by early ones, and all of those refused."""
    concurrency = max(64, int(3 * rate * latency_s))
    found = Figures(lambda: STRICT[name](rate), concurrency=concurrency, latency_s=latency_s, says=says)
    assert found.refused <= 0.055
    assert found.settled >= 0.945


@pytest.mark.parametrize("rate", [3, 20, 50])
@pytest.mark.parametrize("name", WINDOWS)
def test_a_date_two_seconds_away_stops_nobody_else(name, rate):
    """A date is a whole second, and rounded up. Before, each of them stopped all requests: 60 to 90 % were reached."""
    found = Figures(lambda: WINDOWS[name](rate), says=dates)
    assert found.refused <= 0.05
    assert found.settled >= 0.95


@pytest.mark.parametrize("rate", [100, 200])
@pytest.mark.parametrize("name", ["least interval", "bucket of 3", "in each second", "in any second"])
def test_a_rate_near_the_tick_of_timers_is_nearly_reached(name, rate):
    """Timers are half a millisecond late here, a tenth of the interval. Before, 24 to 94 % were reached."""
    found = Figures(lambda: RATES[name](rate), 2000, concurrency=128, latency_s=0.3)
    assert found.refused <= 0.05
    assert found.settled >= 0.9


@pytest.mark.parametrize("name", RATES)
def test_a_client_that_stops_for_moments_keeps_the_pace(name):
    """A loaded machine does not run the client for 30 ms, twice a second, and then all at once. Before, 30 to 60 %."""
    found = Figures(lambda: RATES[name](20), latency_s=0.3, stalls=(0.5, 0.03))
    assert found.refused <= 0.05
    assert found.settled >= 0.9


@pytest.mark.parametrize("rate", [10, 50])
@pytest.mark.parametrize("name", RATES)
def test_two_clients_share_a_limit(name, rate):
    found = Figures(lambda: RATES[name](rate), 1500, latency_s=0.2, clients=2)
    assert found.refused <= 0.05
    assert found.settled >= 0.95


@pytest.mark.parametrize("before, after, least", [(50, 20, 0.9), (50, 10, 0.85), (20, 50, 0.7), (10, 50, 0.5)])
@pytest.mark.parametrize("name", ["least interval", "bucket of 3", *WINDOWS])
def test_a_limit_that_changes_is_followed(name, before, after, least):
    """It changes after 20 s of 50. Before, 41 to 50 % were reached from 10/s to 50/s."""
    make, requests = RATES[name], 20 * before + 30 * after
    found = Figures(lambda: Changing(make(before), make(after), 20.0), requests, latency_s=0.2)
    assert found.refused <= 0.055
    assert 50.0 / found.seconds >= least


class Outage:
    """A limit that refuses everything for so many seconds, once so many requests were taken.

    Args:
        left: the seconds that a server says, from those that are left.
    """

    def __init__(self, limit, seconds, after=0, left=lambda seconds: seconds):
        self.rate, self._limit, self._seconds, self._after, self._left = limit.rate, limit, seconds, after, left
        self._taken, self._until = 0, None

    def take(self, now, active):
        if self._taken == self._after:
            self._until = now + self._seconds if self._until is None else self._until
            if now < self._until:
                return self._left(self._until - now)
        asks = self._limit.take(now, active)
        self._taken += asks is None and self._taken < self._after
        return asks


@pytest.mark.parametrize("name", ["token bucket, burst 20", "fixed window of a second", "one a second, burst 60"])
def test_after_an_outage_the_old_rate_is_soon_reached(name):
    """A server that refuses everything for 45 s, and then has the limit it had before."""
    limit = LIMITS[name][0](0.05)
    began = []

    class Later:
        rate = limit.rate

        def take(self, now, active):
            began.append(now)
            return 45.0 if 10.0 < now - began[0] < 55.0 else limit.take(now, active)

    found = Figures(Later, 400, [3])
    assert found.seconds < 45.0 + 20.0 + 400 / limit.rate * 1.15
    assert found.refused < 0.12


@pytest.mark.parametrize("says", [silent, exact, whole_seconds], ids=lambda says: says.__name__)
@pytest.mark.parametrize("before", [0, 1, 3, 8, 20])
def test_an_outage_after_a_few_requests_is_not_taken_for_a_low_rate(before, says):
    """A run that begins in an outage of 45 s. Before, up to 800 s went by after it until 400 requests were answered."""
    found = Figures(lambda: Outage(Unlimited(320.0), 45.0, before), 400, [1], concurrency=16, says=says)
    assert found.seconds < 45.0 + 45.0


def test_a_short_outage_after_one_answer_is_not_taken_for_a_low_rate():
    """Before, it took 46 s after an outage of 2 s until the pace had come back."""
    found = Figures(lambda: Outage(Unlimited(320.0), 2.0, 1, lambda left: 1.0), 400, [1], concurrency=16)
    assert found.seconds < 20.0


@pytest.mark.parametrize("seconds", [0.5, 1.0, 2.0, 3.0, 4.0])
@pytest.mark.parametrize("seed", range(4))
def test_a_server_that_refuses_only_its_first_requests_is_asked_at_full_speed_afterwards(seconds, seed):
    """Nothing was taken before, so the time until the first answer says nothing of a rate."""
    limit = Outage(Unlimited(80.0), seconds)
    found = simulate(limit, 600, concurrency=16, latency_s=0.2, says=silent, seed=seed)
    # 7.5 s of work after an outage, which is noticed after at most twice its length, and a second for the ramp
    assert found.seconds < 7.5 + 3.2 * seconds + 1.0
    assert found.refused < 0.02


class Unlimited:
    """Takes what it gets, but for a share of the requests that it refuses by chance."""

    def __init__(self, rate, refuses=0.0):
        self.rate = rate
        self._refuses = refuses
        self._chance = random.Random(5)

    def take(self, now, active):
        return 1.0 if self._chance.random() < self._refuses else None


@pytest.mark.parametrize("concurrency", [8, 64])
@pytest.mark.parametrize("resets", [0.01, 0.1])
def test_broken_connections_among_answers_do_not_slow_a_run(resets, concurrency):
    """Before, one broken connection in a hundred cost a third of the speed, one in ten more than half."""
    found = Figures(lambda: Unlimited(concurrency), 2000, [1], concurrency=concurrency, latency_s=1.0, resets=resets)
    assert found.reached >= 0.75


@pytest.mark.parametrize("says", [silent, whole_seconds], ids=lambda says: says.__name__)
@pytest.mark.parametrize("concurrency", [8, 64])
@pytest.mark.parametrize("refuses", [0.03, 0.1])
def test_refusals_by_chance_do_not_slow_a_run(refuses, concurrency, says):
    """Before, one refusal in ten by chance slowed a run to 3 % of what the server could do."""
    make = partial(Unlimited, concurrency, refuses)
    assert Figures(make, 2000, [1], concurrency=concurrency, latency_s=1.0, says=says).reached >= 0.75


@pytest.mark.parametrize("cancels", [True, False], ids=["lets go", "works on"])
@pytest.mark.parametrize("slots, seconds, concurrency", [(8, 1.0, 64), (25, 1.0, 256), (8, 2.0, 64)])
def test_an_overloaded_server_is_kept_busy_and_does_little_in_vain(slots, seconds, concurrency, cancels):
    given = {"slots": slots, "seconds": seconds, "timeout_s": 5.0, "concurrency": concurrency, "cancels": cancels}
    figures = [overload(1500, seed=seed, **given) for seed in range(3)]
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

    async def wait(name, first=False):
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


def test_a_server_that_is_down_for_a_day_is_probed_all_day():
    """A power of the number of probes overflowed after two hours of a closed port, and after six of refusals."""
    for down in (True, False):
        pacer, now = Pacer(4, remote=True), 0.0
        while now < 86_400.0:
            now += max(0.001, pacer.wait_s(now) or 0.0)
            if pacer.wait_s(now) == 0.0:
                pacer.refused(pacer.send(now), now + 0.001, down=down)
        assert pacer.closed and 4000 < pacer.refusals < 20_000
