"""Data as users name it: a path or a repository of the hub, and rows that any later file can hold."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path

import msgspec

from snellen.errors import DataError
from snellen.sources.encodings import Row
from snellen.sources.hub import locate


@lru_cache(maxsize=64)
def on_disk(name: str, *patterns: tuple[str, ...]) -> Path:
    """Return the path that a user names, or the folder of the hub's files, which is fetched once a process.

    Args:
        name: a path, or `hf:owner/name`.
        patterns: groups of files to fetch from the hub; the first group that matches a file is fetched.

    Raises:
        DataError: as `snellen.sources.web_files`.
    """
    *earlier, last = patterns
    for group in earlier:
        try:
            return locate(name, patterns=list(group))
        except DataError as error:
            if "no file matches" not in error.message:
                raise
    return locate(name, patterns=list(last))


def encodable(
    rows: Iterable[tuple[int, Row | DataError]], file: str, hint: str, *, quote: bool = True
) -> Iterator[tuple[int, Row | DataError]]:
    """Yield the rows, with an error in place of one whose texts hold half a character, which no file can hold.

    JSON can write such a half, a lone surrogate.

    Args:
        rows: (line, row or error).
        file: its name in messages.
        hint: the errors' hint.
        quote: quote the half in messages; False where texts are secret.
    """
    for line, row in rows:
        try:
            msgspec.json.encode(row) if not isinstance(row, DataError) else None
        except UnicodeEncodeError as error:
            half = f"{error.object[error.start]!a}" if quote else "a text"
            fault = f"{file}, line {line:,}: {half} {'is' if quote else 'holds'} half a character (a lone surrogate)"
            yield line, DataError(fault, hint)
        else:
            yield line, row
