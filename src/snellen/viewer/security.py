"""Who may use the pages: names of this server, writes from its own pages only, and a token for other machines.

Against web pages that the reader has open: their names resolve to this machine (DNS rebinding), so the Host header must name this
server; their forms and scripts post here, so a write must carry the Origin of this server; their frames and images load from
here, so every answer refuses both. Against other machines: a token, kept in a cookie that no script reads and no other site sends.
"""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import secrets
import socket
from dataclasses import dataclass
from hashlib import sha256
from typing import Any
from urllib.parse import parse_qsl, urlencode

from snellen.local_server import LOOPBACK_NAMES, is_loopback

MAX_BODY_BYTES = 1 << 20
BODY_SECONDS = 20.0
METHODS = ("GET", "HEAD", "POST")
COOKIE_AGE_S = 30 * 24 * 3600
HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",  # with no-referrer, a form without a script would send `Origin: null`
    "X-Frame-Options": "DENY",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(), browsing-topics=()",
}
NO_CONTENT_POLICY = "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
"""Policy of every answer that is no page."""


def new_token() -> str:
    """Return a random token of 192 bits."""
    return secrets.token_urlsafe(24)


@dataclass(frozen=True)
class Access:
    """Names that the server answers to, and the token that it asks for.

    Attributes:
        host: address that it listens on.
        token: None asks for none; only on loopback.
    """

    host: str
    token: str | None = None

    def accepts_host(self, header: str) -> bool:
        """Return True if a Host header names this server.

        A server on another address than loopback answers to every IP address too: a page elsewhere cannot have one as its name.
        """
        name = _without_port(header).lower()
        if name in LOOPBACK_NAMES:
            return True
        if is_loopback(self.host):
            return False
        if name in {self.host.lower(), socket.gethostname().lower(), socket.getfqdn().lower()}:
            return True
        try:
            ipaddress.ip_address(name.strip("[]"))
        except ValueError:
            return False
        return True

    def accepts_token(self, token: str) -> bool:
        """Compare a token in constant time."""
        return self.token is not None and hmac.compare_digest(token.encode(), self.token.encode())

    def cookie(self) -> str:
        """Return what the cookie holds: derived from the token, so that it outlives a restart with the same one."""
        return hmac.new((self.token or "").encode(), b"snellen view", sha256).hexdigest()

    def accepts_cookie(self, value: str) -> bool:
        """Compare a cookie in constant time."""
        return self.token is None or hmac.compare_digest(value.encode(), self.cookie().encode())


def _without_port(header: str) -> str:
    """Return the name in a Host header; IPv6 addresses keep their brackets."""
    if header.startswith("["):
        return header.partition("]")[0] + "]"
    return header.partition(":")[0]


class AccessGate:
    """ASGI middleware that lets through what `Access` allows, limits bodies, and adds the headers of every answer."""

    def __init__(self, app: Any, access: Access, cookie_name: str = "snellen_view") -> None:
        self.app = app
        self.access = access
        self.cookie_name = cookie_name

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            if scope["type"] == "websocket":
                await send({"type": "websocket.close", "code": 1008})
            return
        headers = _headers(scope)
        if (refusal := self._refusal(scope, headers)) is not None:
            await _answer(send, *refusal)
            return
        if self.access.token is not None:
            try:
                query = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True, max_num_fields=1000)
            except ValueError:
                await _answer(send, 400, "The address has more than 1,000 fields.\n")
                return
            offered = next((value for name, value in query if name == "token"), None)
            if offered is not None and scope["method"] in ("GET", "HEAD") and self.access.accepts_token(offered):
                rest = urlencode([(name, value) for name, value in query if name != "token"])
                await _answer(send, 200, _entrance(scope["path"], rest), {**self._set_cookie(), "content-type": HTML})
                return
            bearer = next((value for name, value in headers if name == "authorization"), "")
            by_bearer = bearer.startswith("Bearer ") and self.access.accepts_token(bearer.removeprefix("Bearer "))
            if not by_bearer and not self.access.accepts_cookie(_cookie(headers, self.cookie_name)):
                await _answer(send, 403, "Open the address that the command printed; it has the token.\n")
                return
        await self.app(scope, _limited(receive), _with_headers(send))

    def _set_cookie(self) -> dict[str, str]:
        value = f"{self.cookie_name}={self.access.cookie()}; Path=/; Max-Age={COOKIE_AGE_S}; HttpOnly; SameSite=Strict"
        return {"set-cookie": value, "cache-control": "no-store"}

    def _refusal(self, scope: Any, headers: list[tuple[str, str]]) -> tuple[int, str] | None:
        """Return status and reason of a request that is turned away; None for one that may pass."""
        hosts = [value for name, value in headers if name == "host"]
        if len(hosts) != 1 or not self.access.accepts_host(hosts[0]):
            return 421, "This server does not answer to that name. Open it by its IP address, or as localhost.\n"
        if scope["method"] not in METHODS:
            return 405, "Only GET, HEAD and POST are answered.\n"
        if not _from_here(dict(headers)):
            return 403, "Pages of other sites may link to this server, and load nothing from it.\n"
        if scope["method"] == "POST":
            origins = [value for name, value in headers if name == "origin"]
            if origins != [f"{scope.get('scheme', 'http')}://{hosts[0]}"]:
                return 403, "A write must come from a page of this server.\n"
            length = next((value for name, value in headers if name == "content-length"), "0")
            if not (length.isascii() and length.isdigit()) or len(length) > 12 or int(length) > MAX_BODY_BYTES:
                return 413, f"A form has at most {MAX_BODY_BYTES:,} bytes.\n"
        return None


