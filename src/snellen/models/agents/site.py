"""Where agents of one kind work: an installation, a sandbox, rooms made ahead, and one sample from start to end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from msgspec import Struct, structs

from snellen.errors import PreflightError
from snellen.models.agents import install, openclaw, opencode, process, sandbox
from snellen.models.agents.equip import Equipment
from snellen.models.agents.install import Installation
from snellen.models.agents.pool import Pool
from snellen.models.agents.process import Command, Ran, Watched
from snellen.models.agents.question import Question, furnish
from snellen.models.agents.room import Asked, Room, Rooms
from snellen.models.agents.transcript import Transcript, loops, readable
from snellen.models.agents.warming import warm_up
from snellen.models.tools.settings import Settings
from snellen.types import Generation, MediaSettings, Prompt

NO_KEY = "none"  # agents insist on a key; a server without one does not look at it
_WARM_TIMEOUT_S = 120.0
_ROOMS_AHEAD = 2


class Agent(Struct, frozen=True):
    """What differs between agents; see openclaw.py and opencode.py, which say it in the same words."""

    workplace: str
    prepare: Callable[[Room, Settings | None], None]
    command: Callable[[Room, str, str, list[str]], Command]
    has_asked: Callable[[Room], bool]
    transcript_size: Callable[[Room], int]
    read: Callable[[Room], Transcript]


AGENTS = {
    name: Agent(
        module.WORKPLACE,
        module.prepare,
        module.command,
        module.has_asked,
        module.transcript_size,
        readable(module.read),
    )
    for name, module in (("openclaw", openclaw), ("opencode", opencode))
}


class Site:
    """Made by `open_site`.

    Args:
        installation: the agent.
        shut_in: its sandbox's kind; `sif` is the image for apptainer.
        key: for the endpoint.
        media: what is done to pictures.
        equipment: tools that it is given besides its own.
    """

    def __init__(
        self,
        installation: Installation,
        shut_in: str,
        sif: str | None,
        key: str,
        media: MediaSettings,
        equipment: Equipment | None,
    ) -> None:
        self.installation = installation
        self.sandbox = shut_in
        self._agent = AGENTS[installation.name]
        self._sif = sif
        self._key = key
        self._media = media
        self._equipment = equipment
        self._warm: Path | None = None
        self._rooms = Rooms()
        self._pool = Pool(self._make, _ROOMS_AHEAD)

    async def ask(self, asked: Asked, prompt: Prompt) -> tuple[Question, Ran, Transcript]:
        """One question in a room of its own, which is gone afterwards."""
        room = await self._pool.take(asked)
        try:
            question = await asyncio.to_thread(furnish, prompt, self._media, room.work)
            ran, record = await self._work(room, question, self._key)
        finally:
            await asyncio.shield(asyncio.to_thread(room.remove))
        return question, ran, record

    async def start_once(self, asked: Asked) -> None:
        """Make sure that the agent answers here, and that what it compiles at its first start is kept.

        Raises:
            PreflightError: it does not answer.
        """

        async def ask(base_url: str) -> tuple[str, Path]:
            first = structs.replace(asked, base_url=base_url, generation=Generation(), timeout_s=_WARM_TIMEOUT_S)
            room = await asyncio.to_thread(self._make, first)
            ran, record = await self._work(room, Question("Say one word.", (), ()), NO_KEY)
            if not record.finished:
                name = f"{self.installation.name} {self.installation.version}"
                raise PreflightError(
                    f"{name} does not answer in sandbox {self.sandbox}: {record.fault or f'exit status {ran.status}'}"
                    f"\n{_last_lines(room.stderr)}",
                    "`snellen agents list --verify` checks its files; --sandbox NAME chooses another sandbox.",
                )
            return record.answer, room.box / "tmp"

        self._warm = await warm_up(self.installation, self.sandbox, ask)

    async def close(self) -> None:
        """Remove the rooms."""
        await self._pool.clear()
        await asyncio.to_thread(self._rooms.close)

    def _make(self, asked: Asked) -> Room:
        hidden = self.sandbox != "none"
        room = self._rooms.make(
            asked,
            self._agent.workplace,
            sandbox.SAMPLE if hidden else None,
            sandbox.AGENT if hidden else str(self.installation.folder),
            self._warm,
        )
        self._agent.prepare(room, None if self._equipment is None else self._equipment.settings)
        return room

    async def _work(self, room: Room, question: Question, key: str) -> tuple[Ran, Transcript]:
        agent = self._agent
        program = install.executable(self.installation, room.agent)
        command = agent.command(room, program, question.text, list(question.pictures))
        shut = sandbox.shut_in(self.sandbox, command, room, self.installation, key, self._sif, self._equipment)

        def watch() -> Watched:
            seen = agent.read(room)
            return Watched(seen.finished, loops(seen.steps))

        ran = await process.run(
            shut,
            room.stdout,
            room.stderr,
            room.asked.timeout_s,
            lambda: agent.has_asked(room),
            lambda: agent.transcript_size(room),
            watch,
        )
        return ran, await asyncio.to_thread(agent.read, room)


def _last_lines(path: Path) -> str:
    return "\n".join(path.read_text("utf-8", "replace").strip().splitlines()[-5:])
