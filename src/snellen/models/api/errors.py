"""Server errors: HTTP status, headers and body to the error kinds of the record.

Source: the error objects of the OpenAI API (`error.message`, `error.code`), as vLLM, SGLang, OpenRouter and Azure send
them too. `rate_limits` reads how long to wait.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from snellen import redaction
from snellen.errors import (
    AuthError,
    BadReplyError,
    BadRequestError,
    KeyRefusedError,
    ModelError,
    NoCreditError,
    RateLimitError,
    RefusalError,
    ServerError,
)
from snellen.models.api.rate_limits import reset_after, retry_after, retry_in_body
from snellen.text import json_or_none, shorten

_TAG = re.compile(r"<[^>]*>")
_FILTERED = ("content_filter", "content_policy_violation", "ResponsibleAIPolicyViolation")
_NO_CREDIT = re.compile(
    r"insufficient_(?:quota|credits?|balance|funds)|.*billing.*|.*_credits?_exhausted", re.IGNORECASE
)
_NO_CREDIT_WORDS = re.compile(r"exceeded your current quota.{0,40}billing|credit balance is too low", re.IGNORECASE)
_GOOGLE_KEY = "API_KEY_INVALID"
"""Google answers a wrong key with status 400 and this reason."""
_AMAZON_STATUS = {
    **dict.fromkeys(("ExpiredTokenException", "UnrecognizedClientException", "InvalidSignatureException"), 401),
    **{"ModelErrorException": 500},  # 424 in the service's model: the model failed, not the request
}
"""Statuses of errors at AWS whose own status says less."""
STATUS_OF_TYPE = {
    **{"invalid_request_error": 400, "authentication_error": 401, "billing_error": 402},
    **{"permission_error": 403, "not_found_error": 404, "request_too_large": 413, "rate_limit_error": 429},
    **{"rate_limit_exceeded": 429, "api_error": 500, "server_error": 500, "timeout_error": 504},
    **{"overloaded_error": 529, "RESOURCE_EXHAUSTED": 429, "INTERNAL": 500, "UNAVAILABLE": 503},
    **{"DEADLINE_EXCEEDED": 504},
}
"""HTTP status that a type of error has at OpenAI, Anthropic and Google, for errors that come without one."""
_CODE_CHARACTERS = 100
"""Characters of an error's code, which is a short name or a number; a server may send anything in its place."""
_READ_FOR_REASON = 10_000
_NO_SERVER = (502, 521, 522, 523)
"""A proxy in front of the server says that it cannot reach it."""


def excerpt(body: bytes, limit: int = 300) -> str:
    """Return the first characters of an untrusted reply on one line: no tags, no control characters, no keys."""
    text = _TAG.sub(" ", body[: 8 * limit].decode("utf-8", "replace"))
    # Not printable: escape sequences that a terminal would obey, and marks that turn the direction of writing.
    text = "".join(character if character.isprintable() else " " for character in text)
    return shorten(" ".join(redaction.redact(text).split()), limit)


def server_message(body: bytes) -> tuple[str, str]:
    """Return (message, code) of an error reply; the message is an excerpt of the body where it is not an error object."""
    reply = json_or_none(body)
    error = reply.get("error", reply) if isinstance(reply, dict) else reply
    return error_object(error) if error else (excerpt(body), "")


def error_object(error: Any) -> tuple[str, str]:
    """Return (message, code) of an `error` member, which is an object or, on some servers, a plain string."""
    if not isinstance(error, dict):
        return excerpt(str(error).encode("utf-8", "replace")), ""
    inner = error.get("innererror")
    code = next((c for c in (inner.get("code") if isinstance(inner, dict) else None, error.get("code")) if c), "")
    message = error.get("message") or error.get("detail") or ""
    text = message if isinstance(message, str) and message else str(error)
    kind = error.get("type") or ""
    if isinstance(kind, str) and _NO_CREDIT.fullmatch(kind):
        code = kind  # beside a code that only repeats the status
    named = excerpt(str(code or kind).encode("utf-8", "replace"), _CODE_CHARACTERS)
    return excerpt(text.encode("utf-8", "replace")), named


def from_status(status: int, headers: Mapping[str, str], body: bytes) -> ModelError:
    """Return the error for a reply whose HTTP status is not 2xx."""
    if 300 <= status < 400:
        where = excerpt(headers.get("Location", "").encode("utf-8", "replace")) or "nowhere"
        return BadRequestError(
            f"The server redirects to {where} (HTTP {status}); the key is not sent on to another address.",
            "Give that address as --base-url if it is the one you mean.",
        )
    message, code = server_message(body)
    wait_s = retry_after(headers)
    if status in (429, 503, 529) and wait_s is None:
        wait_s = reset_after(headers)
        if wait_s is None:
            reply = json_or_none(body)
            reply = reply[0] if isinstance(reply, list) and reply else reply
            wait_s = retry_in_body(reply.get("error") if isinstance(reply, dict) else None, message)
    if kind := headers.get("x-amzn-errortype", "").partition(":")[0]:
        code, status = excerpt(kind.encode("utf-8", "replace"), _CODE_CHARACTERS), _AMAZON_STATUS.get(kind, status)
        if kind == "ServiceQuotaExceededException":
            return NoCreditError(
                f"HTTP {status}: {message}", "Raise the quota at AWS, then run the same command again."
            )
    if status == 400 and _GOOGLE_KEY.encode() in body[:_READ_FOR_REASON]:
        status = 401
    return from_code(status, message, code, wait_s)


def from_code(status: int, message: str, code: str, wait_s: float | None = None) -> ModelError:
    """Return the error for a status (of HTTP, or inside an error object of a reply with HTTP status 200)."""
    description = f"HTTP {status}: {message}" if message else f"HTTP {status} with an empty reply"
    if code in _FILTERED or (status == 403 and "moderation" in message.lower()):
        return RefusalError(f"The server's content filter declined the question. {description}")
    if status == 402 or (400 <= status < 500 and _no_credit(message, code, wait_s)):
        return NoCreditError(description, "The account has no credit left: top it up, then run the same command again.")
    if status in (401, 403):
        return (KeyRefusedError if status == 401 else AuthError)(
            description, "Check the key (OPENAI_API_KEY, or the variable of --key-env) and what it may use."
        )
    if status in (425, 429, 529):
        return RateLimitError(description, retry_after_s=wait_s)
    if status == 503:
        return ServerError(description, retry_after_s=wait_s, unavailable=True, limits=True)
    if status in _NO_SERVER:
        return ServerError(description, retry_after_s=wait_s, unavailable=None)
    if status >= 500 or status in (408, 409):
        return ServerError(description, retry_after_s=wait_s)
    if status == 404:
        return BadRequestError(
            description, "Check the model's name, and that --base-url ends where /chat/completions begins."
        )
    if 400 <= status < 500:
        return BadRequestError(description)
    return BadReplyError(f"The server answered with an unexpected status. {description}")


def _no_credit(message: str, code: str, wait_s: float | None) -> bool:
    """Return True if the quota is used up for good. A server that names a wait limits a rate, whatever it calls it."""
    return _NO_CREDIT.fullmatch(code) is not None or (wait_s is None and _NO_CREDIT_WORDS.search(message) is not None)
