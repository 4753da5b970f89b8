"""Pages and images from the network, for models: checked addresses, bounded bytes, text instead of markup.

Relay to the web for tools in a sandbox without a network: the gateway outside sends the requests.

One request a call, MessagePack by POST to the gateway's address; agents/gateway.py is the other side.
"""

from __future__ import annotations

import asyncio
import zlib
from pathlib import PurePosixPath
from typing import Annotated, Any, TypeVar

import aiohttp
import msgspec
from aiohttp import ClientTimeout, DummyCookieJar, TCPConnector, ThreadedResolver
from aiohttp.abc import AbstractResolver
from msgspec import Meta, Struct
from yarl import URL

from snellen.media import read_header
from snellen.models.tools import reverse_image
from snellen.models.tools.base import Hit, ImageHit, Page, ToolError
from snellen.models.tools.html_text import decoded, read_page, tidy
from snellen.models.tools.settings import ToolLimits, ToolSettings
from snellen.models.tools.url_policy import PORTS, CheckedResolver, Permitted, checked, public

REDIRECTS = 5
HEADERS = {
    "User-Agent": "Mozilla/5.0 (compatible; snellen)",
    "Accept": "text/html,application/xhtml+xml,text/plain,application/json,image/*;q=0.9,*/*;q=0.5",
    "Accept-Encoding": "gzip, deflate",
}
_TEXT = ("text/", "application/json", "application/xml", "application/ld+json", "application/javascript")
_HTML = ("text/html", "application/xhtml+xml")
_REDIRECT = frozenset({301, 302, 303, 307, 308})


class Fetched(Struct, frozen=True):
    """A fetched response: the last address, its media type and charset, the unpacked bytes, whether there were more, and the
    time that the server gave (its Date header, as it stood there)."""

    url: str
    kind: str
    charset: str | None
    data: bytes
    cut: bool
    date: str = ""


