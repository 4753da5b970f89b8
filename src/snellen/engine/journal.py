"""results.jsonl: append-only, one record a line, whole up to the last line at any moment of a crash."""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, TypeVar

import msgspec

from snellen.errors import RunError, StorageError

T = TypeVar("T", bound=msgspec.Struct)
_CHUNK = 1 << 20


class Journal:
    """Appends records with one write each, so that a killed process loses none that was appended.

    A background thread calls fsync at least every `sync_every_s` seconds while there is something new, so that a
    power cut loses at most that much. Opening cuts off a torn last line; `repaired` is the number of bytes cut.

    Raises:
        StorageError: the disk is full or the file cannot be written; the file then ends with its last whole record.
    """

    def __init__(self, path: Path, *, sync_every_s: float = 1.0) -> None:
        self.path = path
        try:
            self.repaired = repair(path)
            self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        except OSError as error:
            raise storage_error(path, error) from error
        self._size = os.fstat(self._fd).st_size
        self._encode = msgspec.json.Encoder().encode_into
        self._line = bytearray()
        self._dirty = threading.Event()
        self._closed = threading.Event()
        self._sync_failure: OSError | None = None
        self._syncer = threading.Thread(
            target=self._sync_often, args=(sync_every_s,), name="journal-fsync", daemon=True
        )
        self._syncer.start()

    def append(self, record: Any) -> None:
        """Write one record (any struct or dict that JSON can hold) as one line."""
        if self._sync_failure is not None:
            raise storage_error(self.path, self._sync_failure)
        line = self._line
        self._encode(record, line)
        line += b"\n"
        try:
            written = os.write(self._fd, line)
            if written != len(line):  # a disk that fills up takes the first part of a line only
                written += os.write(self._fd, memoryview(line)[written:])
        except OSError as error:
            os.ftruncate(self._fd, self._size)
            raise storage_error(self.path, error) from error
        self._size += written
        if not self._dirty.is_set():
            self._dirty.set()

    def close(self) -> None:
        """Bring everything to the disk and close the file."""
        if self._closed.is_set():
            return
        self._closed.set()
        self._syncer.join()
        try:
            os.fsync(self._fd)
        except OSError as error:
            raise storage_error(self.path, error) from error
        finally:
            os.close(self._fd)

    def _sync_often(self, every_s: float) -> None:
        # It waits for the closing and looks at the rest: a wait for news could sleep through the end.
        while not self._closed.wait(every_s):
            if not self._dirty.is_set():
                continue
            self._dirty.clear()
            try:
                os.fsync(self._fd)
            except OSError as error:  # told to the writer at its next append
                self._sync_failure = error
                return


def repair(path: Path) -> int:
    """Cut off everything behind the last line end. Returns how many bytes were cut; 0 where the file is whole."""
    if not path.exists():
        return 0
    with path.open("r+b") as file:
        size = file.seek(0, os.SEEK_END)
        end = size
        while end > 0:
            start = max(0, end - _CHUNK)
            file.seek(start)
            at = file.read(end - start).rfind(b"\n")
            if at >= 0:
                end = start + at + 1
                break
            end = start
        if end < size:
            file.truncate(end)
            os.fsync(file.fileno())
    return size - end


def read(path: Path, type_: type[T]) -> Iterator[T]:
    """Every whole record of a journal (or the fields of it that `type_` has), in file order. A torn last line is passed over; other damage is an error.

    Raises:
        RunError: a line in the middle is not a record; the message names it.
    """
    decode = msgspec.json.Decoder(type_).decode
    if not path.exists():
        return
    with _opened(path) as file:
        for number, line in enumerate(file, 1):
            if not line.endswith(b"\n"):
                return
            try:
                yield decode(line)
            except (ValueError, RecursionError) as error:  # msgspec's errors are ValueErrors
                raise RunError(
                    f"{path}, line {number}: not a record: {error}",
                    "The file was changed by something else. Restore it, or delete that line: its sample is asked again.",
                ) from error


def _opened(path: Path) -> IO[bytes]:
    """The journal, open for reading. Raises RunError where a folder or a pipe lies there, or it may not be read."""
    try:
        mode = path.stat().st_mode
        if not stat.S_ISREG(mode):
            raise RunError(f"{path} is no regular file", "Move it away, or restore the run's journal.")
        return path.open("rb")
    except OSError as error:
        raise RunError(f"{path} cannot be read: {error.strerror or error}", "Check its permissions.") from error


def storage_error(path: Path, error: OSError) -> StorageError:
    """The user's words for a write that failed."""
    return StorageError(
        f"cannot write {path}: {error.strerror or error}",
        "What was recorded is intact. Make room or choose another folder with --out, then run the same command to go on.",
    )
