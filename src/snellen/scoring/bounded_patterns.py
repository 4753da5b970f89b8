"""Search for a pattern that came with data: as `re` does it, in a process of its own that is ended if it takes too long.

No inspection of a pattern says how long `re` takes, and an engine with a bound reads some patterns in another way.
"""

from __future__ import annotations

import json
import re
from typing import NamedTuple

from snellen.errors import DataError
from snellen.scoring.answering_process import AnsweringProcess

SECONDS = 2.0
"""Maximum time of a search."""
_PROGRAM = """
import json, re, sys
print("ready", flush=True)
for line in sys.stdin:
    text, flags, searched, whole = json.loads(line)
    found = (re.fullmatch if whole else re.search)(text, searched, flags)
    print(json.dumps(None if found is None else [found[0], found.groups()]), flush=True)
"""
_process = AnsweringProcess(("-I", "-S", "-c", _PROGRAM), SECONDS)


class OutOfTimeError(Exception):
    """A search that took longer than SECONDS."""


class Found(NamedTuple):
    """The text that a pattern matches, and those of its groups."""

    text: str
    groups: tuple[str | None, ...]


def require_pattern(text: str) -> None:
    """Raise DataError for a text that is no pattern."""
    try:
        re.compile(text)
    except (re.error, RecursionError, OverflowError) as error:
        raise DataError(f"the pattern {text[:80]!r} is none: {error}", "Correct it.") from error


def search(text: str, searched: str, flags: int = 0, *, whole: bool = False) -> Found | None:
    """Return what `re.search` finds, or `re.fullmatch` for the `whole` text.

    Raises:
        OutOfTimeError: it takes longer than SECONDS.
    """
    answer = _process.ask(json.dumps([text, int(flags), searched, whole]))
    if not answer:
        raise OutOfTimeError(f"the pattern {text[:80]!r} takes more than {SECONDS:g} s")
    found = json.loads(answer)
    return None if found is None else Found(found[0], tuple(found[1]))
