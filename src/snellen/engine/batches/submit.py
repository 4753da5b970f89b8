"""Making and sending batches: rows are written to a file, which is uploaded, and the create call is announced in the log first.

Files of a shard: the rows as they are sent, and beside them whose they are.
`batches/LABEL.jsonl` is uploaded and removed once the batch exists. `batches/LABEL.rows.jsonl` stays: one line a row, in the
same order, with sample, repeat, attempt and the request with digests in place of images.
"""

from __future__ import annotations

import contextlib
import os
import random
import time
from collections.abc import Awaitable, Callable, Sequence
from hashlib import blake2b, sha256
from pathlib import Path
from typing import Annotated, Literal, NamedTuple, TypeAlias, TypeVar

import msgspec
from msgspec import Meta, Struct

from snellen.engine import journal
from snellen.engine.batches.log import FOLDER, BatchLog, Count, LoggedShard, read_log
from snellen.engine.resume import Key, Work, key
from snellen.engine.retry import Backoff, Seeds
from snellen.engine.stopping import Stop
from snellen.errors import AuthError, BatchError, DataError, InputError, ModelError, RunError
from snellen.models.api.batches.replies import BatchLimits, learned_limits, queue_is_full
from snellen.models.api.batches.service import FILLED, BatchService, BatchStatus, Undecided, may_exist
from snellen.models.api.request import Body, Piece
from snellen.redaction import redact_bytes
from snellen.sources.journal_lines import bounded_lines
from snellen.types import Prompt, Sample

T = TypeVar("T")
SendOutcome: TypeAlias = Literal["created", "unresolved", "dropped", "later", "stopped"]
"""What came of a shard: its batch exists; may exist; must be split; must wait for other batches; the run ends."""
LOOKS = 2
"""How often the service's list is read before a batch counts as never created; a list may lag behind."""

MOST_CREATIONS = 2
"""How often a batch is created anew in a session because it was not found, before the service counts as broken."""


class RemainingWork:
    """Samples that are to be asked, in order; those that did not fit are put back in front."""

    def __init__(self, work: Work) -> None:
        self._work = work
        self._front: list[tuple[Sample, int]] = []

    def __iter__(self) -> RemainingWork:
        return self

    def __next__(self) -> tuple[Sample, int]:
        return self._front.pop() if self._front else next(self._work)

    def push_back(self, samples: Sequence[tuple[Sample, int]]) -> None:
        """Put samples in front, in their order."""
        self._front.extend(reversed(samples))


class Unwritten(NamedTuple):
    """A row that could not be written, or is larger than a batch may be."""

    sample: Sample
    repeat: int
    error: ModelError


class MadeShard(NamedTuple):
    """A shard that was made, with its samples in case it has to be split, and rows that have no place in any."""

    shard: LoggedShard | None
    samples: list[tuple[Sample, int]]
    unwritten: list[Unwritten]
    more: bool


