"""Servers of Amazon Bedrock and Vertex AI on loopback: they keep every request, and play a script of replies."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from http.server import BaseHTTPRequestHandler
from typing import Any, NamedTuple

from servers.loopback import JsonHandler, LoopbackServer


class CloudRequest(NamedTuple):
    """One POST as it arrived; `path` is not decoded, names of `headers` are in small letters."""

    path: str
    headers: Mapping[str, str]
    data: bytes

    @property
    def body(self) -> dict[str, Any]:
        return dict(json.loads(self.data))


class CloudReply(NamedTuple):
    """Body, HTTP status and further headers of a reply."""

    body: Any
    status: int = 200
    headers: Mapping[str, str] = {}


class CloudServer(LoopbackServer):
    """`with CloudServer([CloudReply(...)]) as server:` then `server.origin`. The last reply is repeated.

    Args:
        script: the replies in their order, or a function of the request.
    """

    def __init__(self, script: Sequence[CloudReply] | Callable[[CloudRequest], CloudReply]) -> None:
        self.requests: list[CloudRequest] = []
        server = self

        class Handler(JsonHandler):
            def do_POST(self) -> None:
                lower = {name.lower(): value for name, value in self.headers.items()}
                request = CloudRequest(self.path, lower, self.read())
                server.requests.append(request)
                number = min(len(server.requests), len(script)) - 1 if isinstance(script, Sequence) else 0
                reply = script[number] if isinstance(script, Sequence) else script(request)
                names = {name.replace("-", "_"): value for name, value in reply.headers.items()}
                self.send(reply.status, json.dumps(reply.body).encode(), **names)

        handler: type[BaseHTTPRequestHandler] = Handler
        super().__init__(handler, 120.0)
