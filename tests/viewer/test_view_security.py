"""Who may use the pages: Host and Origin, the token and its cookie, sizes and slow clients, and what every answer carries."""

from __future__ import annotations

import asyncio
import http.client
import re
import socket
import threading
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from browser_checks import serving

from snellen.local_server import LOOPBACK, bind
from snellen.viewer.security import MAX_BODY_BYTES, Access
from snellen.viewer.serve import timed_protocol

TOKEN = "a-token-of-24-characters"


@pytest.fixture(scope="module")
def root(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("empty")


@pytest.fixture(scope="module")
def address(root):
    with serving(root) as url:
        yield url


@pytest.fixture(scope="module")
def locked(root):
    with serving(root, token=TOKEN, host="0.0.0.0") as url:
        yield url


def ask(address: str, path: str = "/", method: str = "GET", body: bytes = b"", **headers: str):
    """Return status, headers and text of one request; `Host` is that of the address unless another one is named."""
    parts = urlsplit(address)
    connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=600)
    connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
    fields = {"Host": parts.netloc, **{name.replace("_", "-"): value for name, value in headers.items()}}
    for name, value in fields.items():
        if value:
            connection.putheader(name, value)
    if body and "Content-Length" not in fields:
        connection.putheader("Content-Length", str(len(body)))
    connection.endheaders(body or None)
    reply = connection.getresponse()
    text = reply.read().decode()
    connection.close()
    return reply.status, {name.lower(): value for name, value in reply.getheaders()}, text


@pytest.mark.parametrize(
    "host",
    ["evil.example", "127.0.0.1.evil.example", "localhost.evil.example:80", "10.0.0.1", "[::2]", "", "x@localhost"],
)
def test_a_name_that_is_not_this_machine_is_refused_on_loopback(address, host):
    assert ask(address, Host=host)[0] in (400, 421)


@pytest.mark.parametrize("host", ["localhost", "localhost:9", "127.0.0.1", "LOCALHOST:80", "[::1]:7"])
def test_names_of_loopback_are_served_whatever_the_port_for_tunnels(address, host):
    assert ask(address, Host=host)[0] == 200


def test_on_another_address_names_are_refused_and_ip_addresses_served():
    access = Access("0.0.0.0", TOKEN)
    assert access.accepts_host("192.168.1.7:8000") and access.accepts_host(socket.gethostname())
    assert not access.accepts_host("rebound.example") and not access.accepts_host("192.168.1.7.example")


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT"])
def test_other_methods_are_refused(address, method):
    assert ask(address, method=method)[0] in (400, 405)


@pytest.mark.parametrize(
    "origin", ["", "null", "https://evil.example", "http://localhost:1", "https://{host}", "http://{host}.evil.example"]
)
def test_a_write_from_another_page_is_refused(address, origin):
    host = urlsplit(address).netloc
    status, _, text = ask(address, "/review", "POST", b"a=1", Origin=origin.format(host=host))
    assert status == 403 and "page of this server" in text


def test_a_write_of_this_page_passes_the_gate(address):
    status, _, _ = ask(address, "/", "POST", b"a=1", Origin=address)
    assert status == 405  # the runs page takes no form; the gate let it through


@pytest.mark.parametrize("length", [str(MAX_BODY_BYTES + 1), "9" * 30, "-1", "x"])
def test_a_form_that_is_too_large_is_refused_before_it_is_read(address, length):
    status, _, _ = ask(address, "/review", "POST", Origin=address, Content_Length=length)
    assert status in (400, 413)


