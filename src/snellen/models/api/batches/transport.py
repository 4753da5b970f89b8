"""HTTP for batches: files are streamed in both directions, so that memory does not grow with them.

As in `models.api.transport`, redirects are not followed, no compression is asked for, and keys are struck from what arrives.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

import aiohttp
from aiohttp import ClientTimeout, DummyCookieJar, TCPConnector

from snellen.errors import BadReplyError, BadRequestError, ModelTimeoutError, NetworkError
from snellen.models.api.batches.replies import LineSplitter
from snellen.models.api.endpoint import Endpoint, find_proxy
from snellen.models.api.errors import excerpt, from_status
from snellen.models.api.transport import CONNECT_S, HttpReply
from snellen.redaction import redact_bytes

LARGEST_ANSWER = 32 << 20
"""Bytes of a reply that is read as a whole: states and lists."""
CHUNK = 1 << 16
SILENCE_S = 300.0
"""Seconds without a byte after which a transfer counts as broken."""
TRANSFER_S = 6 * 3600.0
SLOWEST_UPLOAD = 20_000
"""Bytes a second; an upload that is slower counts as broken."""


class BatchTransport:
    """Connections to the batch calls of one endpoint. Must be used inside a running event loop.

    Args:
        endpoint: the base URL.
        headers: returns those of every request, authorization and version; called once, before the first request.
        timeout_s: for calls that transfer no file.
    """

    def __init__(self, endpoint: Endpoint, headers: Callable[[], Mapping[str, str]], timeout_s: float) -> None:
        self._endpoint = endpoint
        self._headers = headers
        self._timeout_s = timeout_s
        self._session: aiohttp.ClientSession | None = None

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            own = {"User-Agent": "snellen", "Accept": "application/json", "Accept-Encoding": "identity"}
            self._session = aiohttp.ClientSession(
                connector=TCPConnector(limit=0, keepalive_timeout=4.0, ttl_dns_cache=300),
                headers={**own, **self._headers()},
                cookie_jar=DummyCookieJar(),
                proxy=find_proxy(self._endpoint),
                trust_env=False,
            )
        return self._session

    async def call(
        self,
        method: str,
        url: str,
        *,
        json: bytes | None = None,
        stream: AsyncIterator[bytes | memoryview] | AsyncIterator[bytes] | None = None,
        length: int = 0,
        headers: Mapping[str, str] | None = None,
        limit: int = LARGEST_ANSWER,
    ) -> HttpReply:
        """Make one exchange and return its reply, whose status is 2xx.

        Args:
            json: a body, or None.
            stream: a body that is read from a file meanwhile, of `length` bytes.
            limit: bytes of the reply at most.

        Raises:
            ModelError: no whole reply, or its status is not 2xx. `unavailable` is True only where there was no connection.
        """
        chosen = dict(headers or {})
        data: Any = json
        if json is not None:
            chosen.setdefault("Content-Type", "application/json")
        total: float | None = self._timeout_s
        if stream is not None:
            chosen["Content-Length"] = str(length)
            data, total = stream, self._timeout_s + 600.0 + length / SLOWEST_UPLOAD
        timeout = ClientTimeout(total=total, sock_connect=CONNECT_S)
        with _Errors(self._endpoint, total or 0.0) as errors:
            async with self._open().request(
                method, url, data=data, headers=chosen, allow_redirects=False, timeout=timeout
            ) as response:
                errors.begun = True
                body = redact_bytes(await _whole(response, limit))
                if not 200 <= response.status < 300:
                    raise from_status(response.status, response.headers, body)
                return HttpReply(response.status, response.headers, body)
        raise AssertionError("unreachable")

    async def lines(self, url: str) -> AsyncIterator[bytes]:
        """Yield the lines of a file as they arrive, without line ends; b"" stands for one that is too long.

        Raises:
            ModelError: it did not arrive as a whole, or its status is not 2xx.
        """
        timeout = ClientTimeout(total=TRANSFER_S, sock_connect=CONNECT_S, sock_read=SILENCE_S)
        with _Errors(self._endpoint, SILENCE_S) as errors:
            async with self._open().get(url, allow_redirects=False, timeout=timeout) as response:
                errors.begun = True
                if not 200 <= response.status < 300:
                    raise from_status(
                        response.status, response.headers, redact_bytes(await _whole(response, LARGEST_ANSWER))
                    )
                splitter = LineSplitter()
                async for chunk in response.content.iter_chunked(CHUNK):
                    for line in splitter.add(chunk):
                        yield line
                for line in splitter.end():
                    yield line

    async def close(self) -> None:
        """Close all connections."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()


async def _whole(response: aiohttp.ClientResponse, limit: int) -> bytes:
    body = bytearray()
    async for chunk in response.content.iter_chunked(CHUNK):
        body += chunk
        if len(body) > limit:
            response.close()
            raise BadReplyError(f"The reply is larger than {limit >> 20} MiB; it was not read to its end.")
    return bytes(body)


class _Errors:
    """Turns what aiohttp raises in its block into a ModelError; `begun` says that a reply had begun."""

    def __init__(self, endpoint: Endpoint, timeout_s: float) -> None:
        self._endpoint, self._timeout_s, self.begun = endpoint, timeout_s, False

    def __enter__(self) -> _Errors:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if isinstance(error, aiohttp.ConnectionTimeoutError):
            raise ModelTimeoutError(
                f"No connection to {self._endpoint} within {CONNECT_S:g} s.", unavailable=True
            ) from None
        if isinstance(error, TimeoutError):
            raise ModelTimeoutError(f"No whole reply of {self._endpoint} within {self._timeout_s:g} s.") from None
        if isinstance(error, aiohttp.InvalidURL):
            raise BadRequestError(f"{self._endpoint} is not an address: {error}") from None
        if isinstance(error, aiohttp.ClientConnectorCertificateError):
            raise NetworkError(
                f"The certificate of {self._endpoint} is not valid: {error.certificate_error}", unavailable=True
            ) from None
        if isinstance(error, aiohttp.ClientConnectorError):
            raise NetworkError(
                f"Cannot connect to {self._endpoint}: {error.strerror or error}.", unavailable=True
            ) from None
        if isinstance(error, aiohttp.ClientResponseError):
            raise BadReplyError(
                f"The reply of {self._endpoint} is not HTTP: {excerpt(error.message.encode())}"
            ) from None
        if isinstance(error, aiohttp.ClientError | ConnectionError):
            raise NetworkError(f"The connection to {self._endpoint} broke: {error or type(error).__name__}.") from None
