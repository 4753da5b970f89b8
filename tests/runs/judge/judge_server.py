"""A judge behind an OpenAI-compatible endpoint on loopback: what it says goes by a mark in the reply that it judges."""

from __future__ import annotations

import json
import re
import threading
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any

from servers.fast import completion

CORRECT = '{"verdict": "correct", "reason": "it names the koala"}'
INCORRECT = '{"verdict": "incorrect", "reason": "another animal"}'
SAYS = {
    "right": (CORRECT,),
    "wrong": (INCORRECT,),
    "fenced": (f"```json\n{CORRECT}\n```",),
    "prose_then_json": ("I think that it is correct.", CORRECT),
    "prose": ("It is correct.", "As I said: correct!"),
    "two_objects": (f"{INCORRECT}\n{CORRECT}", INCORRECT),
    "other_label": ('{"verdict": "Correct"}', '{"verdict": "maybe"}'),
    "says_gold": ('{"verdict": "correct", "reason": "the reference is Phascolarctos"}',),
    "prose_gold": ("The reference is Phascolarctos, so yes.", "Phascolarctos it is."),
    "score0": ("Score: 0",),
    "score1": ("The first is a man and the second another one.\nScore: 1",),
    "score2": ("Score: 2/2",),
    "score3": ("Score: 3",),
    "bold": ("**Score:** 1", "Score: 1"),
    "tells_gold": ("Score: 1, since the reference is Phascolarctos",),
}
REASK = "You have answered this already"


class JudgeServer:
    """`url` is the base URL, `asked` the texts of all questions, `limits` their max_tokens; without `key` it says 401."""

    def __init__(self, key: str | None = None) -> None:
        self.asked: list[str] = []
        self.limits: list[int | None] = []
        self.counts: Counter[str] = Counter()
        board = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_: Any) -> None: ...

            def do_GET(self) -> None:
                self._send(json.dumps({"object": "list", "data": [{"id": "stub-judge"}]}).encode())

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                if key is not None and self.headers.get("Authorization") != f"Bearer {key}":
                    self._send(b'{"error": {"message": "bad key"}}', 401)
                elif "messages" not in body:
                    self._send(b'{"error": {"message": "messages is required"}}', 400)
                else:
                    board.limits.append(body.get("max_completion_tokens", body.get("max_tokens")))
                    self._send(completion(board.say(body["messages"])))

            def _send(self, body: bytes, status: int = 200) -> None:
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}/v1"

    def say(self, messages: list[dict[str, Any]]) -> str:
        """The reply to one question, by the first [[mark]] in it."""
        texts = []
        for message in messages:
            content = message["content"]
            texts += [content] if isinstance(content, str) else [part.get("text", "[picture]") for part in content]
        text = "\n".join(texts)
        self.asked.append(text)
        mark = re.search(r"\[\[(\w+)\]\]", text)
        assert mark is not None, text
        self.counts[mark[1]] += 1
        said = SAYS[mark[1]]
        return said[min(len(said) - 1, int(REASK in text))]

    def __enter__(self) -> JudgeServer:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
