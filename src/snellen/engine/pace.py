"""Pace: the interval between requests to a server that allows so many in a period, learnt from its refusals.

`Pace` is used by `snellen.engine.pacing.Pacer`, which decides when the interval is used. Times are arguments.

- The first estimate is the time in which the first requests were taken, divided by their number.
- Each request that the interval held back shortens it by `gain`; each refusal lengthens it. The gain shrinks with every
  refusal and grows again after a quiet time, so that a limit that changes is followed.
- A request that is late by a timer's tick may be followed by an earlier one, so that the rate is kept. A limit without a
  burst refuses such requests: they are counted apart, and where they are refused more often, none is sent early any more.
- Where single refusals were passed by the next request, twice in succession, the server is a smooth limit: a bucket or a
  least interval, no used-up window. Its next refusal does not stop the others: one request follows soon, then the pace goes on.
"""

from __future__ import annotations

import math

from snellen.engine.rate_limits import LATE_S, MORE, ChanceRefusals, HurryRefusals

OUTAGE_GAIN, SEARCH_GAIN, LEAST_GAIN, SLOWER = 0.25, 0.06, 3e-4, 0.02
"""Each request shortens the interval by the gain: 25 % after an outage, 6 % where the rate is hardly known, in the end
0.03 %, against 2 % longer after a refusal. In balance that is a refusal for about 65 requests."""
SLOWER_STRICT = 0.01
"""Against a limit without a burst, whose refusals come from jitter on the way to the server: one for about 33 requests."""
QUICKEST_PER_S = 3.0
"""The interval shrinks by at most a factor e in a third of a second: a window of a second is used up in the meantime."""
LEAST_INTERVAL_S = 2e-4
EXACT = 8
"""So many requests between two refusals measure the rate."""
LONG_STREAK, OUTAGE_S = 5, 5.0
"""So many refusals in a row, or the first ones for so long, are an outage, or a long window that was used up early: a
second time, at the same rate."""
SHORT_OUTAGE_S = 1.0
QUIET, QUIET_S = 150, 5.0
"""After this many requests and seconds without a refusal the gain rises again."""
SMOOTH = 2
HURRIED = 0.03
"""A request that is sooner by this share of the interval is an early one."""


