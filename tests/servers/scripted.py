"""An OpenAI-compatible model that plays a script: it calls tools in a given order, then answers.

Which step is next is read from the conversation itself (how often the assistant has spoken), so that many conversations
can go on at once. A script is chosen by `<name>` in the question, else by the model's name: `ScriptedServer({"mock": [Call(...), Say(...)]})`.
It listens on loopback, keeps what it was asked, and ends by itself.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any

from servers.loopback import JsonHandler, LoopbackServer

USAGE = {"prompt_tokens": 120, "completion_tokens": 8, "total_tokens": 128}
MOST_REQUESTS = 2000


@dataclass(frozen=True)
class Call:
    """The model calls a tool."""

    tool: str
    arguments: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Say:
    """The model says this, and the turn is over."""

    text: str


@dataclass(frozen=True)
class Repeat:
    """The model says all that tools have told it, word for word."""


@dataclass(frozen=True)
class Hang:
    """The server takes the question and never answers."""


@dataclass(frozen=True)
class Refuse:
    """The server answers with this HTTP status."""

    status: int = 500


Action = Call | Say | Repeat | Hang | Refuse


class ScriptedServer(LoopbackServer):
    """`with ScriptedServer(scripts) as server:` then `server.url`; `server.asked` holds the requests in their order.

    Args:
        scripts: model name to its steps; the last step is repeated for ever.
        seconds: it ends after so long, whatever happens.
    """

    def __init__(self, scripts: Mapping[str, Sequence[Action]], seconds: float = 600.0) -> None:
        self.scripts = dict(scripts)
        self.asked: list[dict[str, Any]] = []
        self.keys: set[str] = set()
        super().__init__(_handler(self), seconds)

    def of(self, name: str) -> list[dict[str, Any]]:
        """The requests to one model, or about one question."""
        return [body for body in self.asked if self.script(body) is self.scripts[name]]

    def pictures(self, name: str | None = None) -> list[str]:
        """SHA-256 digests of the pictures that were received, in order, each once."""
        asked = self.asked if name is None else self.of(name)
        found = [hashlib.sha256(data).hexdigest() for body in asked for data in pictures_in(body)]
        return list(dict.fromkeys(found))

    def script(self, body: Mapping[str, Any]) -> Sequence[Action]:
        asked = "".join(_text(message.get("content")) for message in body["messages"] if message["role"] == "user")
        named = [name for name in self.scripts if f"<{name}>" in asked]
        return self.scripts[named[0] if named else body["model"]]

    def next_action(self, body: dict[str, Any]) -> Action:
        script = self.script(body)
        spoken = sum(message["role"] == "assistant" for message in body["messages"])
        return script[min(spoken, len(script) - 1)]

    def hang(self) -> None:
        self.ended.wait(600)


def pictures_in(body: Mapping[str, Any]) -> Iterator[bytes]:
    """The bytes of every picture in a request."""
    for message in body["messages"]:
        if isinstance(message.get("content"), list):
            for part in message["content"]:
                if part.get("type") == "image_url":
                    yield base64.b64decode(part["image_url"]["url"].partition(",")[2])


def told(body: Mapping[str, Any]) -> str:
    """All text that tools have given back in a conversation."""
    return "\n".join(_text(message.get("content")) for message in body["messages"] if message["role"] == "tool")


def _text(content: Any) -> str:
    if isinstance(content, list):
        return "\n".join(part.get("text", "") for part in content)
    return content or ""


def _chunks(action: Action, body: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield {"delta": {"role": "assistant", "content": ""}}
    if isinstance(action, Call):
        spoken = sum(message["role"] == "assistant" for message in body["messages"])
        arguments = json.dumps(action.arguments)
        half = len(arguments) // 2
        head = {"index": 0, "id": f"call_{spoken}", "type": "function"}
        yield {"delta": {"tool_calls": [{**head, "function": {"name": action.tool, "arguments": arguments[:half]}}]}}
        yield {"delta": {"tool_calls": [{"index": 0, "function": {"arguments": arguments[half:]}}]}}
        yield {"delta": {}, "finish_reason": "tool_calls"}
        return
    text = action.text if isinstance(action, Say) else told(body)
    yield {"delta": {"content": text[: len(text) // 2]}}
    yield {"delta": {"content": text[len(text) // 2 :]}}
    yield {"delta": {}, "finish_reason": "stop"}


def _handler(server: ScriptedServer) -> type[BaseHTTPRequestHandler]:
    class Handler(JsonHandler):
        def do_GET(self) -> None:
            models = [{"id": name, "object": "model"} for name in server.scripts]
            self.send_json({"object": "list", "data": models})

        def do_POST(self) -> None:
            body = json.loads(self.read())
            server.keys.add(self.headers.get("Authorization", ""))
            if len(server.asked) >= MOST_REQUESTS or body.get("model") not in server.scripts:
                self.send_json(
                    {"error": {"message": f"no script for {body.get('model')!r}, or too many requests"}}, 404
                )
                return
            server.asked.append(body)
            action = server.next_action(body)
            if isinstance(action, Hang):
                server.hang()
                self.close_connection = True
            elif isinstance(action, Refuse):
                self.send_json({"error": {"message": "scripted failure"}}, action.status)
            elif body.get("stream"):
                self.send_chat(body, list(_chunks(action, body)), USAGE)
            elif isinstance(action, Call):
                spoken = sum(message["role"] == "assistant" for message in body["messages"])
                function = {"name": action.tool, "arguments": json.dumps(action.arguments)}
                called = [{"id": f"call_{spoken}", "type": "function", "function": function}]
                message = {"role": "assistant", "content": None, "tool_calls": called}
                self.send_chat(body, [{"message": message, "finish_reason": "tool_calls"}], USAGE)
            else:
                text = action.text if isinstance(action, Say) else told(body)
                message = {"role": "assistant", "content": text}
                self.send_chat(body, [{"message": message, "finish_reason": "stop"}], USAGE)

    return Handler
