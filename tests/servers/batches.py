"""Batch services on loopback: they check every field of each call, work through batches by a plan, and count what is paid.

`BatchServer` speaks the protocols of OpenAI, Anthropic and Gemini at `url`. `Plan` says what goes wrong. It listens on loopback and
ends by itself.
"""

from __future__ import annotations

import random
import re
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import parse_qs, urlsplit

import msgspec

from servers.file_store import FileStore
from servers.loopback import JsonHandler, LoopbackServer
from servers.provider_schemas import BODIES
from servers.provider_server import answer

KEY = "sk-batch-test-0123456789abcdef"
ROW_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
MODEL = "test-vlm"


@dataclass
class Plan:
    """What the service does.

    Attributes:
        seconds: from creation until a batch has ended; validation takes the first tenth.
        answer: reply text to a question's text.
        outcome: what becomes of a row: ok, error500, error400, expired or lost; from (question, how often it was asked before).
        most_rows, most_bytes: limits that are enforced: `413` on upload for bytes, failed validation for rows.
        silent_creates: numbers of create calls (from 1) whose reply is never sent.
        refuse: of (call, number): a status and a message in place of a reply, or None.
        keep_labels: False: metadata is dropped.
        bare_inline: True: inline answers of Gemini have no metadata.
        most_open: batches that may be open at once.
    """

    seconds: float = 0.0
    answer: Callable[[str], str] = lambda question: "A"
    outcome: Callable[[str, int], str] = lambda question, before: "ok"
    most_rows: int = 1_000_000
    most_bytes: int = 1 << 40
    silent_creates: tuple[int, ...] = ()
    refuse: Callable[[str, int], tuple[int, str] | None] = lambda call, number: None
    keep_labels: bool = True
    bare_inline: bool = False
    most_open: int = 10_000
    seed: int = 0
    extra_lines: tuple[bytes, ...] = ()
    invalid_lines: Callable[[list[dict[str, Any]]], list[tuple[int, str]]] = lambda rows: []


@dataclass
class Batch:
    """One batch: rows as sent, and when it was made."""

    id: str
    rows: list[dict[str, Any]]
    created: float
    label: str = ""
    input: str = ""
    invalid: list[tuple[int | None, str]] = field(default_factory=list)
    cancelled: bool = False
    ended_at: float = 0.0
    outcomes: list[str] | None = None
    inline: bool = False


class BatchServer(LoopbackServer):
    """Use as a context manager. `paid` counts answers by question, `created` the batches, `calls` the calls by name.

    `uploads` takes images; a row that names a file which is not there any more fails with the outcome `nofile`.
    """

    def __init__(self, plan: Plan | None = None, seconds: float = 900.0, uploads: FileStore | None = None) -> None:
        self.plan = plan or Plan()
        self.uploads = uploads
        self.paid: Counter[str] = Counter()
        self.asked: Counter[str] = Counter()
        self.calls: Counter[str] = Counter()
        self.faults: list[str] = []
        self.batches: dict[str, Batch] = {}
        self.files: dict[str, bytes] = {}
        self.replied: dict[str, float] = {}
        self.lock = threading.RLock()
        super().__init__(_handler(self), seconds)

    def address(self, service: str) -> str:
        """Return the base URL for one of the services."""
        versions = {"gemini": "/v1beta", "azure": "/openai/v1", "azure-dated": "?api-version=2025-04-01"}
        return f"{self.origin}{versions.get(service, '/v1')}"

    def check_body(self, protocol: str, body: dict[str, Any]) -> None:
        """Note a field of a request that the provider does not know."""
        try:
            msgspec.convert(body, BODIES[protocol])
        except msgspec.ValidationError as error:
            self.faults.append(f"{protocol} body: {error}")

    def check(self, good: bool, words: str) -> None:
        """Note a field that is not as the provider's reference has it."""
        if not good:
            self.faults.append(words)

    def made(self, batch: Batch) -> None:
        """Take a new batch: its rows are asked from here on."""
        ids = [row["id"] for row in batch.rows]
        self.check(all(ROW_ID.fullmatch(identity) for identity in ids), f"row ids {ids[:2]}")
        self.check(len(set(ids)) == len(ids), "row ids come twice")
        self.check(bool(ids), "a batch without rows")
        self.batches[batch.id] = batch

    def progress(self, batch: Batch) -> tuple[str, list[str]]:
        """Return (state, outcomes by row so far): validating, failed, running, ended."""
        with self.lock:
            if batch.invalid:
                return "failed", []
            passed = time.time() - batch.created
            span = self.plan.seconds
            if batch.outcomes is None and (passed >= span or batch.cancelled):
                share = 1.0 if passed >= span else passed / span
                outcomes = []
                for place, row in enumerate(batch.rows):
                    question = row["question"]
                    before = self.asked[question]
                    outcome = self.plan.outcome(question, before)
                    if self.uploads is not None and (row_file := self.uploads.missing(row["body"])):
                        outcome, row["missing"] = "nofile", row_file
                    if batch.cancelled and place >= share * len(batch.rows):
                        outcome = "cancelled"
                    else:
                        self.asked[question] += 1
                    if outcome in ("ok", "lost"):
                        self.paid[question] += 1
                    outcomes.append(outcome)
                batch.outcomes, batch.ended_at = outcomes, time.time()
            if batch.outcomes is not None:
                return "ended", batch.outcomes
            done = int(len(batch.rows) * passed / span) if span else 0
            return ("validating" if passed < span / 10 else "running"), ["ok"] * done

    def shuffled(self, batch: Batch) -> list[tuple[dict[str, Any], str]]:
        """Return rows and outcomes in an order of the service's own."""
        pairs = list(zip(batch.rows, batch.outcomes or [], strict=True))
        random.Random(f"{self.plan.seed}{batch.id}").shuffle(pairs)
        return pairs

    def open(self) -> int:
        return sum(self.progress(batch)[0] in ("validating", "running") for batch in self.batches.values())


