"""The raw exchange of a sample that failed: what was sent, and the server's reply, lie in traces/."""

from __future__ import annotations

import json

import pytest

import snellen
from engine.stubs import ARITHMETIC
from servers.loopback import JsonHandler, LoopbackServer

KEY = "sk-trace-4f9c2d7b8a1e6035"
REPLIES = {
    "JSON": (400, b'{"error": {"message": "the field max_tokens is unknown"}}'),
    "page of a proxy": (500, b"<html><body>Bad gateway</body></html>"),
    "lines": (404, b"no such\nmodel\r\n"),
    "no UTF-8": (422, b"\xff\xfe no"),
    "nothing": (400, b""),
    "key": (400, b'{"error": {"message": "the key %s is too long"}}' % KEY.encode()),
    "no answer": (200, b'{"id": "x", "choices": 7}'),
    "no JSON": (200, b"overloaded"),
}


@pytest.mark.parametrize("kind", REPLIES)
def test_the_exchange_of_a_failed_sample_is_recorded_as_json(tmp_path, monkeypatch, kind):
    status, reply = REPLIES[kind]
    sent: list[bytes] = []

    class Handler(JsonHandler):
        def do_GET(self):
            self.send(200, {"data": []})

        def do_POST(self):
            sent.append(self.read())
            self.send(status, reply)

    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with LoopbackServer(Handler, seconds=60) as server:
        run = snellen.evaluate(
            ARITHMETIC, "api:stub", out=tmp_path / "run", limit=2, base_url=server.url, max_attempts=1, patience_s=1
        )
    assert run.meta.totals.recorded == 2 and not run.meta.totals.ok
    lines = [json.loads(line) for path in run.folder.traces.glob("*.jsonl") for line in path.open(encoding="utf-8")]
    assert {line["sample_id"] for line in lines} == {"q0", "q1"}
    for line in lines:
        assert line["trace"]["request"] in [json.loads(body) for body in sent]
    texts = json.dumps([line["trace"]["reply"] for line in lines], ensure_ascii=False)
    word = {"JSON": "max_tokens is unknown", "page of a proxy": "Bad gateway", "lines": "no such", "no UTF-8": " no",
            "nothing": '""', "key": "is too long", "no answer": "choices", "no JSON": "overloaded"}[kind]  # fmt: skip
    assert word in texts and KEY not in texts