class Pace:
    """Interval between requests. `interval_s` is 0 where none is known; `next_at` is when the next request is due."""

    def __init__(self) -> None:
        self.interval_s = 0.0
        self.gain = SEARCH_GAIN
        self.next_at = -math.inf
        self.singles = 0
        self._sent_at = -math.inf
        self._delayed = False
        self._hurry = HurryRefusals()
        self._refused_early = self._retried = False
        self._recent_sent = self._recent_s = self._spaced_s = 0.0
        self._measured_s = math.inf
        self._was_out = False
        self._chance = ChanceRefusals()
        self._before_chance_s = self._at_first_single_s = 0.0

    @property
    def smooth(self) -> bool:
        """Return True if a refusal is passed by the next request."""
        return self.interval_s > 0.0 and self.singles >= SMOOTH

    @property
    def by_chance(self) -> bool:
        """Return True while refusals are taken for chance."""
        return self._chance.active

    def due(self, now: float) -> float:
        """Return when the next request is due."""
        self._delayed = self._delayed or self.next_at > now
        return self.next_at

    def begin(self, now: float, interval_s: float, gain: float) -> None:
        """Space requests from `now` on."""
        self.interval_s, self.gain, self.next_at = interval_s, gain, now + interval_s

    def sent(self, now: float, *, probe: bool, fixed: bool, since_refusal: int, quiet_s: float) -> float:
        """Count a request; return the seconds by which it was earlier than the interval allows.

        Args:
            probe: it tests whether the server still refuses.
            fixed: the interval stays as it is, and none is sent early.
            since_refusal, quiet_s: requests and seconds since the last refusal.
        """
        early_s = 0.0
        if self.interval_s:
            sooner_s = self._sent_at + self.interval_s - now
            if not probe and sooner_s > HURRIED * self.interval_s:
                early_s = sooner_s
            self._hurry.sent(early_s > 0.0)
            if self._delayed and not (probe or fixed):
                self._spaced_s += self.interval_s
                self._quicken(since_refusal, quiet_s)
            if fixed:
                self._delayed = False
            credit_s = max(0.5 * self.interval_s, LATE_S - self.interval_s)
            if fixed or not self._hurry.allowed:
                credit_s = 0.0
            self.next_at = max(self.next_at, now - credit_s) + self.interval_s
        self._sent_at = now
        return early_s

    def refused(self, early_s: float) -> None:
        """Count a refusal of a request that was earlier by `early_s`."""
        self._hurry.refused(early_s > 0.0)

    def closed(self, streak: int, early_s: float, *, trusted: bool) -> None:
        """Note how the last of `streak` refusals in a row came about. `trusted`: it was taken for an answer at first."""
        self._refused_early = early_s > 0.0
        self._retried = self._retried or trusted
        if streak > 1:
            self.singles = 0

    def retry_at(self, sent_at: float, early_s: float) -> float:
        """Return when a smooth limit probably takes a request, after it refused one."""
        self._retried = True
        return sent_at + early_s + 0.25 * self.interval_s

    def pause_s(self, known: bool, closed_s: float) -> float:
        """Return the first pause after a refusal. `known`: the interval is; else the last one lasted `closed_s`."""
        return max(0.5 * (self.interval_s if known else closed_s), LATE_S)

    def still_by_chance(self, sent: int, now: float) -> None:
        """Count a refusal while refusals are taken for chance: too many of them are a limit after all."""
        if self._chance.refused(sent):
            self.begin(now, self._before_chance_s, LEAST_GAIN)

    def refuses_by_chance(self, streak: int, sent: int) -> bool:
        """Count `streak` refusals in a row that ended; return True if they say nothing about the pace.

        Refusals by chance do not become fewer while the interval grows.
        """
        if self._chance.active:
            return True
        if not self.interval_s or self.gain > 4.0 * LEAST_GAIN or not self._hurry.allowed:
            return False
        if self._chance.count == 0:
            self._at_first_single_s = self.interval_s
        if not self._chance.passed(streak, sent):
            return False
        if self.interval_s < 1.08 * self._at_first_single_s:
            self._chance.active = False
            return False
        self._before_chance_s = self.interval_s
        self.interval_s, self.gain = self.interval_s / MORE, SEARCH_GAIN
        return True

    def slow_down(self, seconds: float, sent: int, streak: int, closed_s: float) -> bool:
        """Learn from `sent` requests that were taken in `seconds`, up to the end of `streak` refusals in `closed_s`.

        A limit that was used up at the beginning and at the end of that time allows just this rate. The first time it
        was not used up at the beginning: a bucket was full. An outage looks like a low rate. Both are corrected by the
        gain, which begins high.

        Returns:
            True if nothing was learnt and no interval is known: requests may be sent as at the beginning.
        """
        if self._retried:
            streak, self._retried = max(1, streak - 1), False
        measured_s = max(1e-4, seconds / max(1, sent))
        long = streak >= LONG_STREAK if self.interval_s else closed_s >= OUTAGE_S
        unknown = sent <= 0 and not self.interval_s  # nothing was taken before, which says nothing of the rate
        if unknown or (long and sent < EXACT and not self._was_out):  # an outage, the rate is what it was
            self._was_out = self._was_out or long
            return not self.interval_s
        if not self.interval_s:
            self.interval_s = self._measured_s = measured_s
            self._recent_sent = self._recent_s = 0.0
            if long or (sent < EXACT and closed_s >= SHORT_OUTAGE_S):
                self.gain = OUTAGE_GAIN
            else:
                self.gain = SEARCH_GAIN / 3 if sent >= 2 * EXACT else SEARCH_GAIN
            return False
        self._was_out = False
        self._recent_sent, self._recent_s = self._recent_sent / 2 + sent, self._recent_s / 2 + seconds
        ratio = self._ratio(measured_s, sent, streak, self._spaced_s > 0.7 * seconds)
        self._spaced_s = 0.0
        if ratio > 1.15 or self.gain > LEAST_GAIN:
            self.interval_s *= max(1.0, ratio)
        self.interval_s *= 1.0 + (SLOWER if self._hurry.allowed else SLOWER_STRICT)
        if sent < EXACT:
            measured_s = self._recent_s / max(1.0, self._recent_sent)
        if long and abs(measured_s / self._measured_s - 1.0) < 0.25:
            self.gain = LEAST_GAIN
        elif long and ratio > 2.0:
            self.gain = SEARCH_GAIN
        else:
            self.gain = max(LEAST_GAIN, self.gain / (4 if sent >= EXACT else 2))
        if long and sent >= EXACT:
            self._measured_s = measured_s
        return False

    def _ratio(self, measured_s: float, sent: int, streak: int, spaced: bool) -> float:
        """Return by how much longer than the interval the allowed one seems to be.

        `spaced`: the requests were measured at intervals of our own, which have become shorter meanwhile.
        """
        recent = self._recent_s / max(1.0, self._recent_sent) / self.interval_s
        ratio = recent if sent < EXACT else measured_s / self.interval_s
        if streak == 1 and self._refused_early:
            return 1.0
        if streak == 1 and self.smooth and self._recent_sent >= 4 * EXACT and self.gain <= 2 * LEAST_GAIN:
            return min(ratio, max(1.0 + 4.0 * self.gain, 0.97 * recent))
        if streak == 1 and sent < EXACT:
            return min(ratio, 1.0 + 0.5 / max(1, sent))  # a bucket was empty, and lacked up to one more request
        if sent < EXACT:
            return min(ratio, 4.0 if streak == 2 else 8.0)
        if streak <= 2 and (spaced or ratio < 3.0):  # the limit lies near the interval by which it was passed
            return min(ratio, 1.0 + 4.0 * self.gain)
        if self.gain <= 4.0 * LEAST_GAIN:  # well known: an outage, or a lump in a sliding window
            return min(ratio, 1.25)
        return ratio

    def _quicken(self, since_refusal: int, quiet_s: float) -> None:
        """Shorten the interval a little after a request that it held back."""
        self._delayed = False
        if since_refusal > QUIET and quiet_s > QUIET_S:
            self.gain = min(SEARCH_GAIN / 4, self.gain * 1.02)
        gain = min(self.gain, QUICKEST_PER_S * self.interval_s)
        self.interval_s = max(LEAST_INTERVAL_S, self.interval_s / (1.0 + gain))
        if self.interval_s == LEAST_INTERVAL_S and quiet_s > 120.0:
            self.interval_s = 0.0
