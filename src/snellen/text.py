"""Pretty and untrusted JSON, slugs for file names, cut texts, comma-separated lists, and the first bytes of Git LFS pointers."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import msgspec

GIT_LFS_START = b"version https://git-lfs"
"""The first bytes of the text that Git LFS leaves in place of a file that was not fetched."""
_NOT_IN_FILE_NAMES = re.compile("[^A-Za-z0-9._]+")


def pretty_json(value: Any, enc_hook: Callable[[Any], Any] | None = None) -> bytes:
    """Encode a value as JSON, indented by two spaces, with a line end.

    `enc_hook` turns objects that msgspec cannot encode into ones that it can.
    """
    return msgspec.json.format(msgspec.json.encode(value, enc_hook=enc_hook), indent=2) + b"\n"


def json_or_none(data: bytes) -> Any:
    """Decode untrusted JSON; None where it is none."""
    try:
        return msgspec.json.decode(data)
    except (ValueError, RecursionError):  # bytes that are no UTF-8 are a UnicodeDecodeError
        return None


def json_with_constants(data: bytes) -> Any:
    """Decode untrusted JSON in which NaN and Infinity may stand as Python writes them, though JSON has neither.

    Raises:
        msgspec.DecodeError: it is no JSON.
        UnicodeDecodeError: it is no UTF-8.
        RecursionError: it is nested too deeply.
    """
    try:
        return msgspec.json.decode(data)
    except msgspec.DecodeError:
        if b"NaN" in data or b"Infinity" in data:
            with suppress(ValueError):
                return json.loads(data)
        raise


def slug(text: str, limit: int | None = None) -> str:
    """Make a text part of a file name: ASCII letters, digits, `.`, `_` and single hyphens.

    Other characters become hyphens, the text is cut at `limit` characters, and hyphens and points at its ends are
    removed. Empty where nothing is left.
    """
    return _NOT_IN_FILE_NAMES.sub("-", text)[:limit].strip("-.")


def shorten(text: str, limit: int) -> str:
    """Cut a text to at most `limit` characters; the last one is then an ellipsis."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


def comma_list(text: str | None) -> list[str]:
    """Split an option's value at its commas, without surrounding spaces and empty items."""
    return [item for part in (text or "").split(",") if (item := part.strip())]
