"""Opaque names of cases: an address of a blind review says neither run nor model, and lasts longer than the server.

A token is no secret: it keeps a reviewer from reading the run's name by accident, not by intent.
"""

from __future__ import annotations

import hashlib
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import NamedTuple

import msgspec

from snellen.errors import UsageError

TAG_BYTES = 6
MOST_CHARACTERS = 12_000


class CasePlace(NamedTuple):
    """A reply: key of its run, sample id and repeat."""

    run: str
    sample_id: str
    repeat: int


def case_token(place: CasePlace) -> str:
    """Return the token of a reply; tokens of one run have nothing in common."""
    content = msgspec.json.encode(place)
    tag = hashlib.blake2b(content, digest_size=TAG_BYTES).digest()
    return urlsafe_b64encode(tag + _masked(tag, content)).decode().rstrip("=")


def read_token(token: str) -> CasePlace:
    """Return the reply that a token names. Raises UsageError for any other text."""
    try:
        if len(token) > MOST_CHARACTERS:
            raise ValueError
        data = urlsafe_b64decode(token.encode("ascii") + b"=" * (-len(token) % 4))
        tag = data[:TAG_BYTES]
        content = _masked(tag, data[TAG_BYTES:])
        if hashlib.blake2b(content, digest_size=TAG_BYTES).digest() != tag:
            raise ValueError
        return CasePlace(*msgspec.json.decode(content, type=tuple[str, str, int]))
    except (ValueError, UnicodeError):
        raise UsageError("the address names no case of a review", "Open the review page again.") from None


def _masked(tag: bytes, content: bytes) -> bytes:
    mask = hashlib.shake_256(b"snellen review " + tag).digest(len(content))
    return bytes(a ^ b for a, b in zip(content, mask, strict=True))
