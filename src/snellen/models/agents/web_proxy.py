"""Proxy from a sandbox to the public web (`--agent-network web`), for the agent's own programs and tools.

It serves a listener inside of the agent's network namespace, as the gateway does (gateway.py). Plain requests name an
absolute address and reach only that; https goes through CONNECT, whose bytes pass as they are. The name is resolved here, on
the machine's side, by the rules of tools/url_policy.py, and the connection is made to an address that was checked. Not reached
are the model's endpoint, this machine, and any network that is not public. No key, cookie or proxy of the user's goes with a
request.

Each connection carries one request. A head is read strictly and written anew, so that both sides see the same request.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import socket
import struct
from collections.abc import AsyncIterator, Coroutine
from typing import Literal
from urllib.parse import urlsplit

from aiohttp import ThreadedResolver
from aiohttp.abc import AbstractResolver
from msgspec import Struct

from snellen.models.agents.supervisor_client import PROXY_PORT
from snellen.models.tools.base import ToolError
from snellen.models.tools.url_policy import PORTS, CheckedResolver, Permitted, checked, public

MAX_BYTES = 256 << 20  # of one sample, in both directions together
MAX_HEAD = 1 << 16
MAX_CONNECTIONS = 32  # of one agent at the same time; each takes two descriptors of the run
LOOKUPS = 2  # names of one agent that are resolved at the same time: a slow name takes a thread of the run
ADDRESSES = 4  # of one name that are tried
HEAD_S, CONNECT_S, CONNECTION_S, CLOSE_S = 10.0, 10.0, 120.0, 5.0
ENVIRONMENT = {
    **dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"), f"http://127.0.0.1:{PROXY_PORT}"),
    **dict.fromkeys(("no_proxy", "NO_PROXY"), "127.0.0.1,localhost,::1"),
    "NODE_USE_ENV_PROXY": "1",
}
"""Variables by which programs find the proxy; the model and the tools inside are asked without it."""

_HOST = rb"([a-z0-9_.-]{1,255}|\[[0-9a-f:.]{2,45}\])"
_CONNECT = re.compile(_HOST + rb":([0-9]{1,5})", re.IGNORECASE)
_ABSOLUTE = re.compile(rb"http://" + _HOST + rb"(?::([0-9]{1,5}))?((?:[/?][^#]*)?)", re.IGNORECASE)
_REQUEST = re.compile(rb"([A-Z]{1,20}) ([\x21-\x7e]+) (HTTP/1\.[01])")
_HEADER = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([^\x00-\x08\x0a-\x1f\x7f]*)")
_STATUS = re.compile(rb"HTTP/1\.[01] ([1-5][0-9]{2})(?: [^\x00-\x08\x0a-\x1f\x7f]*)?\r\n")
_LENGTH = re.compile(rb"[0-9]{1,12}")
# Of one connection and not of the request (RFC 9110, 7.6.1), or written anew.
_DROPPED = frozenset(
    {b"connection", b"keep-alive", b"proxy-connection", b"proxy-authorization", b"te", b"trailer", b"upgrade"}
    | {b"expect", b"host", b"content-length"}
)


class WebRequest(Struct, omit_defaults=True):
    """Record of one request: no path, header or content, which could hold a key.

    Attributes:
        method, host, port: empty where the request could not be read.
        status: the web's answer, or the proxy's where it refuses.
        refused: the reason why nothing was sent, or why the connection was cut.
        sent, received: bytes to and from the web.
    """

    method: str = ""
    host: str = ""
    port: int = 0
    status: int = 0
    refused: str = ""
    sent: int = 0
    received: int = 0


class _RefusedError(Exception):
    """A request that is not passed on, or no further."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


