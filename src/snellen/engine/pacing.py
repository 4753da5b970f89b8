"""Request pacing: the number of requests in flight and their interval, learnt from refusals.

Nothing here waits or reads a clock: times are arguments, in seconds of one monotonic clock, so that the rules can be
tested against simulated servers. `snellen.engine.concurrency` does the waiting.

A server refuses for one of two reasons, and says so with the same status: too many requests at once, or too many in a
period. The first refusal closes the gate. One probe at a time goes out, and its fate tells the two apart: a probe that is
taken while as many requests are in flight as before proves a limit in time; one that is taken only after another request
ended suggests a limit in number. Against the first, requests are spaced evenly at the measured rate (`snellen.engine.pace`);
against the second, `limit` is lowered. Both are raised again in small steps, which shrink each time that a step is refused.

Either verdict is revised. A limit in number that refuses what it took before is checked by one more probe: refused again,
it was a limit in time. If it takes the probe, and is small, its requests are sent evenly and faster for a while: a least
interval between requests takes them all. A limit in time whose refusals all come with N requests in flight, and that never
takes one with N in flight, is a limit in number.
"""

from __future__ import annotations

import math
from collections import deque
from typing import NamedTuple

from snellen.engine.pace import EXACT, SEARCH_GAIN, Pace
from snellen.engine.rate_limits import CrowdRefusals, Quota, next_window

RAMP_FROM, RAMP_EACH_S, RAMP_STEPS = 4, 0.004, 2
"""A run begins with 4 requests in flight, one more each 4 ms and for every second answer: a refusal arrives before much
was sent in vain. At most 2 are added at a time, so that a client that is late reads replies before it sends more."""

EARLY_PROBES_S = 0.008, 0.013, 0.03
"""Where a few requests were taken before the first refusal, it may be for a limit without a burst: probes go out before
one of the few has been answered, which would hide whether the limit is one in number."""
OPEN_PAUSE_S, DOWN_PAUSE_S = 0.1, 0.25
LONGEST_PAUSE_S, LONGEST_DOWN_PAUSE_S = 20.0, 5.0
MOST_DOUBLINGS = 60
ROUNDED_UP_S, DATE_ROUNDED_UP_S = 1.0, 2.0
"""`Retry-After: 1` is the least that the header can say; a date is up to 2 s away. It holds for the refused request alone,
not for all others. Where no pace is known yet, 2 s are waited."""

BREAKS = 4
"""So many broken connections without an answer between them are a server that is down; fewer are accidents."""

GROW_EVERY, LONGEST_GROW_EVERY = 5, 320

IN_TIME, UNHURRIED = 0.7, 0.6
"""After a timeout as many are in flight as the server answers in 0.7 of the timeout. One more is tried while answers take
less than 0.6 of it."""
FEW, MANY = 3, 32
"""A limit in number of at most 3 may be a least interval between requests. Of more than 32 requests in flight one ends
by chance while a probe waits, which says nothing."""
TRIAL_EACH, TRIAL_PACE = 16, 0.8
"""Such a limit is tried as one in time: 16 requests for each one in flight, evenly, at 1 / 0.8 of their rate."""
STEP_PARTS = (0.5, 0.75, 0.9)
"""One more in flight is sent not beside the last one, but after this part of the time in which one of them ends."""


class Ticket:
    """One request in flight. `others` were in flight when it was sent; `tokens` is what it is expected to use."""

    __slots__ = ("early_s", "number", "others", "sent_at", "tokens")

    def __init__(self, number: int, sent_at: float, others: int, tokens: float) -> None:
        self.number = number
        self.sent_at = sent_at
        self.others = others
        self.tokens = tokens
        self.early_s = 0.0


class Waiting(NamedTuple):
    """Reason why nothing is sent at present: `seconds` left, `server_down` or a rate limit."""

    seconds: float
    server_down: bool


