"""A leaderboard on loopback that reads multipart requests with the email package and answers as it is told to."""

from __future__ import annotations

import json
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from email import message_from_bytes
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PATH = "/api/submit-with-file/"


@dataclass
class Answer:
    """What to say to one request: a dict is sent as JSON."""

    status: int = 200
    body: dict | bytes = field(default_factory=lambda: {"success": True})
    headers: dict[str, str] = field(default_factory=dict)
    sleep_s: float = 0.0
    hang_up: bool = False


@dataclass
class Got:
    """One request."""

    path: str
    headers: Message
    body: bytes

    def parts(self) -> dict[str, Message]:
        """Name to part of the multipart body."""
        head = f"Content-Type: {self.headers['Content-Type']}\r\n\r\n".encode()
        whole = message_from_bytes(head + self.body)
        assert whole.is_multipart()
        return {part.get_param("name", header="content-disposition"): part for part in whole.get_payload()}

    def payload(self) -> dict:
        return json.loads(self.parts()["payload"].get_payload(decode=True))

    def archive(self) -> bytes:
        return self.parts()["zipFile"].get_payload(decode=True)


class Leaderboard:
    """Answers each request by the next of `answers`, and by the last of them from then on."""

    def __init__(self, answers: list[Answer]) -> None:
        self.answers = answers
        self.got: list[Got] = []
        stub = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                answer = stub.answers[min(len(stub.got), len(stub.answers) - 1)]
                stub.got.append(Got(self.path, self.headers, body))
                time.sleep(answer.sleep_s)
                if answer.hang_up:
                    self.close_connection = True
                    return
                content = answer.body if isinstance(answer.body, bytes) else json.dumps(answer.body).encode()
                self.send_response(answer.status)
                for name, value in {"Content-Length": str(len(content)), **answer.headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_: object) -> None: ...

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_port}{PATH}"


@contextmanager
def leaderboard(*answers: Answer):
    stub = Leaderboard(list(answers) or [Answer()])
    thread = threading.Thread(target=stub.server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield stub
    finally:
        stub.server.shutdown()
        stub.server.server_close()
        thread.join()
