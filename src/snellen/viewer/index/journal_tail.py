"""Intact records of a journal from an offset on, for following a run that another process writes. No run is written."""

from __future__ import annotations

import os
from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path
from typing import IO, Any

import msgspec
import pyarrow as pa
from msgspec import Struct, structs

from snellen.engine.request_errors import one_line
from snellen.engine.resume import uncounted_part
from snellen.errors import RunError
from snellen.scoring.scores import question_code
from snellen.sources.journal_lines import intact_parts, never_sealed, record_number
from snellen.types import Failure, Record, Usage
from snellen.viewer.index.database import RECORDS, TailState, plain, table_of

LINE_BYTES = 64 << 20
"""A longer line is no record: it is passed over without being held."""
END_BYTES = 4096
MOST_REPEATS = 1 << 20
_NOT_JSON = (ValueError, RecursionError)  # msgspec's errors are ValueErrors


class _IndexedReply(Struct, frozen=True, gc=False):
    text: str
    usage: Usage = Usage()
    latency_s: float = 0.0
    batch: str = ""
    oversized_images: int | None = None


class JournalRow(Struct, frozen=True, gc=False):
    """What the index takes from a line of results.jsonl."""

    sample_id: str
    status: str
    repeat: int = 0
    response: _IndexedReply | None = None
    error: Failure | None = None
    attempts: int = 1
    started_at: float = 0.0
    finished_at: float = 0.0


KEPT_GAPS = 10_000


class JournalTail:
    """Reader of the lines that were added to a journal since `state`."""

    def __init__(self, path: Path, state: TailState | None = None, *, repeats: int = MOST_REPEATS) -> None:
        self.path = path
        self.state = state or TailState()
        self._repeats = repeats
        self._decode = msgspec.json.Decoder(JournalRow).decode
        self._decode_whole = msgspec.json.Decoder(Record).decode
        self._gaps = set(self.state.skipped)

    def continues(self) -> bool:
        """Return True if the journal still begins with what was read of it."""
        if not self.state.offset:
            return True
        try:
            with open_regular(self.path) as file:
                if os.fstat(file.fileno()).st_size < self.state.offset:
                    return False
                return (self.state.first, self.state.last) == _ends(file, self.state.offset)
        except (OSError, RunError):
            return False

    def rows(self) -> Iterator[tuple[int, int, JournalRow]]:
        """Yield (start in bytes, bytes, row) of each intact record behind the offset; a line without an end stays.

        Raises:
            RunError: the file cannot be read.
        """
        state = self.state
        try:
            with open_regular(self.path) as file:
                file.seek(state.offset)
                while True:
                    start = state.offset
                    line = file.readline(LINE_BYTES)
                    if not line.endswith(b"\n"):
                        if len(line) < LINE_BYTES or not (length := _to_line_end(file)):
                            break
                        state.offset, state.lines = start + len(line) + length, state.lines + 1
                        state.damaged += 1
                        continue
                    state.offset, state.lines = start + len(line), state.lines + 1
                    yield from self._intact(line, start)
        except OSError as error:
            raise RunError(
                f"{self.path} cannot be read: {error.strerror or error}", "Check its permissions."
            ) from error

    def position(self) -> TailState:
        """Return the state after the last row that was yielded, with the digests of both ends of what was read.

        Raises:
            OSError, RunError: the file cannot be read.
        """
        state = self.state
        if state.offset:
            with open_regular(self.path) as file:
                state.first, state.last = _ends(file, state.offset)
        state.skipped = sorted(self._gaps)[:KEPT_GAPS]
        return structs.replace(state)

    def _intact(self, line: bytes, start: int) -> Iterator[tuple[int, int, JournalRow]]:
        number = record_number(line)
        if number is not None:
            if self._new(number):
                yield from self._row(line, start, self._decode)
            return
        if line.isspace():
            return
        if never_sealed(line):
            yield from self._row(line, start, self._decode_whole)
            return
        self.state.damaged += 1
        for begin, end in intact_parts(line):
            content = line[begin:end] + b"\n"
            number = record_number(content)
            if number is not None and self._new(number):
                yield from self._row(content, start + begin, self._decode)

    def _row(self, line: bytes, start: int, decode: Any) -> Iterator[tuple[int, int, JournalRow]]:
        try:
            row = decode(line)
        except _NOT_JSON:
            self.state.damaged += 1
            return
        if not 0 <= row.repeat < self._repeats:
            self.state.damaged += 1
            return
        yield start, len(line), row

    def _new(self, number: int) -> bool:
        state = self.state
        if number == state.highest + 1:
            state.highest = number
            return True
        if number <= state.highest:
            if number in self._gaps:
                self._gaps.discard(number)
                state.missing -= 1
                return True
            state.repeated += 1
            return False
        state.missing += number - state.highest - 1
        room = KEPT_GAPS - len(self._gaps)
        self._gaps.update(range(state.highest + 1, min(number, state.highest + 1 + max(0, room))))
        state.highest = number
        return True


