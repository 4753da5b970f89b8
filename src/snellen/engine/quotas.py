"""Rate limits that the user sets: requests and tokens a minute, spread evenly."""

from __future__ import annotations

import math

from snellen.errors import UsageError

LATE_S = 0.02
"""At more than 50 requests a second, one that is late by a timer's tick may be followed sooner, so that the rate is kept."""


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
