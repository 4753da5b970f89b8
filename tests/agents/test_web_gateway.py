"""Web tools of an agent that has no network: what they reach by their gateway, and what a hostile agent does not."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import socket
import sys
from collections.abc import AsyncIterator, Awaitable
from pathlib import PurePosixPath
from typing import Any, TypeVar

import aiohttp
import msgspec
import pytest
from aiohttp import web

from agents.conftest import picture
from models.tools.test_tools_addresses import ALLOWED, Names, backend, site  # noqa: F401 - a fixture
from snellen.models.agents import process, sandbox, tool_setup
from snellen.models.agents.gateway import WebGateway
from snellen.models.agents.install import Installation
from snellen.models.agents.process import AgentCommand, TranscriptState
from snellen.models.agents.tool_setup import ToolSetup
from snellen.models.agents.workdir import AgentModelSettings, WorkdirFactory
from snellen.models.base import ModelOptions
from snellen.models.registry import open_model
from snellen.models.tools.base import ToolError
from snellen.models.tools.settings import ToolLimits, ToolSettings
from snellen.models.tools.web import GetPage, RelayedBackend, ReverseImage, Search
from snellen.types import Generation

T = TypeVar("T")
WEB = ToolSettings(backend="web")
ASKED = AgentModelSettings("p", "m", "http://127.0.0.1:9/v1", Generation(), 60.0)


@contextlib.asynccontextmanager
async def relay(gateway: WebGateway) -> AsyncIterator[str]:
    listener = socket.create_server(("127.0.0.1", 0))
    try:
        async with gateway.open_to(listener):
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        listener.close()


async def fault(call: Awaitable[object]) -> str:
    with pytest.raises(ToolError) as caught:
        await call
    return caught.value.message


@pytest.mark.skipif(shutil.which("bwrap") is None, reason="NO bwrap HERE: the sandbox is not tested")
async def test_tools_in_a_sandbox_without_a_network_read_pages_and_the_shell_beside_them_reaches_none(
    tmp_path,
    site,  # noqa: F811
):
    port, visits = site
    equipment = tool_setup.ready(ToolSetup(WEB))
    rooms = WorkdirFactory(tmp_path)
    room = await asyncio.to_thread(rooms.make, ASKED, "work", sandbox.SAMPLE, sandbox.AGENT, None)
    tool_setup.skill(room, WEB)
    (room.work / "image.png").write_bytes(picture())
    inner = PurePosixPath(sandbox.SAMPLE, room.work.name, "skills", "snellen-tools", "tools")
    url = f"http://{ALLOWED}:{port}"
    script = f"""
{inner} fetch_url --url {url}/page; {inner} fetch_url --url http://127.0.0.1:{port}/secret
{inner} fetch_url --url {url}/to/loopback; {inner} fetch_url --url http://169.254.169.254/latest/meta-data
{sys.executable} -c "import urllib.request as u; print(u.urlopen('http://127.0.0.1:{port}/secret').read())" 2>&1 | tail -1
"""
    (tmp_path / "agent").mkdir()
    installation = Installation("openclaw", "1", "", 0, 0, "", "", tmp_path / "agent")
    command = AgentCommand(
        ["/bin/sh", "-s"], {"HOME": f"{sandbox.SAMPLE}/home"}, f"{sandbox.SAMPLE}/work", script.encode()
    )
    shut = sandbox.wrap_command("bubblewrap", command, room, installation, "none", None, equipment)
    gateway = WebGateway(WEB, backend(port, Names(open_example_org="127.0.0.1")))
    async with gateway.open_to(room.listeners[1]):
        await process.run(
            shut,
            room.stdout,
            room.stderr,
            200.0,
            lambda: True,
            lambda: 0,
            lambda: TranscriptState(finished=False, loops=False),
        )
    printed = room.stdout.read_text()
    room.remove()
    rooms.close()
    assert "Café & bar" in printed and "Onetwo" in printed.replace("\n", ""), printed
    assert printed.count("is not an address of the public network") == 3 and "refused" in printed, printed
    assert visits == ["/page", "/to/loopback"]


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:{port}/secret",
        "http://[::1]:{port}/secret",
        "http://[::ffff:127.0.0.1]/secret",
        "http://localhost:{port}/secret",
        "http://2130706433/",
        "http://10.0.0.1/",
        "http://169.254.169.254/latest/meta-data/",
        "http://user:password@open.example.org:{port}/secret",
        "http://inside.example.org:{port}/secret",
        "http://both.example.org:{port}/secret",
        "http://open.example.org:{port}/to/loopback",
        "http://open.example.org:{port}/to/name",
        "http://open.example.org:{port}/to/file",
        "http://open.example.org:22/",
        "file:///etc/passwd",
        "unix:///run/docker.sock",
    ],
)
async def test_no_address_of_the_machine_or_its_network_is_read_for_an_agent(url, site):  # noqa: F811
    port, visits = site
    names = Names(
        open_example_org="127.0.0.1", inside_example_org="127.0.0.1", both_example_org=["198.51.100.7", "127.0.0.1"]
    )
    async with relay(WebGateway(WEB, backend(port, names))) as address:
        await fault(RelayedBackend(WEB, address).get(url.format(port=port)))
    assert "/secret" not in visits


async def test_a_page_and_a_bomb_come_no_longer_than_the_limit_and_time_is_bounded(site):  # noqa: F811
    port, _ = site
    limits = ToolLimits(page_bytes=5000)
    settings = ToolSettings(backend="web", limits=limits)
    async with relay(WebGateway(settings, backend(port, Names(open_example_org="127.0.0.1"), limits))) as address:
        inside = RelayedBackend(settings, address)
        for path in ("long", "bomb"):
            fetched = await inside.get(f"http://{ALLOWED}:{port}/{path}")
            assert len(fetched.data) == 5000 and fetched.cut
        page = await inside.fetch(f"http://{ALLOWED}:{port}/page")
        assert page.title == "Café & bar"
    hurried = ToolSettings(backend="web", limits=ToolLimits(seconds=0.5))
    async with relay(WebGateway(hurried, backend(port, Names(open_example_org="127.0.0.1")))) as address:
        assert "more than 0.5 s" in await fault(RelayedBackend(hurried, address).get(f"http://{ALLOWED}:{port}/slow"))


async def test_calls_are_counted_outside_where_no_agent_resets_them(site):  # noqa: F811
    port, visits = site
    limits = ToolLimits(calls=2)
    settings = ToolSettings(backend="web", limits=limits)
    async with relay(WebGateway(settings, backend(port, Names(open_example_org="127.0.0.1")))) as address:
        inside = RelayedBackend(settings, address)
        for _ in range(2):
            await inside.get(f"http://{ALLOWED}:{port}/page")
        assert "all 2 calls are used up" in await fault(inside.get(f"http://{ALLOWED}:{port}/page"))
    assert len(visits) == 2


async def test_what_the_user_has_not_given_is_refused_outside_too(site):  # noqa: F811
    port, _ = site
    everything = ToolSettings(backend="web", searxng="http://127.0.0.1:9", reverse_engines=("Bing",))
    settings = ToolSettings(backend="web", tools=("view_image",))
    async with relay(WebGateway(settings, backend(port, Names(open_example_org="127.0.0.1")))) as address:
        inside = RelayedBackend(everything, address)
        assert "not among the tools" in await fault(inside.search("x", 3))
        assert "not among the tools" in await fault(inside.reverse(picture(), 3))
        assert "is not a picture" in await fault(inside.get(f"http://{ALLOWED}:{port}/page"))


async def test_a_gateway_answers_nothing_but_calls_of_the_tools(site):  # noqa: F811
    port, visits = site
    settings = ToolSettings(backend="web", limits=ToolLimits(image_bytes=1000))
    gateway = WebGateway(settings, backend(port, Names(open_example_org="127.0.0.1")))
    wrong: list[tuple[str, str, bytes]] = [
        ("GET", "/", b""),
        ("POST", "/v1/chat/completions", b"{}"),
        ("POST", "/", b""),
        ("POST", "/", b"{}"),
        ("POST", "/", b"\x91" * 100_000),
        ("POST", "/", b"x" * 200_000),
        ("POST", "/", msgspec.msgpack.encode(GetPage("x" * 3000))),
        ("POST", "/", msgspec.msgpack.encode(Search("x" * 500, 5))),
        ("POST", "/", msgspec.msgpack.encode(Search("x", -5))),
        ("POST", "/", msgspec.msgpack.encode(ReverseImage(b"x" * 100_000, 5))),
    ]
    async with relay(gateway) as address, aiohttp.ClientSession() as session:
        for method, path, body in wrong:
            async with session.request(method, address + path, data=body) as reply:
                assert reply.status in (400, 403), (method, path, body[:20])
    assert visits == [] and gateway.calls == 0


async def test_a_search_goes_to_the_users_engine_and_its_address_and_password_stay_outside(tmp_path):
    queries: list[Any] = []

    async def answer(request):
        queries.append((request.query["q"], request.headers.get("Authorization")))
        return web.json_response({"results": [{"url": "https://a.example/x", "title": "A kestrel", "content": "bird"}]})

    app = web.Application()
    app.router.add_get("/search", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    settings = ToolSettings(backend="web", searxng=f"http://me:pass-word-77@127.0.0.1:{runner.addresses[0][1]}")
    async with relay(WebGateway(settings)) as address:
        hits = await RelayedBackend(settings, address).search("small falcon", 5)
    assert [hit.title for hit in hits] == ["A kestrel"] and queries[0][0] == "small falcon"
    assert queries[0][1].startswith("Basic ")
    await runner.cleanup()
    if shutil.which("bwrap") is not None:
        rooms = WorkdirFactory(tmp_path)
        room = await asyncio.to_thread(rooms.make, ASKED, "work", sandbox.SAMPLE, sandbox.AGENT, None)
        words = tool_setup.server(room, settings)
        tool_setup.skill(room, settings)
        assert words[-2:] == ["--relay", "http://127.0.0.1:8322"]
        for file in [path for path in room.box.rglob("*") if path.is_file()]:
            assert b"pass-word-77" not in file.read_bytes(), file
        about = (room.work / "skills" / "snellen-tools" / "SKILL.md").read_text()
        assert "web_search" in about
        room.remove()
        rooms.close()


def test_web_tools_are_for_agents_without_a_network_of_their_own_too(tmp_path):
    (tmp_path / "tools.json").write_text('{"backend": "web"}')
    options = ModelOptions(agent_model="a/b", base_url="http://127.0.0.1:9/v1", tools=str(tmp_path / "tools.json"))
    assert open_model("agent:opencode", options).identity()["network"] == "endpoint"
