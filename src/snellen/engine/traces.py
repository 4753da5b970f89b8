"""Folder traces/: the raw requests and replies of a run in numbered JSONL shards, images by digest."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from snellen.engine.journal import Journal, append_whole, changed, repair, storage_error
from snellen.event_loop import off_loop
from snellen.models.trace import Exchange
from snellen.redaction import redact_bytes

SHARD_BYTES = 64 << 20
CONCEALED = "the request shows gold answers of a restricted benchmark as few-shot examples"


class Traces:
    """Writer of raw exchanges, one write each before the record is journalled; a new shard every 64 MB.

    `sync` belongs before the journal's own fsync, so that what is recorded has its trace after a power cut too. Opening
    cuts off a torn last line.

    Args:
        folder: the folder traces/ of a run.
        concealed: requests hold gold answers that must not be written, so that each trace says only that it is omitted.

    Raises:
        StorageError: a shard cannot be written. RunChangedError: something else deleted it meanwhile.
    """

    def __init__(self, folder: Path, *, concealed: bool = False) -> None:
        self._folder = folder
        self._concealed = concealed
        self._fd: int | None = None
        self._path = folder
        self._size = 0
        self._shard = 0
        self._lock = threading.Lock()
        self._encode = msgspec.json.Encoder().encode
        try:
            for last in sorted(folder.glob("*.jsonl"))[-1:]:
                repair(last)
        except OSError as error:
            raise storage_error(folder, error) from error

    async def add(self, sample_id: str, repeat: int, attempt: int, trace: Any) -> None:
        """Write one exchange. Keys are struck from a long one off the event loop."""
        line: dict[str, Any] = {"sample_id": sample_id, "repeat": repeat, "attempt": attempt}
        if self._concealed:
            trace = {"omitted": CONCEALED}
        if isinstance(trace, Exchange):  # its reply holds no key, and half of the cost would be to look again
            head = self._encode({**line, "trace": {"request": trace["request"]}}).removesuffix(b"}}")
            content = await off_loop(len(head), redact_bytes, head) + b',"reply":' + bytes(trace["reply"]) + b"}}\n"
        else:
            encoded = self._encode({**line, "trace": trace})
            content = await off_loop(len(encoded), redact_bytes, encoded) + b"\n"
        try:
            if self._fd is None or self._size > SHARD_BYTES:
                self._next()
        except OSError as error:
            raise storage_error(self._folder, error) from error
        assert self._fd is not None  # noqa: S101 - a shard was begun
        append_whole(self._fd, content, self._size, self._path)
        self._size += len(content)

    def sync(self) -> None:
        """Bring what was written to the disk. Called by the journal's thread."""
        with self._lock:
            if self._fd is None:
                return
            fd = os.dup(self._fd)
        try:
            os.fsync(fd)
            if os.fstat(fd).st_nlink == 0:
                raise changed(self._path, "was deleted")
        except OSError as error:
            raise storage_error(self._path, error) from error
        finally:
            os.close(fd)

    def close(self) -> None:
        """Bring the shard to the disk and close it."""
        try:
            self.sync()
        finally:
            with self._lock:
                fd, self._fd = self._fd, None
            if fd is not None:
                os.close(fd)

    def _next(self) -> None:
        self.close()
        self._folder.mkdir(exist_ok=True)
        while (path := self._folder / f"{self._shard:05}.jsonl").exists():
            self._shard += 1
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        with self._lock:
            self._fd, self._path, self._size = fd, path, 0


class RunWriters(NamedTuple):
    """The open files of a run's answers and of its raw requests and replies."""

    journal: Journal
    traces: Traces

    def close(self) -> None:
        """Bring both to the disk and close them."""
        try:
            self.traces.close()
        finally:
            self.journal.close()