class WebBackend:
    """The network. No proxy of the environment is used: it would resolve names by itself, past the check.

    Args:
        limits: bytes and seconds.
        searxng: address of a SearXNG server, or None.
        reverse_engines: engines of PicImageSearch that may get the image.
        resolver, permitted, ports: for tests: who resolves names, which (host, address) and which ports are reached.
    """

    def __init__(
        self,
        limits: ToolLimits,
        searxng: str | None = None,
        reverse_engines: tuple[str, ...] = (),
        resolver: AbstractResolver | None = None,
        permitted: Permitted = public,
        ports: frozenset[int] = PORTS,
    ) -> None:
        self._limits = limits
        self._searxng = searxng
        self._engines = reverse_engines
        self._resolver = resolver
        self._permitted = permitted
        self._ports = ports

    async def fetch(self, url: str) -> Page:
        """Return a page as text, or an image as bytes."""
        got = await self.get(url)
        if read_header(got.data) is not None or got.kind.startswith("image/"):
            if got.cut:
                raise ToolError(f"the picture at {got.url} has more than {self._limits.image_bytes:,} bytes")
            if read_header(got.data) is None:
                raise ToolError(f"{got.url} is {got.kind}, which is not a picture that is read")
            return Page(got.url, PurePosixPath(URL(got.url).path).name, data=got.data)
        if got.kind and not got.kind.startswith(_TEXT) and got.kind not in _HTML:
            raise ToolError(f"{got.url} is {got.kind}; only pages of text and pictures are read")
        text = decoded(got.data, got.charset)
        if got.kind in _HTML or (not got.kind and "<html" in text[:2000].lower()):
            # A page of two million bytes takes a second; the other conversations go on meanwhile.
            page = await asyncio.to_thread(read_page, text, got.url)
        else:
            page = Page(got.url, text=tidy(text))
        return msgspec.structs.replace(page, cut=got.cut)

    async def get(self, url: str) -> Fetched:
        """Return one address, redirects followed.

        Raises:
            ToolError: the address is not allowed, nothing answers, or the answer is not 2xx.
        """
        inner = self._resolver or ThreadedResolver()
        connector = TCPConnector(
            resolver=CheckedResolver(inner, self._permitted), use_dns_cache=False, force_close=True, limit=0
        )
        seconds = ClientTimeout(total=self._limits.seconds)
        async with aiohttp.ClientSession(
            connector=connector,
            headers=HEADERS,
            cookie_jar=DummyCookieJar(),
            timeout=seconds,
            trust_env=False,
            auto_decompress=False,
        ) as session:
            at = checked(url, self._permitted, self._ports)
            for _ in range(REDIRECTS + 1):
                try:
                    async with session.get(at, allow_redirects=False) as response:
                        if response.status not in _REDIRECT:
                            return await self._read(response, str(at))
                        target = response.headers.get("Location", "")
                except TimeoutError:
                    raise ToolError(f"no answer of {at} within {self._limits.seconds:g} s", transient=True) from None
                except (aiohttp.ClientError, OSError, ValueError) as error:
                    raise ToolError(f"{at.host} cannot be reached: {type(error).__name__}", transient=True) from None
                try:
                    following = at.join(URL(target))
                except ValueError:
                    raise ToolError(f"{at} redirects to something that is not an address") from None
                at = checked(str(following), self._permitted, self._ports)
        raise ToolError(f"{url} redirects more than {REDIRECTS} times")

    async def _read(self, response: aiohttp.ClientResponse, url: str) -> Fetched:
        if not 200 <= response.status < 300:
            transient = response.status >= 500 or response.status in (408, 425, 429)
            raise ToolError(f"{url} answers HTTP {response.status}", transient=transient)
        kind = response.content_type if "Content-Type" in response.headers else ""
        text = not kind or kind.startswith(_TEXT) or kind in _HTML
        limit = self._limits.page_bytes if text else self._limits.image_bytes
        unpack = _Unpacker(response.headers.get("Content-Encoding", "identity"), limit)
        while not unpack.full and (chunk := await response.content.readany()):
            unpack.feed(chunk)
        try:
            charset = response.charset
        except (LookupError, ValueError):
            charset = None
        date = response.headers.get("Date", "")[:100]
        return Fetched(url, kind, charset, bytes(unpack.data[:limit]), unpack.full, date)

    async def search(self, query: str, k: int) -> list[Hit]:
        """Return pages that the user's SearXNG server finds."""
        if self._searxng is None:
            raise ToolError("there is no search engine here")
        url = URL(self._searxng).with_query({"q": query, "format": "json"})
        if not url.path.rstrip("/").endswith("/search"):
            url = url.with_path(url.path.rstrip("/") + "/search", keep_query=True)
        # The user named this server, so it may be anywhere; a redirect of its is not followed.
        session = aiohttp.ClientSession(timeout=ClientTimeout(total=self._limits.seconds), headers=HEADERS)
        try:
            async with session, session.get(url, allow_redirects=False) as response:
                body = await response.content.read(self._limits.page_bytes)
                while chunk := await response.content.read(self._limits.page_bytes):
                    body += chunk
                    if len(body) > 4 * self._limits.page_bytes:
                        raise ToolError("the search engine answers without end")
                if response.status != 200:
                    raise ToolError(f"the search engine answers HTTP {response.status}", transient=True)
            results = msgspec.json.decode(body, type=_Results).results
        except TimeoutError:
            raise ToolError(
                f"the search engine gave no answer within {self._limits.seconds:g} s", transient=True
            ) from None
        except (aiohttp.ClientError, OSError) as error:
            raise ToolError(f"the search engine cannot be reached: {type(error).__name__}", transient=True) from None
        except (msgspec.MsgspecError, ValueError, RecursionError):
            raise ToolError("the search engine does not answer in JSON; switch on its format `json`") from None
        return [Hit(result.url, result.title, " ".join((result.content or "").split())[:300]) for result in results[:k]]

    async def reverse(self, data: bytes, k: int) -> list[ImageHit]:
        """Return pages that show the image, by the engines that the user named."""
        if not self._engines:
            raise ToolError("no engine for reverse image search is switched on")
        return await reverse_image.search(self._engines, data, k, self._limits.seconds)


class _Result(Struct):
    url: str
    title: str = ""
    content: str | None = None


class _Results(Struct):
    results: list[_Result]


