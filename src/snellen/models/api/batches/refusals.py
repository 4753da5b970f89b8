"""Limits of a batch, read from the words in which a service refuses one that is too large."""

from __future__ import annotations

import re

from snellen.models.api.batches.service import BatchLimits

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