def read_record(path: Path, start: int, size: int) -> Record | None:
    """Read one record by its place; None if there is no intact record any more.

    A line with a checksum must match it.
    """
    if not 0 < size <= LINE_BYTES:
        return None
    try:
        with open_regular(path) as file:
            file.seek(start)
            line = file.read(size)
    except (OSError, RunError):
        return None
    if len(line) == size and not line.endswith(b"\n"):
        line += b"\n"  # a record within a damaged line
    if len(line) < size or (record_number(line) is None and not never_sealed(line)):
        return None
    try:
        return msgspec.json.decode(line, type=Record)
    except _NOT_JSON:
        return None


def open_regular(path: Path) -> IO[bytes]:
    """Open a regular file without following a link.

    Raises:
        RunError: it is something else. OSError: it cannot be opened.
    """
    import stat

    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise RunError(f"{path} is no regular file", "Restore the file.")
    return os.fdopen(handle, "rb", buffering=1 << 20)


def _to_line_end(file: IO[bytes]) -> int:
    """Pass over the rest of a line; return its bytes, 0 if it has no end."""
    length = 0
    while part := file.readline(1 << 20):
        length += len(part)
        if part.endswith(b"\n"):
            return length
    return 0


def _ends(file: IO[bytes], offset: int) -> tuple[str, str]:
    digests = []
    for at in (0, max(0, offset - END_BYTES)):
        file.seek(at)
        digests.append(blake2b(file.read(min(END_BYTES, offset - at)), digest_size=8).hexdigest())
    return digests[0], digests[1]


STATUSES = ("ok", "refused", "error", "timeout")
FLUSH_ROWS = 1 << 15
_INT64, _INT32 = (1 << 62), (1 << 30)


def record_table(rows: Iterator[tuple[int, int, JournalRow]], first: int, most: int) -> pa.Table:
    """Read up to `most` records as a table; `first` is the number of the first one."""
    tables = [table_of([], RECORDS)]
    while most > 0:
        part = min(most, FLUSH_ROWS)
        listed = [_listed(first + at, *row) for at, row in zip(range(part), rows, strict=False)]
        tables.append(table_of(listed, RECORDS))
        first, most = first + len(listed), most - len(listed)
        if len(listed) < part:
            break
    return pa.concat_tables(tables)


def _listed(number: int, start: int, size: int, row: JournalRow) -> tuple[Any, ...]:
    reply, usage = row.response, None if row.response is None else row.response.usage
    answered = row.status in STATUSES[:2]
    return (
        number,
        question_code(row.sample_id),
        plain(row.sample_id),
        row.repeat,
        row.status if row.status in STATUSES else "other",
        start,
        size,
        _clip(row.attempts, _INT32),
        None if reply is None else reply.latency_s,
        None if usage is None else _clip(usage.input_tokens, _INT64),
        None if usage is None else _clip(usage.output_tokens, _INT64),
        None if usage is None else usage.cost,
        row.started_at,
        row.finished_at,
        None if row.error is None else plain(row.error.kind),
        None if answered or row.error is None else plain(one_line(row.error.message)),
        None if reply is None else uncounted_part(reply.usage, sent=bool(reply.latency_s or reply.batch)) or None,
        reply is not None and bool(reply.batch),
        None if reply is None or reply.oversized_images is None else _clip(reply.oversized_images, _INT64),
    )


def _clip(number: int, most: int) -> int:
    return max(-most, min(number, most))
