"""One HTTP session to one server: bytes out, bytes in, and a typed error for everything that can go wrong between.

aiohttp is tuned for cost: ready-made headers, no cookies, no redirects, no environment look-up per request, and no
compression. Replies are short, and unpacking them would cost more than it saves.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import aiohttp
from aiohttp import ClientTimeout, DummyCookieJar, Payload, TCPConnector
from aiohttp.abc import AbstractStreamWriter
from yarl import URL

from snellen.errors import BadReplyError, BadRequestError, ModelTimeoutError, NetworkError
from snellen.event_loop import off_loop
from snellen.models.api.endpoint import Endpoint, find_proxy, proxy_name
from snellen.models.api.errors import excerpt
from snellen.redaction import redact_bytes

if TYPE_CHECKING:
    from multidict import CIMultiDictProxy

    from snellen.models.api.cloud import Credentials

CONNECT_S = 30.0
LARGEST_REPLY = 8 * 2**20
LARGEST_STREAM = 64 * 2**20
"""A stream repeats names and ids with each token."""

# A larger body is joined when it is written, at most a slice at a time: the copy is then still in the processor's cache, and
# goes at once. Joined beforehand, an image of 60 KB costs a tenth of the whole request more.
_JOINED_UP_TO = 2**15
_SLICE = 2**17


class HttpReply(NamedTuple):
    """Status, headers (case-insensitive) and the whole body, unpacked and free of keys."""

    status: int
    headers: CIMultiDictProxy[str]
    body: bytes


class Transport:
    """Keep-alive connections to one endpoint. Must be made inside a running event loop.

    The number of connections is not limited here: the engine decides how many requests are in flight.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        headers: Mapping[str, str],
        timeout_s: float,
        credentials: Credentials | None = None,
    ) -> None:
        """Open no connection yet.

        Args:
            endpoint: the server; every address that is asked lies on it.
            headers: of every request, the key among them (`ServiceProtocol.headers`).
            timeout_s: seconds for one exchange.
            credentials: of a cloud, which add headers to each request.
        """
        headers = {
            "User-Agent": "snellen",
            "Accept": "application/json",
            "Content-Type": "application/json",
            "Accept-Encoding": "identity",
            **headers,
        }
        self._endpoint = endpoint
        self._credentials = credentials
        proxy = find_proxy(endpoint)
        self._proxy = proxy_name(endpoint) if proxy else ""
        self._timeout_s = timeout_s
        # Sooner than the whole request, so that a server that is not there is told from one that is slow.
        self._connect_s = min(CONNECT_S, 0.9 * timeout_s)
        self._session = aiohttp.ClientSession(
            # Many servers close idle connections after 5 s; letting go first avoids requests into a closing socket.
            connector=TCPConnector(limit=0, keepalive_timeout=4.0, ttl_dns_cache=300),
            headers=headers,
            cookie_jar=DummyCookieJar(),
            timeout=ClientTimeout(total=timeout_s, sock_connect=self._connect_s),
            proxy=proxy,
            trust_env=False,
        )

    async def post(
        self, url: str, pieces: Sequence[bytes | memoryview], on_chunk: Callable[[bytes], None] | None = None
    ) -> HttpReply:
        """Send a JSON body, given as pieces. See `_request` for errors.

        Args:
            url: the address.
            pieces: of the body, in order.
            on_chunk: the reply is a stream, and this is called with each piece of it as it arrives.
        """
        size = sum(map(len, pieces))
        data = b"".join(pieces) if size <= _JOINED_UP_TO else _Pieces(pieces, size)
        headers = {} if on_chunk is None else {"Accept": "text/event-stream"}
        if self._credentials is None:
            return await self._request("POST", url, on_chunk, data=data, headers=headers)
        own = await self._credentials.headers("POST", url, pieces)
        address = URL(url, encoded=True)  # as it was signed, without a character written otherwise
        reply = await self._request("POST", address, on_chunk, data=data, headers={**headers, **own})
        if reply.status in (401, 403) and await self._credentials.renew(reply.status, own):
            own = await self._credentials.headers("POST", url, pieces)
            reply = await self._request("POST", address, on_chunk, data=data, headers={**headers, **own})
        return reply

    async def get(self, url: str) -> HttpReply:
        """Fetch an address. See `_request` for errors."""
        return await self._request("GET", url)

    async def _request(
        self, method: str, url: str | URL, on_chunk: Callable[[bytes], None] | None = None, **options: Any
    ) -> HttpReply:
        """Make one exchange, whole or not at all.

        Raises:
            ModelTimeoutError: not finished within the timeout, counted from the call to the last byte; `unavailable`
                where there was not even a connection.
            NetworkError: no connection, or it broke before the reply was whole.
            BadReplyError: not HTTP, or a reply of more than 8 MiB.
        """
        begun = False
        try:
            async with self._session.request(method, url, allow_redirects=False, **options) as response:
                begun = True
                streamed = on_chunk is not None and response.status == 200
                body = await (_read(response, LARGEST_STREAM, on_chunk) if streamed else _read(response))
            # Here, before anything is read, so that a key that the server sends back is in no answer or error.
            return HttpReply(response.status, response.headers, await off_loop(len(body), redact_bytes, body))
        except TimeoutError as error:
            if isinstance(error, aiohttp.ConnectionTimeoutError):
                message = f"No connection to {self._endpoint} within {self._connect_s:g} s."
                raise ModelTimeoutError(message, unavailable=True) from None
            raise ModelTimeoutError(f"No whole reply within {self._timeout_s:g} s.") from None
        except aiohttp.InvalidURL as error:
            raise BadRequestError(f"{self._endpoint} is not an address: {error}") from None
        except aiohttp.ClientConnectorCertificateError as error:
            raise NetworkError(
                f"The certificate of {self._endpoint} is not valid: {error.certificate_error}",
                "If the server has a certificate of its own, name its authority in SSL_CERT_FILE.",
            ) from None
        except (aiohttp.ClientProxyConnectionError, aiohttp.ClientHttpProxyError) as error:
            status = error.status if isinstance(error, aiohttp.ClientHttpProxyError) else 0
            said = f"refuses: HTTP {status}" if status else f"cannot be reached: {getattr(error, 'strerror', error)}"
            raise NetworkError(
                f"The proxy of {self._proxy} {said}.",
                f"Correct {self._proxy}, or name {self._endpoint.host} in NO_PROXY.",
                unavailable=not status,
            ) from None
        except aiohttp.ClientConnectorError as error:
            raise NetworkError(
                f"Cannot connect to {self._endpoint}: {error.strerror or error}.",
                _without_tls(self._endpoint, error),
                unavailable=True,
            ) from None
        except aiohttp.ClientResponseError as error:
            raise BadReplyError(
                f"The reply of {self._endpoint} is not HTTP: {excerpt(error.message.encode())}"
            ) from None
        except aiohttp.ClientPayloadError:
            raise NetworkError("The connection was closed before the reply was whole.") from None
        except aiohttp.ServerDisconnectedError:
            raise NetworkError("The server closed the connection without a reply.", unavailable=True) from None
        except (aiohttp.ClientError, OSError) as error:
            message = f"The connection to {self._endpoint} broke: {error or type(error).__name__}."
            raise NetworkError(message, unavailable=not begun) from None

    async def close(self) -> None:
        """Close all connections."""
        await self._session.close()


