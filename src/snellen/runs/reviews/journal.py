"""Journal reviews.jsonl: decisions of all reviewers, appended by any number of processes, never rewritten."""

from __future__ import annotations

import copy
import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO

import filelock
import msgspec

from snellen.engine.folder_checks import kind_of
from snellen.engine.journal import NOT_JSON, append_whole, salvaged, storage_error
from snellen.errors import DataError, RunError, StorageError, UsageError
from snellen.runs.reviews.decisions import Standing, VerdictReview, checked, decode_foreign, stand
from snellen.sources.journal_lines import Damage, never_sealed, record_number, seal

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
REVIEWS, LOCK = "reviews.jsonl", ".reviews.lock"
MOST_BYTES, LINE_BYTES = 1 << 30, 1 << 20
LOCK_SECONDS = 30.0
_decode = msgspec.json.Decoder(VerdictReview).decode


class ReviewJournal:
    """The decisions on one run, kept current with its reviews.jsonl.

    A decision is one write, sealed with a number and a checksum, on the disk before `append` returns. A lock beside the
    file orders the writers of all processes; the system releases it when a process dies. Damaged lines are passed over
    and named by `faults`.

    Attributes:
        path: the file.
        reviews: every intact decision, in the order of the file.
        standing: the decisions that stand, by reply and reviewer.
    """

    def __init__(self, run: Path) -> None:
        """Open the decisions on the run folder `run`; a file that is not there has none.

        Raises:
            RunError: the file is a link or no regular file, or cannot be read.
        """
        self.path = run / REVIEWS
        self._begin()
        self.refresh()

    def _begin(self) -> None:
        self.reviews: list[VerdictReview] = []
        self.standing: Standing = {}
        self._ids: set[str] = set()
        self._damage = Damage(self.path)
        self._at = self._lines = self._torn = 0
        self._unended = False
        self._file: tuple[int, int] | None = None

    def refresh(self) -> int:
        """Read the decisions that were added since the last call; return how many."""
        before = len(self.reviews)
        try:
            fd = os.open(self.path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
        except FileNotFoundError:
            self._begin()
            return 0
        except OSError as error:
            if self.path.is_symlink():
                raise RunError(f"{self.path} is a symbolic link; expected a regular file", "Move it away.") from error
            raise RunError(f"{self.path} cannot be read: {error.strerror}", "Check its permissions.") from error
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            os.close(fd)
            raise not_regular(self.path, status)
        with os.fdopen(fd, "rb") as file:
            if self._file != (status.st_dev, status.st_ino) or status.st_size < self._at:
                self._begin()
                before = 0
            self._file = (status.st_dev, status.st_ino)
            if status.st_size > MOST_BYTES:
                raise RunError(
                    f"{self.path} has {status.st_size:,} bytes; at most {MOST_BYTES:,} are read", "Split it."
                )
            file.seek(self._at)
            self._torn = 0
            for line, size in _lines(file):
                self._take(line, size)
        return len(self.reviews) - before

    def _take(self, line: bytes, size: int) -> None:
        """Take one line of `size` bytes in the file; of one that is too long only the beginning is given."""
        if self._unended and line == b"\n":  # the end of the line before, which was read without it
            self._at, self._unended = self._at + 1, False
            return
        self._lines += 1
        whole = line.endswith(b"\n")
        content = line if whole else line + b"\n"
        number = record_number(content)
        if size > LINE_BYTES:
            self._damage.bad(self._lines, line, f"has {size:,} bytes; a decision has at most {LINE_BYTES:,}")
        elif number is not None:
            if self._damage.take(number, self._lines, content):
                self._add(content)
        elif not whole and not self._complete(
            content.removeprefix(BYTE_ORDER_MARK)
        ):  # a write that was cut off, or is under way
            self._torn = len(line)
            self._lines -= 1
            return
        elif content.strip() and never_sealed(content.removeprefix(BYTE_ORDER_MARK)):
            self._add(content.removeprefix(BYTE_ORDER_MARK))
        elif content.strip():
            for _, part, _, _ in salvaged(content, self._lines, 0, self._damage):
                self._add(part)
        self._at += size
        self._unended = not whole

    def _complete(self, line: bytes) -> bool:
        """Return True if the last line of the file, which has no line end, is a decision all the same."""
        try:
            return never_sealed(line) and bool(decode_foreign(line))
        except NOT_JSON:
            return False

    def _add(self, line: bytes) -> None:
        try:
            review = checked(_decode(line) if record_number(line) is not None else decode_foreign(line))
        except (*NOT_JSON, DataError, UsageError) as error:
            reason = error.message if isinstance(error, (DataError, UsageError)) else str(error)
            self._damage.bad(self._lines, line, f"no decision: {reason}")
            return
        if record_number(line) is None:
            self._damage.without_number(self._lines)
        if review.id and review.id in self._ids:
            return
        self._ids.add(review.id)
        self.reviews.append(review)
        stand(self.standing, review)

    def faults(self) -> list[str]:
        """Describe what is damaged: a heading, then a line for each fault; empty for an intact file."""
        damage = copy.deepcopy(self._damage)
        damage.close(self._torn)
        return damage.lines()

    def append(self, review: VerdictReview) -> bool:
        """Write one decision; return False if one with its id is there already.

        Raises:
            DataError, UsageError: the decision is not valid.
            StorageError: it cannot be written; nothing of it is left.
        """
        return self.extend([review]) == 1

    def extend(self, reviews: Sequence[VerdictReview]) -> int:
        """Write decisions in one write each, under one lock; return how many were new.

        Raises:
            DataError, UsageError: a decision is not valid; then none is written.
            StorageError: the file cannot be written, or another process keeps the lock.
        """
        valid = [checked(review) for review in reviews]
        written = 0
        lock = filelock.FileLock(self.path.with_name(LOCK), timeout=LOCK_SECONDS, thread_local=False)
        try:
            with lock:
                self.refresh()
                for review in valid:
                    if not review.id or review.id not in self._ids:
                        self._write(review)
                        written += 1
                if written:
                    self._sync()
        except filelock.Timeout as error:
            raise StorageError(
                f"another process keeps the lock of {self.path} for more than {LOCK_SECONDS:g} s", "Try again."
            ) from error
        except OSError as error:
            raise storage_error(self.path, error) from error
        return written

    def _write(self, review: VerdictReview) -> None:
        line = bytearray(msgspec.json.encode(review))
        seal(line, self._damage.highest + 1)
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
        fd = os.open(self.path, flags, 0o644)
        try:
            status = os.fstat(fd)
            if not stat.S_ISREG(status.st_mode):
                raise not_regular(self.path, status)
            if status.st_size and os.pread(fd, 1, status.st_size - 1) != b"\n":
                line[:0] = b"\n"  # what was cut off before stays, on a line of its own
            append_whole(fd, line, status.st_size, self.path)
        finally:
            os.close(fd)
        self.refresh()

    def _sync(self) -> None:
        for path in (self.path, self.path.parent):  # the folder too: the file may be new in it
            fd = os.open(path, os.O_RDONLY)
            try:
                os.fsync(fd)
            finally:
                os.close(fd)


def not_regular(path: Path, status: os.stat_result) -> RunError:
    """Build the error for a folder, a pipe or a device in the place of a file."""
    return RunError(f"{path} is {kind_of(status.st_mode)}; expected a regular file", "Move it away.")


def _lines(file: IO[bytes]) -> Iterator[tuple[bytes, int]]:
    """Yield each line with its size; of one that is longer than LINE_BYTES the beginning only."""
    while line := file.readline(LINE_BYTES + 1):
        size, end = len(line), line
        while len(end) > LINE_BYTES and not end.endswith(b"\n"):
            end = file.readline(LINE_BYTES + 1)
            size += len(end)
        yield line, size


def read_reviews_of(run: Path) -> list[VerdictReview]:
    """Read every intact decision on a run, in the order of the file; empty without a file.

    Raises:
        RunError: reviews.jsonl is a link or no regular file, or cannot be read.
    """
    return ReviewJournal(run).reviews
