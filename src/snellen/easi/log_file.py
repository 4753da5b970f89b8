"""The log file of one `snellen easi` call: timestamped events without keys."""

from __future__ import annotations

import logging
import time
from itertools import chain, count
from pathlib import Path
from types import TracebackType
from typing import IO

from snellen.easi.status import BenchmarkRow
from snellen.engine.journal import storage_error
from snellen.redaction import redact

EVERY_S = 30.0


def unused(path: Path) -> Path:
    """Return a path at which nothing is: this one, or with _2, _3 ... before its ending."""
    others = (path.with_name(f"{path.stem}_{number}{path.suffix}") for number in count(2))
    return next(other for other in chain((path,), others) if not other.exists())


class LogFile:
    """A watch that logs to `easi_<time>.log`; a running benchmark gets a line every 30 seconds.

    Warnings of Snellen's modules go into it too; with `verbose` all that any module logs.
    """

    def __init__(self, folder: Path, *, verbose: bool = False) -> None:
        """Make the folder and the file. Raises StorageError where that cannot be."""
        self.path = folder / f"easi_{time.strftime('%Y%m%d_%H%M%S')}.log"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self.path = unused(self.path)
            self._file: IO[str] = self.path.open("x", encoding="utf-8", errors="backslashreplace")
        except OSError as error:
            raise storage_error(self.path, error, "--output-dir") from error
        self._last: dict[str, float] = {}
        self._handler = _Handler(self)
        self._handler.setLevel(logging.DEBUG if verbose else logging.WARNING)
        self._logger = logging.getLogger(None if verbose else "snellen")
        self._level = self._logger.level
        self._logger.addHandler(self._handler)
        if verbose:
            self._logger.setLevel(logging.DEBUG)

    def said(self, text: str) -> None:
        stamp = time.strftime("%Y-%m-%d %H:%M:%S")
        for line in redact(text).splitlines():
            self._file.write(f"{stamp} {line}\n")
        self._file.flush()

    def changed(self, row: BenchmarkRow) -> None:
        self._last[row.name] = time.monotonic()
        self.said(line(row))

    def moved(self, row: BenchmarkRow) -> None:
        now = time.monotonic()
        if now - self._last.get(row.name, 0.0) >= EVERY_S:
            self._last[row.name] = now
            self.said(line(row))

    def __enter__(self) -> LogFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._logger.removeHandler(self._handler)
        self._logger.setLevel(self._level)
        self._file.close()


class _Handler(logging.Handler):
    def __init__(self, file: LogFile) -> None:
        super().__init__()
        self._to = file

    def emit(self, record: logging.LogRecord) -> None:
        self._to.said(f"{record.levelname.lower()} {record.name}: {record.getMessage()}")


def line(row: BenchmarkRow) -> str:
    """Format a benchmark's status in one plain line."""
    of = "" if row.total is None else f"/{row.total:,}"
    parts = [f"{row.name}: {row.state}"]
    if row.state not in ("waiting", "checking"):
        parts.append(f"{row.done:,}{of}")
    if row.state in ("running", "judging") and row.rate > 0:
        parts.append(f"{row.rate:.1f}/s")
    if row.lost:
        parts.append(f"{row.lost:,} failed")
    if row.state == "failed" and row.error is not None:
        parts.append(row.error.message)
    overall = row.overall
    if overall is not None and overall.value is not None:
        parts.append(f"score {100 * overall.value:.2f}")
    if row.judging:
        parts.append(row.judging)
    return " · ".join(parts)
