"""Files of a shard: the rows as they are sent, and beside them whose they are.

`batches/LABEL.jsonl` is uploaded and removed once the batch exists. `batches/LABEL.rows.jsonl` stays: one line a row, in the
same order, with sample, repeat, attempt and the request with digests in place of images.
"""

from __future__ import annotations

import contextlib
import os
from hashlib import blake2b, sha256
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from snellen.engine import journal
from snellen.engine.batches.log import FOLDER, BatchLog, Count, read_log
from snellen.engine.resume import Key, key
from snellen.errors import RunError
from snellen.models.api.request import Piece
from snellen.redaction import redact_bytes
from snellen.sources.journal_lines import bounded_lines

ROW_DIGITS = 24
"""Hexadecimal digits of a row's digest; with the label, an id has fewer than 64 characters of [A-Za-z0-9_-]."""


OMITTED = b'{"omitted":"it holds gold answers of a restricted set"}'


class SentRow(Struct, frozen=True, gc=False):
    """Whose row it is.

    Attributes:
        sample_id, repeat: of the answer.
        attempt: from 1.
        at: where its line begins in the file of rows.
        oversized: images that the service may scale down; None: not known.
    """

    sample_id: str
    repeat: int
    attempt: int
    at: int
    oversized: int | None = None


class _Line(Struct, frozen=True, gc=False):
    row: str
    sample_id: str
    repeat: Count = 0
    attempt: Annotated[int, Meta(ge=1)] = 1
    oversized: Count | None = None


class _RowRequest(Struct, frozen=True, gc=False):
    request: msgspec.Raw


def row_id(label: str, sample_id: str, repeat: int) -> str:
    """Return the id of a row: the shard's label, and a digest of sample and repeat."""
    digest = blake2b(f"{sample_id}\0{repeat}".encode("utf-8", "surrogatepass"), digest_size=ROW_DIGITS // 2)
    return f"{label}-{digest.hexdigest()}"


def rows_path(folder: Path, label: str) -> Path:
    """Return the path of a shard's file of rows."""
    return folder / FOLDER / f"{label}.rows.jsonl"


class ShardWriter:
    """A shard that is being written. Nothing of it counts before the log says that it was made.

    Args:
        concealed: requests hold gold answers that must not stay on disk, so that the file of rows omits them.

    Attributes:
        rows, size: so far.
    """

    def __init__(self, folder: Path, label: str, *, concealed: bool = False) -> None:
        self.label = label
        self._concealed = concealed
        self.path = folder / FOLDER / f"{label}.jsonl"
        self._rows_path = rows_path(folder, label)
        self.rows = self.size = 0
        self._digest = sha256()
        try:
            for path in (self.path, self._rows_path):
                path.unlink(missing_ok=True)
            self._file = self.path.open("xb")
            self._rows_file = self._rows_path.open("xb")
        except OSError as error:
            raise journal.storage_error(self.path, error) from error

    def add(self, row: str, line: tuple[Piece, ...], sent: SentRow, request: bytes) -> None:
        """Write one row, given as pieces without a line end.

        Raises:
            StorageError: the disk is full.
        """
        head = {"row": row, "sample_id": sent.sample_id, "repeat": sent.repeat, "attempt": sent.attempt}
        if sent.oversized is not None:
            head["oversized"] = sent.oversized
        beside = (
            msgspec.json.encode(head)[:-1]
            + b',"request":'
            + (OMITTED if self._concealed else redact_bytes(request))
            + b"}\n"
        )
        try:
            for piece in (*line, b"\n"):
                self._file.write(piece)
                self._digest.update(piece)
            self._rows_file.write(beside)
        except OSError as error:
            raise journal.storage_error(self.path, error) from error
        self.rows += 1
        self.size += sum(map(len, line)) + 1

    def finish(self) -> str:
        """Bring both files to the disk; return the digest of the rows."""
        try:
            for file in (self._file, self._rows_file):
                file.flush()
                os.fsync(file.fileno())
                file.close()
        except OSError as error:
            raise journal.storage_error(self.path, error) from error
        return self._digest.hexdigest()

    def remove(self) -> None:
        """Close and remove both files."""
        for file, path in ((self._file, self.path), (self._rows_file, self._rows_path)):
            file.close()
            path.unlink(missing_ok=True)


class ShardRows:
    """Rows of a shard by id, and in their order; the requests stay on disk.

    Raises:
        RunError: the file is missing or damaged.
    """

    def __init__(self, folder: Path, label: str) -> None:
        self.path = rows_path(folder, label)
        self.by_id: dict[str, SentRow] = {}
        at = 0
        try:
            with self.path.open("rb") as file:
                for line in bounded_lines(file, self.path):
                    row = msgspec.json.decode(line, type=_Line)
                    self.by_id[row.row] = SentRow(row.sample_id, row.repeat, row.attempt, at, row.oversized)
                    at += len(line)
        except (OSError, ValueError, RecursionError) as error:
            raise RunError(
                f"{self.path} cannot be read: {error}",
                "Restore it: it says which samples the batch's answers belong to.",
            ) from None

    def order(self) -> list[str]:
        """Return the ids of the rows in the order in which they were sent."""
        return list(self.by_id)

    def request(self, row: SentRow) -> bytes:
        """Return the request of a row, as traces hold it."""
        with self.path.open("rb") as file:
            file.seek(row.at)
            return bytes(msgspec.json.decode(file.readline(), type=_RowRequest).request)


def take_up_answered(folder: Path, done: set[Key]) -> None:
    """Close the open batches whose rows all have an answer: a kill fell between the last of them and the event `taken`."""
    for shard in read_log(folder).open():
        if shard.creating_at is not None:
            rows = ShardRows(folder, shard.label).by_id.values()
            if all(key(sent.sample_id, sent.repeat) in done for sent in rows):
                with contextlib.closing(BatchLog(folder)) as log:
                    log.append("taken", label=shard.label, answered=len(rows), again=0)
