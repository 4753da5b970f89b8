"""The names and numbers of constants.toml, read once; and a parser for lists that stand as text.

Such lists stand in replies, and in the cells of VLMEvalKit's tables.
"""

from __future__ import annotations

import ast
import re
import tomllib
import unicodedata
import warnings
from importlib import resources
from typing import Any

CONSTANTS: dict[str, Any] = tomllib.loads(
    resources.files("snellen.benchmarks.spatial.scorers").joinpath("constants.toml").read_text(encoding="utf-8")
)
"""Tables by benchmark or rule, as in the file."""


LONGEST = 1 << 20  # Python's parser takes a few hundred bytes of memory for each character of a list


_FOREIGN = re.compile(r"[^\x00-\x7f]{200,}")
MAX_MARKS = 100


def _heaps_marks(run: str) -> bool:
    """Return True for more combining marks than any word has: Python's parser takes the square of their number."""
    return sum(map(bool, map(unicodedata.combining, run))) > MAX_MARKS


def listed(text: str) -> list[Any] | None:
    """Parse a Python literal in text as a list; None where it is anything else, or longer than a megabyte."""
    value = literal(text)
    return value if isinstance(value, list) else None


def literal(text: str) -> Any:
    """Parse a Python literal in text; None where it is none, or longer than a megabyte."""
    if len(text) > LONGEST or any(map(_heaps_marks, _FOREIGN.findall(text))):
        return None
    try:
        with warnings.catch_warnings():
            # Python warns about forms such as `1and`, which here are a model's words.
            warnings.simplefilter("ignore", SyntaxWarning)
            return ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
        # RecursionError and MemoryError are what the parser raises for brackets nested too deep.
        return None
