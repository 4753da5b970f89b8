"""Rooms made ahead, so that a sample does not wait for its folder, its configuration and the copy of the warm caches.

What can be hidden of start-up was measured. OpenClaw's is compiling: its modules by Node, its plug-ins by a transpiler.
Both keep what they compiled under the folder for temporary files, so that a copy of it from a first start, made ready
in each room, takes start-up from about 40 s to 5 s on two loaded cores. Loading its modules in a waiting process gained
nothing more, and starting OpenCode ahead a second: neither is done.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from snellen.models.agents.room import Asked, Room


class Pool:
    """Hands out rooms, and keeps `ahead` of them ready.

    A room is for one way of asking: if the next sample is asked otherwise (its prompt sets other limits), those that
    are ready are thrown away.
    """

    def __init__(self, make: Callable[[Asked], Room], ahead: int) -> None:
        self._make = make
        self._ahead = ahead
        self._asked: Asked | None = None
        self._coming: list[asyncio.Task[Room]] = []

    async def take(self, asked: Asked) -> Room:
        """A room that nobody else has. The caller removes it."""
        if asked != self._asked:
            await self.clear()
            self._asked = asked
        if not self._coming:
            self._order(asked)
        coming = self._coming.pop(0)
        while len(self._coming) < self._ahead:
            self._order(asked)
        return await coming

    async def clear(self) -> None:
        """Throw away what is ready."""
        coming, self._coming = self._coming, []
        for room in await asyncio.gather(*coming, return_exceptions=True):
            if isinstance(room, Room):
                room.remove()

    def _order(self, asked: Asked) -> None:
        self._coming.append(asyncio.create_task(asyncio.to_thread(self._make, asked)))