def test_a_body_in_pieces_is_cut_off_at_the_limit(address):
    parts = urlsplit(address)
    with socket.create_connection((parts.hostname, parts.port), timeout=600) as client:
        head = (
            f"POST /review HTTP/1.1\r\nHost: {parts.netloc}\r\nOrigin: {address}\r\nTransfer-Encoding: chunked\r\n\r\n"
        )
        client.sendall(head.encode())
        piece = b"10000\r\n" + b"x" * 0x10000 + b"\r\n"
        try:
            for _ in range(MAX_BODY_BYTES // 0x10000 + 2):
                client.sendall(piece)
        except OSError:
            pass  # the server has answered and closed
        assert client.recv(200).startswith(b"HTTP/1.1 413")


def test_every_answer_forbids_frames_sniffing_and_other_origins(address):
    for path in ("/", "/nothing", "/images/0123456789abcdef", "/thumbnails/..%2f..%2fetc%2fpasswd"):
        _, headers, _ = ask(address, path)
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cross-origin-resource-policy"] == "same-origin"
        assert "frame-ancestors 'none'" in headers["content-security-policy"]
        assert "unsafe" not in headers["content-security-policy"]


def test_without_the_token_nothing_is_shown(locked):
    for path in ("/", "/samples", "/images/0123456789abcdef", "/?token=wrong", "/?token="):
        status, _, text = ask(locked, path)
        assert status == 403 and "token" in text and TOKEN not in text
    assert ask(locked, "/", Cookie="snellen_view_1=x")[0] == 403


def test_the_token_is_changed_for_a_cookie_that_scripts_and_other_sites_do_not_get(locked):
    status, headers, text = ask(locked, f"/samples?benchmark=a%26b&token={TOKEN}")
    assert status == 200 and "samples?benchmark=a%26b" in text and TOKEN not in text
    cookie = headers["set-cookie"]
    assert "HttpOnly" in cookie and "SameSite=Strict" in cookie and TOKEN not in cookie
    assert ask(locked, "/", Cookie=cookie.partition(";")[0])[0] == 200


def test_the_cookie_outlives_a_restart_with_the_same_token_and_no_other():
    first, second, other = Access("0.0.0.0", TOKEN), Access("0.0.0.0", TOKEN), Access("0.0.0.0", TOKEN + "x")
    assert second.accepts_cookie(first.cookie()) and not other.accepts_cookie(first.cookie())


def test_an_entrance_leads_to_this_server_alone(locked):
    for path in (f"//evil.example/?token={TOKEN}", f"/%2fevil.example?token={TOKEN}"):
        _, _, text = ask(locked, path)
        for target in re.findall(r'(?:url=|href=")([^"]+)', text):
            assert target.startswith("/") and not target.startswith("//")


def test_a_client_that_sends_half_a_request_is_let_go():
    import uvicorn

    async def app(scope, receive, send):
        await asyncio.sleep(0.6)  # longer than the limit: an answer may take its time
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body"})

    listener = bind(LOOPBACK, 0)
    listener.listen(8)
    server = uvicorn.Server(uvicorn.Config(app, lifespan="off", log_level="warning", http=timed_protocol(0.4)))
    thread = threading.Thread(target=lambda: asyncio.run(server.serve(sockets=[listener])), daemon=True)
    port = listener.getsockname()[1]
    with (
        socket.create_connection((LOOPBACK, port), timeout=600) as slow,
        socket.create_connection((LOOPBACK, port), timeout=600) as whole,
    ):
        slow.sendall(b"GET / HTTP/1.1\r\nHost: loc")
        whole.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        thread.start()  # what was sent waits for it, so that no limit begins before the request is there
        try:
            assert slow.recv(10) == b""
            assert whole.recv(20).startswith(b"HTTP/1.1 200")
        finally:
            server.should_exit = True
            thread.join(600)
            listener.close()


@pytest.mark.parametrize(
    ("site", "mode", "dest", "status"),
    [
        ("cross-site", "no-cors", "image", 403),
        ("same-site", "no-cors", "script", 403),  # another port of this machine
        ("cross-site", "navigate", "iframe", 403),
        ("cross-site", "cors", "empty", 403),
        ("cross-site", "navigate", "document", 200),  # a link to the pages
        ("same-origin", "cors", "empty", 200),
        ("none", "navigate", "document", 200),
    ],
)
def test_a_page_of_another_site_loads_nothing_from_here_and_so_starts_no_query(address, site, mode, dest, status):
    fields = {"Sec_Fetch_Site": site, "Sec_Fetch_Mode": mode, "Sec_Fetch_Dest": dest}
    assert ask(address, "/samples?sql=SELECT+1", **fields)[0] == status


def test_an_address_with_thousands_of_fields_is_refused_in_words(address, locked):
    for place in (address, locked):
        status, _, text = ask(place, "/samples?" + "&".join(f"a{number}=1" for number in range(2_000)))
        assert status in (400, 403) and "Traceback" not in text
