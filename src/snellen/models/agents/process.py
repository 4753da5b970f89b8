"""Agent processes: run an agent by its supervisor, watch its output, end it with all its children."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Literal, TypeAlias

from msgspec import Struct

from snellen.errors import AgentAbortedError
from snellen.models.agents.supervisor_client import SupervisedOutcome, Supervisor
from snellen.models.agents.web_proxy import WebRequest
from snellen.redaction import redact

POLL_S = 0.2
WATCH_S = 1.0
LINGER_S = 10.0
STARTUP_S = 300.0
MAX_OUTPUT = 128 << 20
END_S = 20.0  # the grace that an agent has, and what the kernel needs to end it
WATCH_SHARE = 10  # a look at the transcript may take one part in this many of the time
SAID_BYTES, SAID_LINES, SAID_CHARS = 1 << 16, 5, 600
_CONTROL = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|[\x00-\x08\x0b-\x1f\x7f-\x9f]")

End: TypeAlias = Literal["exit", "time", "start", "loop", "output", "limit"]


class AgentCommand(Struct, frozen=True):
    """A process as its agent sees it: paths are those inside the sandbox. `stdin` is the question."""

    argv: list[str]
    env: dict[str, str]
    cwd: str
    stdin: bytes


class SandboxedCommand(Struct, frozen=True):
    """A command in its sandbox: what the supervisor starts; `proc`: under a /proc of its own."""

    argv: list[str]
    env: dict[str, str]
    cwd: str | None
    stdin: bytes
    supervisor: Supervisor
    proc: bool = False


class TranscriptState(Struct, frozen=True):
    """The state of a transcript while its agent runs."""

    finished: bool
    loops: bool


class ProcessResult(Struct, frozen=True):
    """The result of an agent's process.

    Attributes:
        end: `exit` by itself (or after its answer was whole), `time` is up, it did not `start`, `loop`, too much `output`,
            a `limit` of its sandbox.
        status: exit status, negative for a signal; not to be trusted.
        startup_s: seconds until the model was asked; all of them where it never was.
        answer_s: seconds from there to the end.
        stderr_head: the first lines of its standard error where it never asked the model; empty otherwise.
        limit, used: the limit that was hit, and how much was used.
        memory, processes: the most that were in use at once, memory in bytes with the files that lie in it.
        web: its requests to the web by the proxy; None: it has none.
    """

    end: End
    status: int
    startup_s: float
    answer_s: float
    stderr_head: str = ""
    limit: str = ""
    used: int = 0
    memory: int = 0
    processes: int = 0
    web: list[WebRequest] | None = None


async def run(
    shut: SandboxedCommand,
    stdout: Path,
    stderr: Path,
    timeout_s: float,
    has_asked: Callable[[], bool],
    size: Callable[[], int],
    watch: Callable[[], TranscriptState],
    breached: Callable[[], str] = lambda: "",
) -> ProcessResult:
    """Start the agent, wait for it, and end it. Whatever happens, no process of the agent is left when this returns or raises.

    Args:
        shut: what to start.
        stdout, stderr: files of ours that its output is kept in.
        timeout_s: for the answer, from the moment when `has_asked`; start-up has a limit of its own, 300 s.
        has_asked: whether the model was asked for the first time.
        size: of the transcript; `watch` is called only after it has grown, and the agent is ended at 128 MB.
        watch: a look at the transcript.
        breached: the limit outside of the sandbox that was hit; empty: none.

    Raises:
        AgentAbortedError: the process cannot be started.
    """
    started = time.monotonic()
    supervisor = shut.supervisor
    outputs = stdout, stderr
    for output in outputs:
        output.touch()
    supervisor.start(shut.argv, shut.env, shut.cwd, shut.proc)
    ending = asyncio.create_task(supervisor.outcome())
    streams = asyncio.create_task(_serve_streams(supervisor, shut.stdin, outputs))
    asked_at: float | None = None
    finished: float | None = None
    look_at, known = started + WATCH_S, -1
    end: End = "exit"
    try:
        while not ending.done():
            await asyncio.wait({ending}, timeout=POLL_S)
            now = time.monotonic()
            if asked_at is None and has_asked():
                asked_at = now
            if now >= look_at and asked_at is not None and (grown := size()) != known:
                known = grown
                if grown > MAX_OUTPUT:
                    end = "output"
                    break
                state = await asyncio.to_thread(watch)
                look_at = time.monotonic() + max(WATCH_S, WATCH_SHARE * (time.monotonic() - now))
                if state.loops:
                    end = "loop"
                    break
                if state.finished and finished is None:
                    finished = now
            if finished is not None and now - finished > LINGER_S:
                break
            if asked_at is None and now - started > STARTUP_S:
                end = "start"
                break
            if asked_at is not None and finished is None and now - asked_at > timeout_s:
                end = "time"
                break
            if any(output.stat().st_size >= MAX_OUTPUT for output in outputs):
                end = "output"
                break
            if breached():
                break
        supervisor.end()
        outcome = await asyncio.shield(_outcome(ending, supervisor))
    except BaseException:
        ending.cancel()
        raise
    finally:
        # The box stays open: what the agent wrote is read once it is dead.
        await asyncio.shield(asyncio.to_thread(supervisor.finish))
        await asyncio.wait({streams}, timeout=POLL_S)  # what is still in the pipes
        streams.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await streams
    if outcome.fault:
        raise AgentAbortedError(outcome.fault)
    now = time.monotonic()
    if asked_at is None and has_asked():
        asked_at = now  # it asked and ended between two looks
    startup = (now if asked_at is None else asked_at) - started
    stderr_head = first_lines(stderr) if asked_at is None else ""
    limit = outcome.limit or breached()
    return ProcessResult(
        "limit" if limit else end,
        outcome.status,
        round(startup, 3),
        round(now - started - startup, 3),
        stderr_head,
        limit,
        outcome.used,
        outcome.memory,
        outcome.processes,
    )


async def _outcome(ending: asyncio.Task[SupervisedOutcome], supervisor: Supervisor) -> SupervisedOutcome:
    """Wait for the supervisor's last message; it gives the agent a moment of grace, and then kills."""
    try:
        return await asyncio.wait_for(ending, END_S)
    except TimeoutError:
        return supervisor.known


