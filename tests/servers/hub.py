"""What stand-ins for the hub share: how they speak, and that the real client on loopback asks them and nobody else."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest


class HubHandler(BaseHTTPRequestHandler):
    """A hub without repositories: a stand-in says in `do_GET` what there is."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        pass

    def reply(self, status: int, body: bytes = b"", **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def reply_json(self, value: object) -> None:
        self.reply(200, json.dumps(value).encode(), Content_Type="application/json")

    def reply_about(self, repository: str, commit: str, files: Iterable[str]) -> None:
        """What the hub says of a data set at a commit."""
        siblings = [{"rfilename": each} for each in files]
        about = {"id": repository, "sha": commit, "siblings": siblings}
        self.reply_json({**about, "private": False, "tags": [], "downloads": 0, "likes": 0})

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        self.reply(404)


@contextmanager
def standing_in(
    handler: type[HubHandler], own: Mapping[str, object], patch: pytest.MonkeyPatch, folder: Path
) -> Iterator[None]:
    """For a block, the client asks this handler, whose class has what is in `own`; no token of the user's is in reach."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Stand", (handler,), dict(own)))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    patch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{server.server_address[1]}")
    patch.setattr("huggingface_hub.constants.HF_TOKEN_PATH", str(folder / "no-token"))
    for name in ("HF_TOKEN", "HF_HUB_OFFLINE", "HUGGING_FACE_HUB_TOKEN"):
        patch.delenv(name, raising=False)
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join(600)
