"""Keys never leave the process: every text on its way to a file, a terminal or a report goes through `redact`.

Two nets: the secrets that this process was given (`register`), and the shapes that the usual services give their keys,
so that a key inside a reply, a web page or somebody else's log is caught as well.
"""

from __future__ import annotations

import json
import re

REDACTED = "[redacted]"

# A shorter "key" is a placeholder (EMPTY, none, dummy); striking it out would alter the answers of models.
_SHORTEST = 8

# (marker, pattern): a plain substring search for the marker comes first, because it is about a hundred times cheaper
# than the pattern and fails for nearly every text. "Bearer" wants a digit after it: the word also occurs in prose.
_SHAPES: tuple[tuple[str, str], ...] = (
    ("sk-", r"\bsk-[\w*-]{16,}"),
    ("hf_", r"\bhf_[A-Za-z0-9]{16,}"),
    ("gsk_", r"\bgsk_[A-Za-z0-9]{16,}"),
    ("xai-", r"\bxai-[A-Za-z0-9]{16,}"),
    ("nvapi-", r"\bnvapi-[\w-]{16,}"),
    ("AIza", r"\bAIza[\w-]{30,}"),
    ("ghp_", r"\bghp_[A-Za-z0-9]{20,}"),
    ("github_pat_", r"\bgithub_pat_\w{20,}"),
    ("AKIA", r"\bAKIA[A-Z0-9]{16}\b"),
    ("earer ", r"(?<=[Bb]earer )(?=\S*\d)[\w.~+/=*-]{8,}"),
    ("EARER ", r"(?<=BEARER )(?=\S*\d)[\w.~+/=*-]{8,}"),
)
_PATTERNS = tuple((marker, re.compile(pattern, re.ASCII)) for marker, pattern in _SHAPES)

_registered: list[str] = []


def register(secret: str) -> None:
    """Remember a secret for `redact`. Placeholders of fewer than 8 characters are not secrets and are left alone."""
    # The second form is the secret as it stands inside a JSON string.
    for form in (secret, json.dumps(secret)[1:-1]):
        if len(form) >= _SHORTEST and form not in _registered:
            _registered.append(form)
    # Longest first: a secret that contains another one must go as a whole.
    _registered.sort(key=len, reverse=True)


def redact(text: str) -> str:
    """The text with every registered secret and everything of the shape of a key replaced by `[redacted]`.

    Costs about a microsecond per kilobyte where there is nothing to replace. Works on JSON as on prose: the result of
    a redacted JSON document is a JSON document.
    """
    for secret in _registered:
        if secret in text:
            text = text.replace(secret, REDACTED)
    for marker, pattern in _PATTERNS:
        if marker in text:
            text = pattern.sub(REDACTED, text)
    return text


def redact_bytes(data: bytes) -> bytes:
    """`redact` for UTF-8 bytes, such as an encoded record; returns the same object where nothing was found."""
    text = data.decode("utf-8", "surrogateescape")
    clean = redact(text)
    return data if clean is text else clean.encode("utf-8", "surrogateescape")
