"""Progress of a run's batches: how many are open, what the service has answered, and when the end is expected."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable
from typing import Any

from msgspec import Struct

from snellen.engine.batches.log import LoggedShard

MOST_SECONDS = 1e11
"""Seconds since the epoch; a later moment is none that a service means."""


class BatchProgress(Struct, frozen=True):
    """State of the open batches.

    Attributes:
        open: number of batches that were sent and not yet taken up.
        states: how many are in which of the service's states.
        rows, answered: rows in them, and rows that the service has finished.
        end_at: expected end in seconds since the epoch, at the pace so far; None: unknown.
        expires_at: when the last of them ends at the latest; None: the service does not say.
    """

    open: int
    states: dict[str, int]
    rows: int
    answered: int
    end_at: float | None
    expires_at: float | None

    def text(self) -> str:
        """Format as a part of the progress line."""
        states = ", ".join(f"{count} {state}" for state, count in self.states.items())
        plural = "" if self.open == 1 else "es"
        parts = [f"{self.open} batch{plural} ({states}): {self.answered:,}/{self.rows:,} rows finished at the service"]
        if self.end_at is not None:
            parts.append(f"expected end {local_time(self.end_at)}")
        elif self.expires_at is not None:
            parts.append(f"ends by {local_time(self.expires_at)}")
        return " · ".join(parts)

    def event(self) -> dict[str, Any]:
        """Return it as a JSON object."""
        return {
            "open": self.open,
            "states": self.states,
            "rows": self.rows,
            "finished": self.answered,
            "end_at": None if self.end_at is None else round(self.end_at),
            "expires_at": None if self.expires_at is None else round(self.expires_at),
        }


def batch_progress(shards: Iterable[LoggedShard], now: float | None = None) -> BatchProgress:
    """Sum up open shards. The expected end is that of the slowest one, at its own pace since it was created."""
    now = time.time() if now is None else now
    sent = [shard for shard in shards if shard.id]
    ends: list[float | None] = []
    for shard in sent:
        finished = shard.completed + shard.failed
        began = shard.created_at or shard.made_at
        if finished >= shard.rows:
            ends.append(now)
        elif finished and now > began:
            ends.append(now + (shard.rows - finished) * (now - began) / finished)
        else:
            ends.append(None)
    expected_ends = [end for end in ends if end is not None]
    latest = [shard.expires_at for shard in sent if shard.expires_at is not None]
    return BatchProgress(
        open=len(sent),
        states=dict(Counter(shard.state or "sent" for shard in sent)),
        rows=sum(shard.rows for shard in sent),
        answered=sum(min(shard.rows, shard.completed + shard.failed) for shard in sent),
        end_at=max(expected_ends) if expected_ends and len(expected_ends) == len(ends) else None,
        expires_at=max(latest, default=None),
    )


def local_time(moment: float) -> str:
    """Format seconds since the epoch in this machine's time zone, with the day where it is not today.

    What a service or the log of somebody else's run names may be no moment of a calendar: `unknown`.
    """
    if not 0 <= moment < MOST_SECONDS:
        return "unknown"
    there = time.localtime(moment)
    today = there[:3] == time.localtime()[:3]
    return time.strftime("%H:%M" if today else "%Y-%m-%d %H:%M", there)
