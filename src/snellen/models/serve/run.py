"""Serving: bind the port, load the model, answer until told to stop."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import sys
from collections.abc import Callable
from importlib.util import find_spec

from snellen.errors import MissingExtraError, PreflightError
from snellen.models.base import Model

WAITING = 1000  # requests at once; more are answered 503 rather than held in memory


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach a server bound to `host`."""
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
    """A listening socket. Raises PreflightError where host or port cannot be had."""
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
        shown = f"[{host.strip('[]')}]" if ":" in host else host
        tell(f"Serving {name} at http://{shown}:{port}/v1 (Ctrl-C ends it).")
        await uvicorn.Server(config).serve(sockets=[listener])
    finally:
        await model.close()
