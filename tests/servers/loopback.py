"""HTTP servers on loopback: a context manager that serves in a thread, and a handler that replies with JSON."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self


class LoopbackServer:
    """Serve requests of one handler between `with` and its end.

    Args:
        handler: the class that answers requests.
        seconds: the server ends after this long, whatever happens; None: with its context alone.
    """

    def __init__(self, handler: type[BaseHTTPRequestHandler], seconds: float | None = None) -> None:
        self.ended = threading.Event()
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._http.daemon_threads = True
        self._timer = None if seconds is None else threading.Timer(seconds, self.close)

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self._http.server_address[1]}"

    @property
    def url(self) -> str:
        return f"{self.origin}/v1"

    def __enter__(self) -> Self:
        threading.Thread(target=self._http.serve_forever, args=(0.05,), daemon=True).start()
        if self._timer is not None:
            self._timer.daemon = True
            self._timer.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Stop serving, once."""
        if self._timer is not None:
            self._timer.cancel()
        if not self.ended.is_set():
            self.ended.set()
            self._http.shutdown()
            self._http.server_close()


class JsonHandler(BaseHTTPRequestHandler):
    """Reply with JSON and log nothing."""

    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *arguments: object) -> None:
        """Print nothing: a server keeps what its test reads."""

    def send_json(self, data: Any, status: int = 200) -> None:
        content = json.dumps(data).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)
