"""Values in the replies of batch services, which are untrusted: ids, numbers, moments, JSON objects."""

from __future__ import annotations

import datetime as dt
import re
from typing import Any

import msgspec

from snellen.errors import BadReplyError, BatchError
from snellen.models.api.errors import excerpt

_ID = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:=-]{0,199}")
MOST_SECONDS = 1e11
MOST_NUMBER = 10**12


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
