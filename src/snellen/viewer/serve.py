"""Serving the pages: the socket, the browser, and the end at Ctrl-C."""

from __future__ import annotations

import webbrowser
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from snellen.errors import UsageError
from snellen.local_server import address_of, bind, is_loopback, run_until_interrupted
from snellen.viewer.site import ViewSettings

CONNECTIONS = 200
"""Connections at once; more are answered 503."""
SILENT_S = 10.0
"""Seconds that a connection may be open without a whole request."""


def serve(
    settings: ViewSettings,
    port: int,
    *,
    open_browser: bool,
    notify: Callable[[str], None],
    on_address: Callable[[str], None] | None = None,
) -> None:
    """Serve the pages until Ctrl-C.

    Args:
        settings: root, address and token.
        port: 0 takes a free one.
        open_browser: open the first page in the user's browser.
        notify: gets one line with the address, the token in it.
        on_address: gets the address alone.

    Raises:
        UsageError: another address than loopback without a token.
        PreflightError: the port cannot be had.
    """
    if settings.token is None and not is_loopback(settings.host):
        raise UsageError(
            f"--host {settings.host} is reachable from other machines, and the pages show questions and replies",
            "Add --token: a browser then has to open the printed address once.",
        )
    listener = bind(settings.host, port)
    try:
        from snellen.viewer.app import view_app

        app = view_app(replace(settings, port=listener.getsockname()[1]))
        address = address_of(settings.host, listener) + "/"
        cases = settings.cases
        task = f"Viewing {settings.root}" if cases is None else f"{cases.texts.doing} {cases.about}"
        if settings.token is not None:
            address += f"?token={settings.token}"

        def started() -> None:
            notify(f"{task} at {address} (stop with Ctrl-C).")
            if on_address is not None:
                on_address(address)
            if open_browser:
                webbrowser.open(address)

        try:
            run_until_interrupted(
                app, listener, started=started, limit_concurrency=CONNECTIONS, http=timed_protocol(SILENT_S)
            )
        finally:
            app.state.close()
    finally:
        listener.close()


def timed_protocol(seconds: float) -> type[Any]:
    """Return uvicorn's HTTP protocol with a limit on silent clients, which would otherwise use up the connections.

    Args:
        seconds: a connection without a whole request for this long is closed; one that waits for its answer is not.
    """
    from uvicorn.protocols.http.h11_impl import H11Protocol

    class TimedProtocol(H11Protocol):
        """HTTP protocol that closes connections on which no whole request arrives."""

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self._seen: Any = None
            self.loop.call_later(seconds, self._check)

        def _check(self) -> None:
            if self.transport is None or self.transport.is_closing():
                return
            waits = self.cycle is None or self.cycle.response_complete
            if waits and self.cycle is self._seen:
                self.transport.close()
                return
            self._seen = self.cycle
            self.loop.call_later(seconds, self._check)

    return TimedProtocol
