"""Subtitles of a clip: their files, and the lines that are spoken at its frames.

SubRip, WebVTT and ASS are read by pysubs2. JSON is a list of lines, or lines of JSON are one each, as data sets have them:
with `start` and `end` (or `start_time` and `end_time`, or `timestamp` with both), and `text` or `line`. Times are seconds,
or text such as `00:01:02.5`.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from snellen.errors import DataError, MissingExtraError
from snellen.installation import install_hint
from snellen.types import Blob

MOST_BYTES = 16 << 20
"""Largest file of subtitles: a film of three hours has 200 kilobytes."""
SUBTITLE_SUFFIXES = (".srt", ".vtt", ".ass", ".json", ".jsonl")
_CLOCK = re.compile(r"(?:(?:(\d{1,4}):)?(\d{1,4}):)?(\d{1,9}(?:[.,]\d{1,9})?)\s*s?")
_SECTION = re.compile(r"\s*\[[A-Za-z]")
"""How ASS begins, as `[Script Info]`, and no JSON does."""
_TAG = re.compile(r"<[^<>]{0,200}>|\{\\[^{}]{0,200}\}")


class Line(NamedTuple):
    """One subtitle: seconds from and until which it is spoken, and its text."""

    start: float
    end: float
    text: str


def seconds_of(value: Any) -> float:
    """Return the seconds of a number or a text such as `75`, `1:15` or `00:01:15.5`.

    Raises:
        ValueError: it is no time.
    """
    if isinstance(value, bool) or value is None:
        raise ValueError(f"{value!r} is no time; seconds, or text such as 1:15, were expected")
    if isinstance(value, int | float):
        seconds = float(value) if abs(value) < 1e9 else float("inf")  # an integer may be too large for a float
    elif (clock := _CLOCK.fullmatch(str(value).strip())) is not None:
        hours, minutes, rest = clock.groups()
        seconds = 3600.0 * int(hours or 0) + 60.0 * int(minutes or 0) + float(rest.replace(",", "."))
    else:
        raise ValueError(f"{str(value)[:40]!r} is no time; seconds, or text such as 1:15, were expected")
    if not 0 <= seconds < 1e9:
        raise ValueError(f"{value!r:.40} is no time of a clip; 0 or more seconds were expected")
    return seconds


def read_subtitles(blob: Blob) -> list[Line]:
    """Return the lines of a file in the order of their starts, without markup and empty lines.

    Raises:
        DataError: the file is too large, of no known form, or a line of it has no times.
        MissingExtraError: pysubs2 is not installed.
    """
    data = blob.read()
    if len(data) > MOST_BYTES:
        raise DataError(f"subtitles {blob.key}: {len(data):,} bytes; at most {MOST_BYTES:,} are read")
    return list(_lines(data, blob.key))


@lru_cache(maxsize=4)  # several questions are asked about one clip
def _lines(data: bytes, key: str) -> tuple[Line, ...]:
    text = _decoded(data)
    try:
        is_json = text.lstrip()[:1] in ("[", "{") and "-->" not in text[:200] and not _SECTION.match(text)
        lines = _of_json(text) if is_json else _of_text(text, key)
    except (ValueError, KeyError, RecursionError) as error:
        raise DataError(
            f"subtitles {key}: {error}",
            "Check that the file is SubRip, WebVTT, ASS, or JSON with start, end and text.",
        ) from error
    return tuple(sorted((line for line in lines if line.text), key=lambda line: (line.start, line.end)))


def _decoded(data: bytes) -> str:
    for encoding in ("utf-8-sig", "utf-16") if data[:2] in (b"\xff\xfe", b"\xfe\xff") else ("utf-8-sig", "cp1252"):
        try:
            return data.decode(encoding)
        except UnicodeDecodeError:
            continue
    return data.decode("utf-8", "replace")


def _of_text(text: str, key: str) -> list[Line]:
    try:
        import pysubs2
    except ImportError as error:
        raise MissingExtraError(
            f"subtitles {key} need pysubs2, which is not installed", install_hint("video")
        ) from error
    try:
        read = pysubs2.SSAFile.from_string(text)
    except Exception as error:  # pysubs2 raises whatever its parsers stumble over
        raise ValueError(f"they cannot be read: {error}") from error
    return [
        Line(event.start / 1000, event.end / 1000, _plain(event.plaintext))
        for event in read.events
        if not event.is_comment
    ]


def _of_json(text: str) -> list[Line]:
    try:
        parsed = json.loads(text)
        rows = (
            parsed if isinstance(parsed, list) else next((v for v in parsed.values() if isinstance(v, list)), [parsed])
        )
    except json.JSONDecodeError:
        rows = [json.loads(line) for line in text.splitlines() if line.strip()]
    return [_of_row(row, number) for number, row in enumerate(rows, 1)]


def _of_row(row: Any, number: int) -> Line:
    if not isinstance(row, dict):
        raise ValueError(f"entry {number} is {row!r:.40}; an object with start, end and text was expected")
    pair = row.get("timestamp")
    start, end = pair if isinstance(pair, list) and len(pair) == 2 else (None, None)
    start = row.get("start", row.get("start_time", start))
    end = row.get("end", row.get("end_time", end))
    if end is None and "duration" in row and start is not None:
        end = seconds_of(start) + seconds_of(row["duration"])
    text = row.get("text", row.get("line"))
    try:
        begins = seconds_of(start)
        return Line(begins, begins if end is None else seconds_of(end), _plain(str(text or "")))
    except ValueError as error:
        raise ValueError(f"entry {number}: {error}") from error


def _plain(text: str) -> str:
    return " ".join(_TAG.sub("", text).split())


def at_frames(lines: Iterable[Line], times: Sequence[float], least: float = 0.0) -> list[Line]:
    """Return the lines that are spoken at one of the times, each once; a line counts as `least` seconds long around its middle."""
    ordered = sorted(times)

    def is_spoken(line: Line) -> bool:
        more = max(least - (line.end - line.start), 0.0) / 2
        at = bisect_left(ordered, line.start - more)
        return at < len(ordered) and ordered[at] <= line.end + more

    return [line for line in lines if is_spoken(line)]


PAUSE, PAUSE_AT_END = 0.5, 0.1
"""Seconds of silence behind which a sentence begins: anywhere, and behind a word with a mark that ends one."""


def sentences(words: Iterable[Line]) -> list[Line]:
    """Return lines joined where no pause is between them. Source: `group_subtitle_segments` of Video-MME-v2's script."""
    joined: list[Line] = []
    for word in words:
        last = joined[-1] if joined else None
        if last is None or word.start - last.end > (PAUSE_AT_END if last.text.endswith((".", "!", "?")) else PAUSE):
            joined.append(word)
        else:
            joined[-1] = Line(last.start, word.end, f"{last.text} {word.text}")
    return joined


def in_span(lines: Iterable[Line], start: float | None, end: float | None) -> list[Line]:
    """Return the lines of which something is spoken between start and end."""
    return [line for line in lines if line.end >= (start or 0.0) and (end is None or line.start <= end)]
