"""Serving a model: parse its name, bind the port, load it, answer until told to stop."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from pathlib import Path

from snellen.errors import UsageError
from snellen.local_server import LOOPBACK_NAMES, address_of, bind, is_loopback, run_app
from snellen.models.base import Model

WAITING = 1000  # requests at once; more are answered 503 rather than held in memory


def parse_model(spec: str) -> tuple[str, str]:
    """Split `embedded`, `local:NAME`, a folder or a hub id into (folder or hub id, name for clients).

    A folder is known to clients by its last part only, for privacy.

    Raises:
        UsageError: a kind of model that is not on this machine, or no name.
    """
    if spec == "embedded":
        from snellen.models import embedded

        return str(embedded.path()), "embedded"
    kind, colon, rest = spec.partition(":")
    if colon and kind in ("api", "replay", "agent", "embedded"):
        raise UsageError(
            f"{spec!r} is not a model of this machine, so there is nothing to serve.",
            "Serve embedded, local:NAME, or the path of a model folder.",
        )
    name = rest if colon and kind == "local" else spec
    if not name:
        raise UsageError("no model is named.", "Serve embedded, local:NAME, or the path of a model folder.")
    return name, Path(name).resolve().name if Path(name).is_dir() else name


def serve(
    model: Model, name: str, host: str, port: int, key: str | None, max_body: int, tell: Callable[[str], None]
) -> None:
    """Serve until SIGINT or SIGTERM; requests under way then have 5 seconds.

    Args:
        port: 0 takes a free one.
        tell: gets the warnings, and one line with the address once the server answers.

    Raises:
        PreflightError: the port cannot be bound, or the model's own preflight fails.
    """
    if not is_loopback(host):
        unlocked = "" if key else ", without a key,"
        tell(f"warning: {host} is not a loopback address: whoever reaches this port may{unlocked} use the model.")
    listener = bind(host, port)
    try:
        asyncio.run(_serve(model, name, host, listener, key, max_body, tell))
    except KeyboardInterrupt:
        pass  # uvicorn has drained and raises the signal again
    finally:
        listener.close()


async def _serve(
    model: Model,
    name: str,
    host: str,
    listener: socket.socket,
    key: str | None,
    max_body: int,
    tell: Callable[[str], None],
) -> None:
    from snellen.models.serve.app import build_app

    try:
        await model.preflight()
        hosts = LOOPBACK_NAMES if is_loopback(host) else ("*",)
        app = build_app(model, name, key=key, max_body=max_body, hosts=hosts)
        address = address_of(host, listener)
        await run_app(
            app,
            listener,
            started=lambda: tell(f"Serving {name} at {address}/v1 (Ctrl-C ends it)."),
            limit_concurrency=WAITING,
        )
    finally:
        await model.close()
