"""Untrusted text on its way into the page: always text, never markup, and nothing invisible left invisible."""

from __future__ import annotations

import re
from typing import Any

import msgspec

_BIDI = "\u202a-\u202e\u2066-\u2069"
_HIDDEN = re.compile(f"[\x00-\x08\x0b-\x1f\x7f-\x9f{_BIDI}\u200b\u2060\ufeff\ufff9-\ufffb\U000e0000-\U000e007f]")
_SURROGATE = re.compile("[\ud800-\udfff]")
_UNSAFE_IN_SCRIPT = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}


def escape_invisible(text: str) -> str:
    """Spell out control characters, direction overrides and zero-width characters of a text.

    A reply could otherwise show a reader something else than it says ("Trojan Source", CVE-2021-42574). Newlines and
    tabs stay; carriage returns before a newline go; lone surrogates become U+FFFD.
    """
    text = _SURROGATE.sub("\ufffd", text).replace("\r\n", "\n")
    return _HIDDEN.sub(lambda match: f"⟦U+{ord(match.group()):04X}⟧", text)


def clip(text: str, characters: int) -> str:
    """Clip a text to a number of characters, invisible ones spelled out; state the full length."""
    if len(text) <= characters:
        return escape_invisible(text)
    return f"{escape_invisible(text[:characters])} ⟦… {len(text):,} characters in all⟧"


def text_of_value(value: Any, characters: int = 500) -> str | None:
    """Convert a target or an extracted answer to text; None stays None, several accepted texts are joined by " | "."""
    if value is None:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple, set, frozenset)):
        items = sorted(map(str, value)) if isinstance(value, (set, frozenset)) else [str(v) for v in value]
        return clip(" | ".join(items), characters)
    if isinstance(value, float):
        return f"{value:.6g}"
    return clip(str(value), characters)


def json_for_page(value: Any) -> str:
    """Encode JSON for use inside <script type="application/json">: no character of it can end the element.

    Source: WHATWG HTML, section 4.12.1.3 ("restrictions for contents of script elements").
    """
    text = msgspec.json.encode(value, order="deterministic").decode()
    return re.sub("[<>&\u2028\u2029]", lambda match: _UNSAFE_IN_SCRIPT[match.group()], text)
