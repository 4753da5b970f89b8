"""Relay to the web for tools in a sandbox without a network: the gateway outside sends the requests.

One request a call, MessagePack by POST to the gateway's address; agents/web_gateway.py is the other side.
"""

from __future__ import annotations

from typing import Annotated, TypeVar

import aiohttp
import msgspec
from aiohttp import ClientTimeout
from msgspec import Meta, Struct

from snellen.models.tools.base import Hit, ImageHit, ToolError
from snellen.models.tools.settings import ToolSettings
from snellen.models.tools.web import Fetched, WebBackend

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
