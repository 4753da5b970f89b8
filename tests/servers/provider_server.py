"""A server on loopback that speaks as one provider: it checks every request, and plays a script of replies.

`faults` lists what was wrong with requests: an address, a header or a field of the body that the provider does not know.
Bodies that arrived stand in `bodies`, and their headers in `headers`.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any

import msgspec

from servers.file_store import FileStore
from servers.loopback import JsonHandler, LoopbackServer
from servers.provider_schemas import BODIES

KEY = "sk-loopback-4711-of-a-test"
MOST_REQUESTS = 3000
PATHS = {
    "chat": ("/v1/chat/completions",) * 2,
    "responses": ("/v1/responses",) * 2,
    "messages": ("/v1/messages",) * 2,
    "gemini": (
        "/v1beta/models/gemini-test:generateContent",
        "/v1beta/models/gemini-test:streamGenerateContent?alt=sse",
    ),
}
"""Address of a question, and of one that is streamed."""
KEY_HEADERS = {
    "chat": ("authorization", f"Bearer {KEY}"),
    "responses": ("authorization", f"Bearer {KEY}"),
    "messages": ("authorization", f"Bearer {KEY}"),
    "gemini": ("x-goog-api-key", KEY),
}


@dataclass(frozen=True)
class Reply:
    """One reply: a JSON body, or `raw` bytes. `cut` closes the connection after the body, which is declared longer."""

    body: Any = None
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    raw: bytes | None = None
    cut: bool = False

    @property
    def data(self) -> bytes:
        return json.dumps(self.body).encode() if self.raw is None else self.raw


def answer(protocol: str, text: str = "ANSWER: A", **usage: Any) -> dict[str, Any]:
    """Return a usual reply of a provider that says `text`."""
    if protocol == "chat":
        message = {"role": "assistant", "content": text, "refusal": None}
        choice = {"index": 0, "message": message, "finish_reason": "stop", "logprobs": None}
        counts = {"prompt_tokens": 100, "completion_tokens": 7, "total_tokens": 107, **usage}
        return {"id": "chatcmpl-1", "object": "chat.completion", "model": "m-1", "choices": [choice], "usage": counts}
    if protocol == "responses":
        item = {
            "type": "message",
            "role": "assistant",
            "content": [{"type": "output_text", "text": text, "annotations": []}],
        }
        counts = {"input_tokens": 100, "output_tokens": 7, "total_tokens": 107, **usage}
        return {"id": "resp_1", "object": "response", "status": "completed", "error": None, "incomplete_details": None,
                "model": "m-1", "output": [item], "usage": counts}  # fmt: skip
    if protocol == "messages":
        counts = {"input_tokens": 100, "output_tokens": 7, **usage}
        return {"id": "msg_1", "type": "message", "role": "assistant", "model": "m-1", "stop_reason": "end_turn",
                "content": [{"type": "text", "text": text}], "usage": counts}  # fmt: skip
    candidate = {"content": {"role": "model", "parts": [{"text": text}]}, "finishReason": "STOP"}
    counts = {"promptTokenCount": 100, "candidatesTokenCount": 7, "totalTokenCount": 107, **usage}
    return {"candidates": [candidate], "usageMetadata": counts, "modelVersion": "m-1", "responseId": "resp-1"}


def failure(protocol: str, status: int, message: str) -> dict[str, Any]:
    """Return an error as the provider writes it."""
    types = {400: "invalid_request_error", 401: "authentication_error", 403: "permission_error", 404: "not_found_error",
             402: "billing_error", 413: "request_too_large", 429: "rate_limit_error", 500: "api_error",
             504: "timeout_error", 529: "overloaded_error"}  # fmt: skip
    states = {400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 403: "PERMISSION_DENIED", 404: "NOT_FOUND",
              429: "RESOURCE_EXHAUSTED", 500: "INTERNAL", 503: "UNAVAILABLE", 504: "DEADLINE_EXCEEDED"}  # fmt: skip
    if protocol == "messages":
        error = {"type": types.get(status, "api_error"), "message": message}
        return {"type": "error", "error": error, "request_id": "req_error"}
    if protocol == "gemini":
        return {"error": {"code": status, "message": message, "status": states.get(status, "UNKNOWN")}}
    return {"error": {"message": message, "type": types.get(status, "server_error"), "param": None, "code": None}}


class ProviderServer(LoopbackServer):
    """`with ProviderServer("messages", [Reply(...)]) as server:` then `server.url`. The last reply is repeated.

    Args:
        protocol: chat, responses, messages or gemini.
        script: the replies to questions in their order, or a function of the body's number and the body.
        listing: the reply to every GET, which asks for the list of models or for one of them.
        seconds: it ends after this long, whatever happens.
        files: takes uploads, and refuses questions that name an unknown file.
    """

    def __init__(
        self,
        protocol: str,
        script: Sequence[Reply] | Callable[[int, Mapping[str, Any]], Reply] | None = None,
        seconds: float = 300.0,
        listing: Reply = Reply({"object": "list", "data": []}),
        files: FileStore | None = None,
    ) -> None:
        self.protocol = protocol
        self.listing = listing
        self.files = files
        self.script = script or [Reply(answer(protocol))]
        self.bodies: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.paths: list[str] = []
        self.listed: list[str] = []
        self.faults: list[str] = []
        self._lock = threading.Lock()
        super().__init__(_handler(self), seconds)

    @property
    def url(self) -> str:
        return self.origin + ("/v1" if self.protocol in ("chat", "responses") else "")

    def take(self, path: str, headers: Mapping[str, str], data: bytes) -> Reply:
        """Check one question and return its reply."""
        with self._lock:
            number = len(self.bodies)
            lower = {name.lower(): value for name, value in headers.items()}
            body: dict[str, Any] = {}
            try:
                body = json.loads(data)
                msgspec.json.decode(data, type=BODIES[self.protocol])
            except ValueError as error:
                self.faults.append(f"body: {error}: {data[:300]!r}")
            streamed = body.get("stream") is True or "stream" in path
            if path != PATHS[self.protocol][streamed]:
                self.faults.append(f"path {path}")
            name, value = KEY_HEADERS[self.protocol]
            if lower.get(name) != value:
                self.faults.append(f"header {name}: {lower.get(name)}")
            for other in {"authorization", "x-api-key", "x-goog-api-key", "api-key"} - {name}:
                if other in lower:
                    self.faults.append(f"a second key header {other}")
            if self.protocol == "messages" and lower.get("anthropic-version") != "2026-10-21":
                self.faults.append(f"anthropic-version {lower.get('anthropic-version')}")
            if lower.get("content-type") != "application/json":
                self.faults.append(f"content-type {lower.get('content-type')}")
            if KEY in path or KEY.encode() in data:
                self.faults.append("the key stands outside the headers")
            self.bodies.append(body)
            self.headers.append(lower)
            self.paths.append(path)
        if self.files is not None and (name := self.files.missing(body)):
            status, message = self.files.lost_reply(name)
            return Reply(failure(self.protocol, status, message), status)
        if number >= MOST_REQUESTS:
            return Reply({"error": {"message": "too many requests for a test"}}, 400)
        return self.script(number, body) if callable(self.script) else self.script[min(number, len(self.script) - 1)]


def _handler(server: ProviderServer) -> type[BaseHTTPRequestHandler]:
    class Handler(JsonHandler):
        def _of_files(self, method: str, data: bytes = b"") -> bool:
            reply = (
                None
                if server.files is None
                else server.files.serve(server.origin, method, self.path, dict(self.headers.items()), data)
            )
            if reply is None:
                return False
            name, value = KEY_HEADERS[server.protocol]
            if self.headers.get(name) != value:
                server.faults.append(f"header {name} of an upload: {self.headers.get(name)}")
            self._send(Reply(reply[1], reply[0], reply[2]))
            return True

        def do_GET(self) -> None:
            if self._of_files("GET"):
                return
            server.listed.append(self.path)
            self._send(server.listing)

        def do_POST(self) -> None:
            data = self.read()
            if self._of_files("POST", data):
                return
            self._send(server.take(self.path, dict(self.headers.items()), data))

        def _send(self, reply: Reply) -> None:
            stream = reply.raw is not None and reply.status == 200
            kind = "text/event-stream" if stream else "application/json"
            length = str(len(reply.data) + (1000 if reply.cut else 0))
            self.send(reply.status, reply.data, **{"Content_Type": kind, "Content_Length": length, **reply.headers})
            if reply.cut:
                self.close_connection = True

    return Handler
