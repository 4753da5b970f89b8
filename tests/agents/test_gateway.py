"""What an agent can ask through its gateway, and which programs are started: real connections on loopback."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import json
import shutil
import socket
import stat
import tracemalloc
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web

from snellen.cli import main
from snellen.errors import PreflightError, UsageError
from snellen.models.agents import programs, sandbox
from snellen.models.agents.gateway import MAX_CONNECTIONS, Gateway
from snellen.models.agents.request_fields import RequestLimits, RequestRefusedError, rewrite_request
from snellen.models.base import ModelOptions
from snellen.models.registry import open_model

from agents.test_shut_in import room, rooms, shell  # isort: skip # noqa: F401 - a fixture

KEY = "the-key-of-the-endpoint-5678"
ALLOWED = RequestLimits("m", 512, 20)
ASK = b'{"model": "m", "max_tokens": 8}'


async def endpoint(requests: list) -> tuple[web.AppRunner, str]:
    """A server that records what it gets, answers in pieces, and would redirect."""

    async def answer(request: web.Request) -> web.StreamResponse:
        requests.append((request.method, request.path, dict(request.headers), await request.read()))
        if request.path == "/v1/models":
            raise web.HTTPFound("http://127.0.0.1:1/elsewhere")
        reply = web.StreamResponse(headers={"Content-Type": "text/event-stream", "Set-Cookie": "a=b"})
        await reply.prepare(request)
        for piece in (b"data: 1\n\n", b"data: [DONE]\n\n"):
            await reply.write(piece)
        return reply

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    return runner, f"http://127.0.0.1:{runner.addresses[0][1]}/v1"


async def test_an_agent_reaches_the_model_and_nothing_else_of_the_endpoint():
    requests: list = []
    runner, base_url = await endpoint(requests)
    gateway = Gateway(base_url, KEY, ALLOWED)
    listener = socket.create_server(("127.0.0.1", 0))
    inside = f"http://127.0.0.1:{listener.getsockname()[1]}"
    async with gateway.open_to(listener), aiohttp.ClientSession() as session:
        headers = {"Authorization": "Bearer another", "X-Secret": "1"}
        async with session.post(f"{inside}/v1/chat/completions", data=ASK, headers=headers) as reply:
            assert await reply.read() == b"data: 1\n\ndata: [DONE]\n\n" and "Set-Cookie" not in reply.headers
        (method, path, sent, body) = requests.pop()
        assert (method, path, json.loads(body)) == ("POST", "/v1/chat/completions", json.loads(ASK))
        assert sent["Authorization"] == f"Bearer {KEY}" and "X-Secret" not in sent
        assert sent["Content-Length"] == str(len(body)), "not every server takes chunks"
        for method, path in (
            ("GET", "/v1/chat/completions"),
            ("POST", "/v1/files"),
            ("POST", "/v1/chat/completions/../files"),
            ("POST", "/v1/chat%2Fcompletions"),
            ("POST", "//v1/chat/completions"),
            ("DELETE", "/v1/models"),
            ("GET", "/metrics"),
        ):
            from yarl import URL

            async with session.request(method, URL(f"{inside}{path}", encoded=True)) as reply:
                assert reply.status == 403, (method, path)
        assert requests == []
        async with session.get(f"{inside}/v1/models", allow_redirects=False) as reply:
            assert reply.status == 502 and "Location" not in reply.headers
        for raw in (
            b"CONNECT 127.0.0.1:22 HTTP/1.1\r\nHost: x\r\n\r\n",
            b"GET http://127.0.0.1:22/ HTTP/1.1\r\nHost: x\r\n\r\n",
        ):
            reader, writer = await asyncio.open_connection("127.0.0.1", listener.getsockname()[1])
            writer.write(raw)
            assert not (await asyncio.wait_for(reader.readline(), 600)).startswith(b"HTTP/1.1 200")
            writer.close()
    await gateway.close()
    await runner.cleanup()
    listener.close()


async def test_an_endpoint_that_is_gone_is_an_error_that_the_agent_sees():
    gateway = Gateway("http://127.0.0.1:9/v1", "", ALLOWED)
    listener = socket.create_server(("127.0.0.1", 0))
    inside = f"http://127.0.0.1:{listener.getsockname()[1]}"
    async with (
        gateway.open_to(listener),
        aiohttp.ClientSession() as session,
        session.post(f"{inside}/v1/chat/completions", data=ASK) as reply,
    ):
        assert reply.status == 502 and "cannot be reached" in await reply.text()
    await gateway.close()
    listener.close()


@contextlib.asynccontextmanager
async def passed(allowed: RequestLimits = ALLOWED) -> AsyncIterator[tuple[int, list, Gateway]]:
    """A gateway before a real endpoint: its port, what the endpoint gets, and the gateway."""
    requests: list = []
    runner, base_url = await endpoint(requests)
    gateway = Gateway(base_url, KEY, allowed)
    listener = socket.create_server(("127.0.0.1", 0))
    try:
        async with gateway.open_to(listener):
            yield listener.getsockname()[1], requests, gateway
    finally:
        await gateway.close()
        await runner.cleanup()
        listener.close()


async def ask(port: int, body: bytes, **headers: str) -> tuple[int, str]:
    url = f"http://127.0.0.1:{port}/v1/chat/completions"
    async with aiohttp.ClientSession() as session, session.post(url, data=body, headers=headers) as reply:
        return reply.status, await reply.text()


@pytest.mark.parametrize(
    "body",
    [
        b'{"model": "dearer"}',
        b'{"model": "m", "model": "dearer"}',
        b'{"model": "m", "mod\\u0065l": "dearer"}',
        b'{"model": ["m"]}',
        b'{"messages": []}',
        b'["m"]',
        b"not json",
        b'{"model": "m", "messages": ' + b"[" * 100_000,
        gzip.compress(b'{"model": "m"}', mtime=0),
    ],
)
async def test_an_agent_asks_no_other_model_than_that_of_the_run(body):
    async with passed() as (port, requests, gateway):
        encoding = {"Content-Encoding": "gzip"} if body[:2] == b"\x1f\x8b" else {}
        status, text = await ask(port, body, **encoding)
        assert status in (400, 403) and "snellen" in text
        assert requests == [] and gateway.requests == 0


async def test_an_agent_raises_no_length_and_sends_no_field_that_costs_or_leads_elsewhere():
    hostile = {
        "n": 100, "best_of": 9, "models": ["dearer"], "service_tier": "priority", "api_base": "http://x", "api_key": "k",
        "plugins": [], "provider": {}, "web_search_options": {}, "store": True, "metadata": {}, "extra_body": {},
    }  # fmt: skip
    messages = [{"role": "user", "content": "ü  \u2028"}]
    async with passed() as (port, requests, _):
        for lengths, expected in (
            ({}, {"max_tokens": 512}),
            ({"max_tokens": 10**9}, {"max_tokens": 512}),
            ({"max_tokens": None}, {"max_tokens": 512}),
            ({"max_tokens": -1}, {"max_tokens": 512}),
            ({"max_tokens": 1e300}, {"max_tokens": 512}),
            ({"max_tokens": 100, "max_completion_tokens": 10**9}, {"max_tokens": 100, "max_completion_tokens": 512}),
            ({"max_completion_tokens": 512}, {"max_completion_tokens": 512}),
        ):
            asked = {"model": "m", "messages": messages, "temperature": 0.5, **hostile, **lengths}
            assert (await ask(port, json.dumps(asked).encode()))[0] == 200
            body = json.loads(requests.pop()[3])
            assert body == {"model": "m", "messages": messages, "temperature": 0.5, **expected}


async def test_the_number_of_requests_of_one_sample_is_bounded():
    async with passed(RequestLimits("m", 512, 3)) as (port, requests, gateway):
        answers = [(await ask(port, ASK))[0] for _ in range(5)]
        assert answers == [200, 200, 200, 403, 403] and len(requests) == 3
        assert gateway.exhausted and gateway.requests == 5


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


async def test_an_agent_cannot_take_the_descriptors_of_the_run_by_connections():
    before = descriptors()
    async with passed() as (port, _, _):
        connections = []
        for _ in range(4 * MAX_CONNECTIONS):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n")
            connections.append((reader, writer))
        closed = 0
        for reader, _ in connections:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(0.02):
                    with contextlib.suppress(ConnectionError):
                        await reader.read(1)
                    closed += 1
        ours = len(connections)
        assert closed >= ours - MAX_CONNECTIONS
        assert descriptors() <= before + ours + MAX_CONNECTIONS + 10
        for _, writer in connections:
            writer.close()


@pytest.mark.parametrize(
    "raw",
    [
        b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /x",
        b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nContent-Length: 40\r\n\r\n{}",
        b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nFFFFFFFFFFFFFFFF\r\n{}",
        b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
        b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999999999\r\n\r\n",
        b"POST http://127.0.0.1:22/v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}",
        b"GET /v1/models@evil HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET /v1/models\\..\\files HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET /v1/models HTTP/1.1\r\nHost: x\r\nAccept: a\nAuthorization: Bearer z\x00\r\n\r\n",
        b"GET " + b"/" * 100_000 + b" HTTP/1.1\r\n\r\n",
        b"\x16\x03\x01\x02\x00",
    ],
)
async def test_a_request_that_is_no_plain_request_reaches_nothing(raw, monkeypatch):
    monkeypatch.setattr("snellen.models.agents.gateway.BODY_S", 1.0)
    async with passed() as (port, requests, _):
        # No end is written: a server closes such a connection before it looks at the request.
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(raw + (b"\r\n\r\n" if b"\n" not in raw else b""))
        with contextlib.suppress(ConnectionError):
            assert (await asyncio.wait_for(reader.readline(), 600))[9:12] in (b"400", b"403", b"413", b"")
        writer.close()
        assert requests == []


BROKEN = (
    b"GET /v1/models HTTP/9.9\r\nHost: x\r\n\r\n",
    b"CONNECT a:b:c HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET /\x1b[2J\xff HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET /v1/models HTTP/1.1\r\nHost: x\r\nHost: snellen: all is well\r\n\r\n",
    b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 99\r\n\r\n{",
)


@pytest.mark.parametrize("raw", BROKEN)
async def test_an_agent_writes_nothing_to_the_terminal_by_broken_requests(raw, capfd, caplog):
    async with passed() as (port, _, _):
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(raw)
        await asyncio.sleep(0.2)
        writer.close()
        await asyncio.sleep(0.2)
    assert capfd.readouterr() == ("", "") and caplog.records == []


DATA = "data:image/png;base64,AAAA"


def user(**part) -> dict:
    return {"messages": [{"role": "user", "content": [{"type": "text", "text": "see http://x"}, part]}]}


@pytest.mark.parametrize(
    "asked",
    [
        user(type="image_url", image_url={"url": "http://127.0.0.1:8080/delete?all=1"}),
        user(type="image_url", image_url={"url": " http://169.254.169.254/latest/meta-data"}),
        user(type="image_url", image_url={"url": "file:///home/me/.ssh/id_rsa"}),
        user(type="image_url", image_url={"url": "/etc/shadow.png"}),
        user(type="image_url", image_url={"detail": "low"}),
        user(type="image_url", image_url="https://x.example/secret"),
        user(type="text", text="", image_url={"url": "https://x.example"}),
        user(image_url={"url": "gs://bucket/x"}),
        user(type="video_url", video_url={"url": "https://x.example/v.mp4"}),
        user(type="audio_url", audio_url={"url": "https://x.example/a.wav"}),
        user(type="input_audio", input_audio={"data": "https://x.example/a.wav", "format": "wav"}),
        user(type="file", file={"file_id": "file-of-the-user"}),
        {"messages": [{"role": "user", "content": user(type="image_url", image_url={"url": "http://x"})}]},
        {"tools": [{"type": "web_search"}]},
        {"tools": [{"type": "builtin_function", "function": {"name": "$web_search"}}]},
        {"tools": [{"google_search": {}}]},
        {"tools": [{"type": "mcp", "server_url": "http://127.0.0.1:1", "function": {"name": "f"}}]},
    ],
)
async def test_an_agent_has_the_endpoint_fetch_no_address_and_run_no_tool(asked):
    async with passed() as (port, requests, gateway):
        status, text = await ask(port, json.dumps({"model": "m", **asked}).encode())
        assert status in (400, 403) and "snellen" in text
        assert requests == [] and gateway.requests == 0


async def test_images_by_their_bytes_and_functions_are_passed_on_with_their_known_members():
    call = {"id": "1", "type": "function", "function": {"name": "f", "arguments": '{"url": "http://x"}'}}
    known = {
        "messages": [
            {"role": "user", "content": [{"type": "image_url", "image_url": {"url": DATA, "detail": "low"}}]},
            {"role": "assistant", "content": None, "tool_calls": [call], "reasoning_content": "hm"},
            {"role": "tool", "tool_call_id": "1", "content": "at http://x"},
            {"role": "user", "content": [{"type": "file", "file": {"file_data": DATA, "filename": "a.pdf"}}]},
        ],
        "tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}],
    }
    asked = json.loads(json.dumps(known))
    asked["messages"][0]["content"][0] |= {"image": "file:///etc/passwd", "source": {"type": "url", "url": "http://x"}}
    asked["messages"][2]["images"] = ["http://x"]
    asked["messages"][3]["content"][0]["file"]["file_id"] = "file-of-the-user"
    asked["tools"][0]["google_search"] = {}
    async with passed() as (port, requests, _):
        assert (await ask(port, json.dumps({"model": "m", **asked}).encode()))[0] == 200
        assert json.loads(requests.pop()[3]) == {"model": "m", "max_tokens": 512, **known}
        twice = (
            f'{{"model": "m", "messages": [{{"content": [{{"image_url": {{"url": "http://x", "url": "{DATA}"}}}}]}}]}}'
        )
        assert (await ask(port, twice.encode()))[0] == 200
        assert b"http://x" not in requests.pop()[3]


async def test_the_models_are_listed_no_more_often_than_the_model_may_be_asked():
    async with passed(RequestLimits("m", 512, 3)) as (port, requests, gateway), aiohttp.ClientSession() as session:
        for _ in range(9):
            async with session.get(f"http://127.0.0.1:{port}/v1/models", allow_redirects=False):
                pass
        assert len(requests) == 3
        assert (await ask(port, ASK))[0] == 200 and not gateway.exhausted


@pytest.mark.parametrize(
    "body",
    [
        b'{"model":"m"' + b"".join(b',"%x":1' % number for number in range(300_000)) + b"}",
        b'{"model":"m","messages":[' + b"{}," * 700_000 + b"{}]}",
        b'{"model":"m","messages":[{"content":[' + b"{}," * 700_000 + b"{}]}]}",
        b'{"model":"m","max_tokens":[' + b"[]," * 700_000 + b"[]]}",
        '{"model":"m","messages":[{"content":"🦅'.encode() + b"x" * 2_000_000 + b'"}]}',
    ],
    ids=["fields", "messages", "parts", "length", "text"],
)
def test_a_request_takes_no_more_memory_than_a_few_times_its_bytes(body):
    tracemalloc.start()
    with contextlib.suppress(RequestRefusedError):
        rewrite_request(body, ALLOWED)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 3 * len(body)


def moved_bubblewrap(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A bubblewrap in a folder of PATH, and none elsewhere on it; it records that it was started."""
    real = shutil.which("bwrap")
    if real is None:
        pytest.skip("NO bwrap HERE")
    folder.mkdir()
    path = folder / "bwrap"
    path.write_text(f'#!/bin/sh\necho started >> "{folder}/log"\nexec {real} "$@"\n')
    path.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))
    programs.bubblewrap_fault.cache_clear()
    return path


