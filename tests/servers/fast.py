"""A chat completions server that costs next to nothing: one process, uvloop, requests taken apart by hand.

    python tests/servers/fast.py --latency 0.2 --seconds 60

prints its base URL and serves until its standard input closes or the time is up. It counts questions, not look-ups:
GET /v1/stats answers {"served", "in_flight", "most_in_flight"}; GET /v1/latency/0.5 changes the latency of what comes later.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import cast
from zlib import crc32

MODEL = "stub-vlm"
OTHER_MODEL = "stub-vlm-2"
"""The second model in the server's list; it answers alike."""
_USAGE = {"prompt_tokens": 120, "completion_tokens": 4, "total_tokens": 124}


def completion(text: str) -> bytes:
    """A chat completion of about 300 bytes."""
    message = {"role": "assistant", "content": text}
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": "stop"}
    head = {"id": "chatcmpl-1", "object": "chat.completion", "created": 0, "model": MODEL}
    return json.dumps({**head, "choices": [choice], "usage": _USAGE}).encode()


def native(path: bytes, text: str) -> bytes:
    """A reply of about 300 bytes in the protocol of the path; chat completions at every other one."""
    if b"/messages " in path:
        usage = {"input_tokens": 120, "output_tokens": 4}
        head = {"id": "msg_1", "type": "message", "role": "assistant", "model": MODEL, "stop_reason": "end_turn"}
        return json.dumps({**head, "content": [{"type": "text", "text": text}], "usage": usage}).encode()
    if b":generateContent " in path:
        candidate = {"content": {"role": "model", "parts": [{"text": text}]}, "finishReason": "STOP", "index": 0}
        counts = {"promptTokenCount": 120, "candidatesTokenCount": 4, "totalTokenCount": 124}
        head = {"modelVersion": MODEL, "responseId": "r-1"}
        return json.dumps({"candidates": [candidate], "usageMetadata": counts, **head}).encode()
    if b"/responses " in path:
        item = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]}
        usage = {"input_tokens": 120, "output_tokens": 4, "total_tokens": 124}
        head = {"id": "resp_1", "object": "response", "status": "completed", "model": MODEL}
        return json.dumps({**head, "output": [item], "usage": usage}).encode()
    return completion(text)


PATHS = (b"/messages ", b":generateContent ", b"/responses ")


def http(body: bytes, status: str = "200 OK") -> bytes:
    return f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


class Board:
    """Counts of one server, the models it lists, and its replies: one text, or one of several by the request's checksum."""

    def __init__(self, latency_s: float, texts: list[str], models: list[str]) -> None:
        self.latency_s = latency_s
        listing = {"object": "list", "data": [{"id": model, "object": "model"} for model in models]}
        self.listing = json.dumps(listing).encode()
        self.replies = [http(completion(text)) for text in texts]
        self.native = {path: [http(native(path, text)) for text in texts] for path in PATHS}
        self.many = len(texts) > 1
        self.served = self.in_flight = self.most = 0

    def stats(self) -> bytes:
        return json.dumps({"served": self.served, "in_flight": self.in_flight, "most_in_flight": self.most}).encode()


class Connection(asyncio.Protocol):
    """One keep-alive connection; no pipelining."""

    def __init__(self, board: Board) -> None:
        self.board = board
        self.head = b""
        self.missing = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        # The body is counted and not kept: copying it would cost more than everything else here.
        if self.missing == 0:
            self.head += data
            end = self.head.find(b"\r\n\r\n") + 4
            if end < 4:
                return
            head = self.head[:end].lower()
            at = head.find(b"content-length:")
            self.missing = end + (int(head[at + 15 :].split(b"\r", 1)[0]) if at >= 0 else 0)
            data, self.head = self.head[end:], self.head[: end + 500]
            self.missing -= end
            self.checksum = 0
        if self.board.many:
            self.checksum = crc32(data, self.checksum)
        self.missing -= len(data)
        if self.missing == 0:
            head, self.head = self.head, b""
            self.reply(head)

    def reply(self, head: bytes) -> None:
        """Answer the request that begins with `head`."""
        board = self.board
        if head.startswith(b"GET"):
            stats = b"/stats " in head[:100]
            if b"/latency/" in head[:100]:
                board.latency_s = float(head.split(b"/latency/")[1].split()[0])
            self.transport.write(http(board.stats() if stats else board.listing))
        elif head.endswith(b"{}"):
            self.transport.write(http(b'{"error": {"message": "messages is required"}}', "400 Bad Request"))
        else:
            board.in_flight += 1
            board.most = max(board.most, board.in_flight)
            line = head[: head.find(b"\r\n")]
            replies = next((board.native[path] for path in PATHS if path in line), board.replies)
            answer = replies[self.checksum % len(replies)]
            if board.latency_s:
                asyncio.get_running_loop().call_later(board.latency_s, self.send, answer)
            else:
                self.send(answer)

    def send(self, answer: bytes) -> None:
        self.board.in_flight -= 1
        self.board.served += 1
        if not self.transport.is_closing():
            self.transport.write(answer)


async def serve(latency_s: float, texts: list[str], models: list[str], seconds: float, port: int) -> None:
    loop = asyncio.get_running_loop()
    board = Board(latency_s, texts, models)
    server = await loop.create_server(lambda: Connection(board), "127.0.0.1", port)
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1", flush=True)
    ended = asyncio.Event()

    def wait_for_parent() -> None:
        sys.stdin.buffer.read()
        loop.call_soon_threadsafe(ended.set)

    threading.Thread(target=wait_for_parent, daemon=True).start()
    with suppress(TimeoutError):
        await asyncio.wait_for(ended.wait(), seconds)
    server.close()


class Running:
    """A fast server in a process of its own; `url` is its base URL."""

    def __init__(self, url: str, process: subprocess.Popen[str]) -> None:
        self.url = url
        self.process = process

    def stats(self) -> dict[str, int]:
        with urllib.request.urlopen(f"{self.url}/stats", timeout=600) as reply:
            counts: dict[str, int] = json.load(reply)
            return counts

    def set_latency(self, latency_s: float) -> None:
        """Change the latency of questions that come later: slow while a test looks on, and quick to its end."""
        urllib.request.urlopen(f"{self.url}/latency/{latency_s}", timeout=600).close()


@contextmanager
def running(
    latency_s: float = 0.0,
    texts: tuple[str, ...] = ("ANSWER: A",),
    seconds: float = 3600.0,
    models: tuple[str, ...] = (MODEL, OTHER_MODEL),
) -> Iterator[Running]:
    """Start a fast server and stop it at the end of the block; it ends with its parent in any case.

    Several `texts`: each question always gets the same one of them, whichever process asks. All `models` answer alike.
    """
    command = [sys.executable, __file__, "--latency", str(latency_s), "--seconds", str(seconds)]
    command += [f"--text={text}" for text in texts] + [f"--model={model}" for model in models]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None and process.stdout is not None
        try:
            yield Running(process.stdout.readline().strip(), process)
        finally:
            process.stdin.close()
            try:
                process.wait(600)
            except subprocess.TimeoutExpired:
                process.kill()


def main() -> None:
    import uvloop

    parser = argparse.ArgumentParser()
    parser.add_argument("--latency", type=float, default=0.0)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--text", action="append")
    parser.add_argument("--model", action="append")
    given = parser.parse_args()
    texts, models = given.text or ["ANSWER: A"], given.model or [MODEL, OTHER_MODEL]
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(serve(given.latency, texts, models, given.seconds, given.port))


if __name__ == "__main__":
    main()
