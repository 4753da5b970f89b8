"""Large bodies: pieces that requests share are sent without a joined copy, byte for byte, and again after a failure."""

from __future__ import annotations

import asyncio
import json
import os
import tracemalloc
from io import BytesIO
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image as Pillow

from servers import fast
from servers.limited import LimitedServer
from snellen.errors import RateLimitError
from snellen.models.api import ApiModel
from snellen.models.api.endpoint import parse_endpoint
from snellen.models.api.transport import Transport
from snellen.models.base import ModelOptions
from snellen.sources.blobs import FileBlob
from snellen.types import Image, Prompt, Text


def picture(path: Path, size: int) -> Image:
    """A JPEG with random bytes behind its end; it is sent as it is."""
    out = BytesIO()
    Pillow.new("RGB", (16, 16)).save(out, "JPEG")
    path.write_bytes(out.getvalue() + os.urandom(max(0, size - len(out.getvalue()))))
    return Image(FileBlob(path))


async def test_the_client_needs_less_than_one_and_a_half_times_the_bodies_in_flight(tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    images = [picture(tmp_path / f"{number}.jpg", 2_000_000) for number in range(12)]
    bodies = sum((tmp_path / f"{number}.jpg").stat().st_size for number in range(12)) * 4 / 3
    with fast.running(latency_s=0.5) as server:
        model = ApiModel(fast.MODEL, ModelOptions(base_url=server.url))
        await model.answer(Prompt((Text("warm up"),)))
        tracemalloc.start()
        try:
            await asyncio.gather(*(model.answer(Prompt((image, Text("?")))) for image in images))
            _, own = tracemalloc.get_traced_memory()
            tracemalloc.reset_peak()
            before, _ = tracemalloc.get_traced_memory()
            await asyncio.gather(*(model.answer(Prompt((images[0], Text(f"{n}?")))) for n in range(12)))
            _, shared = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
            await model.close()
    assert own < 1.5 * bodies
    assert shared - before < 0.2 * bodies, "requests about one picture share its bytes"


async def test_what_arrives_is_the_body_as_one_piece_also_when_it_is_sent_again(tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    refusals = iter([1.0])
    with LimitedServer(lambda now, active: next(refusals, None)) as server:
        server.keep_bodies = True
        model = ApiModel(fast.MODEL, ModelOptions(base_url=server.url))
        prompt = Prompt((picture(tmp_path / "a.jpg", 700_001), Text("ä?"), picture(tmp_path / "b.jpg", 90_000)))
        whole = (await model.writer.write(prompt)).sent
        with pytest.raises(RateLimitError):
            await model.answer(prompt)
        response = await model.answer(prompt)
        await model.close()
    assert server.bodies == [whole, whole]
    request = json.loads(bytes(response.trace["request"]))
    sent = json.loads(whole)
    assert request["messages"][0]["content"][1] == sent["messages"][0]["content"][1]
    assert request["messages"][0]["content"][0]["image_url"]["url"].startswith("sha256:")


@settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.sampled_from([0, 1, 65_535, 65_536, 65_537, 131_071, 131_072, 131_073, 300_000]), max_size=6))
async def test_pieces_of_any_size_arrive_whole_and_with_their_length(pieces_sizes):
    text = b'{"messages":[{"content":"'
    pieces = [text, *(bytes([97 + n]) * size for n, size in enumerate(pieces_sizes)), b'"}]}']
    received: list[tuple[bytes, bytes]] = []

    async def serve(reader, writer):
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length:")[2].split(b"\r", 1)[0])
        received.append((head, await reader.readexactly(length)))
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, limit=1 << 21)
    port = server.sockets[0].getsockname()[1]
    transport = Transport(parse_endpoint(f"http://127.0.0.1:{port}/v1"), {}, 20.0)
    try:
        reply = await transport.post(f"http://127.0.0.1:{port}/v1/chat/completions", pieces)
    finally:
        await transport.close()
        server.close()
    assert reply.body == b"{}"
    head, body = received[0]
    assert body == b"".join(pieces)
    assert b"transfer-encoding" not in head.lower()
    assert head.lower().count(b"content-type: application/json") == 1
