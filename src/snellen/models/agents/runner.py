"""Where agents of one kind work: an installation, a sandbox, rooms made ahead, and one sample from start to end."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from pathlib import Path

from msgspec import Struct, structs

from snellen.errors import PreflightError
from snellen.models.agents import install, openclaw, opencode, process, sandbox, tool_setup
from snellen.models.agents.gateway import BASE_URL, Gateway
from snellen.models.agents.install import Installation
from snellen.models.agents.limits import Limits
from snellen.models.agents.process import Command, Ran, Watched
from snellen.models.agents.prompt_files import Question, furnish
from snellen.models.agents.reader import read_record
from snellen.models.agents.request_fields import Allowed
from snellen.models.agents.tool_setup import Equipment
from snellen.models.agents.transcript import Transcript, loops
from snellen.models.agents.warm_start import warm_up
from snellen.models.agents.web_gateway import WebGateway
from snellen.models.agents.workdir import MAX_TOKENS, Asked, Pool, Room, Rooms
from snellen.models.tools.settings import Settings
from snellen.redaction import redact
from snellen.types import Generation, MediaSettings, Prompt

NO_KEY = "none"  # agents insist on a key; a server without one does not look at it
_WARM_TIMEOUT_S = 120.0
_ROOMS_AHEAD = 2
_MOST_STARTUP = 4 << 20  # bytes of standard error in which an agent says that it asks its model


class Agent(Struct, frozen=True):
    """What differs between agents; see openclaw.py and opencode.py, which say it in the same words."""

    workplace: str
    prepare: Callable[[Room, Settings | None], None]
    command: Callable[[Room, str, str, list[str]], Command]
    asked_mark: bytes
    transcript_size: Callable[[Room], int]
    record: Callable[[Room], dict[str, bytes]]


AGENTS = {
    name: Agent(
        module.WORKPLACE,
        module.prepare,
        module.command,
        module.ASKED_MARK,
        module.transcript_size,
        module.record,
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
        limits: of each sample.
        network: endpoint or host, as `--agent-network`.
    """

    def __init__(
        self,
        installation: Installation,
        shut_in: str,
        sif: str | None,
        key: str,
        media: MediaSettings,
        equipment: Equipment | None,
        limits: Limits,
        network: str,
    ) -> None:
        self.installation = installation
        self.sandbox = shut_in
        self._agent = AGENTS[installation.name]
        self._sif = sif
        self._key = key
        self._media = media
        self._equipment = equipment
        self._warm: Path | None = None
        self._shares_network = network == "host" or shut_in == "none"
        self._limits = limits
        self._rooms = Rooms(limits=limits, network=self._shares_network)
        self._pool = Pool(self._make, _ROOMS_AHEAD)

    async def ask(self, asked: Asked, prompt: Prompt) -> tuple[Question, Ran, Transcript]:
        """One question in a room of its own, which is gone afterwards."""
        room = await self._pool.take(asked)
        try:
            question = await asyncio.to_thread(furnish, prompt, self._media, room.work)
            ran, record = await self._work(room, question, asked.base_url, self._key)
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
            warmed.append(room)
            ran, record = await self._work(room, Question("Say one word.", (), ()), base_url, NO_KEY)
            if not record.finished:
                name = f"{self.installation.name} {self.installation.version}"
                raise PreflightError(
                    f"{name} does not answer in sandbox {self.sandbox}: {record.fault or f'exit status {ran.status}'}"
                    f"\n{_last_lines(room.stderr)}",
                    "`snellen agents list --verify` checks its files; --sandbox NAME chooses another sandbox.",
                )
            return record.answer, room.box / "tmp"

        warmed: list[Room] = []
        try:
            self._warm = await warm_up(self.installation, self.sandbox, ask)
        finally:
            for room in warmed:
                await asyncio.to_thread(room.remove)

    async def close(self) -> None:
        """Remove the rooms."""
        await self._pool.clear()
        await asyncio.to_thread(self._rooms.close)

    def _make(self, asked: Asked) -> Room:
        hidden = self.sandbox != "none"
        inner = asked if self._shares_network else structs.replace(asked, base_url=BASE_URL)
        room = self._rooms.make(
            inner,
            self._agent.workplace,
            sandbox.SAMPLE if hidden else None,
            sandbox.AGENT if hidden else str(self.installation.folder),
            self._warm,
        )
        try:
            self._agent.prepare(room, None if self._equipment is None else self._equipment.settings)
        except BaseException:
            room.remove()
            raise
        return room

    def _allowed(self, asked: Asked) -> Allowed:
        return Allowed(asked.model, asked.generation.max_tokens or MAX_TOKENS, self._limits.requests)

    async def _work(self, room: Room, question: Question, base_url: str, key: str) -> tuple[Ran, Transcript]:
        agent, name = self._agent, self.installation.name
        program = install.executable(self.installation, room.agent)
        command = agent.command(room, program, question.text, list(question.pictures))
        inner_key = key if self._shares_network else NO_KEY
        shut = sandbox.shut_in(self.sandbox, command, room, self.installation, inner_key, self._sif, self._equipment)

        def watch() -> Watched:
            seen = read_record(name, agent.record(room))
            return Watched(seen.finished, loops(seen.steps))

        gateway: Gateway | None = None
        async with contextlib.AsyncExitStack() as stack:
            if not self._shares_network:
                model_listener, web_listener = room.listeners
                gateway = Gateway(base_url, "" if key == NO_KEY else key, self._allowed(room.asked))
                stack.push_async_callback(gateway.close)
                await stack.enter_async_context(gateway.open_to(model_listener))
                if self._equipment is not None and tool_setup.asks_web(self._equipment.settings):
                    web = WebGateway(self._equipment.settings)
                    await stack.enter_async_context(web.open_to(web_listener))
            ran = await process.run(
                shut,
                room.stdout,
                room.stderr,
                room.asked.timeout_s,
                lambda: _holds(room.stderr, agent.asked_mark),
                lambda: agent.transcript_size(room),
                watch,
                lambda: "requests" if gateway is not None and gateway.exhausted else "",
            )
        if ran.limit == "requests" and gateway is not None:
            ran = structs.replace(ran, used=gateway.requests)
        return ran, await asyncio.to_thread(lambda: read_record(name, agent.record(room)))


def _holds(path: Path, mark: bytes) -> bool:
    """Whether the beginning of a file of ours holds a mark."""
    with path.open("rb") as file:
        return mark in file.read(_MOST_STARTUP)


def _last_lines(path: Path) -> str:
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - (1 << 16)))
        return "\n".join(redact(file.read().decode("utf-8", "replace")).strip().splitlines()[-5:])
