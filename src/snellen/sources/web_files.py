"""Single files from an address of the web, checked against a known digest and kept in a folder.

Addresses of the Hugging Face hub go through its own client (`snellen.sources.hub`): its token, mirror and offline mode apply.
Other addresses are fetched with Python's own client, over verified HTTPS, with the proxies of the environment.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Callable, Sequence
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit

from snellen.atomic_write import replacing
from snellen.errors import DataError

TIMEOUT_S = 60.0
BLOCK = 1 << 20
_HUB_FILE = re.compile(r"https://huggingface\.co/datasets/([^/]+/[^/]+)/resolve/([^/]+)/([^?#]+)(?:[?#].*)?")


def is_address(text: str) -> bool:
    """Return True for an address that can be fetched."""
    return text.startswith(("https://", "http://"))


def file_name(address: str) -> str:
    """Return the last part of an address's path."""
    return urlsplit(address).path.rpartition("/")[2]


def fetch(
    addresses: Sequence[str],
    to: Path,
    *,
    check: Callable[[Path], None] = lambda path: None,
    on_size: Callable[[str, int | None], None] = lambda address, size: None,
) -> Path:
    """Fetch a file from the first address that has it.

    Args:
        addresses: tried in their order.
        to: where the file is written, in one step; a file of the hub stays in the hub client's cache.
        check: raises DataError for a file with another content than was expected.
        on_size: told the address and the number of bytes, if the server says it, before the first byte is read.

    Returns:
        The path of the file.

    Raises:
        DataError: no address has it, or its content is another one; the message lists what each address said.
    """
    faults = []
    for address in addresses:
        try:
            return _fetch(address, to, check, on_size)
        except DataError as error:
            faults.append(f"{address}: {error.message}")
    raise DataError(
        "; ".join(faults) or "no address is known", "Fetch the file in another way, and name it with --data."
    )


def _fetch(address: str, to: Path, check: Callable[[Path], None], on_size: Callable[[str, int | None], None]) -> Path:
    on_hub = _HUB_FILE.fullmatch(address)
    if on_hub is not None:
        from snellen.sources.hub import download_file

        on_size(address, None)
        path, _ = download_file(on_hub[1], on_hub[3], revision=on_hub[2])
        check(path)
        return path
    from urllib.request import Request, urlopen

    if not address.startswith("https://"):
        raise DataError("not an https address")
    try:
        to.parent.mkdir(parents=True, exist_ok=True)
        request = Request(address, headers={"User-Agent": "snellen"})  # noqa: S310 - https only, see above
        with urlopen(request, timeout=TIMEOUT_S, context=ssl.create_default_context()) as reply, replacing(to) as part:  # noqa: S310
            size = reply.headers.get("Content-Length")
            on_size(address, int(size) if size is not None and size.isdigit() else None)
            with part.open("wb") as file:
                while block := reply.read(BLOCK):
                    file.write(block)
            check(part)
    except HTTPError as error:
        raise DataError(f"the server answered {error.code}") from error
    except (URLError, OSError, ValueError) as error:
        reason = getattr(error, "reason", error)
        raise DataError(f"it could not be fetched: {reason}") from error
    return to
