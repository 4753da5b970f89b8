"""traces/: the raw requests and replies of a run in numbered JSONL shards, pictures by digest."""

from __future__ import annotations

from pathlib import Path
from typing import IO, Any

import msgspec

from snellen.engine.journal import storage_error
from snellen.redaction import redact_bytes

SHARD_BYTES = 64 << 20


class Traces:
    """Appends raw exchanges; a new shard is begun every 64 MB. Loss of the last lines in a crash loses no answer."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._file: IO[bytes] | None = None
        self._shard = 0
        self._encode = msgspec.json.Encoder().encode

    def add(self, sample_id: str, repeat: int, attempt: int, trace: Any) -> None:
        """Write one exchange."""
        try:
            if self._file is None or self._file.tell() > SHARD_BYTES:
                self._next()
            line = self._encode({"sample_id": sample_id, "repeat": repeat, "attempt": attempt, "trace": trace})
            self._file.write(redact_bytes(line) + b"\n")  # type: ignore[union-attr]
        except OSError as error:
            raise storage_error(self._folder, error) from error

    def close(self) -> None:
        if self._file is not None:
            try:
                self._file.close()
            except OSError as error:
                raise storage_error(self._folder, error) from error
            finally:
                self._file = None

    def _next(self) -> None:
        self.close()
        self._folder.mkdir(exist_ok=True)
        while (path := self._folder / f"{self._shard:05}.jsonl").exists():
            self._shard += 1
        self._file = path.open("ab", buffering=1 << 16)
