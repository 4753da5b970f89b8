"""The dress of an answer: outer blanks, quotes, emphasis, containers and one final full stop, which say nothing."""

from __future__ import annotations

import re

PAIRS = (
    ("**", "**"), ("__", "__"), ("~~", "~~"), ("*", "*"), ("_", "_"), ("```", "```"), ("`", "`"),
    ('"', '"'), ("'", "'"), ("“", "”"), ("”", "”"), ("‘", "’"), ("„", "“"), ("„", "”"), ("„", '"'), ("«", "»"), ("»", "«"), ("‹", "›"),
    ("「", "」"), ("『", "』"), ("《", "》"), ("〈", "〉"), ("“", '"'), ("''", "''"),
    ("$$", "$$"), ("$", "$"), ("\\(", "\\)"), ("\\[", "\\]"),
)  # fmt: skip
"""Marks that may stand around a whole answer. A mark is taken off at both ends or not at all."""
_BY_FIRST = {first: [pair for pair in PAIRS if pair[0][0] == first] for first in {opening[0] for opening, _ in PAIRS}}
_COMMAND = re.compile(
    r"\\(?:boxed|fbox|text|textbf|textit|textrm|mathrm|mathbf|mathit|mathsf|mbox|emph|underline)\s?\{"
)
_TAG = re.compile(r"<\s?(?P<name>[a-zA-Z][\w-]{0,20})(?:\s[^<>]{0,80})?>", re.ASCII)
_HASHES = re.compile(r"#{2,6}\s+(?=\S)")
_STOPS = ".。．｡"
_MOST = 12
"""Layers of dress that are taken off."""
_INVISIBLE = "\u200b\u200e\u200f\ufeff"
_BLOCK = re.compile(r"(?:>|#{1,6}|[-*•])[ \t]+(?=[^\s+-])")


def undressed(text: str) -> str:
    """Return a text without its dress: `**"Robin".**`, `\\boxed{Robin}`, `<answer>Robin</answer>` are `Robin`.

    What is left is never empty unless the text is.
    """
    start, end = undressed_span(text, 0, len(text))
    return text[start:end]


def undressed_span(text: str, start: int, end: int) -> tuple[int, int]:
    """Return start and end of the undressed text within a span."""
    for _ in range(_MOST):
        while start < end and (text[start].isspace() or text[start] in _INVISIBLE):
            start += 1
        while end > start and (text[end - 1].isspace() or text[end - 1] in _INVISIBLE):
            end -= 1
        inner = _inside(text, start, end)
        if inner is None:
            return start, end
        start, end = inner
    return start, end


def line_span(text: str, start: int, end: int) -> tuple[int, int]:
    """Return the span of a reply without its dress; the mark of a quotation, heading or bullet is dress of a single line."""
    start, end = undressed_span(text, start, end)
    block = _BLOCK.match(text, start, end)
    if block is None or text.find("\n", start, end) >= 0:
        return start, end
    return undressed_span(text, block.end(), end)


def _inside(text: str, start: int, end: int) -> tuple[int, int] | None:
    """Return the span within one layer of dress; None if there is no layer, or nothing in it."""
    if end - start < 2:
        return None
    if text[end - 1] in _STOPS and (text[end - 2] not in _STOPS or text[max(start, end - 3)] not in _STOPS):
        return start, end - 1
    first, last = text[start], text[end - 1]
    if first.isalnum() and last.isalnum():
        return None
    for opening, closing in _BY_FIRST.get(first, ()):
        inner = (start + len(opening), end - len(closing))
        if (
            text.startswith(opening, start)
            and text.endswith(closing, inner[0], end)
            and text[inner[0] : inner[1]].strip()
            and (
                closing == "**"
                or closing not in text[inner[0] : inner[1]].strip(closing)
                or (opening == closing and text.count(closing, *inner) % 2)  # `'It's late'`
                or text[inner[0]] + text[inner[1] - 1] in ("[]", "{}")
            )
        ):
            return inner
    if first == "\\" and last == "}" and (match := _COMMAND.match(text, start, end)) is not None:
        inner = (match.end(), end - 1)
        return inner if text[inner[0] : inner[1]].strip() and _is_balanced(text, *inner) else None
    if first == "<" and last == ">" and (match := _TAG.match(text, start, end)) is not None:
        closing = f"</{match['name']}>"
        inner = (match.end(), end - len(closing))
        if (
            inner[0] < inner[1]
            and text[inner[1] : end].lower() == closing.lower()
            and text[inner[0] : inner[1]].strip()
        ):
            return inner
    if first == "#" and (match := _HASHES.match(text, start, end)) is not None:
        return match.end(), end
    return None


def _is_balanced(text: str, start: int, end: int) -> bool:
    """Return True if no closing brace in a span belongs to an opening one before it."""
    depth = 0
    for char in text[start:end]:
        depth += (char == "{") - (char == "}")
        if depth < 0:
            return False
    return True
