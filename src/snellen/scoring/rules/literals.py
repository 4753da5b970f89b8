"""Lists that stand as Python text in tables and replies; they are parsed, never evaluated."""

from __future__ import annotations

import ast
import re
import unicodedata
import warnings
from typing import Any

MAX_CHARS = 1 << 20  # Python's parser takes a few hundred bytes of memory for each character of a list


_FOREIGN = re.compile(r"[^\x00-\x7f]{200,}")
MAX_MARKS = 100


def _heaps_marks(run: str) -> bool:
    """Return True for more combining marks than any word has: Python's parser takes the square of their number."""
    return sum(map(bool, map(unicodedata.combining, run))) > MAX_MARKS


def literal_list(text: str) -> list[Any] | None:
    """Parse a Python literal in text as a list; None where it is anything else, or longer than a megabyte."""
    value = literal(text)
    return value if isinstance(value, list) else None


def literal(text: str) -> Any:
    """Parse a Python literal in text; None where it is none, or longer than a megabyte."""
    if len(text) > MAX_CHARS or any(map(_heaps_marks, _FOREIGN.findall(text))):
        return None
    try:
        with warnings.catch_warnings():
            # Python warns about forms such as `1and`, which here are a model's words.
            warnings.simplefilter("ignore", SyntaxWarning)
            return ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
        # RecursionError and MemoryError are what the parser raises for brackets nested too deep.
        return None
