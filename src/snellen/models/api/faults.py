"""What a server's error means: HTTP status, headers and body to the error kinds of the record.

Sources: RFC 9110 section 10.2.3 (Retry-After: seconds or a date) and the error objects of the OpenAI API
(`error.message`, `error.code`), as vLLM, SGLang, OpenRouter and Azure send them too.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Any

import msgspec

from snellen import redaction
from snellen.errors import (
    AuthError,
    BadReplyError,
    BadRequestError,
    ModelError,
    RateLimitError,
    RefusalError,
    ServerError,
)

_TAG = re.compile(r"<[^>]*>")
_FILTERED = ("content_filter", "content_policy_violation", "ResponsibleAIPolicyViolation")
_NO_MONEY = ("insufficient_quota", "billing_hard_limit_reached", "insufficient_credits")


def excerpt(body: bytes, limit: int = 300) -> str:
    """The first characters of an untrusted reply on one line: no tags, no control characters, no keys."""
    text = _TAG.sub(" ", body[: 8 * limit].decode("utf-8", "replace"))
    # Not printable: escape sequences that a terminal would obey, and marks that turn the direction of writing.
    text = "".join(character if character.isprintable() else " " for character in text)
    text = " ".join(redaction.redact(text).split())
    return f"{text[:limit]}…" if len(text) > limit else text


def retry_after(headers: Mapping[str, str], now: float | None = None) -> float | None:
    """Seconds, at least 0, that the server asks us to wait; None where it does not say or says nonsense.

    Reads `retry-after-ms`, then `Retry-After` as seconds or as an HTTP date. `now` is in seconds since the epoch.
    """
    for name, scale in (("retry-after-ms", 1e-3), ("Retry-After", 1.0)):
        text = headers.get(name, "")
        try:
            seconds = float(text) * scale
        except ValueError:
            continue
        if math.isfinite(seconds):
            return max(0.0, seconds)
    try:
        when = parsedate_to_datetime(headers.get("Retry-After", "")).timestamp()
    except (ValueError, OverflowError, TypeError):
        return None
    return max(0.0, when - (time.time() if now is None else now))


def server_message(body: bytes) -> tuple[str, str]:
    """(message, code) of an error reply; the message is an excerpt of the body where it is not an error object."""
    try:
        reply = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError):
        return excerpt(body), ""
    error = reply.get("error", reply) if isinstance(reply, dict) else reply
    return error_object(error) if error else (excerpt(body), "")


def error_object(error: Any) -> tuple[str, str]:
    """(message, code) of an `error` member, which is an object or, on some servers, a plain string."""
    if not isinstance(error, dict):
        return excerpt(str(error).encode("utf-8", "replace")), ""
    inner = error.get("innererror")
    code = next((c for c in (inner.get("code") if isinstance(inner, dict) else None, error.get("code")) if c), "")
    message = error.get("message") or error.get("detail") or ""
    text = message if isinstance(message, str) and message else str(error)
    return excerpt(text.encode("utf-8", "replace")), str(code or error.get("type") or "")


def from_status(status: int, headers: Mapping[str, str], body: bytes) -> ModelError:
    """The error for a reply whose HTTP status is not 2xx."""
    if 300 <= status < 400:
        where = excerpt(headers.get("Location", "").encode("utf-8", "replace")) or "nowhere"
        return BadRequestError(
            f"The server redirects to {where} (HTTP {status}); the key is not sent on to another address.",
            "Give that address as --base-url if it is the one you mean.",
        )
    message, code = server_message(body)
    return from_code(status, message, code, retry_after(headers))


def from_code(status: int, message: str, code: str, wait_s: float | None = None) -> ModelError:
    """The error for a status (of HTTP, or inside an error object of a reply with HTTP status 200)."""
    said = f"HTTP {status}: {message}" if message else f"HTTP {status} with an empty reply"
    if code in _FILTERED or (status == 403 and "moderation" in message.lower()):
        return RefusalError(f"The server's content filter declined the question. {said}")
    if status == 402 or code in _NO_MONEY:
        return AuthError(said, "The account has no credit left: top it up, then run the same command again.")
    if status in (401, 403):
        return AuthError(said, "Check the key (OPENAI_API_KEY, or the variable of --key-env) and what it may use.")
    if status in (425, 429, 529):
        return RateLimitError(said, retry_after_s=wait_s)
    if status >= 500 or status in (408, 409):
        return ServerError(said, retry_after_s=wait_s)
    if status == 404:
        return BadRequestError(said, "Check the model's name, and that --base-url ends where /chat/completions begins.")
    if 400 <= status < 500:
        return BadRequestError(said)
    return BadReplyError(f"The server answered with an unexpected status. {said}")