def _without_tls(endpoint: Endpoint, error: aiohttp.ClientConnectorError) -> str:
    """Return the address to write where a server that speaks plain HTTP got https; "" for any other reason."""
    plain = isinstance(error, aiohttp.ClientConnectorSSLError) and "WRONG_VERSION_NUMBER" in str(error)
    return (
        f"The server speaks no TLS there. Write --base-url http{str(endpoint).removeprefix('https')}" if plain else ""
    )


class _Pieces(Payload):
    """A body that is written piece by piece, each in slices, so that no more than a slice of it is ever copied."""

    _autoclose = True

    def __init__(self, pieces: Sequence[bytes | memoryview], size: int) -> None:
        super().__init__(pieces, content_type="application/json")
        self._pieces = pieces
        self._size = size

    async def write(self, writer: AbstractStreamWriter) -> None:
        """Write all pieces; small ones go together with what follows them."""
        small: list[bytes | memoryview] = []
        waiting = 0
        for piece in self._pieces:
            if waiting + len(piece) <= _SLICE:
                small.append(piece)
                waiting += len(piece)
                continue
            if small:
                await writer.write(b"".join(small))
                small, waiting = [], 0
            view = memoryview(piece)
            for start in range(0, len(view), _SLICE):
                await writer.write(view[start : start + _SLICE])
        if small:
            await writer.write(b"".join(small))

    def decode(self, encoding: str = "utf-8", errors: str = "strict") -> str:
        """Return the body as text."""
        return b"".join(self._pieces).decode(encoding, errors)


async def _read(
    response: aiohttp.ClientResponse, largest: int = LARGEST_REPLY, on_chunk: Callable[[bytes], None] | None = None
) -> bytes:
    """Return the whole body, at most `largest` bytes. Reads on only while the limit is kept."""
    declared = response.content_length
    if declared is None or declared <= largest:
        read = response.content.readany
        first = await read()
        if on_chunk is not None:
            on_chunk(first)
        chunks = [first]
        size = len(first)
        while size <= largest:
            chunk = await read()
            if not chunk:
                return first if len(chunks) == 1 else b"".join(chunks)
            if on_chunk is not None:
                on_chunk(chunk)
            chunks.append(chunk)
            size += len(chunk)
    response.close()
    raise BadReplyError(f"The reply is larger than {largest >> 20} MiB; it was not read to its end.")
