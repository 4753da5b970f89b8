"""An OpenAI-compatible server on loopback whose model is an observer that measures the pixels of acuity's pictures."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from pixel_observers import PixelObserver
from servers.loopback import ChatHandler, LoopbackServer
from snellen.sources.blobs import Drawn
from snellen.types import Image, Prompt, Text


@contextmanager
def observer_server(thresholds: Mapping[str, float]) -> Iterator[str]:
    """Serve an observer of these thresholds (attribute to value in its unit); yield the address up to /v1."""
    observers = [PixelObserver(name, threshold) for name, threshold in thresholds.items()]

    def reply(body: dict) -> str:
        content = body["messages"][-1]["content"]
        if isinstance(content, str):
            return "OK"
        text = next(part["text"] for part in content if part["type"] == "text")
        images = [part["image_url"]["url"] for part in content if part["type"] == "image_url"]
        observer = next((each for each in observers if text.startswith(each.attribute.questions)), None)
        if observer is None or not images:
            return "OK"
        data = base64.b64decode(images[0].partition(",")[2])
        prompt = Prompt((Image(Drawn("sent", lambda: data)), Text(text)))
        return asyncio.run(observer.answer(prompt)).text

    class Handler(ChatHandler):
        models = ("observer", "other")

        def chat(self, body: dict) -> None:
            self.send_completion(reply(body))

    with LoopbackServer(Handler) as server:
        yield server.url