class Pacer:
    """Rules for the time of the next request.

    Args:
        limit: requests in flight at most.
        remote: the server is shared with others and may refuse: begin with few requests.
        rpm, tpm: requests and tokens a minute at most; None: no limit of the user's.
        longest_pause_s: between two probes of a server that refuses.
        wall_offset: seconds to add to the clock to get the time of day, for limits that begin anew each full minute.
    """

    def __init__(
        self,
        limit: int,
        *,
        remote: bool = False,
        rpm: float | None = None,
        tpm: float | None = None,
        longest_pause_s: float = LONGEST_PAUSE_S,
        wall_offset: float = 0.0,
    ) -> None:
        self.most = limit
        self.limit = float(limit)
        self.active = 0
        self.refusals = 0
        self.silent_since: float | None = None
        self._remote = remote
        self._ramp = float(RAMP_FROM)
        self._ramped_at: float | None = None
        self._ramping = remote and limit > RAMP_FROM
        self._requests = None if rpm is None else Quota(rpm)
        self._tokens = None if tpm is None else Quota(tpm)
        self._tokens_each = 0.0
        self._tokens_seen = 0
        self._longest_pause_s = min(LONGEST_PAUSE_S, longest_pause_s)
        self._wall_offset = wall_offset
        self._sent = 0
        self._pace = Pace()
        self._lost: deque[tuple[float, float]] = deque()
        self._timeout_s = self._least_s = math.inf
        self._answered_at: deque[float] = deque(maxlen=2 * limit)
        # The state of a closed gate.
        self._streak = 0
        self._closed_until = -math.inf
        self._probe: Ticket | None = None
        self._ends_open = False
        self._down = False
        self._breaks = 0
        self._early_probes = 0
        self._trusted: Ticket | None = None
        self._least_others = self._most_others = 0
        self._last_refused = 0
        self._lag_s: float | None = None
        # What was learnt.
        self._epoch_at: float | None = None
        self._epoch_sent = 0
        self._closed_at = 0.0
        self._closed_s = 0.0
        self._window = math.inf
        self._soft = 0
        self._most_sent = self._most_taken = self._most_taken_before = self._refused_before = 0
        self._checking = False
        self._step_taken = False
        self._believed = 1.0
        self._hinted = False
        self._grow_every = GROW_EVERY
        self._grown = 0
        self._limited = False
        self._crowd = CrowdRefusals()
        self._answer_s = 0.0
        self._trial = self._steps = 0
        self._step_at: float | None = None

    @property
    def interval_s(self) -> float:
        """Return the seconds between two requests; 0 where the server's rate is not known."""
        return self._pace.interval_s

    @property
    def closed(self) -> bool:
        """Return True while the server refuses: only single probes are sent."""
        return self._streak > 0

    def waiting(self, now: float) -> Waiting | None:
        """Return the reason why requests wait at `now`; None if they flow."""
        if not self.closed or self._probe is not None or self._closed_until <= now:
            return None
        return Waiting(self._closed_until - now, self._down)

    def silent_s(self, now: float) -> float:
        """Return the seconds since the first refusal after the last answer; 0 if the last request was answered."""
        return 0.0 if self.silent_since is None else now - self.silent_since

    def wait_s(self, now: float) -> float | None:
        """Return the seconds until a request may be sent: 0 means now, None when another request has ended."""
        if self._streak:
            if self._probe is not None:
                taken_at = self._probe.sent_at + self._grace_s
                if now < taken_at:
                    return taken_at - now
                self._reopen(self._probe)
            elif now < self._closed_until:
                return self._closed_until - now
        if self._streak == 0:
            room = self._room(now)
            if self.active and self.active + self._lost_now(now) >= room:
                if self._step_at is not None:
                    return max(1e-3, self._step_at - now)
                return RAMP_EACH_S if self._ramping and room < int(self.limit) else None
        at = self._pace.due(now) if self._streak == 0 else -math.inf
        if self._requests is not None:
            at = max(at, self._requests.free_at)
        if self._tokens is not None:
            at = max(at, self._tokens.free_at)
        return max(0.0, at - now)

    def send(self, now: float, tokens: float = 0.0) -> Ticket:
        """Count a request as sent. `tokens`: how many it may use, as far as its text tells; better known later."""
        self._sent += 1
        if self._tokens_seen >= 3:
            tokens = self._tokens_each
        ticket = Ticket(self._sent, now, self.active, tokens)
        self.active += 1
        self._epoch_sent += 1
        self._most_sent = max(self._most_sent, ticket.others)
        if self._epoch_at is None:
            self._epoch_at = now
        if self._ramped_at is None:
            self._ramped_at = now
        if self._streak:
            self._probe = ticket
        if self._trial:
            self._trial -= 1
            if self._trial == 0:
                self._limited, self._pace.gain = False, SEARCH_GAIN
        ticket.early_s = self._pace.sent(
            now,
            probe=self._streak > 0,
            fixed=self._trial > 0,
            since_refusal=self._epoch_sent,
            quiet_s=now - self._epoch_at,
        )
        if self._requests is not None:
            self._requests.take(1.0, now)
        if self._tokens is not None:
            self._tokens.take(tokens, now)
        return ticket

    def answered(self, ticket: Ticket, now: float, tokens: int | None = None) -> None:
        """Record an answer, even an error of the request's own. `tokens`: used, if the answer says so."""
        self.active -= 1
        self.silent_since = None
        self._breaks = 0
        self._most_others = max(self._most_others, ticket.others)
        self._answered_at.append(now)
        while self._lost and self._lost[0][0] < ticket.sent_at:
            self._lost.popleft()
        if tokens and self._tokens is not None:
            self._tokens.take(tokens - ticket.tokens, now)
            self._tokens_seen += 1
            self._tokens_each += (tokens - self._tokens_each) / min(self._tokens_seen, 100)
        if self._streak:
            self._crowd.answered(ticket.others, ticket.sent_at)
            if ticket is self._probe:
                self._reopen(ticket)
            elif self._ends_open:
                self._ends_open = False
                self._closed_until = now
            return
        self._soft = 0
        self._ramp += 0.5
        if ticket.number > self._last_refused:
            self._most_taken = max(self._most_taken, ticket.others)
        elif ticket.number > self._refused_before:
            self._most_taken_before = max(self._most_taken_before, ticket.others)
        self._crowd.answered(ticket.others, ticket.sent_at)
        seconds = now - ticket.sent_at
        self._least_s = min(self._least_s, seconds)
        self._answer_s += (seconds - self._answer_s) * (0.1 if self._answer_s else 1.0)
        if seconds < max(UNHURRIED * self._timeout_s, 1.2 * self._least_s):
            self._grow(now)

    def refused(self, ticket: Ticket, now: float, wait_s: float | None = None, *, down: bool = False) -> None:
        """Record that the server did not take the request.

        Args:
            wait_s: the wait that it asks for, in seconds.
            down: there is no server: a refused connection, or one that was closed without a reply.
        """
        self.active -= 1
        self._epoch_sent -= 1
        self.refusals += 1
        lag = now - ticket.sent_at
        self._lag_s = lag if self._lag_s is None else 0.7 * self._lag_s + 0.3 * lag
        if self._tokens is not None:
            self._tokens.take(-ticket.tokens, now)
        if self.silent_since is None:
            self.silent_since = now
        if self._pace.by_chance and not down:
            self._pace.still_by_chance(self._sent, now)
        if self._streak == 0 and self._answered_at and (down or self._pace.by_chance):
            self._breaks += 1
            if self._breaks < BREAKS:
                return
        if self._trial and ticket.number > self._last_refused and not down:
            self._trial, self._pace.interval_s, self._last_refused = 0, 0.0, self._sent
            self.limit = self._believed
            return
        probe = ticket is self._probe
        long_wait = wait_s is not None and wait_s > (DATE_ROUNDED_UP_S if self.interval_s else ROUNDED_UP_S)
        if self._checking and probe:  # twice, with no more in flight than were taken before
            self._streak, self._checking = 0, False
            if not (down or long_wait):
                self._take_for_a_rate(now)
                return
        if self._limited and not (down or long_wait) and self._streak == 0 and self._soft < 3 and ticket.others:
            if ticket.number > self._last_refused:
                contradicts = self._most_sent <= ticket.others <= max(self._most_taken, self._most_taken_before)
                self._refused_before, self._last_refused = self._last_refused, self._sent
                self._most_taken_before, self._most_taken = (0 if contradicts else self._most_taken), 0
                self._most_sent = 0
                if contradicts:  # a limit in time, or the server counts a request whose answer is on its way
                    self._checking, self._streak, self._closed_until = True, 1, now + self._grace_s
                    self._down = self._ends_open = False
                    self._grown, self._step_taken = 0, False
                else:
                    self._slow_growth()
            self._soft += 1
            self.limit = max(1.0, min(self.limit, max(self.limit - 1.0, float(ticket.others))))
            if self.limit < min(0.8 * self._believed, self._believed - 1.5):
                self._take_for_a_rate(now)
        elif probe or ticket.number > self._last_refused:
            if self.interval_s and not down:
                self._pace.refused(ticket.early_s)
                if self._crowd.refused(ticket.others, now, self._answer_s):
                    self._take_for_a_number(self._crowd.least)
                    return
            self._close(ticket, now, down)
        elif self._streak == 1:  # sent before the refusal was known to which we have reacted
            self._least_others = min(self._least_others, ticket.others)
        elif self._streak == 0:
            return
        if wait_s is not None and long_wait:
            self._hinted, self._ends_open = True, False
            self._closed_until = now + wait_s

    def timed_out(self, ticket: Ticket, now: float, timeout_s: float) -> None:
        """Record a timeout. The server may still be at work: the request counts as in flight for as long again.

        A later request that is answered shows that the server has let go of it.
        """
        in_flight = self.active + self._lost_now(now)
        self.active -= 1
        self._timeout_s = timeout_s
        self._lost.append((ticket.sent_at, now + min(timeout_s, LONGEST_PAUSE_S)))
        if ticket is self._probe:
            self._reopen(ticket)
        if ticket.number > self._last_refused:
            self._last_refused = self._sent
            self._ramping = False
            self._limited, self._believed = True, 1.0
            # So many are answered within that part of the timeout, at the rate of the last answers (Little's law).
            answered = sum(at > now - timeout_s for at in self._answered_at)
            self.limit = max(1.0, min(0.9 * self.limit, IN_TIME * answered or 0.6 * in_flight))
            self._slow_growth()

    def dropped(self, ticket: Ticket) -> None:
        """Record that this process gave the request up."""
        self.active -= 1
        if ticket is self._probe:
            self._probe = None

    def _room(self, now: float) -> int:
        if self._ramping:
            if self._ramped_at is not None:
                self._ramp += min((now - self._ramped_at) / RAMP_EACH_S, RAMP_STEPS)
                self._ramped_at = now
            if self._ramp < self.limit:
                return int(self._ramp)
            self._ramping = False
        if self._step_at is not None:
            if now < self._step_at and self._window >= self.limit:
                return int(self.limit) - 1
            self._step_at = None
        return int(min(self.limit, self._window))

    def _ramp_up(self, now: float) -> None:
        """Start again with few requests in flight."""
        self._ramping, self._ramp, self._ramped_at = self._remote and self.most > RAMP_FROM, float(RAMP_FROM), now

    def _lost_now(self, now: float) -> int:
        while self._lost and self._lost[0][1] <= now:
            self._lost.popleft()
        return len(self._lost)

    @property
    def _grace_s(self) -> float:
        """Return the seconds after which a probe without a refusal counts as taken."""
        if self._pace.smooth and self._streak == 1 and not self._down:
            return 0.0
        return min(5.0, max(0.05, 3.0 * (self._lag_s or 0.0)))

    def _close(self, ticket: Ticket, now: float, down: bool) -> None:
        self._least_others = ticket.others
        trusted = ticket is self._trusted
        self._streak = 2 if trusted else self._streak + 1
        self._pace.closed(self._streak, ticket.early_s, trusted=trusted)
        self._last_refused = self._sent
        self._probe = self._trusted = None
        self._ramping = False
        self._down = down
        if self._streak == 1:
            self._hinted, self._ends_open, self._closed_at = False, self.active > 0, now
        doublings = min(self._streak - 1, MOST_DOUBLINGS)
        if down:
            self._ends_open = False
            pause = min(LONGEST_DOWN_PAUSE_S, DOWN_PAUSE_S * 1.6**doublings)
        elif self._limited and self._ends_open:
            pause = 1.0
        elif self.interval_s:
            self._ends_open = False
            if self._streak == 1 and self._pace.smooth:
                pause = max(0.0, self._pace.retry_at(ticket.sent_at, ticket.early_s) - now)
            else:
                pause = self._pace.pause_s(self._epoch_sent >= EXACT, self._closed_s) * 2.0**doublings
        else:
            if self._streak == 1:
                self._early_probes = len(EARLY_PROBES_S) if 0 < self._epoch_sent <= EXACT else 0
            if self._streak <= self._early_probes and (self.active or self._answered_at):
                pause = EARLY_PROBES_S[self._streak - 1]
            else:
                self._early_probes = min(self._early_probes, self._streak - 1)
                pause = OPEN_PAUSE_S * 2.0 ** (doublings - self._early_probes)
        at = now + min(pause, self._longest_pause_s)
        self._closed_until = (
            at if down else min(at, next_window(now, self._epoch_at, self._wall_offset if self._streak > 4 else None))
        )

    def _take_for_a_rate(self, now: float) -> None:
        """Treat the limit as one in time: a limit in number would have stayed where it was."""
        self.limit, self._limited, self._window = float(self.most), False, math.inf
        self._streak, self._probe, self._checking = 0, None, False
        began = now if self._epoch_at is None else self._epoch_at
        self._pace.begin(now, max(1e-4, (now - began) / max(1, self._epoch_sent)), SEARCH_GAIN / 4)

    def _take_for_a_number(self, most: int) -> None:
        """Treat the limit as one in number: all that was refused was refused with at least so many in flight."""
        self._pace.interval_s, self._trial = 0.0, 0
        self.limit = self._believed = float(most)
        self._limited, self._streak, self._probe = True, 0, None
        self._last_refused = self._sent
        self._most_sent = self._most_taken = self._most_taken_before = 0
        self._window = self.active + 1.0
        self._slow_growth()

    def _reopen(self, probe: Ticket) -> None:
        streak, self._streak, self._probe = self._streak, 0, None
        if self.interval_s:
            self._trusted = probe
            if streak == 1:
                self._pace.singles += 1
        if self._checking:  # the server had still counted a request that it had answered
            self._checking = False
            self._slow_growth()
            if self.limit <= FEW and self._answer_s and self._remote:
                self._believed = self.limit
                self.limit, self._window = float(self.most), math.inf
                self._pace.begin(probe.sent_at, TRIAL_PACE * self._answer_s / self._believed, self._pace.gain)
                self._trial = TRIAL_EACH * int(self._believed)
            return
        self._ends_open = False
        start, sent = self._epoch_at, self._epoch_sent - 1
        self._epoch_at, self._epoch_sent = probe.sent_at, 1
        self._closed_s = probe.sent_at - self._closed_at
        if self._down:
            self._ramp_up(probe.sent_at)
            return
        if self._pace.refuses_by_chance(2 if self._hinted else streak, self._sent):
            return
        # Refused with fewer in flight than were taken before: no limit in number. By two less, an answer was on its way.
        fits = self._least_others >= self._most_others - 2
        self._least_others = max(self._least_others, self._most_others)
        fell_by, self._most_others = self._least_others - probe.others if fits else 0, 0
        by_number = 0 < fell_by <= 2 or (fell_by > 0 and streak == 1)
        if by_number and probe.others <= MANY and not (self.interval_s or self._hinted):
            self.limit = max(1.0, min(self.limit, self._least_others))
            self._limited, self._believed = True, self.limit
            self._most_sent = self._most_taken = 0
            self._window = self.active + 1.0
            self._slow_growth()
            return
        if self._limited and not self.interval_s:
            self.limit, self._limited, self._window = float(self.most), False, math.inf
        seconds = probe.sent_at - (probe.sent_at if start is None else start)
        if self._pace.slow_down(seconds, sent, streak, self._closed_s):
            self._ramp_up(probe.sent_at)
        self._pace.next_at = probe.sent_at + self.interval_s

    def _slow_growth(self) -> None:
        self._grown, self._step_taken = 0, False
        self._grow_every = min(LONGEST_GROW_EVERY, 2 * self._grow_every)

    def _grow(self, now: float) -> None:
        if self._window < self.limit:
            self._window += 1.0
        elif self.limit < self.most and self.active + 1 >= int(self.limit):
            self._grown += 1
            if self._grown >= max(self._grow_every, self.limit):
                self._grown = 0
                if self._step_taken:
                    self._grow_every = max(1, self._grow_every // 2)
                self._step_taken = True
                self._believed = max(self._believed, self.limit)
                self.limit = min(float(self.most), self.limit + 1.0)
                self._limited = self.limit < self.most
                self._steps += 1
                self._step_at = now + STEP_PARTS[self._steps % len(STEP_PARTS)] * self._answer_s / (self.limit - 1.0)
