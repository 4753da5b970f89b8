"""Replies of batch services, which are untrusted: their values, and the words in which a batch is refused.

Values in the replies of batch services, which are untrusted: ids, numbers, moments, JSON objects, lines of results.

Limits of a batch, read from the words in which a service refuses one that is too large.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from snellen.errors import BadReplyError, BatchError
from snellen.models.api.errors import excerpt
from snellen.redaction import redact_bytes

T = TypeVar("T")
_ID = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:=-]{0,199}")
MOST_SECONDS = 1e11
MOST_NUMBER = 10**12
LARGEST_LINE = 16 << 20
"""Bytes of one line of results; a longer one is passed over."""


class BatchLimits(Struct, frozen=True):
    """Limits of one batch: requests, bytes, and bytes up to which the rows stand in the create call itself."""

    rows: int
    bytes: int
    inline_bytes: int = 0


def decoded(body: bytes) -> dict[str, Any]:
    """Return a reply that is a JSON object. Raises BadReplyError."""
    try:
        reply = msgspec.json.decode(body)
    except (ValueError, RecursionError):
        reply = None
    if not isinstance(reply, dict):
        raise BadReplyError(f"The reply is no JSON object. It begins: {excerpt(body, 120) or 'nothing at all'}")
    return reply


def decoded_row(decoder: msgspec.json.Decoder[T], line: bytes) -> T:
    """Return the row in one line of results. Raises BadReplyError."""
    try:
        return decoder.decode(line)
    except (ValueError, RecursionError):
        raise BadReplyError(f"A line of the results is no row: {excerpt(line, 120) or 'too long'}") from None


def check_id(value: Any, owner: str, form: re.Pattern[str] = _ID) -> str:
    """Return an id that a service named and that stands in addresses later. Raises BadReplyError."""
    if not isinstance(value, str) or form.fullmatch(value) is None or ".." in value:
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


_NUMBER = r"(\d{1,3}(?:[,_]\d{3})+|\d+(?:\.\d+)?)"
_ROWS = re.compile(_NUMBER + r"\s*(?:requests?|lines?|rows?|entries|items|tasks)\b", re.IGNORECASE)
_ROWS_BEFORE = re.compile(
    r"(?:requests?|lines?|rows?|entries|items|tasks)\D{0,40}?(?:limit|max\w*|at most|than)\D{0,20}?"
    + _NUMBER
    + r"(?!\s*(?:bytes?|[kmg]i?b)\b)",
    re.IGNORECASE,
)
_BYTES = re.compile(_NUMBER + r"\s*(bytes?|[kmg]i?b)\b", re.IGNORECASE)
_UNITS = {"b": 1, "k": 10**3, "m": 10**6, "g": 10**9, "ki": 2**10, "mi": 2**20, "gi": 2**30}
_LIMIT_WORDS = re.compile(
    r"too (?:large|big|many|long)|exceed|maximum|at most|limit|larger than|more than", re.IGNORECASE
)
_QUEUE_WORDS = re.compile(r"enqueued|in[_ -]progress batches|too many batches|concurrent batch", re.IGNORECASE)
LEAST_ROWS = 1


def queue_is_full(message: str) -> bool:
    """Return True if a service takes no further batch until others have ended."""
    return _QUEUE_WORDS.search(message) is not None


def learned_limits(
    message: str, *, rows: int, size: int, limits: BatchLimits, too_large: bool = False
) -> BatchLimits | None:
    """Return smaller limits, read from the refusal of a batch; None if it was refused for another reason.

    A number in the message that is smaller than the batch is the new limit. Without one, half of the batch is.

    Args:
        message: the service's words.
        rows, size: of the batch that was refused.
        limits: as they were.
        too_large: the status was 413.
    """
    if not too_large and _LIMIT_WORDS.search(message) is None:
        return None
    named_rows = [_number(match[1]) for match in (*_ROWS.finditer(message), *_ROWS_BEFORE.finditer(message))]
    named_bytes = [_number(match[1]) * _unit(match[2]) for match in _BYTES.finditer(message)]
    smaller_rows = [int(number) for number in named_rows if LEAST_ROWS <= number < rows]
    smaller_bytes = [int(number) for number in named_bytes if 0 < number < size]
    if smaller_rows or smaller_bytes:
        return BatchLimits(
            min([limits.rows, *smaller_rows]),
            min([limits.bytes, *smaller_bytes]),
            min([limits.inline_bytes, *smaller_bytes]),
        )
    about_size = too_large or re.search(
        r"too (?:large|big|many|long)|size|number of (?:requests|lines|rows)", message, re.IGNORECASE
    )
    if rows <= LEAST_ROWS or not about_size:
        return None
    half = size // 2
    return BatchLimits(max(LEAST_ROWS, rows // 2), min(limits.bytes, half), min(limits.inline_bytes, half))


def _number(text: str) -> float:
    return float(text.replace(",", "").replace("_", ""))


def _unit(text: str) -> int:
    text = text.lower()
    return 1 if text.startswith("byte") else _UNITS[text.removesuffix("b") or "b"]
