"""Proxy of `--agent-network web`: what an agent's programs reach by it, and what a hostile agent does not."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from ipaddress import ip_address
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.tools.test_tools_addresses import ALLOWED, Names, site  # noqa: F401 - a fixture
from snellen.errors import UsageError
from snellen.models.agents import process, sandbox, web_proxy
from snellen.models.agents.install import Installation
from snellen.models.agents.model import AgentModel
from snellen.models.agents.process import AgentCommand, TranscriptState
from snellen.models.agents.web_proxy import ENVIRONMENT, WebProxy
from snellen.models.agents.workdir import AgentModelSettings, WorkdirFactory
from snellen.models.base import ModelOptions
from snellen.models.registry import open_model
from snellen.models.tools import url_policy
from snellen.models.tools.settings import load_named
from snellen.models.tools.url_policy import public
from snellen.types import Generation

ENDPOINT = "http://model.example.org:9/v1"
Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def proxy(port: int, requests: int = 100, endpoint: str = ENDPOINT, **names: str | list[str]) -> WebProxy:
    """The real proxy, for which one name alone may be on loopback, where the test's server is."""

    def permitted(host: str, address: str) -> bool:
        return public(host, address) or (host == ALLOWED and address == "127.0.0.1")

    table = Names(open_example_org="127.0.0.1", inside_example_org="127.0.0.1", **names)
    return WebProxy(requests, endpoint, table, permitted, frozenset({80, 443, port}))


@contextlib.asynccontextmanager
async def opened(web: WebProxy) -> AsyncIterator[int]:
    listener = socket.create_server(("127.0.0.1", 0))
    try:
        async with web.open_to(listener):
            yield listener.getsockname()[1]
    finally:
        listener.close()


@contextlib.asynccontextmanager
async def server(answer: Handler) -> AsyncIterator[int]:
    """A server of the web that behaves as it is told."""
    tasks: set[asyncio.Task[None] | None] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tasks.add(asyncio.current_task())
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            await answer(reader, writer)
            writer.close()

    listening = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield listening.sockets[0].getsockname()[1]
    finally:
        listening.close()
        for task in filter(None, tasks):
            task.cancel()


