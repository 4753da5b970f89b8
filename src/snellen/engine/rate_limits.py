"""Rate limits: the user's own quotas of requests and tokens, and what a server's refusals say: chance, hurry, a crowd."""

from __future__ import annotations

import math

from snellen.errors import UsageError

LATE_S = 0.02
"""At more than 50 requests a second, one that is late by a timer's tick may be followed sooner, so that the rate is kept."""
SINGLES, SINGLES_EACH, LEAST_EACH = 8, 35, 4
"""So many refusals, each of which the next request passed, more than one in 35 requests: tried as refusals by chance.
A pace in balance with a limit is refused once in about 65 requests. More than one in 4 is always taken for a limit."""

MORE = 2.5
"""At 2.5 times the pace, this many times the refusals show that it is a limit after all."""

EARLY_EACH, EARLY_REFUSED, COUNTED, AGAIN_AFTER, LONGEST_AGAIN = 3.0, 2.0, 400.0, 500, 8000
"""Early requests that are refused 3 times as often as others, twice at least, show a limit without a burst. Of the counts,
the last 400 requests weigh most. After 500 requests it is tried again, then after twice as many."""

CROWDED = 5
"""So many refusals, all with at least N in flight, while no request with N in flight was taken: N is the limit."""

COMMON_WINDOWS_S = (1.0, 60.0)


def next_window(now: float, since: float | None, wall_offset: float | None) -> float:
    """Return when a limit of a second or a minute begins anew; infinity if nothing is known.

    Args:
        since: when the first request of a window was sent.
        wall_offset: seconds from `now`'s clock to the time of day, for windows that begin with each full minute.
    """
    at = math.inf
    if since is not None:
        at = min((since + window for window in COMMON_WINDOWS_S if since + window > now), default=at)
    if wall_offset is not None:
        at = min(at, now + 60.0 - (now + wall_offset) % 60.0)
    return at + 0.01


def check_pace(patience_s: float, rpm: float | None, tpm: float | None) -> None:
    """Refuse limits that cannot be kept.

    Raises:
        UsageError: one of them is not a number, or not positive.
    """
    for option, value, least in (("--patience", patience_s, 0.0), ("--rpm", rpm, 1e-3), ("--tpm", tpm, 1.0)):
        if value is not None and not least <= value < math.inf:
            raise UsageError(f"{option} is {value:g}; it must be a number of at least {least:g}.")


class Quota:
    """Even flow of `per_minute` units, without a burst after a delay."""

    def __init__(self, per_minute: float) -> None:
        self._seconds = 60.0 / per_minute
        self.free_at = -math.inf

    def take(self, units: float, now: float) -> None:
        """Use units from `now` on; negative ones give back."""
        start = max(self.free_at, now - LATE_S) if units >= 0 else self.free_at
        self.free_at = start + units * self._seconds


class ChanceRefusals:
    """Counter of refusals in a row, for a server that answers 429 or 503 to some requests whatever their pace.

    Slower requests do not help with such a server. A limit refuses fewer of slower requests, and several in a row once
    it is used up. `active`: the refusals are taken for refusals by chance.
    """

    def __init__(self) -> None:
        self.active = False
        self.count = 0
        self._since = 0
        self._each = 0.0
        self._needed = SINGLES

    def passed(self, streak: int, sent: int) -> bool:
        """Count `streak` refusals in a row that ended, at the request numbered `sent`. True where `active` becomes true."""
        if streak > 1:
            self.count = 0
            return False
        if self.count == 0:
            self._since = sent
        self.count += 1
        self._each = (sent - self._since) / self.count
        if self.count < self._needed or not LEAST_EACH < self._each < SINGLES_EACH:
            return False
        self.active, self.count, self._since = True, 0, sent
        return True

    def refused(self, sent: int) -> bool:
        """Count a refusal while `active`, at the request numbered `sent`. True where `active` becomes false."""
        self.count += 1
        if self.count < SINGLES or (sent - self._since) / self.count > max(LEAST_EACH, self._each / MORE):
            return False
        self.active, self.count = False, 0
        self._needed *= 4
        return True


class HurryRefusals:
    """Shares of refusals among requests that were sent early to make up for a late one, and among the others.

    `allowed`: early ones may be sent.
    """

    def __init__(self) -> None:
        self.allowed = True
        self._sent = [0.0, 0.0]
        self._refused = [0.0, 0.0]
        self._again_after = AGAIN_AFTER
        self._sent_since = 0

    def sent(self, early: bool) -> None:
        """Count a request."""
        self._sent[early] += 1.0
        if sum(self._sent) > COUNTED:
            self._sent = [each / 2 for each in self._sent]
            self._refused = [each / 2 for each in self._refused]
        if self.allowed:
            return
        self._sent_since += 1
        if self._sent_since > self._again_after:
            self.allowed, self._again_after = True, min(2 * self._again_after, LONGEST_AGAIN)
            self._sent, self._refused = [0.0, 0.0], [0.0, 0.0]

    def refused(self, early: bool) -> None:
        """Count a refusal."""
        self._refused[early] += 1.0
        others, early_ones = self._refused
        often = early_ones * (self._sent[0] + 1.0) > EARLY_EACH * (others + 0.5) * self._sent[1]
        if self.allowed and early_ones >= EARLY_REFUSED and often:
            self.allowed, self._sent_since = False, 0


class CrowdRefusals:
    """Evidence that a limit is one in number: refused with `least` requests in flight or more, never taken with as many."""

    def __init__(self) -> None:
        self.least = 0
        self._needed = CROWDED
        self._since = 0.0
        self._refused = self._answers = self._most = 0

    def answered(self, others: int, sent_at: float) -> None:
        """Count an answer to a request that was sent with `others` in flight."""
        if self._refused and sent_at >= self._since:
            self._answers += 1
            self._most = max(self._most, others)

    def refused(self, others: int, now: float, answer_s: float) -> bool:
        """Count a refusal; return True if the limit is one in number. `answer_s`: the time of an answer."""
        least = min(self.least, others) if self._refused else others
        if not self._refused or self._most >= least or least == 0:
            self.least, self._refused, self._since, self._answers, self._most = others, 1, now, 0, 0
            return False
        self.least = least
        self._refused += 1
        if self._refused < self._needed or self._answers < 2 * self._needed or now < self._since + 2.0 * answer_s:
            return False
        self._refused = 0
        self._needed *= 2
        return True
