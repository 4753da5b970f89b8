"""A leaderboard on loopback that reads multipart requests with the email package and answers as it is told to."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from email import message_from_bytes
from email.message import Message

from servers.loopback import JsonHandler, LoopbackServer

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


class Leaderboard(LoopbackServer):
    """Answers each request by the next of `answers`, and by the last of them from then on."""

    def __init__(self, answers: list[Answer]) -> None:
        self.answers = answers
        self.got: list[Got] = []
        stub = self

        class Handler(JsonHandler):
            protocol_version = "HTTP/1.0"

            def do_POST(self) -> None:
                body = self.read()
                answer = stub.answers[min(len(stub.got), len(stub.answers) - 1)]
                stub.got.append(Got(self.path, self.headers, body))
                time.sleep(answer.sleep_s)
                if answer.hang_up:
                    self.close_connection = True
                    return
                self.send(answer.status, answer.body, **answer.headers)

        super().__init__(Handler)

    @property
    def url(self) -> str:
        return f"{self.origin}{PATH}"


def leaderboard(*answers: Answer) -> Leaderboard:
    return Leaderboard(list(answers) or [Answer()])