async def say(port: int, words: bytes) -> bytes:
    """Send bytes to the proxy, and return all that comes back."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(words)
        return await asyncio.wait_for(reader.read(), 20)
    except ConnectionResetError:
        return b""
    finally:
        writer.close()


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def get(target: str, *headers: str) -> bytes:
    return "\r\n".join((f"GET {target} HTTP/1.1", "Host: somewhere.else", *headers, "", "")).encode()


def connect(target: str) -> bytes:
    return f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n".encode()


async def test_a_page_is_read_by_its_absolute_address_and_both_sides_are_told_that_the_connection_ends(site):  # noqa: F811
    port, visits = site
    web = proxy(port)
    async with opened(web) as at:
        reply = await say(at, get(f"http://{ALLOWED}:{port}/page"))
    assert reply.startswith(b"HTTP/1.0 200 OK\r\nConnection: close\r\n") and "Café &amp; bar".encode() in reply
    assert visits == ["/page"]
    (entry,) = web.record
    assert (entry.method, entry.host, entry.port, entry.status, entry.refused) == ("GET", ALLOWED, port, 200, "")
    assert entry.received > 100 and entry.sent > 50


async def test_what_goes_out_is_the_agents_request_to_the_checked_host_and_nothing_of_the_users(monkeypatch):
    heads: list[bytes] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append(await reader.readuntil(b"\r\n\r\n") + await reader.readexactly(5))
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: keep-alive\r\n\r\nok")

    monkeypatch.setenv("http_proxy", "http://user:secret-of-proxy@127.0.0.1:1")
    async with server(answer) as port, opened(proxy(port)) as at:
        words = get(
            f"http://{ALLOWED}:{port}/a%20b?q=1%2B2",
            *("Proxy-Authorization: Basic eA==", "Cookie: own=1", "Connection: keep-alive", "Upgrade: h2c"),
            *("Expect: 100-continue", "Content-Length: 5"),
        )
        assert b"ok" in await say(at, words + b"12345 and what is beyond the body")
    assert heads == [
        f"GET /a%20b?q=1%2B2 HTTP/1.1\r\nHost: {ALLOWED}:{port}\r\nConnection: close\r\nCookie: own=1\r\n"
        "Content-Length: 5\r\n\r\n12345".encode()
    ]


async def test_bytes_of_a_tunnel_pass_both_ways_until_one_side_ends():
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while chunk := await reader.read(100):
            writer.write(chunk.upper())

    async with server(answer) as port:
        web = proxy(port)
        async with opened(web) as at:
            reader, writer = await asyncio.open_connection("127.0.0.1", at)
            writer.write(connect(f"{ALLOWED}:{port}") + b"early ")
            assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 200 Connection established\r\n\r\n"
            writer.write(b"late")
            writer.write_eof()
            assert await reader.read() == b"EARLY LATE"
            writer.close()
    assert [(entry.status, entry.sent, entry.received) for entry in web.record] == [(200, 10, 10)]


REFUSED = [
    *("127.0.0.1", "[::1]", "[::ffff:127.0.0.1]", "localhost", "2130706433", "0x7f000001", "0177.0.0.1", "127.1", "0"),
    *(
        "10.0.0.1",
        "172.16.0.1",
        "192.168.0.1",
        "100.64.0.1",
        "169.254.169.254",
        "[fd00::1]",
        "[fe80::1]",
        "[64:ff9b::7f00:1]",
    ),
    *(
        "168.63.129.16",
        "metadata",
        "inside.example.org",
        "both.example.org",
        "mapped.example.org",
        "127.0.0.1.",
        "a..b",
    ),
]


@pytest.mark.parametrize("host", REFUSED)
async def test_neither_way_leads_to_this_machine_a_private_network_or_a_metadata_service(host, site):  # noqa: F811
    port, visits = site
    web = proxy(port, both_example_org=["8.8.8.8", "127.0.0.1"], mapped_example_org="::ffff:127.0.0.1")
    async with opened(web) as at:
        for words in (get(f"http://{host}:{port}/secret"), connect(f"{host}:{port}")):
            assert (await say(at, words)).split(b" ")[1] in (b"403", b"502"), words
    assert visits == [] and all(entry.refused and not entry.sent for entry in web.record)


@pytest.mark.parametrize("number", [0, 22, 25, 6379, 8000, 65535, 70000])
async def test_no_other_port_is_reached(number, site):  # noqa: F811
    async with opened(proxy(site[0])) as at:
        for words in (get(f"http://{ALLOWED}:{number}/"), connect(f"{ALLOWED}:{number}")):
            assert (await say(at, words)).split(b" ")[1] == b"403"


async def test_the_connection_is_made_to_the_address_that_was_checked(site):  # noqa: F811
    port, visits = site
    web = proxy(port, rebinding_example_org=["198.18.0.1", "127.0.0.1", "127.0.0.1"])
    async with opened(web) as at:
        for _ in range(3):
            assert b" 403 " in await say(at, get(f"http://rebinding.example.org:{port}/secret"))
    assert visits == []


async def test_the_models_endpoint_is_reached_by_no_name_and_no_address_of_it(site):  # noqa: F811
    port, visits = site
    named = proxy(port, endpoint=f"http://{ALLOWED}:{port}/v1")
    other = proxy(port, endpoint=f"http://model.example.org:{port}/v1", model_example_org="127.0.0.1")
    for web in (named, other):
        async with opened(web) as at:
            assert b" 403 " in await say(at, get(f"http://{ALLOWED}:{port}/v1/models"))
            assert b" 403 " in await say(at, connect(f"{ALLOWED.upper()}:{port}"))
            assert b" 200 " not in await say(at, connect(f"{ALLOWED}.:{port}"))
        assert "the model's endpoint" in web.record[0].refused
    assert visits == []


def test_a_public_address_of_this_machine_is_not_of_the_public_network(monkeypatch):
    assert public("x", "8.8.8.8")
    monkeypatch.setattr(url_policy, "_CLOSED_4", ())
    assert not public("x", "127.0.0.1")  # stands for a server's own public address


@settings(max_examples=300)
@given(
    st.one_of(st.ip_addresses(v=4), st.ip_addresses(v=6)),
    st.sampled_from(["plain", "mapped", "decimal", "hex", "octal"]),
)
def test_an_address_is_connected_to_if_and_only_if_it_is_public_and_plain(address, spelling):
    text = str(address) if address.version == 4 else f"[{address}]"
    if address.version == 4 and spelling != "plain":
        number = int(address)
        octal = ".".join(f"0{int(part):o}" for part in str(address).split("."))
        text = {"mapped": f"[::ffff:{address}]", "decimal": str(number), "hex": hex(number), "octal": octal}[spelling]
    tried: list[str] = []

    async def note(host: str, port: int, **rest: object) -> None:
        tried.append(host)
        raise OSError

    async def ask() -> None:
        web = WebProxy(10, ENDPOINT)
        with contextlib.suppress(web_proxy._RefusedError), pytest.MonkeyPatch.context() as patch:
            patch.setattr(asyncio, "open_connection", note)
            await web._connected(text, 443)

    asyncio.run(ask())
    for one in tried:
        assert public("", one) and ip_address(one) == address


MALFORMED = [
    *(b"\r\n\r\n", b"GET /page HTTP/1.1\r\n\r\n", b"GET http://open.example.org:{port}/ HTTP/2.0\r\n\r\n", b"\x16\x03\x01\r\n\r\n"),
    *(b"GET https://open.example.org/ HTTP/1.1\r\n\r\n", b"GET http://u:p@open.example.org:{port}/ HTTP/1.1\r\n\r\n"),
    b"GET http://open.example.org:{port}@127.0.0.1/ HTTP/1.1\r\n\r\n",
    b"GET http://open.example.org:{port}\\@127.0.0.1/ HTTP/1.1\r\n\r\n",
    *(b"CONNECT open.example.org HTTP/1.1\r\n\r\n", b"CONNECT http://open.example.org:443/ HTTP/1.1\r\n\r\n"),
    b"CONNECT open.example.org:{port}/secret HTTP/1.1\r\n\r\n",
    *(b"GET http://open.example.org:{port}/ HTTP/1.1\r\n" + line + b"\r\n\r\n" for line in (
        b"No colon", b" Folded: 1", b"Bad\x00: 1", b"A: 1\nB: 2", b"A: \x01", b"Spaced : 1",
        b"Content-Length: 1\r\nContent-Length: 2", b"Content-Length: -1", b"Content-Length: 1, 1", b"Content-Length: 0x1",
        b"Transfer-Encoding: chunked", b"Transfer-Encoding: x\r\nContent-Length: 3",
    )),
]  # fmt: skip


@pytest.mark.parametrize("words", MALFORMED)
async def test_a_request_that_can_be_read_in_two_ways_reaches_nothing(words, site):  # noqa: F811
    port, visits = site
    async with opened(proxy(port)) as at:
        reply = await say(at, words.replace(b"{port}", str(port).encode()))
        assert reply.split(b" ")[1] in (b"400", b"411"), reply
    assert visits == []


async def test_a_huge_head_is_refused_and_of_pipelined_requests_one_is_sent(site):  # noqa: F811
    port, visits = site
    async with opened(proxy(port)) as at:
        assert b" 431 " in await say(at, get(f"http://{ALLOWED}:{port}/page", "X: " + "x" * web_proxy.MAX_HEAD))
        assert b" 431 " in await say(at, b"x" * 3 * web_proxy.MAX_HEAD)
        await say(at, get(f"http://{ALLOWED}:{port}/page") * 3)
    assert visits == ["/page"]


async def test_a_slow_head_a_slow_server_and_a_silent_tunnel_end_in_time(site, monkeypatch):  # noqa: F811
    port, _ = site
    monkeypatch.setattr(web_proxy, "HEAD_S", 0.2)
    monkeypatch.setattr(web_proxy, "CONNECTION_S", 0.5)
    web = proxy(port)
    async with opened(web) as at:
        assert b" 431 " in await say(at, b"GET http://")
        await say(at, get(f"http://{ALLOWED}:{port}/slow"))
        await say(at, connect(f"{ALLOWED}:{port}"))
    assert "more than 0.5 s" in web.record[1].refused and "more than 0.5 s" in web.record[2].refused


async def test_bytes_of_a_sample_are_bounded_in_both_directions_and_all_connections_together(monkeypatch):
    monkeypatch.setattr(web_proxy, "MAX_BYTES", 1_000_000)

    async def flood(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        while True:
            writer.write(b"x" * 10_000)
            await writer.drain()

    async def swallow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.read(1 << 16):
            pass

    async with server(flood) as port:
        web = proxy(port)
        async with opened(web) as at:
            words = (get(f"http://{ALLOWED}:{port}/"), connect(f"{ALLOWED}:{port}"))
            replies = await asyncio.gather(*(say(at, one) for one in words * 2))
            assert sum(map(len, replies)) < 1_100_000
            assert b" 429 " in await say(at, get(f"http://{ALLOWED}:{port}/"))
        assert sum(entry.received + entry.sent for entry in web.record) < 1_500_000
        assert all("are used up" in entry.refused for entry in web.record)
    async with server(swallow) as port:
        web = proxy(port)
        async with opened(web) as at:
            await say(at, connect(f"{ALLOWED}:{port}") + b"x" * 2_000_000)
        assert web.record[0].sent < 1_100_000


async def test_requests_of_a_sample_are_bounded_refused_ones_too_and_the_record_with_them(site):  # noqa: F811
    port, visits = site
    web = proxy(port, requests=3)
    async with opened(web) as at:
        for words in (get("http://127.0.0.1/"), b"\r\n\r\n", *[get(f"http://{ALLOWED}:{port}/page")] * 20):
            await say(at, words)
    assert visits == ["/page"] and len(web.record) == 4 and "all 3 requests" in web.record[-1].refused


async def test_an_agent_takes_no_more_descriptors_than_its_connections_however_it_leaves_them(site, monkeypatch):  # noqa: F811
    port, _ = site
    monkeypatch.setattr(web_proxy, "CLOSE_S", 0.2)
    before = descriptors()
    async with opened(proxy(port, requests=1000)) as at:
        pairs = [await asyncio.open_connection("127.0.0.1", at) for _ in range(4 * web_proxy.MAX_CONNECTIONS)]
        for number, (_, writer) in enumerate(pairs):
            with contextlib.suppress(OSError):
                path = "long" if number % 2 else "slow"
                writer.write(get(f"http://{ALLOWED}:{port}/{path}"))  # which nobody reads
        await asyncio.sleep(0.5)
        # Of each, our own end; of those that are served, the proxy's two; and the server's.
        assert descriptors() - before < len(pairs) + 3 * web_proxy.MAX_CONNECTIONS + 10
        for _, writer in pairs:
            writer.transport.abort()
        for _ in range(6000):
            await asyncio.sleep(0.1)
            if b"Caf" in await say(at, get(f"http://{ALLOWED}:{port}/page")):
                break
        else:
            pytest.fail("the places of connections that were given up are not free again")


async def test_a_name_that_no_resolver_takes_is_refused_and_nothing_is_written_to_the_terminal(capfd):
    web = WebProxy(20, "http://a..b:443/v1")
    async with opened(web) as at:
        for host in ("a..b", "a" * 64 + ".example", ".".join("a" * 60 for _ in range(4)), "8.8.8.8.", "xn--a.invalid"):
            for words in (get(f"http://{host}/"), connect(f"{host}:443")):
                assert (await say(at, words)).split(b" ")[1] in (b"403", b"502"), host
        _, writer = await asyncio.open_connection("127.0.0.1", at)
        writer.write(b"GET")
        writer.close()
        await asyncio.sleep(0.2)
    assert all(entry.refused for entry in web.record)
    assert capfd.readouterr() == ("", "")


async def test_an_answer_that_breaks_off_or_is_none_is_not_taken_for_whole():
    async def broken(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if b"none" in await reader.readuntil(b"\r\n\r\n"):
            writer.write(b"SSH-2.0-OpenSSH\r\n")
            return
        writer.write(b"HTTP/1.1 200 OK\r\n\r\nhalf")
        await writer.drain()
        writer.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
        writer.transport.abort()

    async with server(broken) as port:
        web = proxy(port)
        async with opened(web) as at:
            assert b" 502 " in await say(at, get(f"http://{ALLOWED}:{port}/none"))
            reader, writer = await asyncio.open_connection("127.0.0.1", at)
            writer.write(get(f"http://{ALLOWED}:{port}/half"))
            with pytest.raises(ConnectionResetError):
                await reader.read()
            writer.close()
    assert web.record[1].refused == "the connection broke off"


@pytest.mark.skipif(shutil.which("bwrap") is None or shutil.which("curl") is None, reason="NO bwrap OR curl HERE")
async def test_programs_in_the_sandbox_find_the_proxy_and_reach_the_public_web_alone(tmp_path, site):  # noqa: F811
    port, visits = site
    rooms = WorkdirFactory(tmp_path)
    asked = AgentModelSettings("p", "m", "http://127.0.0.1:9/v1", Generation(), 60.0)
    room = await asyncio.to_thread(rooms.make, asked, "work", sandbox.SAMPLE, sandbox.AGENT, None)
    script = f"""