HTML = "text/html; charset=utf-8"


class OversizeBodyError(Exception):
    """A body is larger than MAX_BODY_BYTES, or did not arrive within BODY_SECONDS."""


def _headers(scope: Any) -> list[tuple[str, str]]:
    return [(name.decode("latin-1").lower(), value.decode("latin-1")) for name, value in scope["headers"]]


def _from_here(headers: dict[str, str]) -> bool:
    """Return True unless a browser says that another site loads this address into a page: that could start queries."""
    if headers.get("sec-fetch-site", "none") in ("none", "same-origin"):
        return True
    return headers.get("sec-fetch-mode") == "navigate" and headers.get("sec-fetch-dest", "document") == "document"


def _cookie(headers: list[tuple[str, str]], name: str) -> str:
    for header, line in headers:
        if header == "cookie":
            for pair in line.split(";"):
                key, _, value = pair.strip().partition("=")
                if key == name:
                    return value
    return ""


def _entrance(path: str, query: str) -> str:
    """Return the page that follows a token: it goes on from this site.

    A redirect would still count as coming from the page with the link, and a browser sends no strict cookie there.
    """
    from markupsafe import escape

    address = escape(path + (f"?{query}" if query else "")) if path.startswith("/") and path[1:2] != "/" else "/"
    return (
        f'<!doctype html><html lang="en"><meta http-equiv="refresh" content="0;url={address}">'
        f'<title>Snellen</title><p><a href="{address}">Go on to the pages</a></p></html>'
    )


def _limited(receive: Any) -> Any:
    """Return a `receive` that ends a body that is too large or too slow."""
    size = 0
    deadline: float | None = None

    async def wrapped() -> Any:
        nonlocal size, deadline
        loop = asyncio.get_running_loop()
        if deadline is None:
            deadline = loop.time() + BODY_SECONDS
        if size < 0:  # the body is whole: only a disconnect can follow, and that may take any time
            return await receive()
        try:
            async with asyncio.timeout_at(deadline):
                message = await receive()
        except TimeoutError:
            raise OversizeBodyError(f"The form did not arrive within {BODY_SECONDS:.0f} s.") from None
        if message["type"] == "http.request":
            size += len(message.get("body", b""))
            if size > MAX_BODY_BYTES:
                raise OversizeBodyError(f"A form has at most {MAX_BODY_BYTES:,} bytes.")
            if not message.get("more_body", False):
                size = -1
        return message

    return wrapped


def _with_headers(send: Any) -> Any:
    """Return a `send` that adds the headers of every answer, where the answer has none of that name."""

    async def wrapped(message: Any) -> None:
        if message["type"] == "http.response.start":
            present = {name.lower() for name, _ in message["headers"]}
            added = {**HEADERS, "Content-Security-Policy": NO_CONTENT_POLICY, "Cache-Control": "no-store"}
            extra = [(k.lower().encode(), v.encode()) for k, v in added.items() if k.lower().encode() not in present]
            message = {**message, "headers": [*message["headers"], *extra]}
        await send(message)

    return wrapped


async def _answer(send: Any, status: int, text: str, headers: dict[str, str] | None = None) -> None:
    body = text.encode()
    fields = {"content-type": "text/plain; charset=utf-8", "content-length": str(len(body)), **(headers or {})}
    start = {"type": "http.response.start", "status": status}
    await _with_headers(send)({**start, "headers": [(k.encode(), v.encode("latin-1")) for k, v in fields.items()]})
    await send({"type": "http.response.body", "body": body})
