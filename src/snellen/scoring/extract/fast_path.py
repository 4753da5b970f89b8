"""Fast path for the most frequent short replies: a letter, a word or a number.

Each shortcut returns what the full extraction returns (a test compares them). Other replies need the full extraction.
"""

from __future__ import annotations

import re

from snellen.scoring.extract.base import Reading

_LONGEST = 80
_LETTERED = re.compile(r"(?:A(?:nswer|NSWER): )?\(?([A-Z])[).:]?(?:\s+([^\s].*?))?\.?\s*", re.ASCII)
_NUMBER = re.compile(r"(?:0|[1-9][0-9]{0,8})\.?\s*", re.ASCII)
_TRUTH = {"yes": ("yes/no", True), "no": ("yes/no", False), "true": ("T/F", True), "false": ("T/F", False)}
_TRUTH |= {"t": ("T/F", True), "f": ("T/F", False)}


def shortcut(kind: str, reply: str, pairs: tuple[tuple[str, str], ...], form: str | None) -> Reading | None:
    """Return the reading of a plain short reply; None for any other reply."""
    if len(reply) > _LONGEST:
        return None
    if kind in ("choice", "choice_text"):
        return _option(reply, pairs)
    if kind == "truth":
        known = _TRUTH.get(reply.strip().removesuffix(".").lower())
        return Reading(known[1], None) if known is not None and known[0] == form else None
    if kind in ("count", "number") and _NUMBER.fullmatch(reply):
        value = int(reply.strip().removesuffix("."))
        return Reading(value if kind == "count" else float(value), None)
    return None


def _option(reply: str, pairs: tuple[tuple[str, str], ...]) -> Reading | None:
    match = _LETTERED.fullmatch(reply)
    if match is None:
        return None
    letter, option_text = match.groups()
    own = [text for name, text in pairs if name == letter]
    # Options that are letters themselves, and a letter given twice, need more than a glance.
    if len(own) != 1 or any(len(text.strip()) < 2 for _, text in pairs):
        return None
    if option_text is not None and option_text.strip().lower() != own[0].strip().removesuffix(".").lower():
        return None
    return Reading(letter, None)
