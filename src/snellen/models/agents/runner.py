"""Runner of one agent: an installation, a sandbox, workdirs made ahead, and one sample from start to end.

A first start against a model of our own: does the agent answer here, and what it compiled meanwhile is kept.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Protocol

import filelock
from msgspec import structs

from snellen.errors import PreflightError
from snellen.models.agents import install, openclaw, opencode, process, sandbox, tool_setup
from snellen.models.agents.gateway import BASE_URL, Gateway, WebGateway
from snellen.models.agents.install import Installation
from snellen.models.agents.limits import AgentLimits
from snellen.models.agents.process import AgentCommand, ProcessResult, TranscriptState
from snellen.models.agents.reader import read_record
from snellen.models.agents.request_fields import RequestLimits
from snellen.models.agents.tool_setup import ToolSetup
from snellen.models.agents.transcript import Transcript, loops
from snellen.models.agents.web_proxy import ENVIRONMENT, WebProxy
from snellen.models.agents.workdir import (
    AgentModelSettings,
    AgentQuestion,
    Workdir,
    WorkdirFactory,
    WorkdirPool,
    write_question,
)
from snellen.models.serve.protocol import chunks
from snellen.models.tools.settings import ToolSettings
from snellen.redaction import redact
from snellen.types import Generation, MediaSettings, Prompt, Response, Usage

NO_KEY = "none"  # agents insist on a key; a server without one does not look at it
_WARM_TIMEOUT_S = 120.0
_WORKDIRS_AHEAD = 2
_MAX_STARTUP = 4 << 20  # bytes of standard error in which an agent says that it asks its model


class Agent(Protocol):
    """What differs between agents: the modules openclaw.py and opencode.py."""

    WORKPLACE: str
    CONFIG: str
    ASKED_MARK: bytes

    def prepare(self, workdir: Workdir, tools: ToolSettings | None) -> None: ...
    def command(self, workdir: Workdir, program: str, question: str, images: list[str]) -> AgentCommand: ...
    def transcript_size(self, workdir: Workdir) -> int: ...
    def record(self, workdir: Workdir) -> dict[str, bytes]: ...
    def record_path(self, workdir: Workdir) -> Path: ...


AGENTS: dict[str, Agent] = {"openclaw": openclaw, "opencode": opencode}


class AgentRunner:
    """An agent in its sandbox, for the samples of one run.

    Args:
        installation: the agent.
        shut_in: its sandbox's kind; `sif` is the image for apptainer.
        key: for the endpoint.
        media: what is done to images.
        setup: tools that it is given besides its own.
        limits: of each sample.
        network: endpoint, web or host, as `--agent-network`.
    """

    def __init__(
        self,
        installation: Installation,
        shut_in: str,
        sif: str | None,
        key: str,
        media: MediaSettings,
        setup: ToolSetup | None,
        limits: AgentLimits,
        network: str,
    ) -> None:
        self.installation = installation
        self.sandbox = shut_in
        self._agent = AGENTS[installation.name]
        self._sif = sif
        self._key = key
        self._media = media
        self._tool_setup = setup
        self._warm: Path | None = None
        self._shares_network = network == "host" or shut_in == "none"
        self._network = network
        self._limits = limits
        self._workdirs = WorkdirFactory(limits=limits, network=self._shares_network)
        self._pool = WorkdirPool(self._make, _WORKDIRS_AHEAD)

    async def ask(
        self, settings: AgentModelSettings, prompt: Prompt
    ) -> tuple[AgentQuestion, ProcessResult, Transcript]:
        """Run one sample in a workdir of its own, which is removed afterwards."""
        workdir = await self._pool.take(settings)
        try:
            question = await asyncio.to_thread(write_question, prompt, self._media, workdir.work)
            proxy = WebProxy(self._limits.requests, settings.base_url) if self._network == "web" else None
            result, record = await self._work(workdir, question, settings.base_url, self._key, proxy)
        finally:
            await asyncio.shield(asyncio.to_thread(workdir.remove))
        return question, result, record

    async def start_once(self, settings: AgentModelSettings) -> None:
        """Make sure that the agent answers here, and that what it compiles at its first start is kept.

        Raises:
            PreflightError: it does not answer.
        """

        async def ask(base_url: str) -> tuple[str, Path]:
            first = structs.replace(settings, base_url=base_url, generation=Generation(), timeout_s=_WARM_TIMEOUT_S)
            workdir = await asyncio.to_thread(self._make, first)
            warmed.append(workdir)
            result, record = await self._work(workdir, AgentQuestion("Say one word.", (), ()), base_url, NO_KEY)
            if not record.finished:
                name = f"{self.installation.name} {self.installation.version}"
                raise PreflightError(
                    f"{name} does not answer in sandbox {self.sandbox}: {record.fault or f'exit status {result.status}'}"
                    f"\n{_last_lines(workdir.stderr)}",
                    "`snellen agents list --verify` checks its files; --sandbox NAME chooses another sandbox.",
                )
            return record.answer, workdir.box / "tmp"

        warmed: list[Workdir] = []
        try:
            self._warm = await warm_up(self.installation, self.sandbox, ask)
        finally:
            for workdir in warmed:
                await asyncio.to_thread(workdir.remove)

    async def close(self) -> None:
        """Remove the workdirs."""
        await self._pool.clear()
        await asyncio.to_thread(self._workdirs.close)

    def _make(self, settings: AgentModelSettings) -> Workdir:
        hidden = self.sandbox != "none"
        inner = settings if self._shares_network else structs.replace(settings, base_url=BASE_URL)
        workdir = self._workdirs.make(
            inner,
            self._agent.WORKPLACE,
            sandbox.SAMPLE if hidden else None,
            sandbox.AGENT if hidden else str(self.installation.folder),
            self._warm,
        )
        if self.installation.program:
            workdir = structs.replace(workdir, entry=f"{workdir.agent}/{self.installation.program}")
        try:
            self._agent.prepare(workdir, None if self._tool_setup is None else self._tool_setup.settings)
        except BaseException:
            workdir.remove()
            raise
        return workdir

    def _allowed(self, settings: AgentModelSettings) -> RequestLimits:
        return RequestLimits(settings.model, settings.max_tokens, self._limits.requests)

    async def _work(
        self, workdir: Workdir, question: AgentQuestion, base_url: str, key: str, proxy: WebProxy | None = None
    ) -> tuple[ProcessResult, Transcript]:
        agent, name = self._agent, self.installation.name
        program = install.executable(self.installation, workdir.agent)
        command = agent.command(workdir, program, question.text, list(question.images))
        if proxy is not None:
            command = structs.replace(command, env={**command.env, **ENVIRONMENT})
        inner_key = key if self._shares_network else NO_KEY
        shut = sandbox.wrap_command(
            self.sandbox,
            command,
            workdir,
            self.installation,
            inner_key,
            self._sif,
            self._tool_setup,
            (agent.CONFIG,) if workdir.model_settings.config else (),
        )

        def watch() -> TranscriptState:
            transcript = read_record(name, agent.record(workdir))
            return TranscriptState(transcript.finished, loops(transcript.steps))

        gateway: Gateway | None = None
        async with contextlib.AsyncExitStack() as stack:
            if not self._shares_network:
                model_listener, tools_listener, proxy_listener = workdir.listeners
                gateway = Gateway(base_url, "" if key == NO_KEY else key, self._allowed(workdir.model_settings))
                stack.push_async_callback(gateway.close)
                await stack.enter_async_context(gateway.open_to(model_listener))
                if self._tool_setup is not None and tool_setup.asks_web(self._tool_setup.settings):
                    web = WebGateway(self._tool_setup.settings)
                    await stack.enter_async_context(web.open_to(tools_listener))
                if proxy is not None:
                    await stack.enter_async_context(proxy.open_to(proxy_listener))
            result = await process.run(
                shut,
                workdir.stdout,
                workdir.stderr,
                workdir.model_settings.timeout_s,
                lambda: _holds(workdir.stderr, agent.ASKED_MARK),
                lambda: agent.transcript_size(workdir),
                watch,
                lambda: "requests" if gateway is not None and gateway.exhausted else "",
            )
        if result.limit == "requests" and gateway is not None:
            result = structs.replace(result, used=gateway.requests)
        if proxy is not None:
            result = structs.replace(result, web=proxy.record)
        transcript = await asyncio.to_thread(lambda: read_record(name, agent.record(workdir)))
        if not transcript.finished:
            transcript = structs.replace(transcript, replaced=workdir.replaced(agent.record_path(workdir)))
        return result, transcript


def _holds(path: Path, mark: bytes) -> bool:
    """Return True if the beginning of a file of ours holds a mark."""
    with path.open("rb") as file:
        return mark in file.read(_MAX_STARTUP)


def _last_lines(path: Path) -> str:
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - (1 << 16)))
        return "\n".join(redact(file.read().decode("utf-8", "replace")).strip().splitlines()[-5:])


WORD = "ready"


async def warm_up(installation: Installation, sandbox: str, ask: Callable[[str], Awaitable[tuple[str, Path]]]) -> Path:
    """Return the folder of warm caches for this sandbox, made by a first start if it is not there.

    Args:
        installation: where it is kept; caches go by path, so that each sandbox has its own.
        sandbox: its kind.
        ask: base URL -> (the agent's answer to a question, its folder for temporary files afterwards).

    Raises:
        PreflightError: the agent gave no answer to a model that answers.
    """
    cache = installation.warm / sandbox
    if cache.is_dir():
        return cache
    warm = installation.warm
    if installation.program:
        warm.parent.mkdir(parents=True, exist_ok=True)
        lock = filelock.FileLock(warm.with_name(f".{warm.name}.lock"), thread_local=False)
    else:
        lock = filelock.FileLock(warm.parent.parent / f".{warm.parent.name}.warm.lock", thread_local=False)
    await asyncio.to_thread(lock.acquire)
    try:
        if cache.is_dir():
            return cache
        async with _model() as base_url:
            answer, temporary = await ask(base_url)
        if answer != WORD:
            raise PreflightError(
                f"{installation.name} {installation.version} in sandbox {sandbox} answered {answer!r} to a model that "
                f"says {WORD!r}",
                "Its installation or the sandbox does not work here; see `snellen --help agents`.",
            )
        await asyncio.to_thread(_keep, temporary, cache)
    except OSError as error:
        raise PreflightError(f"{cache} cannot be written: {error.strerror or error}") from error
    finally:
        lock.release()
    return cache


def _keep(source: Path, target: Path) -> None:
    target.parent.mkdir(exist_ok=True)
    part = Path(tempfile.mkdtemp(dir=target.parent, prefix=".part-"))
    try:
        shutil.copytree(source, part / "tmp", symlinks=True, ignore=_no_links)
        (part / "tmp").rename(target)
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _no_links(folder: str, names: list[str]) -> list[str]:
    """Return what is not kept: every link, socket and pipe."""
    return [name for name in names if (p := Path(folder) / name).is_symlink() or not (p.is_dir() or p.is_file())]


@contextlib.asynccontextmanager
async def _model() -> AsyncIterator[str]:
    """Serve, on loopback, a model that says one word."""
    server = await asyncio.start_server(_reply, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    finally:
        server.close()


async def _reply(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
        head = await reader.readuntil(b"\r\n\r\n")
        for line in head.lower().split(b"\r\n"):
            if line.startswith(b"content-length:"):
                await reader.readexactly(int(line.partition(b":")[2]))
        response = Response(WORD, usage=Usage(input_tokens=1, output_tokens=1))
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n")
        writer.writelines(chunks("1", 0, WORD, response, with_usage=True))
        await writer.drain()
    writer.close()