async def _serve_streams(supervisor: Supervisor, question: bytes, outputs: tuple[Path, Path]) -> None:
    """Feed the question, and keep what comes back."""
    stdin, *streams = supervisor.streams
    loop = asyncio.get_running_loop()
    feed, _ = await loop.connect_write_pipe(asyncio.BaseProtocol, stdin)
    transports: list[asyncio.BaseTransport] = [feed]
    try:
        feed.write(question)
        feed.close()  # once all is written
        collecting = []
        for stream, output in zip(streams, outputs, strict=True):
            reader = asyncio.StreamReader()
            pipe, _ = await loop.connect_read_pipe(functools.partial(asyncio.StreamReaderProtocol, reader), stream)
            transports.append(pipe)
            collecting.append(_collect(reader, output))
        await asyncio.gather(*collecting)
    finally:
        for transport in transports:
            transport.close()


async def _collect(reader: asyncio.StreamReader, path: Path) -> None:
    """Keep the output of a pipe in a file of ours, up to MAX_OUTPUT bytes; the rest is not read."""
    remaining = MAX_OUTPUT
    with path.open("wb", buffering=0) as file:
        while remaining > 0 and (chunk := await reader.read(1 << 16)):
            file.write(chunk[:remaining])
            remaining -= len(chunk)


def first_lines(path: Path) -> str:
    """Return the first lines of a file as one line for a message: no keys, no control characters, 600 characters at most."""
    with path.open("rb") as file:
        text = redact(file.read(SAID_BYTES).decode("utf-8", "replace"))
    lines = [line for line in (_CONTROL.sub("", raw).strip() for raw in text.splitlines()) if line]
    return " / ".join(lines[:SAID_LINES])[:SAID_CHARS]
