"""TOML of users, in time that grows with its length (that of tomllib is quadratic in the parts of a dotted name), and of packages."""

from __future__ import annotations

import re
import tomllib
from importlib.resources import files
from typing import Any

MOST_PARTS = 64
"""Parts that a dotted name may have. 20,000 take four seconds, and a file of a megabyte holds half a million."""
# Strings of several lines, strings, a comment, a dot, what stands before or behind a name, and all else.
_TOKEN = re.compile(
    r'"""(?:[^"\\]|\\.|"(?!""))*+(?:"""|\Z)'
    r"|'''(?:[^']|'(?!''))*+(?:'''|\Z)"
    r'|"(?:[^"\\\n]|\\.)*+"?'
    r"|'[^'\n]*+'?"
    r"|\#[^\n]*+"
    r"|(?P<dot>\.)"
    r"|(?P<end>[\n=,\[\]{}])"
    r"|[^\"'#.\n=,\[\]{}]++",
    re.DOTALL,
)


def parse_toml(text: str) -> dict[str, Any]:
    """Parse a TOML document in time that grows with its length.

    Raises:
        tomllib.TOMLDecodeError: it is no TOML, or a dotted name has more than 64 parts.
        RecursionError: arrays or tables are nested too deeply.
    """
    if any(line.count(".") >= MOST_PARTS for line in text.split("\n")):
        _require_short_names(text)
    return tomllib.loads(text)


def packaged_toml(package: str, name: str) -> dict[str, Any]:
    """Return what a TOML file of a package holds."""
    return tomllib.loads(files(package).joinpath(name).read_text("utf-8"))


def _require_short_names(text: str) -> None:
    dots = 0
    for token in _TOKEN.finditer(text):
        if token.lastgroup == "dot":
            dots += 1
            if dots >= MOST_PARTS:
                line = text.count("\n", 0, token.start()) + 1
                raise tomllib.TOMLDecodeError(f"a dotted name has more than {MOST_PARTS} parts (at line {line})")
        elif token.lastgroup == "end":
            dots = 0
