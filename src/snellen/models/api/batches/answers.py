"""Values in the replies of batch services, which are untrusted: ids, numbers, moments, JSON objects, lines of results."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator
from typing import Any

import msgspec

from snellen.errors import BadReplyError, BatchError
from snellen.models.api.errors import excerpt
from snellen.redaction import redact_bytes

_ID = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:=-]{0,199}")
MOST_SECONDS = 1e11
MOST_NUMBER = 10**12
LARGEST_LINE = 16 << 20
"""Bytes of one line of results; a longer one is passed over."""


def decoded(body: bytes) -> dict[str, Any]:
    """Return a reply that is a JSON object. Raises BadReplyError."""
    try:
        reply = msgspec.json.decode(body)
    except (ValueError, RecursionError):
        reply = None
    if not isinstance(reply, dict):
        raise BadReplyError(f"The reply is no JSON object. It begins: {excerpt(body, 120) or 'nothing at all'}")
    return reply


def check_id(value: Any, owner: str) -> str:
    """Return an id that a service named and that stands in addresses later. Raises BadReplyError."""
    if not isinstance(value, str) or _ID.fullmatch(value) is None or ".." in value:
        named = excerpt(str(value).encode("utf-8", "replace"), 60)
        raise BadReplyError(f"The service named no usable id for {owner}: {named or 'nothing'}")
    return value


def unusable_results(batch: str, error: BadReplyError) -> BatchError:
    """Return the error of a batch that has ended with results under no usable name; reading them again cannot help."""
    return BatchError(
        f"The batch {batch} has ended, and its results cannot be fetched. {error.message}",
        f"Run the same command again to look once more. To ask its samples again: snellen batch drop RUN {batch}",
    )


def text(value: Any) -> str:
    """Return a string of at most 500 characters; "" for anything else."""
    return value[:500] if isinstance(value, str) else ""


def number(value: Any) -> int:
    """Return a count from 0; 0 for anything else. Gemini sends counts as strings."""
    if isinstance(value, str) and value.isdecimal() and len(value) < 13:
        value = int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < MOST_NUMBER else 0


def moment(value: Any) -> float | None:
    """Return seconds since the epoch from a number or an RFC 3339 time; None for anything else."""
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < MOST_SECONDS:
        return float(value)
    if isinstance(value, str):
        try:
            parsed = dt.datetime.fromisoformat(value)
        except ValueError:
            return None
        return (parsed if parsed.tzinfo else parsed.replace(tzinfo=dt.UTC)).timestamp()
    return None


class LineSplitter:
    """Splits pieces of a file into lines; keys are struck from each, and b"" stands for one that is too long."""

    def __init__(self) -> None:
        self._rest, self._long = bytearray(), False

    def add(self, chunk: bytes) -> Iterator[bytes]:
        """Yield the lines that end in a piece, without their ends and without blank ones."""
        *ended, open_ = chunk.split(b"\n")
        for piece in ended:
            line = b"" if self._long else bytes(self._rest + piece)
            self._rest.clear()
            if self._long or line.strip():
                yield redact_bytes(line.removesuffix(b"\r"))
            self._long = False
        if len(self._rest) + len(open_) > LARGEST_LINE:
            self._rest.clear()
            self._long = True
        elif not self._long:
            self._rest += open_

    def end(self) -> Iterator[bytes]:
        """Yield the last line, if it has no end."""
        if self._long or self._rest.strip():
            yield b"" if self._long else redact_bytes(bytes(self._rest))
