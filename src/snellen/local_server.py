"""Parts that all local web servers share: the socket, the names of this machine, and the loop until Ctrl-C.

The endpoint of `snellen serve`, the review of candidates and the viewer listen on loopback unless told otherwise. starlette and
uvicorn are imported only when a server starts.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import sys
from collections.abc import Callable
from typing import Any

from snellen.errors import PreflightError

LOOPBACK = "127.0.0.1"
LOOPBACK_NAMES = ("localhost", "127.0.0.1", "[::1]")
"""Values of the Host header that a server on loopback accepts. A web page whose own name was made to resolve to this machine (DNS
rebinding) sends another one."""
BACKLOG = 128


def is_loopback(host: str) -> bool:
    """Return True if only this machine can reach a server bound to `host`."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


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


def address_of(host: str, listener: socket.socket) -> str:
    """Return the address of a server, `http://127.0.0.1:8123`."""
    name = f"[{host.strip('[]')}]" if ":" in host else host
    return f"http://{name}:{listener.getsockname()[1]}"


async def run_app(app: Any, listener: socket.socket, *, started: Callable[[], None], **config: Any) -> None:
    """Serve an ASGI application on a bound socket until SIGINT or SIGTERM.

    Args:
        app: the application.
        listener: from `bind`; its owner closes it.
        started: called once the socket accepts connections.
        config: further settings of uvicorn.
    """
    import uvicorn

    settings = uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=5, lifespan="off", **config)
    listener.listen(BACKLOG)
    started()
    await uvicorn.Server(settings).serve(sockets=[listener])


def run_until_interrupted(app: Any, listener: socket.socket, *, started: Callable[[], None], **config: Any) -> None:
    """Serve as `run_app` does, and return at Ctrl-C with the socket closed."""
    try:
        asyncio.run(run_app(app, listener, started=started, **config))
    except KeyboardInterrupt:
        pass  # uvicorn has answered what was under way, and raises the signal again
    finally:
        listener.close()