curl -s http://{ALLOWED}:{port}/page; echo
curl -s -p http://{ALLOWED}:{port}/page; echo
curl -s http://inside.example.org:{port}/secret; curl -s -p http://169.254.169.254/latest || echo no-tunnel
curl -s --noproxy '*' http://{ALLOWED}:{port}/secret || echo no-way-past
curl -s http://127.0.0.1:{port}/secret || echo no-loopback
"""
    (tmp_path / "agent").mkdir()
    installation = Installation("openclaw", "1", "", 0, 0, "", "", tmp_path / "agent")
    command = AgentCommand(
        ["/bin/sh", "-s"], {"HOME": f"{sandbox.SAMPLE}/home", **ENVIRONMENT}, f"{sandbox.SAMPLE}/work", script.encode()
    )
    shut = sandbox.wrap_command("bubblewrap", command, room, installation, "none", None)
    web = proxy(port)
    async with web.open_to(room.listeners[2]):
        state = TranscriptState(finished=False, loops=False)
        await process.run(shut, room.stdout, room.stderr, 100.0, lambda: True, lambda: 0, lambda: state)
    printed = room.stdout.read_text()
    room.remove()
    rooms.close()
    assert printed.count("Café &amp; bar") == 2 and "is not public" in printed, printed
    assert all(mark in printed for mark in ("no-tunnel", "no-way-past", "no-loopback")), printed
    assert visits == ["/page", "/page"]
    assert [(entry.method, entry.status) for entry in web.record] == [
        ("GET", 200),
        ("CONNECT", 200),
        ("GET", 403),
        ("CONNECT", 403),
    ]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "the model alone (--agent-network endpoint); --agent-network web opens"),
        ({"tools": "web"}, "the model, and the web by --tools (--agent-network endpoint)"),
        (
            {"agent_network": "web", "agent_requests": 20},
            "the model and the public web, by a gateway, 20 requests a sample",
        ),
        ({"agent_network": "host"}, "this machine's whole network"),
        ({"sandbox": "none"}, "this machine's whole network"),
    ],
)
def test_what_the_agent_can_reach_is_said_with_the_option_that_changes_it(options, words):
    model = open_model("agent:opencode", ModelOptions(agent_model="a/b", base_url=ENDPOINT, **options))
    assert isinstance(model, AgentModel)
    first, *others = model._reach()
    assert first.startswith(f"the agent can reach {words}") and "--agent-network web" in first
    assert ["third parties: Bing, GoogleLens, Yandex" in line for line in others] == [True] * ("tools" in options)


def test_the_web_is_not_promised_to_be_bounded_where_there_is_no_sandbox():
    options = ModelOptions(agent_model="a/b", base_url=ENDPOINT, agent_network="web", sandbox="none")
    with pytest.raises(UsageError, match="--agent-network web"):
        open_model("agent:opencode", options)


def test_tools_web_needs_no_file_and_searches_by_words_where_a_search_engine_is_named(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SEARXNG_URL", raising=False)
    plain = load_named("web")
    assert plain is not None and "web_search" not in plain.given()
    assert {"fetch_url", "reverse_image_search", "crop_zoom", "view_image"} == set(plain.given())
    monkeypatch.setenv("SEARXNG_URL", "http://127.0.0.1:8888")
    monkeypatch.setenv("SNELLEN_TOOLS", "web")
    named = load_named(None)
    assert named is not None and named.searxng == "http://127.0.0.1:8888" and "web_search" in named.given()
    monkeypatch.setenv("SEARXNG_URL", "http://127.0.0.1:8888/?token=sk-abcdefghijklmnopqrstuvwxyz012345")
    with pytest.raises(UsageError, match="SEARXNG_URL hold"):
        load_named("web")
