"""An OpenAI-compatible model that knows the answers: it sees which images came, in which order, with which text.

`OracleServer(answer)` calls `answer(SentQuestion(parts))` for each request; `server.requests` holds the requests in their order. It
listens on loopback and ends with its context.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler
from typing import Any

from servers.loopback import USAGE, ChatHandler, LoopbackServer

_OPTION = re.compile(r"^([A-Z])\. (.+)$", re.MULTILINE)


def digest(image: bytes) -> str:
    """Return the name of an image in `SentQuestion.parts`."""
    return hashlib.sha256(image).hexdigest()[:12]


@dataclass(frozen=True)
class SentQuestion:
    """One request: texts, and for each image `<digest>`, in the order in which they came."""

    parts: tuple[str, ...]

    @property
    def text(self) -> str:
        """All texts, without the images."""
        return "\n".join(part for part in self.parts if not re.fullmatch("<[0-9a-f]{12}>", part))

    @property
    def images(self) -> list[str]:
        """Digests of the images in their order."""
        return [part[1:-1] for part in self.parts if re.fullmatch("<[0-9a-f]{12}>", part)]

    @property
    def options(self) -> dict[str, str]:
        """Lettered lines of the text."""
        return dict(_OPTION.findall(self.text))

    def letter(self, text: str) -> str:
        """Return the letter of an option by its text."""
        return next((letter for letter, option in self.options.items() if option == text), "none")


class OracleServer(LoopbackServer):
    """`with OracleServer(answer) as server:` then `server.url`."""

    def __init__(self, answer: Callable[[SentQuestion], str], model: str = "oracle") -> None:
        self.answer = answer
        self.model = model
        self.requests: list[SentQuestion] = []
        super().__init__(_handler(self))


def _sent_question(body: dict[str, Any]) -> SentQuestion:
    parts: list[str] = []
    for message in body["messages"]:
        content = message.get("content")
        for part in content if isinstance(content, list) else [{"type": "text", "text": content or ""}]:
            if part["type"] == "text":
                parts.append(part["text"])
            elif part["type"] == "image_url":
                parts.append(f"<{digest(base64.b64decode(part['image_url']['url'].partition(',')[2]))}>")
    return SentQuestion(tuple(parts))


def _handler(server: OracleServer) -> type[BaseHTTPRequestHandler]:
    class Handler(ChatHandler):
        models = (server.model,)

        def chat(self, body: dict[str, Any]) -> None:
            request = _sent_question(body)
            server.requests.append(request)
            reply = server.answer(request)
            if body.get("stream"):
                self.send_chat(body, [{"delta": {"content": reply}}, {"delta": {}, "finish_reason": "stop"}], USAGE)
            else:
                self.send_completion(reply)

    return Handler
