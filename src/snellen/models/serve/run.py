"""Serving a model: parse its name, bind the port, load it, answer until told to stop."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

from snellen.errors import MissingExtraError, PreflightError, UsageError
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


def is_loopback(host: str) -> bool:
    """Return True if only this machine can reach a server bound to `host`."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def serve(
    model: Model, name: str, host: str, port: int, key: str | None, max_body: int, tell: Callable[[str], None]
) -> None:
    """Serve until SIGINT or SIGTERM; requests under way then have 5 seconds.

    Args:
        port: 0 takes a free one.
        tell: gets the warnings, and one line with the address once the server answers.

    Raises:
        PreflightError: the port cannot be bound, or the model's own preflight fails.
        MissingExtraError: starlette or uvicorn is not installed.
    """
    for package in ("starlette", "uvicorn"):
        if find_spec(package) is None:
            raise MissingExtraError(f"serving needs {package}.", 'Install it with: pip install "snellen[view]"')
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


def bind(host: str, port: int) -> socket.socket:
    """Return a listening socket. Raises PreflightError where host or port cannot be had."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host.strip("[]"), port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, protocol)
        if sys.platform != "win32":  # there it means that two servers may share a port
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
    except OSError as error:
        raise PreflightError(
            f"cannot listen on {host}, port {port}: {error.strerror}.", "Choose another --port (0 takes a free one)."
        ) from error
    return listener


async def _serve(
    model: Model,
    name: str,
    host: str,
    listener: socket.socket,
    key: str | None,
    max_body: int,
    tell: Callable[[str], None],
) -> None:
    import uvicorn

    from snellen.models.serve.app import LOOPBACK_NAMES, build_app

    try:
        await model.preflight()
        hosts = LOOPBACK_NAMES if is_loopback(host) else ("*",)
        app = build_app(model, name, key=key, max_body=max_body, hosts=hosts)
        config = uvicorn.Config(
            app, log_level="warning", limit_concurrency=WAITING, timeout_graceful_shutdown=5, lifespan="off"
        )
        listener.listen(128)
        port = listener.getsockname()[1]
        address = f"[{host.strip('[]')}]" if ":" in host else host
        tell(f"Serving {name} at http://{address}:{port}/v1 (Ctrl-C ends it).")
        await uvicorn.Server(config).serve(sockets=[listener])
    finally:
        await model.close()
