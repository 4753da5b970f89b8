"""No tool reaches loopback, private, link-local or metadata addresses, however they are written or resolved."""

from __future__ import annotations

import gzip
import time
import zlib
from collections.abc import Iterator
from typing import Any

import pytest
from aiohttp.abc import AbstractResolver

from servers.loopback import JsonHandler, LoopbackServer
from snellen.models.tools.base import ToolError
from snellen.models.tools.settings import ToolLimits
from snellen.models.tools.url_policy import checked, public
from snellen.models.tools.web import WebBackend

ALLOWED = "open.example.org"
# Reserved for documentation (RFC 5737), so that nothing answers; it passes for a public address here.
NOWHERE = "198.51.100.7"


class Names(AbstractResolver):
    """Resolves names from a table, and counts how often it is asked."""

    def __init__(self, **table: str | list[str]) -> None:
        self.table = {
            name.replace("_", "."): [value] if isinstance(value, str) else value for name, value in table.items()
        }
        self.asked: list[str] = []

    async def resolve(self, host: str, port: int = 0, family: int = 0) -> list[Any]:
        self.asked.append(host)
        addresses = self.table.get(host, [])
        if not addresses:
            raise OSError(f"no address for {host}")
        # A rebinding name: each time it is asked it says the next of its addresses.
        said = addresses if host != "rebinding.example.org" else [addresses[min(len(self.asked), len(addresses)) - 1]]
        return [
            {"hostname": host, "host": one, "port": port, "family": 10 if ":" in one else 2, "proto": 6, "flags": 4}
            for one in said
        ]

    async def close(self) -> None:
        """Nothing is open."""


class Site(JsonHandler):
    """Pages, redirects, and pages that mean harm. `visits` holds the paths asked for."""

    protocol_version = "HTTP/1.0"
    visits: list[str]

    def do_GET(self) -> None:
        self.visits.append(self.path)
        port = self.server.server_address[1]
        if self.path.startswith("/to/"):
            target = {
                "loopback": f"http://127.0.0.1:{port}/secret",
                "name": f"http://inside.example.org:{port}/secret",
                "file": "file:///etc/passwd",
                "decimal": f"http://2130706433:{port}/secret",
                "page": "/page",
                "round": "/to/round",
            }[self.path.rpartition("/")[2]]
            self.send_response(302)
            self.send_header("Location", target)
            self.end_headers()
            return
        kinds = {"/page": "text/html; charset=utf-8", "/pdf": "application/pdf", "/status": "text/html"}
        self.send_response(503 if self.path == "/status" else 200)
        self.send_header("Content-Type", kinds.get(self.path, "text/plain"))
        if self.path in ("/bomb", "/zipped", "/damaged"):
            self.send_header("Content-Encoding", "gzip")
        if self.path == "/deflate":
            self.send_header("Content-Encoding", "deflate")
        self.end_headers()
        for piece in self._body():
            try:
                self.wfile.write(piece)
            except OSError:
                return

    def _body(self) -> Iterator[bytes]:
        if self.path == "/page":
            yield "<title>Café &amp; bar</title><p>One<p>two <script>three</script><a href='/next'>on</a>".encode()
        elif self.path == "/bomb":
            packer = zlib.compressobj(9, zlib.DEFLATED, zlib.MAX_WBITS | 16)
            for _ in range(300):
                yield packer.compress(b"\0" * 1_000_000)
            yield packer.flush()
        elif self.path == "/zipped":
            yield gzip.compress(b"packed text")
        elif self.path == "/deflate":
            packer = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
            yield packer.compress(b"bare deflate") + packer.flush()
        elif self.path == "/damaged":
            yield b"\x1f\x8b\x08\x00 this is no gzip at all"
        elif self.path == "/long":
            for _ in range(100):
                yield b"word " * 20_000
        elif self.path == "/slow":
            time.sleep(3600)
        else:
            yield b"secret" if self.path == "/secret" else b"text"


@pytest.fixture
def site():
    """A server on loopback: its port, and the paths that were asked for."""
    visits: list[str] = []
    with LoopbackServer(type("Visited", (Site,), {"visits": visits})) as server:
        yield int(server.origin.rpartition(":")[2]), visits


def backend(port: int, names: Names, limits: ToolLimits | None = None) -> WebBackend:
    """The real backend, for which one name alone may be on loopback, where the test's server is."""

    def permitted(host: str, address: str) -> bool:
        return public(host, address) or address == NOWHERE or (host == ALLOWED and address == "127.0.0.1")

    return WebBackend(limits or ToolLimits(), resolver=names, permitted=permitted, ports=frozenset({80, 443, port}))


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1/",
        "http://127.1/",
        "http://2130706433/",
        "http://0x7f000001/",
        "http://0x7f.0.0.1/",
        "http://0177.0.0.1/",
        "http://0/",
        "http://0.0.0.0/",
        "http://10.1.2.3/",
        "http://172.16.0.1/",
        "http://192.168.1.1/",
        "http://100.100.100.200/",
        "http://169.254.169.254/latest/meta-data/",
        "http://168.63.129.16/",
        "http://224.0.0.1/",
        "http://255.255.255.255/",
        "http://[::1]/",
        "http://[::]/",
        "http://[::ffff:127.0.0.1]/",
        "http://[::ffff:7f00:1]/",
        "http://[::127.0.0.1]/",
        "http://[64:ff9b::7f00:1]/",
        "http://[2002:7f00:1::]/",
        "http://[2001:0:7f00:1::]/",
        "http://[fe80::1]/",
        "http://[fe80::1%25eth0]/",
        "http://[fd00:ec2::254]/",
        "http://[ff02::1]/",
        "http://localhost/",
        "http://localhost./",
        "http://metadata/",
        "http://１２７.0.0.1/",
        "http://127。0。0。1/",
        "http://①②⑦.⓪.⓪.①/",
        "http://user:word@example.org/",
        "http://user@127.0.0.1/",
        "http://example.org:22/",
        "http://example.org:6379/",
        "ftp://example.org/",
        "file:///etc/passwd",
        "gopher://example.org/",
        "data:text/html,hello",
        "//example.org/",
        "example.org",
        "http://",
        "http://exa mple.org/",
        "",
        "http://example.org/" + "a" * 3000,
    ],
)
async def test_no_form_of_a_forbidden_address_is_reached(url):
    names = Names()
    with pytest.raises(ToolError):
        await WebBackend(ToolLimits(seconds=5), resolver=names).fetch(url)
    assert names.asked == [], "refused before any name is resolved"


