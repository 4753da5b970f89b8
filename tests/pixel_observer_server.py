"""An OpenAI-compatible server on loopback whose model is an observer that measures the pixels of acuity's pictures."""

from __future__ import annotations

import asyncio
import base64
import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from pixel_observers import PixelObserver
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

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._send({"object": "list", "data": [{"id": "observer"}, {"id": "other"}]})

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if "messages" not in body:  # the check before the first question
                self._send({"error": {"message": "messages are missing"}}, 400)
                return
            message = {"role": "assistant", "content": reply(body)}
            self._send({"choices": [{"index": 0, "message": message, "finish_reason": "stop"}], "model": body["model"]})

        def _send(self, content: dict, status: int = 200) -> None:
            data = json.dumps(content).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *words: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1"
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)
