"""Refusals by chance: a server that answers 429 or 503 to some requests whatever their pace.

Such a server must not be asked more and more slowly. A limit refuses less when requests come more slowly, and several
requests in a row once it is used up.
"""

from __future__ import annotations

SINGLES, SINGLES_EACH, LEAST_EACH = 8, 35, 4
"""So many refusals, each of which the next request passed, more than one in 35 requests: tried as refusals by chance.
A pace in balance with a limit is refused once in about 65 requests. More than one in 4 is always taken for a limit."""

MORE = 2.5
"""At 2.5 times the pace, so many times the refusals show that it is a limit after all."""


class ChanceRefusals:
    """Counter of refusals in a row. `active`: they are taken for refusals by chance."""

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
