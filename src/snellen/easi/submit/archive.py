"""The zip of a submission: all answers, within the leaderboard's size limit.

No prompts, no gold answers, no media. The same files give the same bytes. Where the replies are too long, all are cut to
their ends, where the answers stand, by steps, and the rows say how long they were.

Source: what EASI's leaderboard takes: deflated members `<name>/<file>` with the endings of ENDINGS (the validator of 2026-03-30).
"""

from __future__ import annotations

import io
import json
import zipfile
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path, PurePosixPath
from typing import NamedTuple

import msgspec

ENDINGS = frozenset(
    (
        *("json", "jsonl", "csv", "tsv", "xlsx", "txt", "log", "parquet", "arrow", "npy", "pkl", "yaml", "yml", "xml"),
        *("md", "html", "pdf", "py", "sh", "png", "jpg", "jpeg", "gif", "svg"),
    )
)
KEPT_CHARACTERS = (8000, 6000, 4000, 3000, 2000, 1500, 1000, 750, 500, 400, 300, 200, 150, 100, 50, 0)
"""How much of the end of each reply may be kept where not all of it fits: the longest that does."""
_DATE = (1980, 1, 1, 0, 0, 0)
_decode, _encode = msgspec.json.Decoder(dict).decode, msgspec.json.Encoder().encode


class Archive(NamedTuple):
    """A zip, and the maximum number of characters of each reply in it; None: all."""

    content: bytes
    kept: int | None


def slim(rows: Mapping[str, Path], members: Mapping[str, bytes], folder: str, limit: int) -> Archive | None:
    """Build the zip with the longest replies that fit the limit.

    Args:
        rows: member name to a file of JSON lines, each with a `reply`.
        members: member name to content.
        folder: what all members lie in.
        limit: bytes of the zip at most.

    Returns:
        None where it is too large even without the replies.

    Raises:
        ValueError: a member's name would be refused.
    """
    for name in [*rows, *members]:
        full = f"{folder}/{name}"
        if ".." in full or PurePosixPath(full).suffix.removeprefix(".") not in ENDINGS or full.count("/") != 1:
            raise ValueError(f"{full!r} is no name of a member that the leaderboard takes")
    packed = cache(lambda reply_limit: _packed(rows, members, folder, limit, reply_limit))
    if (whole := packed(None)) is not None:
        return Archive(whole, None)
    # The shorter the replies, the smaller the zip.
    at = bisect_left(KEPT_CHARACTERS, True, key=lambda characters: packed(characters) is not None)
    content = packed(KEPT_CHARACTERS[at]) if at < len(KEPT_CHARACTERS) else None
    return None if content is None else Archive(content, KEPT_CHARACTERS[at])


def _packed(
    rows: Mapping[str, Path], members: Mapping[str, bytes], folder: str, limit: int, reply_limit: int | None
) -> bytes | None:
    """Build the zip; None as soon as it exceeds the limit."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name in sorted([*rows, *members]):
            member = zipfile.ZipInfo(f"{folder}/{name}", _DATE)
            member.compress_type = zipfile.ZIP_DEFLATED
            member.create_system = 3
            member.external_attr = 0o100644 << 16
            member._compresslevel = 9  # type: ignore[attr-defined]  # the only way to a level for an open member
            with archive.open(member, "w") as file:
                for piece in [members[name]] if name in members else _lines(rows[name], reply_limit):
                    file.write(piece)
                    if buffer.tell() > limit:
                        return None
    return buffer.getvalue() if buffer.tell() <= limit else None


def _lines(path: Path, reply_limit: int | None) -> Iterator[bytes]:
    with path.open("rb") as file:
        if reply_limit is None:
            yield from file
            return
        for line in file:
            row = _decode(line)
            reply = row.get("reply")
            if isinstance(reply, str) and len(reply) > reply_limit:
                row["reply"] = reply[-reply_limit:] if reply_limit else ""
                row["reply_characters"] = len(reply)
                line = _encode(row) + b"\n"
            yield line


def readable(content: Mapping[str, object]) -> bytes:
    """Encode JSON indented and in ASCII, as EASI writes it."""
    return json.dumps(content, indent=2).encode() + b"\n"
