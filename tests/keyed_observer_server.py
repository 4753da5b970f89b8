"""An OpenAI-compatible server of its own process whose model knows each question by its id: it costs almost no CPU.

The client puts the id behind the question, as a text of its own. The reply follows after a fixed latency.

    python tests/keyed_observer_server.py LATENCY_S [OPTION=VALUE ...]

prints its address and ends when its standard input does.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import msgspec

from keyed_observers import KeyedObserver
from snellen.benchmarks.acuity.questions import question
from snellen.benchmarks.base import Data
from snellen.models.api.model import ApiModel
from snellen.types import Prompt, Response, Text

MARK = "question "


class NamingModel(ApiModel):
    """The API client, which tells the server each question's id."""

    async def answer(self, prompt: Prompt) -> Response:
        key = KeyedObserver.sample_id(prompt)
        return await super().answer(msgspec.structs.replace(prompt, parts=(*prompt.parts, Text(MARK + key))))


@contextlib.contextmanager
def keyed_server(latency_s: float, options: dict[str, str] | None = None) -> Iterator[str]:
    """Start the server in a process of its own; yield its address up to and including /v1."""
    command = [sys.executable, __file__, str(latency_s), *(f"{name}={text}" for name, text in (options or {}).items())]
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, text=True) as server:
        assert server.stdout is not None
        assert server.stdin is not None
        try:
            yield server.stdout.readline().strip()
        finally:
            server.stdin.close()
            server.wait(600)


def _reply(observer: KeyedObserver, body: bytes) -> bytes:
    start = body.rfind(MARK.encode())
    text = "ok"
    if start >= 0:
        sample_id = body[start + len(MARK) : body.index(b'"', start)].decode()
        text = observer.reply(question(observer.data, sample_id)).text
    message = {"role": "assistant", "content": text}
    choices = [{"index": 0, "message": message, "finish_reason": "stop"}]
    usage = {"prompt_tokens": 10, "completion_tokens": 1, "total_tokens": 11}
    return json.dumps({"id": "1", "object": "chat.completion", "choices": choices, "usage": usage}).encode()


async def _serve(latency_s: float, options: dict[str, str]) -> None:
    observer = KeyedObserver(Data(options=options))
    ended = asyncio.Event()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).lower()
                size = head.partition(b"content-length:")[2].partition(b"\r")[0]
                body = await reader.readexactly(int(size or 0))
                post = head.startswith(b"post")
                asking = b'"messages"' in body[:4096]
                data = _reply(observer, body) if asking else b'{"object":"list","data":[{"id":"observer"}]}'
                if asking:
                    await asyncio.sleep(latency_s)
                status = b"400 Bad Request" if post and not asking else b"200 OK"
                writer.write(
                    b"HTTP/1.1 %b\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % (status, len(data))
                )
                writer.write(data)
                await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0, limit=1 << 20)
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1", flush=True)
    loop = asyncio.get_running_loop()
    # The parent's end of the pipe closes with it, however it ends.
    watch = threading.Thread(target=lambda: (sys.stdin.read(), loop.call_soon_threadsafe(ended.set)), daemon=True)
    watch.start()
    await ended.wait()
    server.close()


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parent))
    asyncio.run(_serve(float(sys.argv[1]), dict(text.split("=", 1) for text in sys.argv[2:])))
