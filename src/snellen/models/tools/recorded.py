"""Recorded backend: results are stored, faults included, so that a run repeats offline.

One JSON file a call, under the SHA-256 of the tool and its arguments (an image by its own SHA-256); images lie beside
them by digest. The first answer stays: two conversations that ask the same at the same time are told the same.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import re
import stat
import tempfile
from collections.abc import Awaitable, Callable
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from msgspec import Struct, structs

from snellen.errors import StorageError
from snellen.models.tools.base import Backend, Hit, ImageHit, Page, ToolError
from snellen.redaction import redact_bytes

T = TypeVar("T")
MAX_BYTES = 64 << 20
_DIGEST = re.compile(r"[0-9a-f]{64}")


class _RecordedCall(Struct, frozen=True, omit_defaults=True):
    """One call. `picture` is the digest of the bytes that were fetched; `fault` why there is no result."""

    tool: str
    arguments: Any
    result: msgspec.Raw = msgspec.Raw(b"null")
    picture: str = ""
    fault: str = ""
    transient: bool = False


class Recorded:
    """A backend between the tools and another one.

    Args:
        inner: who is asked; None: nobody, and a call that is not kept is a fault that the model sees.
        folder: where answers are kept; None: nowhere.
        seconds: after which a call of `inner` has failed.
    """

    def __init__(self, inner: Backend | None, folder: Path | None, seconds: float) -> None:
        self._inner = inner
        self._folder = folder
        self._seconds = seconds

    async def search(self, query: str, k: int) -> list[Hit]:
        return await self._call("web_search", {"query": query, "k": k}, lambda inner: inner.search(query, k), list[Hit])

    async def fetch(self, url: str) -> Page:
        return await self._call("fetch_url", {"url": url}, lambda inner: inner.fetch(url), Page)

    async def reverse(self, data: bytes, k: int) -> list[ImageHit]:
        arguments = {"image": sha256(data).hexdigest(), "k": k}
        return await self._call("reverse_image_search", arguments, lambda inner: inner.reverse(data, k), list[ImageHit])

    async def _call(self, tool: str, arguments: Any, ask: Callable[[Backend], Awaitable[T]], kind: type[T]) -> T:
        recorded = self._read(tool, arguments)
        if recorded is not None and not (recorded.transient and self._inner is not None):
            return self._result(recorded, kind)
        if self._inner is None:
            raise ToolError(f"this call was not recorded, and nothing is asked anew: {tool}")
        try:
            async with asyncio.timeout(self._seconds):
                result = await ask(self._inner)
        except (TimeoutError, ToolError) as error:
            fault = (
                error
                if isinstance(error, ToolError)
                else ToolError(f"{tool} took more than {self._seconds:g} s", transient=True)
            )
            self._keep(
                _RecordedCall(tool, arguments, fault=fault.message, transient=fault.transient), recorded is not None
            )
            raise fault from None
        picture = ""
        stored: Any = result
        if isinstance(result, Page) and result.data and self._folder is not None:
            picture = sha256(result.data).hexdigest()
            self._write(self._folder / "pictures" / picture, result.data, False)
            stored = structs.replace(result, data=b"")
        entry = _RecordedCall(tool, arguments, msgspec.Raw(msgspec.json.encode(stored)), picture)
        first = self._keep(entry, recorded is not None)
        return result if first is None else self._result(first, kind)

    def _result(self, entry: _RecordedCall, kind: type[T]) -> T:
        if entry.fault:
            raise ToolError(entry.fault, transient=entry.transient)
        result = msgspec.json.decode(entry.result, type=kind)
        if entry.picture and isinstance(result, Page) and self._folder is not None:
            data = b""
            if _DIGEST.fullmatch(entry.picture):
                with contextlib.suppress(OSError):
                    data = _plain(self._folder / "pictures" / entry.picture)
            if sha256(data).hexdigest() != entry.picture:
                raise ToolError("the recorded picture is missing or damaged")
            result = structs.replace(result, data=data)
        return result

    def _path(self, tool: str, arguments: Any) -> Path | None:
        if self._folder is None:
            return None
        key = sha256(msgspec.json.encode([tool, arguments], order="sorted")).hexdigest()
        return self._folder / key[:2] / f"{key}.json"

    def _read(self, tool: str, arguments: Any) -> _RecordedCall | None:
        path = self._path(tool, arguments)
        if path is None or not os.path.lexists(path):
            return None
        try:
            return msgspec.json.decode(_plain(path), type=_RecordedCall)
        except (OSError, msgspec.MsgspecError, RecursionError) as error:
            raise ToolError(f"the recorded call {path.name} cannot be read: {type(error).__name__}") from None

    def _keep(self, entry: _RecordedCall, again: bool) -> _RecordedCall | None:
        """Write an entry; where another one came first, that one."""
        path = self._path(entry.tool, entry.arguments)
        if path is None or self._write(path, redact_bytes(msgspec.json.encode(entry)), again):
            return None
        return self._read(entry.tool, entry.arguments)

    def _write(self, path: Path, data: bytes, again: bool) -> bool:
        """Write a file whole or not at all; False where it was there and is not to be written `again`."""
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            handle, part = tempfile.mkstemp(prefix=".part-", dir=path.parent)
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(data)
                if again:
                    Path(part).replace(path)
                    return True
                try:
                    path.hardlink_to(part)
                except FileExistsError:
                    return False
                return True
            finally:
                Path(part).unlink(missing_ok=True)
        except OSError as error:
            raise StorageError(f"the tools' record cannot be written to {path.parent}: {error.strerror}") from error


def _plain(path: Path) -> bytes:
    """Return the content of a file of the record. An agent may have written it: links, pipes and longer files are refused.

    Raises:
        OSError: it is not a plain file of at most 64 MB.
    """
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with os.fdopen(handle, "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode) or status.st_size > MAX_BYTES:
            raise OSError(errno.EINVAL, "not a plain file of at most 64 MB", str(path))
        return file.read(MAX_BYTES)
