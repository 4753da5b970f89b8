"""Serving the review page until Ctrl-C, on this machine only."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import msgspec

from snellen.build.curate.candidates import Candidate
from snellen.build.curate.evidence import Check
from snellen.build.curate.hard import Tries
from snellen.build.curate.leaks import Audit
from snellen.build.curate.opinions import path_of, read_all
from snellen.build.curate.work import Work
from snellen.engine.folder import RunFolder
from snellen.engine.journal import Journal
from snellen.errors import MissingExtraError, PreflightError
from snellen.models.server.run import bind

HOST = "127.0.0.1"


def serve(work: Work, candidates: list[Candidate], reviewers: int, port: int, tell: Callable[[str], None]) -> None:
    """Show the candidates for review until Ctrl-C; every opinion is on disk when its form is answered.

    Args:
        reviewers: how many people have to judge each.
        port: 0 takes a free one.
        tell: gets one line with the address, the key in it.

    Raises:
        PreflightError: the port cannot be had. MissingExtraError: starlette or uvicorn is not installed.
        RunLockedError: another process is serving this review.
    """
    for package in ("starlette", "uvicorn"):
        if find_spec(package) is None:
            raise MissingExtraError(f"the review page needs {package}.", 'Install it with: pip install "snellen[view]"')
    if not candidates:
        raise PreflightError(
            "no candidate has come as far as the review", "The stages before say why they dropped them."
        )
    with RunFolder(work.folder("review")).locked():
        journal = Journal(path_of(work))
        listener = bind(HOST, port)
        try:
            asyncio.run(_serve(work, candidates, reviewers, listener, journal, tell))
        except KeyboardInterrupt:
            pass  # uvicorn has answered what was under way, and raises the signal again
        finally:
            listener.close()
            journal.close()


async def _serve(
    work: Work,
    candidates: list[Candidate],
    reviewers: int,
    listener: object,
    journal: Journal,
    tell: Callable[[str], None],
) -> None:
    import socket

    import uvicorn

    from snellen.build.curate.review_app import Queue, Room, build_app

    assert isinstance(listener, socket.socket)  # noqa: S101 - as `bind` gives it
    queue = Queue(
        {one.number: one for one in candidates},
        {id_: msgspec.convert(detail, Audit) for id_, detail in _details(work, "leaks").items() if detail},
        {id_: msgspec.convert(detail["links"], list[Check]) for id_, detail in _details(work, "evidence").items()},
        {id_: msgspec.convert(detail["models"], list[Tries]) for id_, detail in _details(work, "hard").items()},
    )
    room = Room(work, queue, read_all(work), journal, reviewers)
    config = uvicorn.Config(
        build_app(room), log_level="warning", limit_concurrency=50, timeout_graceful_shutdown=5, lifespan="off"
    )
    listener.listen(32)
    tell(
        f"Reviewing {len(candidates):,} candidates at http://{HOST}:{listener.getsockname()[1]}/?key={room.key} "
        "(Ctrl-C ends it)."
    )
    await uvicorn.Server(config).serve(sockets=[listener])


def _details(work: Work, stage: str) -> dict[str, dict[str, Any]]:
    found = work.stage(stage)
    return {} if found is None else {one.id: dict(one.detail) for one in found.decisions}
