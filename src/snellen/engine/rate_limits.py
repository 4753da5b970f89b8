"""Rate limits: the user's own quotas of requests and tokens, and a server's refusals by chance."""

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
        self._count = 0
        self._since = 0
        self._each = 0.0
        self._needed = SINGLES

    def passed(self, streak: int, sent: int) -> bool:
        """Count `streak` refusals in a row that ended, at the request numbered `sent`. True where `active` becomes true."""
        if streak > 1:
            self._count = 0
            return False
        if self._count == 0:
            self._since = sent
        self._count += 1
        self._each = (sent - self._since) / self._count
        if self._count < self._needed or not LEAST_EACH < self._each < SINGLES_EACH:
            return False
        self.active, self._count, self._since = True, 0, sent
        return True

    def refused(self, sent: int) -> bool:
        """Count a refusal while `active`, at the request numbered `sent`. True where `active` becomes false."""
        self._count += 1
        if self._count < SINGLES or (sent - self._since) / self._count > max(LEAST_EACH, self._each / MORE):
            return False
        self.active, self._count = False, 0
        self._needed *= 4
        return True
