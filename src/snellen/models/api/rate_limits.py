"""Rate-limit headers: how long a server asks a client to wait after it refused a request.

Sources: RFC 9110 section 10.2.3 (Retry-After: seconds or a date); the headers of OpenAI (`retry-after-ms`,
`x-ratelimit-reset-requests: 6m0s`) and Anthropic (`anthropic-ratelimit-requests-reset: 2026-11-22T09:00:00Z`); the IETF
drafts "RateLimit header fields for HTTP" (`RateLimit-Reset: 55`, `RateLimit: limit=100, remaining=0, reset=55` and
`RateLimit: "default";r=0;t=55`); google.rpc.RetryInfo in the error object of Gemini.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

LONGEST_S = 86_400.0
"""A wait of more than a day is taken for nonsense, and passed over."""

_UNIT_S = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
_DURATION = re.compile(r"(?:\d{1,15}(?:\.\d{1,15})?(?:ns|us|µs|ms|s|m|h|d))+", re.ASCII)
_STEP = re.compile(r"(\d+(?:\.\d+)?)(ns|us|µs|ms|s|m|h|d)", re.ASCII)
_NUMBER = re.compile(r"[+-]?(?:\d{1,20}(?:\.\d{0,20})?|\.\d{1,20})(?:e[+-]?\d{1,3})?", re.ASCII | re.IGNORECASE)
_TRY_AGAIN = re.compile(
    r"(?:try again|retry) (?:in|after) "
    r"(?:((?:\d{1,9}(?:\.\d{1,9})?(?:ms|s|m|h))+)|(\d{1,9}(?:\.\d{1,9})?) (second|minute|hour)s?)\b",
    re.IGNORECASE,
)
_LONGEST_HEADER = 500


def retry_after(headers: Mapping[str, str], now: float | None = None) -> float | None:
    """Return seconds, 0 to 86,400, that the server asks to wait; None where it says nothing or nonsense.

    Reads `retry-after-ms`, then `Retry-After` as seconds or as a date.

    Args:
        headers: of the reply; names in any case.
        now: seconds since the epoch, against which times of day are measured where the reply has no `Date`.
    """
    lower, now = _read(headers, now)
    for name, scale in (("retry-after-ms", 1e-3), ("retry-after", 1.0)):
        seconds = _seconds(lower.get(name, ""), now, scale)
        if seconds is not None:
            return seconds
    return None


def reset_after(headers: Mapping[str, str], now: float | None = None) -> float | None:
    """Return seconds, more than 0 and at most 86,400, until the limits of a refused request begin anew; None: not known.

    Of several limits the latest counts, among those with nothing remaining if there are such. Where something remains
    of each, too little for this request remains of one: the earliest counts, because a day may be the latest. Servers
    send these headers with every reply: they say something about a wait only where a request was refused. `now` as above.
    """
    lower, now = _read(headers, now)
    resets = list(_resets(lower, now))
    exhausted = [seconds for seconds, remaining in resets if remaining is not None and remaining <= 0]
    unknown = [seconds for seconds, remaining in resets if remaining is None]
    if exhausted or unknown:
        return max(exhausted or unknown)
    return min((seconds for seconds, _ in resets), default=None)


def retry_in_body(error: Any, message: str) -> float | None:
    """Return seconds to wait that an error object names, as Gemini's RetryInfo or in words ("Please try again in 1.2s")."""
    details = error.get("details") if isinstance(error, dict) else None
    for detail in details[:20] if isinstance(details, list) else ():
        delay = detail.get("retryDelay") if isinstance(detail, dict) else None
        if isinstance(delay, str) and (seconds := _duration(delay[:50])) is not None:
            return seconds
    words = _TRY_AGAIN.search(message[:2000])
    if words is None:
        return None
    return _duration(words[1].lower()) if words[1] else _duration(words[2] + words[3][0].lower())


def _read(headers: Mapping[str, str], now: float | None) -> tuple[dict[str, str], float]:
    """Return the headers under lower-case names, and the server's time: its Date, else `now`, else that of this machine."""
    lower = {name.lower(): value.strip() for name, value in headers.items() if len(value) <= _LONGEST_HEADER}
    try:
        return lower, parsedate_to_datetime(lower["date"]).timestamp()
    except (KeyError, ValueError, TypeError, OverflowError, IndexError):
        return lower, time.time() if now is None else now


def _seconds(text: str, now: float, scale: float = 1.0) -> float | None:
    """Return seconds from now of a number, a duration such as 6m0s, a date of HTTP or an ISO time."""
    if not text:
        return None
    if _NUMBER.fullmatch(text):
        number = float(text)
        if number < 0.0:
            return None
        if number > 1e9:  # a time of day: seconds since the epoch, or milliseconds
            return _bounded(number / (1000.0 if number > 1e11 else 1.0) - now)
        return _bounded(number * scale)
    duration = _duration(text)
    if duration is not None:
        return duration
    for read in (parsedate_to_datetime, datetime.fromisoformat):
        try:
            when = read(text)
            aware = when if when.tzinfo is not None else when.replace(tzinfo=UTC)
            return _bounded(aware.timestamp() - now)
        except (ValueError, TypeError, OverflowError, IndexError):
            continue
    return None


def _duration(text: str) -> float | None:
    if not _DURATION.fullmatch(text):
        return None
    return _bounded(sum(float(count) * _UNIT_S[unit] for count, unit in _STEP.findall(text)))


def _bounded(seconds: float) -> float | None:
    return max(0.0, seconds) if math.isfinite(seconds) and seconds <= LONGEST_S else None


def _resets(lower: Mapping[str, str], now: float) -> Iterator[tuple[float, float | None]]:
    """Yield (seconds, how much remains) of each limit that the headers name; only waits above 0."""
    for name, value in lower.items():
        if name == "ratelimit":
            yield from _structured(value, now)
        elif "reset" in name.split("-") and "ratelimit" in name.replace("-", ""):
            seconds = _seconds(value, now)
            if seconds:
                yield seconds, _number(lower.get(name.replace("reset", "remaining", 1), ""))


def _structured(value: str, now: float) -> Iterator[tuple[float, float | None]]:
    """Yield the limits of `RateLimit`: items `"name";r=0;t=55`, or the older `limit=100, remaining=0, reset=55`."""
    older = dict(_pairs(re.split(r"[,;]", value)))
    if "reset" in older:
        if seconds := _seconds(older["reset"], now):
            yield seconds, _number(older.get("remaining", ""))
        return
    for item in value.split(","):
        members = dict(_pairs(item.split(";")))
        if seconds := _seconds(members.get("t", ""), now):
            yield seconds, _number(members.get("r", ""))


def _pairs(parts: list[str]) -> Iterator[tuple[str, str]]:
    for part in parts:
        name, sign, value = part.partition("=")
        if sign:
            yield name.strip().lower(), value.strip().strip('"')


def _number(text: str) -> float | None:
    return float(text) if _NUMBER.fullmatch(text) else None
