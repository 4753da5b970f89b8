"""JSON as agents' configurations are written: with comments, trailing commas, single quotes and bare keys (JSONC, JSON5)."""

from __future__ import annotations

import re
from typing import Any

import msgspec

_TOKEN = re.compile(
    r"""(?P<double>"(?:[^"\\]|\\.)*")
    |(?P<single>'(?:[^'\\]|\\.)*')
    |(?P<comment>//[^\n]*|/\*.*?\*/)
    |(?P<mark>[{}\[\]:,])
    |(?P<word>[^\s{}\[\]:,"'/]+)
    |(?P<space>\s+)""",
    re.DOTALL | re.VERBOSE,
)


def decode(text: str) -> Any:
    """Decode plain or relaxed JSON.

    Raises:
        ValueError: it is neither; the message names the line.
    """
    text = text.removeprefix("\ufeff")
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        pass
    except RecursionError:
        raise ValueError("it is nested too deep") from None
    pieces = list(_pieces(text))
    plain: list[str] = []
    for number, (kind, piece) in enumerate(pieces):
        following = pieces[number + 1][1] if number + 1 < len(pieces) else ""
        if piece == "," and following in ("}", "]"):
            continue
        if kind == "single":
            inner = piece[1:-1].replace("\\'", "'")
            plain.append('"' + re.sub(r'(?<!\\)"', '\\"', inner) + '"')
        elif kind == "word" and following == ":":
            plain.append(msgspec.json.encode(piece).decode())
        else:
            plain.append(piece)
    try:
        return msgspec.json.decode("".join(plain))
    except RecursionError:
        raise ValueError("it is nested too deep") from None


def _pieces(text: str) -> list[tuple[str, str]]:
    result, at = [], 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            line = text.count("\n", 0, at) + 1
            raise ValueError(f"line {line}: {text[at : at + 20]!r} was not expected")
        at = match.end()
        if match.lastgroup not in ("comment", "space"):
            result.append((match.lastgroup or "", match[0]))
    return result
