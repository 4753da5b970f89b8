"""A first start against a model of our own: does the agent answer here, and what it compiled meanwhile is kept."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import filelock

from snellen.errors import PreflightError
from snellen.models.agents.install import Installation
from snellen.models.serve.protocol import chunks
from snellen.types import Response, Usage

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
                "Its installation or the sandbox does not work here; see docs/agents.md.",
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