def question_of(body: dict[str, Any]) -> str:
    """Return the text of a request of any of the three protocols."""
    texts: list[str] = []
    for message in body.get("messages") or body.get("contents") or body.get("input") or []:
        content = message.get("content", message.get("parts"))
        for part in [{"text": content}] if isinstance(content, str) else content or []:
            if isinstance(part.get("text"), str):
                texts.append(part["text"])
    return "\n".join(texts)


COUNTS: dict[str, dict[str, int]] = {
    "chat": {"completion_tokens": 4, "total_tokens": 104},
    "responses": {"output_tokens": 4, "total_tokens": 104},
    "messages": {
        "input_tokens": 60,
        "cache_creation_input_tokens": 10,
        "cache_read_input_tokens": 30,
        "output_tokens": 4,
    },
    "gemini": {"candidatesTokenCount": 4, "totalTokenCount": 104},
}


def reply_to(server: BatchServer, protocol: str, row: dict[str, Any]) -> dict[str, Any]:
    """Return the reply to a row, of 100 input and 4 output tokens."""
    reply = answer(protocol, server.plan.answer(row["question"]), **COUNTS[protocol])
    return {**reply, "modelVersion" if protocol == "gemini" else "model": MODEL}


def iso(moment: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(moment))


def _handler(server: BatchServer) -> type[BaseHTTPRequestHandler]:
    from servers import batches_anthropic, batches_gemini, batches_openai

    class Handler(JsonHandler):
        def do_GET(self) -> None:
            self._serve("GET")

        def do_POST(self) -> None:
            self._serve("POST")

        def _serve(self, method: str) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            split = urlsplit(self.path)
            query = {name: values[-1] for name, values in parse_qs(split.query).items()}
            limited = length > server.plan.most_bytes
            if limited:  # read, so that the client sees the reply and no reset
                left = length
                while left and (part := self.rfile.read(min(left, 1 << 20))):
                    left -= len(part)
                self.reply(413, {"error": {"message": "Request Entity Too Large"}})
                return
            body = self.rfile.read(length) if length else b""
            if len(body) < length:  # the client was killed in the middle
                self.cut()
                return
            if self.headers.get("Transfer-Encoding") == "chunked":
                server.check(False, f"{self.path} has no Content-Length")
            if server.uploads is not None:
                stored = server.uploads.serve(server.origin, method, self.path, dict(self.headers.items()), body)
                if stored is not None:
                    server.calls["image"] += 1
                    self.reply(*stored)
                    return
            for module in (batches_gemini, batches_anthropic, batches_openai):
                if module.serve(server, self, method, split.path, query, body):
                    return
            self.reply(404, {"error": {"message": f"no route {method} {split.path}"}})

        def refused(self, call: str) -> bool:
            """Count a call; return True if the plan refuses it."""
            with server.lock:
                server.calls[call] += 1
                number = server.calls[call]
            refusal = server.plan.refuse(call, number)
            if refusal is None:
                return False
            status, message = refusal
            if status == 0:
                self.cut()
            else:
                self.reply(status, {"error": {"message": message, "code": status}})
            return True

        def cut(self) -> None:
            """End the connection without a reply."""
            self.close_connection = True
            self.connection.close()

        def reply(self, status: int, data: Any, headers: dict[str, str] | None = None) -> None:
            try:
                self.send(status, data, **{"Content_Type": "application/json", **(headers or {})})
            except OSError:  # the client was killed
                self.close_connection = True

        def created(self, batch: Batch, data: Any) -> None:
            """Answer a create call, unless the plan keeps its reply back."""
            number = server.calls["create"]
            if number in server.plan.silent_creates:
                self.cut()
                return
            server.replied[batch.id] = time.time()
            self.reply(200, data)

    return Handler