class Submitter:
    """Makes shards and creates their batches.

    Attributes:
        limits: of one batch; smaller after refusals.
        serial: True once the service took no second batch beside an open one.
    """

    def __init__(
        self,
        log: BatchLog,
        service: BatchService,
        stop: Stop,
        backoff: Backoff,
        seeds: Seeds,
        poll_s: float,
        *,
        concealed: bool = False,
    ) -> None:
        self._log, self._service, self._stop, self._backoff = log, service, stop, backoff
        self._seeds, self._poll_s = seeds, poll_s
        self._concealed = concealed
        self.limits = _smaller(service.limits, log.state.limits)
        self.serial = False
        self._looks: dict[str, int] = {}
        self._creations: dict[str, int] = {}

    async def make(self, work: RemainingWork, attempts: dict[Key, int], most_rows: int | None = None) -> MadeShard:
        """Write the next shard: as many rows of `work` as the limits allow.

        Args:
            work: samples that are to be asked; what does not fit stays in it.
            attempts: how often each was asked before.
            most_rows: where a budget allows fewer than the service.
        """
        label = self._log.state.next_label
        rows = min(self.limits.rows, most_rows or self.limits.rows)
        most_bytes = max(1, int(self.limits.bytes * FILLED))
        writer = ShardWriter(self._log.folder, label, concealed=self._concealed)
        samples: list[tuple[Sample, int]] = []
        unwritten: list[Unwritten] = []
        more = True
        try:
            while writer.rows < rows and not self._stop.requested():
                following = next(work, None)
                if following is None:
                    more = False
                    break
                sample, repeat = following
                try:
                    written = await self._write(self._seeds.prompt(sample, repeat))
                    if written is None:
                        work.push_back([following])
                        break
                except ModelError as error:
                    unwritten.append(Unwritten(sample, repeat, error))
                    continue
                except DataError as error:
                    unwritten.append(Unwritten(sample, repeat, InputError(error.message, error.hint)))
                    continue
                row = row_id(label, sample.id, repeat)
                line = self._service.row(row, written.pieces)
                size = sum(map(len, line)) + 1
                if size > most_bytes:
                    unwritten.append(Unwritten(sample, repeat, _too_large(size, most_bytes)))
                    continue
                if writer.rows and writer.size + size > most_bytes:
                    work.push_back([following])
                    break
                attempt = attempts.get(key(sample.id, repeat), 0) + 1
                writer.add(row, line, SentRow(sample.id, repeat, attempt, 0, written.oversized), written.traced)
                samples.append(following)
        except BaseException:
            writer.remove()
            raise
        if not writer.rows or self._stop.requested():
            writer.remove()
            return MadeShard(None, samples, unwritten, more)
        digest = writer.finish()
        self._log.append("made", label=label, rows=writer.rows, size=writer.size, digest=digest)
        return MadeShard(self._log.state.shards[label], samples, unwritten, more)

    async def _write(self, prompt: Prompt) -> Body | None:
        """Return a request's body, for which images may have to be uploaded; None: the run ends.

        Raises:
            ModelError, DataError: this request cannot be written.
            BatchError: the service takes no upload from anybody now, or none from this key.
        """
        try:
            return await self.patiently(lambda: self._service.write(prompt))
        except ModelError as error:
            if not error.retry and not isinstance(error, AuthError):
                raise
            raise BatchError(
                f"{self._service.place} took no image: {error.message}",
                f"{error.hint} Run the same command again to resume.".strip(),
            ) from error

    async def send(self, shard: LoggedShard, others: int) -> SendOutcome:
        """Upload a shard and create its batch.

        Args:
            shard: open in the log, and without a batch.
            others: batches that are open beside it.

        Raises:
            BatchError: the service refuses it for a reason that no other batch would escape, or is not there.
        """
        label, folder = shard.label, self._log.folder
        if not shard.input and self._service.uploads(shard.shard(folder)):
            sent = shard.shard(folder)
            if sent.path is None:
                return self._drop(label, "its file is not there any more")
            try:
                identity = await self.patiently(lambda: self._service.upload(sent))
            except ModelError as error:
                return self._refused(shard, error, others)
            if identity is None:
                return "stopped"
            self._log.append("uploaded", label=label, input=identity)
        if self._stop.requested():
            return "stopped"
        return await self._create(self._log.state.shards[label], others)

    async def _create(self, shard: LoggedShard, others: int) -> SendOutcome:
        label = shard.label
        started, tries = time.monotonic(), 0
        while True:
            sent = shard.shard(self._log.folder)
            if sent.path is None and not sent.input:
                return self._drop(label, "its file is not there any more")
            self._log.append("creating", label=label)
            tries += 1
            try:
                status = await self._service.create(sent)
            except ModelError as error:
                if may_exist(error):
                    return "unresolved"
                waited = time.monotonic() - started
                if not error.retry or (others and queue_is_full(error.message)) or waited > self._backoff.patience_s:
                    return self._refused(shard, error, others)
                if not await self._stop.pause(self._backoff.wait_s(tries, error.retry_after_s, random.Random())):  # noqa: S311
                    return "stopped"
                continue
            self.note_created(label, status)
            return "created"

    def note_created(self, label: str, status: BatchStatus) -> None:
        """Write the id of a batch into the log at once, and remove the file of rows that were sent."""
        self._log.append("created", label=label, id=status.id, expires_at=status.expires_at)
        self._log.append(
            "state",
            label=label,
            state=status.words,
            completed=status.completed,
            failed=status.failed,
            total=status.total,
        )
        (self._log.folder / FOLDER / f"{label}.jsonl").unlink(missing_ok=True)

    def _refused(self, shard: LoggedShard, error: ModelError, others: int) -> SendOutcome:
        """Learn from a refusal; nothing was created.

        Raises:
            BatchError: nothing can be learned from it.
        """
        if queue_is_full(error.message) and others:
            self.serial = True
            return "later"
        if not self.learn(shard, error.message, too_large="HTTP 413" in error.message):
            self._drop(shard.label, error.message)
            raise BatchError(
                f"{self._service.place} did not take the batch {shard.label}: {error.message}",
                error.hint or "Nothing was paid for it. Correct the cause, then run the same command again.",
            )
        return self._drop(shard.label, error.message)

    def learn(self, shard: LoggedShard, message: str, *, too_large: bool = False) -> bool:
        """Take smaller limits from the refusal of a shard into account; return True if there are any."""
        limits = learned_limits(message, rows=shard.rows, size=shard.size, limits=self.limits, too_large=too_large)
        if limits is None:
            return False
        self.limits = limits
        self._log.append("limits", label=shard.label, limits=limits, reason=message[:500])
        return True

    def _drop(self, label: str, reason: str) -> SendOutcome:
        self._log.append("dropped", label=label, reason=reason[:500])
        (self._log.folder / FOLDER / f"{label}.jsonl").unlink(missing_ok=True)
        return "dropped"

    async def resolve(self, shard: LoggedShard, others: int) -> SendOutcome:
        """Ask the service whether it has the batch of a shard whose create call got no reply; send it again if not.

        Raises:
            ModelError: the list cannot be read.
        """
        other_ids = frozenset(each.id for each in self._log.state.shards.values() if each.id)
        status = await self._service.find(shard.shard(self._log.folder), other_ids)
        if isinstance(status, Undecided):
            return "unresolved"
        if status is not None:
            self.note_created(shard.label, status)
            return "created"
        looks = self._looks[shard.label] = self._looks.get(shard.label, 0) + 1
        if looks < LOOKS and not self._service.offline:
            return "unresolved"
        del self._looks[shard.label]
        creations = self._creations[shard.label] = self._creations.get(shard.label, 0) + 1
        if creations > MOST_CREATIONS:
            raise BatchError(
                f"{self._service.place} was asked {creations} times to create the batch {shard.label}; no reply could be used, "
                "and its list of batches does not show it",
                "Look at the service whether it has batches of this time, and cancel them. Then run the same command again.",
            )
        return await self.send(shard, others)

    async def patiently(self, call: Callable[[], Awaitable[T]]) -> T | None:
        """Return what a call returns that costs nothing, repeated while its failures may pass; None: the run ends.

        Raises:
            ModelError: its last failure, once patience is used up, or one that does not pass.
        """
        started, tries = time.monotonic(), 0
        while True:
            tries += 1
            try:
                return await call()
            except ModelError as error:
                if not error.retry or time.monotonic() - started > self._backoff.patience_s:
                    raise
                wait_s = self._backoff.wait_s(min(tries, 6), error.retry_after_s, random.Random())  # noqa: S311
            if not await self._stop.pause(min(wait_s, max(self._poll_s, 1.0))):
                return None


def _smaller(documented: BatchLimits, learned: BatchLimits | None) -> BatchLimits:
    if learned is None:
        return documented
    return BatchLimits(
        min(documented.rows, learned.rows),
        min(documented.bytes, learned.bytes),
        min(documented.inline_bytes, learned.inline_bytes),
    )


def _too_large(size: int, room: int) -> InputError:
    return InputError(
        f"The request has {size:,} bytes, and a batch of this service holds {room:,}.",
        "Send smaller images: --max-long-side, --max-pixels, or --image-format jpeg.",
    )


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
