"""Runs an agent's process in a group of its own, watches it, and ends it with all its children."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO, Literal, TypeAlias

from msgspec import Struct

from snellen.errors import AgentAbortedError
from snellen.models import group
from snellen.redaction import redact

POLL_S = 0.2
WATCH_S = 1.0
GRACE_S = 5.0
LINGER_S = 10.0
STARTUP_S = 300.0
MOST_OUTPUT = 256 << 20
SAID_BYTES, SAID_LINES, SAID_CHARS = 1 << 16, 5, 600
_CONTROL = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|[\x00-\x08\x0b-\x1f\x7f-\x9f]")

End: TypeAlias = Literal["exit", "time", "start", "loop", "output"]


class Command(Struct, frozen=True):
    """A process as its agent sees it: paths are those inside the sandbox. `stdin` is the question."""

    argv: list[str]
    env: dict[str, str]
    cwd: str
    stdin: bytes


class Shut(Struct, frozen=True):
    """A command in its sandbox: what we start. `guarded`: it needs the pipe by which it learns that we are gone."""

    argv: list[str]
    env: dict[str, str]
    cwd: str | None
    stdin: bytes
    guarded: bool


class Watched(Struct, frozen=True):
    """What a look at the transcript says."""

    finished: bool
    loops: bool


class Ran(Struct, frozen=True):
    """How a process went.

    Attributes:
        end: `exit` by itself (or after its answer was whole), `time` is up, it did not `start`, `loop`, too much `output`.
        status: exit status, negative for a signal; not to be trusted.
        startup_s: seconds until the model was asked; all of them where it never was.
        answer_s: seconds from there to the end.
        said: the first lines of its standard error where it never asked the model; empty otherwise.
    """

    end: End
    status: int
    startup_s: float
    answer_s: float
    said: str = ""


async def run(
    shut: Shut,
    stdout: Path,
    stderr: Path,
    timeout_s: float,
    has_asked: Callable[[], bool],
    size: Callable[[], int],
    watch: Callable[[], Watched],
) -> Ran:
    """Start, wait, end. Whatever happens, nothing of the group is left when this returns or raises.

    Args:
        shut: what to start.
        stdout, stderr: files to write its output to.
        timeout_s: for the answer, from the moment when `has_asked`; start-up has a limit of its own, 300 s.
        has_asked: whether the model was asked for the first time.
        size: of the transcript; `watch` is called only after it has grown, and the agent is ended at 256 MB.
        watch: a look at the transcript.

    Raises:
        AgentAbortedError: the process cannot be started.
    """
    started = time.monotonic()
    with stdout.open("wb") as out, stderr.open("wb") as err:
        process, leash = await _start(shut, out, err)
    asked: float | None = None
    finished: float | None = None
    looked, known = started, -1
    end: End = "exit"
    try:
        feeding = asyncio.create_task(_feed(process, shut.stdin))
        while process.returncode is None:
            await _wait(process, POLL_S)
            now = time.monotonic()
            if asked is None and has_asked():
                asked = now
            if now - looked >= WATCH_S and asked is not None and (grown := size()) != known:
                looked, known = now, grown
                if grown > MOST_OUTPUT:
                    end = "output"
                    break
                seen = await asyncio.to_thread(watch)
                if seen.loops:
                    end = "loop"
                    break
                if seen.finished and finished is None:
                    finished = now
            if finished is not None and now - finished > LINGER_S:
                break
            if asked is None and now - started > STARTUP_S:
                end = "start"
                break
            if asked is not None and finished is None and now - asked > timeout_s:
                end = "time"
                break
            if _written(stdout, stderr) > MOST_OUTPUT:
                end = "output"
                break
        feeding.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await feeding
    finally:
        await _end(process, leash)
    now = time.monotonic()
    if asked is None and has_asked():
        asked = now  # it asked and ended between two looks
    startup = (now if asked is None else asked) - started
    said = first_lines(stderr) if asked is None else ""
    return Ran(end, process.returncode or 0, round(startup, 3), round(now - started - startup, 3), said)


def first_lines(path: Path) -> str:
    """The first lines of a file as one line for a message: no keys, no control characters, 600 characters at most."""
    with path.open("rb") as file:
        text = redact(file.read(SAID_BYTES).decode("utf-8", "replace"))
    lines = [line for line in (_CONTROL.sub("", one).strip() for one in text.splitlines()) if line]
    return " / ".join(lines[:SAID_LINES])[:SAID_CHARS]


async def _start(shut: Shut, out: IO[bytes], err: IO[bytes]) -> tuple[asyncio.subprocess.Process, int | None]:
    """The process, and our end of the pipe that a guard holds on to."""
    argv = shut.argv
    try:
        with group.leashed(shut.guarded) as (reading, leash):
            argv = [str(reading) if word == "{leash}" else word for word in argv]
            process = await asyncio.create_subprocess_exec(
                *argv,
                env=shut.env,
                cwd=shut.cwd,
                stdin=asyncio.subprocess.PIPE,
                stdout=out,
                stderr=err,
                start_new_session=True,
                pass_fds=() if reading is None else (reading,),
            )
    except OSError as error:
        raise AgentAbortedError(f"{argv[0]} cannot be started: {error.strerror}") from error
    return process, leash


def _written(*paths: Path) -> int:
    return sum(path.stat().st_size for path in paths)


async def _feed(process: asyncio.subprocess.Process, data: bytes) -> None:
    if process.stdin is None:
        return
    with contextlib.suppress(ConnectionError):  # it ended before it read; the transcript will say so
        process.stdin.write(data)
        await process.stdin.drain()
        process.stdin.close()
        await process.stdin.wait_closed()


async def _wait(process: asyncio.subprocess.Process, seconds: float) -> bool:
    try:
        await asyncio.wait_for(process.wait(), seconds)
    except TimeoutError:
        return False
    return True


async def _end(process: asyncio.subprocess.Process, leash: int | None) -> None:
    """SIGTERM to the group, a moment of grace, SIGKILL. The guard lets go of its leash and clears up what left it.

    The leader may be gone and the group not: it is ended in either case. Cancelling cannot interrupt this.
    """
    group.tell(process.pid, signal.SIGTERM)
    if process.returncode is None and not await asyncio.shield(_wait(process, GRACE_S)) and leash is None:
        group.tell(process.pid, signal.SIGKILL)
    if leash is not None:
        os.close(leash)
        await asyncio.shield(_wait(process, 2 * GRACE_S))
    group.tell(process.pid, signal.SIGKILL)
    await asyncio.shield(process.wait())
