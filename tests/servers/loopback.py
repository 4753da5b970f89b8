"""Servers on loopback: context managers that serve in a thread, with or without an event loop, and a handler of JSON."""

from __future__ import annotations

import asyncio
import json
import random
import socket
import threading
from collections.abc import Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

USAGE = {"prompt_tokens": 10, "completion_tokens": 1, "total_tokens": 11}
PORTS = range(20_000, 32_000)
"""Below those that systems give out for port 0, so that no other test is given one that is not in use yet."""


def free_port() -> int:
    """Return a port for a server that starts later, or again."""
    port = random.SystemRandom().choice(PORTS)
    with socket.socket() as probe:
        return port if probe.connect_ex(("127.0.0.1", port)) else free_port()


class QueueingServer(ThreadingHTTPServer):
    """A server that lets as many wait as come: the usual five are less than the requests in flight of one run."""

    daemon_threads = True
    request_queue_size = 128


class LoopbackServer:
    """Serve requests of one handler between `with` and its end.

    Args:
        handler: the class that answers requests.
        seconds: the server ends after this long, whatever happens; None: with its context alone.
    """

    def __init__(self, handler: type[BaseHTTPRequestHandler], seconds: float | None = None) -> None:
        self.ended = threading.Event()
        self._http = QueueingServer(("127.0.0.1", 0), handler)
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

    def __exit__(self, *fault: object) -> None:
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
    """Reply with JSON, bytes or events, and log nothing."""

    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *arguments: object) -> None:
        """Print nothing: a server keeps what its test reads."""

    def read(self) -> bytes:
        """The body of the request."""
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def send(self, status: int, data: Any = b"", **headers: str) -> None:
        """Reply with bytes as they are, or with JSON; names of headers have `_` for `-`."""
        whole = data if isinstance(data, bytes) else json.dumps(data).encode()
        kind = {} if isinstance(data, bytes) else {"Content_Type": "application/json"}
        self.send_response(status)
        for name, value in {**kind, "Content_Length": str(len(whole)), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(whole)

    def send_json(self, data: Any, status: int = 200) -> None:
        self.send(status, data)

    def send_chat(
        self, body: Mapping[str, Any], choices: Sequence[Mapping[str, Any]], usage: Mapping[str, int]
    ) -> None:
        """Reply with one choice of a chat completion, or, where the request asks for a stream, with its pieces."""
        if not body.get("stream"):
            choice = {"index": 0, **choices[0]}
            self.send(200, {"id": "c", "object": "chat.completion", "choices": [choice], "usage": usage})
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        head = {"id": "c", "object": "chat.completion.chunk", "created": 0, "model": body["model"]}
        chunks = [{"choices": [{"index": 0, "finish_reason": None, **choice}]} for choice in choices]
        for chunk in (*chunks, {"choices": [], "usage": usage}):
            self.wfile.write(f"data: {json.dumps({**head, **chunk})}\n\n".encode())
        self.wfile.write(b"data: [DONE]\n\n")
        self.close_connection = True


class ChatHandler(JsonHandler):
    """An OpenAI-compatible model: a subclass replies in `chat` to each request that has messages."""

    models: tuple[str, ...] = ("stub",)

    def do_GET(self) -> None:
        self.send_json({"object": "list", "data": [{"id": name, "object": "model"} for name in self.models]})

    def do_POST(self) -> None:
        body = json.loads(self.read())
        if "messages" in body:
            self.chat(body)
        else:  # the check whether a server is there
            self.send_json({"error": {"message": "messages are missing"}}, 400)

    def chat(self, body: dict[str, Any]) -> None:
        raise NotImplementedError

    def send_completion(self, text: str, **more: Any) -> None:
        """Send a chat completion; `more` are further fields of its choice."""
        message = {"role": "assistant", "content": text}
        self.send_chat({}, [{"message": message, "finish_reason": "stop", **more}], USAGE)


class LoopServer:
    """A server with an event loop in a thread of its own. `_serve` sets `port` and `_up`, and ends once `_over` is set."""

    def __init__(self) -> None:
        self.port = 0
        self._loop = asyncio.new_event_loop()
        self._up = threading.Event()
        self._over = asyncio.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._up.wait(600)
        return self

    def __exit__(self, *fault: object) -> None:
        self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join(600)

    def _run(self) -> None:
        self._loop.run_until_complete(self._serve())
        self._loop.close()

    async def _serve(self) -> None:
        raise NotImplementedError
