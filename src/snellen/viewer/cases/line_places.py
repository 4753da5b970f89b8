"""Places of lines in JSONL files by sample and repeat: traces, a judge's raw exchanges, the journal itself.

A file is read once and then only where it grew, so a run in progress is followed. Per line 18 bytes are held, whatever the line's
length: a file may hold a million of them.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from pathlib import Path
from threading import Lock

import msgspec
from msgspec import Struct

MAX_LINE_BYTES = 64 << 20
"""Longer lines are passed over."""
MAX_LINES = 50
"""Lines of one sample and repeat that are read at most: the last ones."""


class _LineHead(Struct):
    sample_id: str
    repeat: int = 0


class LinePlaces:
    """The lines of the JSONL files of a folder, or of one file, by sample and repeat. Callers may be threads."""

    def __init__(self, where: Path) -> None:
        self._where = where
        self._files: list[Path] = []
        self._read_bytes: dict[Path, int] = {}
        self._keys = array("q")
        self._offsets = array("q")
        self._numbers = array("H")
        self._order: array[int] = array("q")
        self._lock = Lock()
        self._decode = msgspec.json.Decoder(_LineHead).decode

    @property
    def size(self) -> int:
        """Return the bytes of the files that were not read yet."""
        return sum(max(0, _size(path) - self._read_bytes.get(path, 0)) for path in self._present())

    def lines(self, sample_id: str, repeat: int = 0) -> list[bytes]:
        """Return the lines of one sample and repeat in the order of the files, at most the last `MAX_LINES`."""
        with self._lock:
            self._refresh()
            wanted = hash((sample_id, repeat))
            places = [(self._numbers[at], self._offsets[at]) for at in self._positions(wanted)]
        lines = []
        for number, offset in places[-MAX_LINES:]:
            line = _line_at(self._files[number], offset)
            head = self._head(line)
            if head is not None and (head.sample_id, head.repeat) == (sample_id, repeat):
                lines.append(line)
        return lines

    def _positions(self, wanted: int) -> Iterator[int]:
        """Yield the numbers of the lines with this key, in the order of the files."""
        import numpy as np

        keys = np.frombuffer(self._keys, dtype=np.int64) if self._keys else np.zeros(0, dtype=np.int64)
        if len(self._order) != len(self._keys):
            self._order = array("q", np.argsort(keys, kind="stable").astype(np.int64).tobytes())
        order = np.frombuffer(self._order, dtype=np.int64) if self._order else np.zeros(0, dtype=np.int64)
        first = int(np.searchsorted(keys, wanted, "left", sorter=order))
        last = int(np.searchsorted(keys, wanted, "right", sorter=order))
        yield from sorted(int(place) for place in order[first:last])

    def _present(self) -> list[Path]:
        if self._where.suffix == ".jsonl":
            return [self._where] if self._where.is_file() and not self._where.is_symlink() else []
        return sorted(path for path in self._where.glob("*.jsonl") if path.is_file() and not path.is_symlink())

    def _refresh(self) -> None:
        present = self._present()
        if any(_size(path) < self._read_bytes.get(path, 0) for path in self._files) or set(self._files) - set(present):
            self._files, self._read_bytes = [], {}
            self._keys, self._offsets, self._numbers, self._order = array("q"), array("q"), array("H"), array("q")
        for path in present:
            if path not in self._read_bytes:
                self._files.append(path)
                self._read_bytes[path] = 0
            if _size(path) > self._read_bytes[path]:
                self._read(path)

    def _read(self, path: Path) -> None:
        number = self._files.index(path)
        with path.open("rb") as file:
            at = self._read_bytes[path]
            file.seek(at)
            while line := file.readline(MAX_LINE_BYTES):
                length = len(line)
                while not line.endswith(b"\n") and (rest := file.readline(MAX_LINE_BYTES)):
                    length += len(rest)
                    line = rest if rest.endswith(b"\n") else b""
                if not line.endswith(b"\n"):
                    return  # a line that is still being written
                head = self._head(line)
                if head is not None:
                    self._keys.append(hash((head.sample_id, head.repeat)))
                    self._offsets.append(at)
                    self._numbers.append(number)
                at += length
                self._read_bytes[path] = at

    def _head(self, line: bytes) -> _LineHead | None:
        try:
            return self._decode(line)
        except (ValueError, RecursionError):  # msgspec's errors are ValueErrors
            return None


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _line_at(path: Path, offset: int) -> bytes:
    with path.open("rb") as file:
        file.seek(offset)
        return file.readline(MAX_LINE_BYTES)