class _Unpacker:
    """Unpacks a body as it comes, and no further than `most` bytes: a bomb is cut like any other long page."""

    def __init__(self, encoding: str, limit: int) -> None:
        self.data = bytearray()
        self.full = False
        self._most = limit
        self._packed = 0
        self._zlib: Any = None
        encoding = encoding.strip().lower()
        if encoding in ("gzip", "x-gzip"):
            self._zlib = zlib.decompressobj(zlib.MAX_WBITS | 16)
        elif encoding == "deflate":
            self._zlib = zlib.decompressobj()
        elif encoding not in ("", "identity"):
            raise ToolError(f"the page is packed as {encoding[:40]}, which was not asked for")
        self._raw_deflate = encoding == "deflate"

    def feed(self, chunk: bytes) -> None:
        room = self._most + 1 - len(self.data)
        if self._zlib is None:
            self.data += chunk[:room]
        else:
            self._packed += len(chunk)
            try:
                self.data += self._zlib.decompress(chunk, room)
            except zlib.error:
                if not self._raw_deflate or self.data:
                    raise ToolError("the page is packed, and damaged") from None
                self._zlib = zlib.decompressobj(-zlib.MAX_WBITS)  # as many servers understand "deflate"
                self._raw_deflate = False
                self.feed(chunk)
                return
        self._raw_deflate = self._raw_deflate and not self.data
        # Packed bytes that come to nothing, for ever, are no page either.
        self.full = len(self.data) > self._most or self._packed > 2 * self._most


_LATER_S = 10.0  # beyond the gateway's own limit, so that its words arrive
T = TypeVar("T")
Number = Annotated[int, Meta(ge=1)]


class Search(Struct, frozen=True, tag=True):
    """Pages by words."""

    query: Annotated[str, Meta(min_length=1, max_length=400)]
    k: Number


class GetPage(Struct, frozen=True, tag=True):
    """Request for the content at an address."""

    url: Annotated[str, Meta(min_length=1, max_length=2000)]


class ReverseImage(Struct, frozen=True, tag=True):
    """Pages that show an image."""

    image: bytes
    k: Number


class _Answer(Struct, frozen=True):
    """An answer of the gateway: a result, or the fault that there is none for (see ToolError)."""

    result: msgspec.Raw = msgspec.Raw(b"\xc0")
    fault: str | None = None
    transient: bool = False


def encode(result: object) -> bytes:
    """Return the gateway's answer with a result."""
    return msgspec.msgpack.encode(_Answer(msgspec.Raw(msgspec.msgpack.encode(result))))


def encode_fault(error: ToolError) -> bytes:
    """Return the gateway's answer without one."""
    return msgspec.msgpack.encode(_Answer(fault=error.message, transient=error.transient))


class RelayedBackend(WebBackend):
    """The web, where only the gateway of an agent's sandbox can be reached.

    Args:
        settings: limits.
        address: of the gateway.
    """

    def __init__(self, settings: ToolSettings, address: str) -> None:
        super().__init__(settings.limits)
        self._seconds = settings.limits.seconds + _LATER_S
        self._address = address

    async def get(self, url: str) -> Fetched:
        """Return one address; what it may be is decided by the gateway."""
        return await self._ask(GetPage(url), Fetched)

    async def search(self, query: str, k: int) -> list[Hit]:
        """Return pages that the user's search engine finds."""
        return await self._ask(Search(query, k), list[Hit])

    async def reverse(self, data: bytes, k: int) -> list[ImageHit]:
        """Return pages that show the image, by the engines that the user named."""
        return await self._ask(ReverseImage(data, k), list[ImageHit])

    async def _ask(self, call: Struct, kind: type[T]) -> T:
        body = msgspec.msgpack.encode(call)
        timeout = ClientTimeout(total=self._seconds)
        try:
            async with (
                aiohttp.ClientSession(timeout=timeout, trust_env=False) as session,
                session.post(self._address, data=body) as reply,
            ):
                data = await reply.read()
                if reply.status != 200:
                    raise ToolError(f"the way to the web refuses the call: {data[:300].decode('utf-8', 'replace')}")
            answer = msgspec.msgpack.decode(data, type=_Answer)
            if answer.fault is not None:
                raise ToolError(answer.fault, transient=answer.transient)
            return msgspec.msgpack.decode(answer.result, type=kind)
        except TimeoutError:
            raise ToolError(f"no answer within {self._seconds:g} s", transient=True) from None
        except (aiohttp.ClientError, OSError, msgspec.MsgspecError) as error:
            raise ToolError(f"the way to the web is not there: {type(error).__name__}", transient=True) from None