@pytest.mark.parametrize("relative", [False, True])
def test_a_bubblewrap_outside_of_usr_bin_is_the_one_that_is_started(relative, rooms, tmp_path, monkeypatch):  # noqa: F811
    path = moved_bubblewrap(tmp_path / "my tools", monkeypatch)
    if relative:
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("PATH", "my tools")
    assert sandbox.choose("auto") == "bubblewrap"
    before = len((path.parent / "log").read_text().split())
    here = room(rooms, "bubblewrap", tmp_path)
    shell("bubblewrap", here, "echo inside $$")
    assert here.stdout.read_text().startswith("inside "), here.stderr.read_text()
    assert len((path.parent / "log").read_text().split()) == before + 1
    here.remove()


def test_a_bubblewrap_that_cannot_make_a_sandbox_is_refused_before_the_run(tmp_path, monkeypatch):
    (tmp_path / "bwrap").write_text("#!/bin/sh\necho 'No permissions to create new namespace' >&2; exit 1\n")
    (tmp_path / "bwrap").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    programs.bubblewrap_fault.cache_clear()
    with pytest.raises(PreflightError, match="No permissions to create new namespace"):
        sandbox.choose("auto")


def findings(capsys) -> dict[str, dict]:
    main(["doctor", "--json"])
    return {one["name"]: one for one in json.loads(capsys.readouterr().out)["findings"]}


