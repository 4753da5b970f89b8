"""Uploads of files to a service: as a form (OpenAI, Anthropic) or by the resumable protocol (Gemini), streamed with a known length.

Sources: section 1 and 3 of the providers' fact sheet, and the Python SDKs openai 3.54.0, anthropic 2.12.0, google-genai 3.4.0.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urljoin, urlsplit

import msgspec

from snellen.errors import BadReplyError
from snellen.models.api.batches.replies import decoded
from snellen.models.api.errors import excerpt

if TYPE_CHECKING:  # aiohttp takes 0.1 s to import, which most runs of this module's importers do not need
    from snellen.models.api.batches.transport import BatchTransport
    from snellen.models.api.endpoint import Endpoint

CHUNK = 1 << 16
FILE_NAME = re.compile(r"files/[A-Za-z0-9_-]{1,200}")
_VERSION = re.compile(r"/v\d+[a-z0-9]*$")


class FileContent(NamedTuple):
    """Content of an upload: its name and media type, and bytes or a file on disk."""

    name: str
    mime: str
    source: bytes | Path

    @property
    def size(self) -> int:
        return self.source.stat().st_size if isinstance(self.source, Path) else len(self.source)

    async def chunks(self) -> AsyncIterator[bytes | memoryview]:
        """Yield the bytes in pieces of at most 64 KiB."""
        if isinstance(self.source, Path):
            with self.source.open("rb") as file:
                while chunk := file.read(CHUNK):
                    yield chunk
            return
        view = memoryview(self.source)
        for start in range(0, len(view), CHUNK):
            yield view[start : start + CHUNK]


async def upload_form(
    transport: BatchTransport,
    url: str,
    content: FileContent,
    fields: Mapping[str, str],
    headers: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Upload a file as multipart form data, and return the service's object of it.

    Args:
        transport: connections to the service.
        url: address of the files.
        content: the file; its name and media type hold no line ends or quotes.
        fields: the form's further fields, sent before the file.
        headers: further headers.

    Raises:
        ModelError: the service did not take it.
    """
    boundary = f"snellen-{secrets.token_hex(16)}"
    parts = [
        f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'
        for name, value in fields.items()
    ]
    parts.append(
        f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="{content.name}"\r\n'
        f"Content-Type: {content.mime}\r\n\r\n"
    )
    head, tail = "".join(parts).encode(), f"\r\n--{boundary}--\r\n".encode()
    reply = await transport.call(
        "POST",
        url,
        stream=_around(head, content, tail),
        length=len(head) + content.size + len(tail),
        headers={**(headers or {}), "Content-Type": f"multipart/form-data; boundary={boundary}"},
    )
    return decoded(reply.body)


async def _around(head: bytes, content: FileContent, tail: bytes) -> AsyncIterator[bytes | memoryview]:
    yield head
    async for chunk in content.chunks():
        yield chunk
    yield tail


async def upload_resumable(
    transport: BatchTransport, endpoint: Endpoint, path: str, content: FileContent
) -> dict[str, Any]:
    """Upload a file by Google's resumable protocol, announced first and then sent as a whole; return its `file` object.

    Raises:
        ModelError: the service did not take it, or names an address on another host for it.
    """
    announced = await transport.call(
        "POST",
        prefixed(endpoint, "/upload", path),
        json=msgspec.json.encode({"file": {"displayName": content.name}}),
        headers={
            "X-Goog-Upload-Protocol": "resumable",
            "X-Goog-Upload-Command": "start",
            "X-Goog-Upload-Header-Content-Length": str(content.size),
            "X-Goog-Upload-Header-Content-Type": content.mime,
        },
    )
    address = _same_host(endpoint, announced.headers.get("X-Goog-Upload-URL", ""))
    reply = await transport.call(
        "POST",
        address,
        stream=content.chunks(),
        length=content.size,
        headers={
            "X-Goog-Upload-Command": "upload, finalize",
            "X-Goog-Upload-Offset": "0",
            "Content-Type": content.mime,
        },
    )
    file = decoded(reply.body).get("file")
    if not isinstance(file, dict):
        raise BadReplyError(f"The service's reply to an upload has no `file`: {excerpt(reply.body, 120)}")
    return file


def prefixed(endpoint: Endpoint, prefix: str, path: str) -> str:
    """Return an address whose path begins with a prefix before the version: `/upload/v1beta/files`."""
    version = _VERSION.search(endpoint.base)
    at = version.start() if version else len(endpoint.base)
    base = f"{endpoint.base[:at]}{prefix}{endpoint.base[at:]}"
    return f"{base}{path}" + (f"?{endpoint.query}" if endpoint.query else "")


def _same_host(endpoint: Endpoint, address: str) -> str:
    """Return the address that the service names for an upload. Raises BadReplyError if it is elsewhere."""
    own = urlsplit(endpoint.base)
    try:
        named = urlsplit(urljoin(endpoint.base, address))
    except ValueError:  # no address, such as `http://[`
        named = None
    if not address or named is None or (named.scheme, named.netloc) != (own.scheme, own.netloc):
        where = excerpt(address.encode("utf-8", "replace"), 120) or "nothing"
        raise BadReplyError(f"The service names {where} for the upload; the key is not sent to another host.")
    return named.geturl()