class WebProxy:
    """Passes the requests of one sample's agent on to the public web.

    Args:
        requests: how many, refused ones included.
        endpoint: address of the model, which is not reached from here.
        resolver, permitted, ports: for tests: who resolves names, which (host, address) and which ports are reached.
    """

    def __init__(
        self,
        requests: int,
        endpoint: str,
        resolver: AbstractResolver | None = None,
        permitted: Permitted = public,
        ports: frozenset[int] = PORTS,
    ) -> None:
        self._most = requests
        self._permitted, self._ports = permitted, ports
        self._resolver = resolver or ThreadedResolver()
        self._lookups = asyncio.Semaphore(LOOKUPS)
        split = urlsplit(endpoint)
        self._endpoint = (split.hostname or "", split.port or (443 if split.scheme == "https" else 80))
        self._endpoint_addresses: frozenset[str] | None = None
        self._connections: set[asyncio.Task[None]] = set()
        self._requests = self._bytes = 0
        self.record: list[WebRequest] = []

    @contextlib.asynccontextmanager
    async def open_to(self, listener: socket.socket) -> AsyncIterator[None]:
        """Serve one agent's listener during the block; connections that are open after it are closed."""
        server = await asyncio.start_server(self._accept, sock=listener.dup(), limit=MAX_HEAD)
        try:
            yield
        finally:
            server.close()
            open_connections = list(self._connections)
            for connection in open_connections:
                connection.cancel()
            await asyncio.gather(*open_connections, return_exceptions=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # The task is ours: asyncio writes to the terminal where one that it has made itself is cancelled.
        if len(self._connections) >= MAX_CONNECTIONS:
            writer.transport.abort()
            return
        task = asyncio.create_task(self._serve(reader, writer))
        self._connections.add(task)
        task.add_done_callback(self._connections.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await self._answer(reader, writer)
            # Counted until it is closed: an agent that does not read must not hold descriptors of the run.
            with contextlib.suppress(OSError, TimeoutError):
                async with asyncio.timeout(CLOSE_S):
                    writer.close()
                    await writer.wait_closed()
        finally:
            writer.transport.abort()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = WebRequest()
        try:
            try:
                head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), HEAD_S)
            except asyncio.IncompleteReadError:
                request.refused = "it ended before its head did"
                return
            except (asyncio.LimitOverrunError, TimeoutError):
                raise _RefusedError(
                    431, f"a request's head has {MAX_HEAD >> 10} kB at most, within {HEAD_S:g} s"
                ) from None
            finally:
                self._requests += 1
                if self._requests <= self._most + 1:  # the last one says that there were more
                    self.record.append(request)
            if self._requests > self._most:
                raise _RefusedError(429, f"all {self._most:,} requests of this sample to the web are used up")
            try:
                async with asyncio.timeout(CONNECTION_S):
                    await self._pass_on(head, request, reader, writer)
            except TimeoutError:
                raise _RefusedError(504, f"the connection was open for more than {CONNECTION_S:g} s") from None
            except OSError:
                raise _RefusedError(502, "the connection broke off") from None
        except _RefusedError as error:
            request.refused = str(error)
            if request.status:  # an answer has begun; reset, so that the agent does not take it for whole
                writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                writer.transport.abort()
                return
            request.status = error.status
            body = f"snellen: {error}\n".encode()
            lines = f"HTTP/1.1 {error.status} Refused\r\nContent-Type: text/plain\r\nContent-Length: {len(body)}\r\n"
            writer.write(lines.encode() + b"Connection: close\r\n\r\n" + body)

    async def _pass_on(
        self, head: bytes, request: WebRequest, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        first, *lines = head[:-4].split(b"\r\n")
        if (match := _REQUEST.fullmatch(first)) is None:
            raise _RefusedError(400, "this is no request of HTTP/1")
        request.method = match[1].decode()
        tunnel = request.method == "CONNECT"
        if (target := (_CONNECT if tunnel else _ABSOLUTE).fullmatch(match[2])) is None:
            raise _RefusedError(400, "a proxy takes http://HOST/PATH, and CONNECT HOST:PORT for https")
        request.host, request.port = target[1].decode().lower(), int(target[2] or 80)
        headers, length = _headers(lines)
        far_reader, far_writer = await self._connected(request.host, request.port)
        try:
            if tunnel:
                request.status = 200
                writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
                await _first_ended(
                    self._copy(far_reader, writer, request, "received"),
                    self._copy(reader, far_writer, request, "sent", ends=True),
                )
                return
            path = target[3] if target[3].startswith(b"/") else b"/" + target[3]
            host = target[1] if request.port == 80 else b"%s:%d" % (target[1], request.port)
            written = b"\r\n".join((b"%s %s %s" % (match[1], path, match[3]), b"Host: " + host, *headers, b"\r\n"))
            self._count(request, "sent", len(written))
            far_writer.write(written)
            await _first_ended(
                self._reply(far_reader, writer, request), self._copy(reader, far_writer, request, "sent", length)
            )
        finally:
            far_writer.transport.abort()

    async def _reply(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: WebRequest) -> None:
        """Pass the reply on, with the word that the connection ends after it: servers do not all say so."""
        try:
            line = await reader.readuntil(b"\r\n")
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            line = b""
        if (match := _STATUS.fullmatch(line)) is None:
            raise _RefusedError(502, f"{request.host} gives no reply of HTTP/1")
        request.status = int(match[1])
        self._count(request, "received", len(line))
        writer.write(line + b"Connection: close\r\n")
        await self._copy(reader, writer, request, "received")

    async def _copy(
        self,
        source: asyncio.StreamReader,
        target: asyncio.StreamWriter,
        request: WebRequest,
        direction: Literal["sent", "received"],
        most: int = 1 << 62,
        *,
        ends: bool = False,
    ) -> None:
        """Copy up to `most` bytes; `ends`: the target is told where the source ends."""
        try:
            while most > 0 and (chunk := await source.read(min(MAX_HEAD, most))):
                most -= len(chunk)
                self._count(request, direction, len(chunk))
                target.write(chunk)
                await target.drain()
        except OSError:
            if ends or direction == "received":
                raise  # else a server may have answered before it had the whole body, and closed
        if ends:
            target.write_eof()

    def _count(self, request: WebRequest, direction: Literal["sent", "received"], size: int) -> None:
        if direction == "sent":
            request.sent += size
        else:
            request.received += size
        self._bytes += size
        if self._bytes > MAX_BYTES:
            raise _RefusedError(429, f"all {MAX_BYTES >> 20} MB of this sample to and from the web are used up")

    async def _connected(self, host: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Connect to one of the addresses that were checked; the name is not resolved a second time."""
        try:
            name = checked(f"http://{host}:{port}/", self._permitted, self._ports).raw_host or ""
            if (name.rstrip("."), port) == self._endpoint:
                raise ToolError(f"{host} is the model's endpoint; it is not reached as a page")
            async with self._lookups:
                results = await CheckedResolver(self._resolver, self._permitted).resolve(name, port)
            addresses = [result["host"] for result in results][:ADDRESSES]
            if port == self._endpoint[1] and not (await self._of_endpoint()).isdisjoint(addresses):
                raise ToolError(f"{host} has the address of the model's endpoint; it is not reached")
        except ToolError as error:
            raise _RefusedError(403, error.message) from None
        except (OSError, UnicodeError):  # of a label that is empty or too long
            raise _RefusedError(502, f"{host} has no address") from None
        for address in addresses:
            with contextlib.suppress(OSError, TimeoutError):
                return await asyncio.wait_for(asyncio.open_connection(address, port, limit=MAX_HEAD), CONNECT_S)
        raise _RefusedError(502, f"{host} cannot be reached")

    async def _of_endpoint(self) -> frozenset[str]:
        if self._endpoint_addresses is None:
            try:
                results = await self._resolver.resolve(*self._endpoint, socket.AF_UNSPEC)
            except (OSError, UnicodeError):
                results = []
            self._endpoint_addresses = frozenset(result["host"] for result in results)
        return self._endpoint_addresses


def _headers(lines: list[bytes]) -> tuple[list[bytes], int]:
    """Return the headers that are passed on, and the length of the body.

    Raises:
        _RefusedError: they can be read in two ways, or the body's length is not stated.
    """
    passed, lengths = [b"Connection: close"], set[bytes]()
    for line in lines:
        if (match := _HEADER.fullmatch(line)) is None:
            raise _RefusedError(400, "a header of the request cannot be read")
        name = match[1].lower()
        if name == b"transfer-encoding":
            raise _RefusedError(411, "a body is passed on with its Content-Length alone")
        if name == b"content-length":
            lengths.add(match[2].rstrip(b" \t"))
        elif name not in _DROPPED:
            passed.append(line)
    if not lengths:
        return passed, 0
    if len(lengths) > 1 or not _LENGTH.fullmatch(length := lengths.pop()):
        raise _RefusedError(400, "the length of the body cannot be read")
    return [*passed, b"Content-Length: " + length], int(length)


async def _first_ended(reply: Coroutine[None, None, None], request: Coroutine[None, None, None]) -> None:
    """Wait for the end of the reply, whether the request has ended or not, or for a fault of either."""
    replying, requesting = asyncio.create_task(reply), asyncio.create_task(request)
    try:
        await asyncio.wait((replying, requesting), return_when=asyncio.FIRST_COMPLETED)
        if requesting.done():
            requesting.result()
        await replying
    finally:
        replying.cancel()
        requesting.cancel()
        await asyncio.gather(replying, requesting, return_exceptions=True)