def test_doctor_reports_what_agents_need_with_versions_and_what_is_missing(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("SNELLEN_CACHE", str(tmp_path / "cache"))
    tools = tmp_path / "tools"
    tools.mkdir()
    for name, text in (("bwrap", "bubblewrap 9.9.1"), ("apptainer", "9.9.2"), ("node", "v9.9.3"), ("npm", "9.9.4")):
        (tools / name).write_text(f"#!/bin/sh\necho {text}\n")
        (tools / name).chmod(stat.S_IRWXU)
    monkeypatch.setenv("PATH", str(tools))
    programs.bubblewrap_fault.cache_clear()
    there = findings(capsys)
    for name, version, program in (
        ("bubblewrap", "9.9.1", "bwrap"),
        ("Apptainer", "9.9.2", "apptainer"),
        ("Node", "9.9.3", "node"),
        ("npm", "9.9.4", "npm"),
    ):
        assert there[name]["state"] == "ok", there[name]
        assert version in there[name]["text"] and str(tools / program) in there[name]["text"]
    assert "apt-get install ripgrep" in there["ripgrep"]["text"]
    assert "snellen agents install openclaw" in there["agent openclaw"]["text"]
    monkeypatch.setenv("PATH", str(tmp_path))
    programs.bubblewrap_fault.cache_clear()
    gone = findings(capsys)
    for name in ("bubblewrap", "Apptainer", "Node", "npm", "ripgrep", "agent openclaw", "agent opencode"):
        assert gone[name]["state"] == "missing", gone[name]
    assert "apt-get install bubblewrap" in gone["bubblewrap"]["text"]


def test_an_agent_in_a_sandbox_writes_to_no_folder_of_the_user(tmp_path):
    (tmp_path / "pages").mkdir()
    settings = {"pages": "pages", "record": "calls"}
    (tmp_path / "tools.json").write_text(json.dumps(settings))
    options = ModelOptions(agent_model="a/b", base_url="http://127.0.0.1:9/v1", tools=str(tmp_path / "tools.json"))
    with pytest.raises(UsageError, match="cannot record"):
        open_model("agent:opencode", options)
    (tmp_path / "tools.json").write_text(json.dumps({**settings, "replay": True}))
    open_model("agent:opencode", options)


def test_sizes_are_read_with_their_units_and_anything_else_is_refused(capsys, tmp_path):
    from snellen.cli.options import parse_size

    assert [parse_size(text, "--x") for text in ("512M", "2G", "2GiB", "1000", "3kb")] == [
        512 << 20,
        2 << 30,
        2 << 30,
        1000,
        3 << 10,
    ]
    words = ["run", "chart", "--model", "agent:opencode", "--agent-model", "a/b", "--base-url", "http://127.0.0.1:9/v1"]
    for wrong in ("lots", "-1", "1T", "1e9", "9" * 30):
        assert main([*words, "--agent-memory", wrong, "--out", str(tmp_path / "r")]) == 2
        assert "--agent-memory" in capsys.readouterr().err
    assert not (tmp_path / "r").exists()