@pytest.mark.parametrize("url", ["http://example.org/", "https://93.184.216.34/a", "http://[2606:2800:220:1::1]/b"])
def test_public_addresses_pass(url):
    assert str(checked(url)) == url


@pytest.mark.parametrize(
    "addresses", ["127.0.0.1", "10.0.0.1", "::1", "::ffff:127.0.0.1", ["93.184.216.34", "127.0.0.1"], "169.254.169.254"]
)
async def test_a_name_that_resolves_to_a_forbidden_address_is_refused_whole(site, addresses):
    port, visits = site
    with pytest.raises(ToolError, match="not public"):
        await backend(port, Names(inside_example_org=addresses)).fetch(f"http://inside.example.org:{port}/secret")
    assert visits == []


async def test_a_rebinding_name_is_connected_where_it_was_checked(site):
    port, visits = site
    names = Names(rebinding_example_org=[NOWHERE, "127.0.0.1"])
    with pytest.raises(ToolError, match=r"cannot be reached|no answer"):
        await backend(port, names, ToolLimits(seconds=0.5)).fetch(f"http://rebinding.example.org:{port}/secret")
    assert names.asked == ["rebinding.example.org"], "resolved once, and never again between check and connection"
    assert visits == []


@pytest.mark.parametrize("where", ["loopback", "name", "file", "decimal"])
async def test_a_redirect_is_checked_like_the_first_address(site, where):
    port, visits = site
    names = Names(open_example_org="127.0.0.1", inside_example_org="127.0.0.1")
    with pytest.raises(ToolError):
        await backend(port, names).fetch(f"http://{ALLOWED}:{port}/to/{where}")
    assert visits == [f"/to/{where}"]


async def test_redirects_are_followed_and_not_for_ever(site):
    port, visits = site
    names = Names(open_example_org="127.0.0.1")
    page = await backend(port, names).fetch(f"http://{ALLOWED}:{port}/to/page")
    assert page.title == "Café & bar"
    assert page.text == "One\ntwo on"
    assert page.links == ((f"http://{ALLOWED}:{port}/next", "on"),)
    with pytest.raises(ToolError, match="more than 5 times"):
        await backend(port, names).fetch(f"http://{ALLOWED}:{port}/to/round")
    assert visits.count("/to/round") == 6


async def test_a_page_that_unpacks_to_300_megabytes_is_cut(site):
    port, _ = site
    limits = ToolLimits(page_bytes=1_000_000)
    got = await backend(port, Names(open_example_org="127.0.0.1"), limits).get(f"http://{ALLOWED}:{port}/bomb")
    assert (len(got.data), got.cut) == (1_000_000, True)


async def test_a_page_of_ten_megabytes_is_cut_at_the_limit(site):
    port, _ = site
    page = await backend(port, Names(open_example_org="127.0.0.1")).fetch(f"http://{ALLOWED}:{port}/long")
    assert page.cut
    assert 1_900_000 < len(page.text) <= 2_000_000


@pytest.mark.parametrize(("path", "text"), [("zipped", "packed text"), ("deflate", "bare deflate")])
async def test_packed_pages_are_read(site, path, text):
    port, _ = site
    page = await backend(port, Names(open_example_org="127.0.0.1")).fetch(f"http://{ALLOWED}:{port}/{path}")
    assert page.text == text


@pytest.mark.parametrize(
    ("path", "why", "seconds"),
    [
        ("damaged", "damaged", 600),
        ("pdf", "application/pdf", 600),
        ("status", "HTTP 503", 600),
        ("slow", "within 0.5 s", 0.5),
    ],
)
async def test_what_cannot_be_read_is_told(site, path, why, seconds):
    port, _ = site
    names = Names(open_example_org="127.0.0.1")
    with pytest.raises(ToolError, match=why):
        await backend(port, names, ToolLimits(seconds=seconds)).fetch(f"http://{ALLOWED}:{port}/{path}")


async def test_no_proxy_of_the_environment_stands_between_check_and_connection(site, monkeypatch):
    port, visits = site
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{port}")
    with pytest.raises(ToolError):
        await backend(port, Names(inside_example_org="10.0.0.1")).fetch("http://inside.example.org/")
    assert visits == []
