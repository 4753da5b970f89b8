"""Text of options: JSON objects, key=value pairs and sizes in bytes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from snellen.errors import UsageError

FILE_HINT = "Check the path: @FILE names a file that holds one JSON object."
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def parse_json_object(text: str, option: str) -> dict[str, Any]:
    """Return the JSON object that an option holds, inline or as @FILE.

    Raises:
        UsageError: the file cannot be read, or the text is not a JSON object.
    """
    try:
        data = Path(text[1:]).read_bytes() if text.startswith("@") else text.encode()
        return msgspec.json.decode(data, type=dict[str, Any])
    except OSError as error:
        raise UsageError(f"{option} {text}: cannot read the file: {error.strerror}", FILE_HINT) from None
    except (msgspec.DecodeError, RecursionError) as error:
        raise UsageError(
            f"{option} is not a JSON object: {error}", "Example: '{\"top_k\": 1}', or @body.json."
        ) from None


def parse_pairs(options: Sequence[str] | None, option: str = "-o") -> dict[str, str]:
    """Return {key: value} of options such as `-o key=value`; raise UsageError for one without a key or `=`."""
    values: dict[str, str] = {}
    for text in options or ():
        name, sign, value = text.partition("=")
        if not sign or not name.strip():
            raise UsageError(f"{option} {text!r} is not of the form key=value")
        values[name.strip()] = value
    return values


def parse_size(text: str, option: str) -> int:
    """Return the bytes of a size such as 512M or 2G, or of a plain number; raise UsageError for other text."""
    matched = re.fullmatch(r"([0-9]{1,15})([KMG]?)(?:i?B)?", text.strip(), re.IGNORECASE)
    if matched is None:
        raise UsageError(f"{option} {text!r} is not a size", "Write a number with K, M or G: 512M, 2G.")
    return int(matched[1]) * _UNITS[matched[2].upper()]
