"""Journal results.jsonl: append-only, one record a line, valid up to the last line at any moment of a crash.

Disputed records of a journal: two intact lines with one number or one sample, as where lines of another run got in.
A checksum does not say to which run a line belongs. Its place does, mostly: in a journal that nobody touched, record n is
on line n. Of several records that exclude each other, the one that is clearly nearer to its place is kept. Where none
is, none is kept, and the run asks for the sample again.
"""

from __future__ import annotations

import os
import stat
import threading
from collections import defaultdict
from collections.abc import Callable, Container, Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import IO, Any, NamedTuple, TypeAlias, TypeVar

import msgspec
from msgspec import Struct

from snellen.atomic_write import replacing
from snellen.errors import RunChangedError, RunError, StorageError
from snellen.sources.journal_lines import (
    RESULTS,
    Damage,
    bounded_lines,
    intact_parts,
    never_sealed,
    record_number,
    seal,
    sealed,
)

T = TypeVar("T", bound=Struct)
_CHUNK = 1 << 20
META = "run_meta.json"
ASIDE = "results.damaged"
ANSWERED = ("ok", "refused")
"""Statuses of records that nothing is asked again for."""
NOT_JSON = (ValueError, RecursionError)  # msgspec's errors are ValueErrors


class RecordHead(Struct, frozen=True, gc=False):
    """Head of a journal line: sample, repeat and status; decoding it skips the reply."""

    sample_id: str
    status: str
    repeat: int = 0

    @property
    def name(self) -> str:
        """Return the name of the record, as `record_name` makes it."""
        return record_name(self.sample_id, self.repeat)


class TimedRecordHead(RecordHead, frozen=True, gc=False):
    """Head of a journal line with its times, in seconds since the epoch."""

    started_at: float = 0.0
    finished_at: float = 0.0


def record_name(sample_id: str, repeat: int) -> str:
    """Name a record: the sample's id, with `#repeat` from the second reply on."""
    return sample_id if repeat == 0 else f"{sample_id}#{repeat}"


class Journal:
    """Journal open for appending: one write for each record, so that a killed process loses none.

    Each record gets the next number and a checksum (snellen.sources.journal_lines). A background thread calls fsync at least
    every `sync_every_s` seconds while there is something new, so that a power cut loses at most that much. Opening cuts
    off a torn last line; `repaired` is the number of bytes cut.

    Args:
        path: the file; made where it is missing.
        sync_every_s: seconds between two group commits.
        first: called before each fsync; brings what must not come behind this journal to the disk (traces).

    Raises:
        StorageError: the disk is full or the file cannot be written; the file then ends with its last whole record.
        RunChangedError: something else has deleted, replaced, cut or extended the file. Noticed at a group commit, and
            raised by the next call.
    """

    def __init__(self, path: Path, *, sync_every_s: float = 1.0, first: Callable[[], None] | None = None) -> None:
        self.path = path
        self._first = first
        try:
            self.repaired = repair(path)
            self.number = last_number(path)
            self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        except OSError as error:
            raise storage_error(path, error) from error
        self._size = os.fstat(self._fd).st_size
        self._encode = msgspec.json.Encoder().encode_into
        self._line = bytearray()
        self._lock = threading.Lock()
        self._dirty = threading.Event()
        self._closed = threading.Event()
        self._failure: StorageError | RunChangedError | None = None
        self._syncer = threading.Thread(
            target=self._sync_often, args=(sync_every_s,), name="journal-fsync", daemon=True
        )
        self._syncer.start()

    def append(self, record: Any) -> None:
        """Write one record (any struct or dict that JSON can hold) as one line."""
        if self._failure is not None:
            raise self._failure
        line = self._line
        self._encode(record, line)
        seal(line, self.number + 1)
        with self._lock:
            append_whole(self._fd, line, self._size, self.path)
            self._size += len(line)
        self.number += 1
        if not self._dirty.is_set():
            self._dirty.set()

    def sync(self) -> None:
        """Bring everything to the disk now, for a caller who notes elsewhere that it is recorded."""
        if self._failure is not None:
            raise self._failure
        self._commit()

    def close(self) -> None:
        """Bring everything to the disk and close the file."""
        if self._closed.is_set():
            return
        self._closed.set()
        self._syncer.join()
        try:
            self._commit()
        finally:
            os.close(self._fd)
        if self._failure is not None:
            raise self._failure

    def _sync_often(self, every_s: float) -> None:
        # It waits for the closing and looks at the rest: a wait for news could sleep through the end.
        while not self._closed.wait(every_s):
            if not self._dirty.is_set():
                continue
            self._dirty.clear()
            try:
                self._commit()
            except (StorageError, RunChangedError) as error:  # told to the writer at its next append
                self._failure = error
                return

    def _commit(self) -> None:
        try:
            if self._first is not None:
                self._first()
            os.fsync(self._fd)
        except OSError as error:
            raise storage_error(self.path, error) from error
        with self._lock:
            self._require_own()

    def _require_own(self) -> None:
        """Raise RunChangedError if the file at the path is not the one that was written, byte by byte."""
        opened = os.fstat(self._fd)
        try:
            current = self.path.stat()
        except OSError:
            change = "was deleted"
        else:
            if (current.st_dev, current.st_ino) != (opened.st_dev, opened.st_ino):
                change = "was replaced by another file"
            elif opened.st_size < self._size:
                change = f"was cut from {self._size:,} to {opened.st_size:,} bytes"
            elif opened.st_size > self._size:
                change = f"has {opened.st_size - self._size:,} bytes more than were written"
            else:
                return
        raise changed(self.path, change)


def append_whole(fd: int, line: bytes | bytearray, size: int, path: Path) -> None:
    """Write a line at the end of a file of `size` bytes; a write that fails leaves nothing of it.

    Raises:
        StorageError: the disk is full, or the file cannot be written.
    """
    try:
        written = os.write(fd, line)
        if written != len(line):  # a disk that fills up takes the first part of a line only
            written += os.write(fd, memoryview(line)[written:])
    except OSError as error:
        if os.fstat(fd).st_size > size:
            os.ftruncate(fd, size)
        raise storage_error(path, error) from error


def changed(path: Path, change: str, details: Sequence[str] = ()) -> RunChangedError:
    """Build the error for a run's file that something else has changed while the run wrote to it."""
    return RunChangedError(
        "\n".join([f"{path} {change} while the run was writing to it", *details]),
        "Check what else writes there: another program, a cleaning job, an agent without a sandbox. Records that are "
        "gone were lost with the file.\nRestore it if you can, then run the same command: it runs the samples without a record.",
    )


def last_number(path: Path) -> int:
    """Return the number of the last record of a journal; 0 if none has a number.

    The last line says it, unless that is damaged or has none; then all lines are read.
    """
    if not path.exists():
        return 0
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - _CHUNK))
        end = file.read()
        number = record_number(end[end.rfind(b"\n", 0, -1) + 1 :])
        if number is not None:
            return number
        file.seek(0)
        return max((record_number(line) or 0 for line in bounded_lines(file, path)), default=0)


def repair(path: Path) -> int:
    """Cut off everything behind the last line end. Return the number of bytes cut; 0 for an intact file."""
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


def read(
    path: Path, type_: type[T], damage: Damage | None = None, *, record_type: type[Struct] | None = None
) -> Iterator[T]:
    """Yield every intact record of a journal (or its fields in `type_`), in file order, each number once.

    Args:
        path: the journal; nothing is read where there is none.
        type_: what is decoded.
        damage: takes what is wrong, once all is read; None: the first fault is an error, and a torn last line is none.
        record_type: what a line without a checksum must be, where `type_` has fewer fields; None: `type_`.

    Raises:
        RunError: the file cannot be read; without `damage`, also a fault, by line and sample.
    """
    noted = damage if damage is not None else Damage(path, strict=True)
    return (record for _, record in _decoded(path, type_, noted, record_type))


def intact(path: Path, type_: type[T]) -> Iterator[T]:
    """Yield every intact record, as `read`; faults are logged in a warning at the end, by line and sample."""
    damage = Damage(path, expected_last(path) if path.name == RESULTS else None)
    yield from read(path, type_, damage)
    damage.warn()


def placed(
    path: Path, type_: type[T], damage: Damage, *, record_type: type[Struct] | None = None
) -> Iterator[tuple[int, T]]:
    """Yield (start in bytes, record) for every intact record, as `read`."""
    return _decoded(path, type_, damage, record_type)


def _decoded(path: Path, type_: type[T], damage: Damage, record_type: type[Struct] | None) -> Iterator[tuple[int, T]]:
    decode = msgspec.json.Decoder(type_).decode
    for number, content, _, at in _lines(path, record_type or type_, damage):
        try:
            record = decode(content)
        except NOT_JSON as error:
            damage.bad(number, content, f"not a record: {error}")
            continue
        yield at, record


def expected_last(path: Path) -> int | None:
    """Return the number of a journal's last record as run_meta.json has it; None if that does not say."""
    meta = path.parent / META
    try:
        return msgspec.json.decode(meta.read_bytes(), type=_Written).records if meta.is_file() else None
    except (OSError, *NOT_JSON):
        return None


class _Written(Struct):
    records: int | None = None


_Line: TypeAlias = tuple[int, bytes, int | None, int]
"""An intact record: the number of its line, its bytes with a line end, its own number (None: it has none), where it begins."""


def _lines(path: Path, record_type: type[Any], damage: Damage, repeats: list[_Line] | None = None) -> Iterator[_Line]:
    """Yield the intact records, each number once; a line without a checksum must be a `record_type`.

    `repeats` takes those whose number was there before.
    """
    decode = msgspec.json.Decoder(record_type).decode
    if not path.exists():
        damage.close(0)
        return
    at = torn = 0
    with _opened(path) as file:
        for number, line in enumerate(bounded_lines(file, path), 1):
            start, at = at, at + len(line)
            record = record_number(line)
            if record is not None:
                if damage.take(record, number, line):
                    yield number, line, record, start
                elif repeats is not None:
                    repeats.append((number, line, record, start))
            elif not line.endswith(b"\n"):
                torn = 0 if damage.strict else len(line)
            elif not never_sealed(line):
                yield from salvaged(line, number, start, damage)
            else:
                try:
                    decode(line)
                except NOT_JSON as error:
                    damage.bad(number, line, f"not a record: {error}")
                    continue
                damage.without_number(number)
                yield number, line, None, start
    damage.close(torn)


def salvaged(line: bytes, number: int, at: int, damage: Damage) -> Iterator[_Line]:
    """Yield the intact records of a damaged line: one that was cut off has the next one behind it."""
    parts = list(intact_parts(line))
    if not parts:
        damage.bad(number, line, _why(line))
        return
    rest = len(line) - 1 - sum(end - start for start, end in parts)
    damage.joined(number, line, len(parts), rest)
    for start, end in parts:
        content = line[start:end] + b"\n"
        record = record_number(content)
        if record is not None and damage.take(record, number, content):
            yield number, content, record, at + start


def _why(line: bytes) -> str:
    try:
        msgspec.json.decode(line)
    except NOT_JSON as error:
        return f"not a record: {error}"
    return "does not match its checksum"


def mend(path: Path, record_type: type[Struct], *, without: Container[str] = ()) -> bool:
    """Rewrite a journal so that every line is an intact record and no number is left out; by rename.

    Records come into the order of their numbers again. What is no record is added to `results.damaged` beside it first,
    and so is a record behind an answer to the same sample: two journals in one file have such. So are different records
    with the same number or for the same sample, unless one of them is clearly the run's own (`settled`).

    Args:
        path: the journal.
        record_type: what a record must be.
        without: samples whose records are left out on purpose.

    Returns:
        Whether it was changed.

    Raises:
        StorageError: it cannot be written.
    """
    damage = Damage(path)
    decode, name_of = msgspec.json.Decoder(record_type).decode, msgspec.json.Decoder(RecordHead).decode
    places: list[RecordPlace] = []
    heads: dict[int, RecordHead] = {}
    repeats: list[_Line] = []
    left_out, before = False, 0
    for line, content, number, at in chain(_lines(path, record_type, damage, repeats), repeats):
        try:
            decode(content)
        except NOT_JSON as error:
            damage.bad(line, content, f"not a record: {error}")
            continue
        named = name_of(content)
        if named.sample_id in without:
            left_out = True
            continue
        before = before if number is None else number
        answer = (named.sample_id, named.repeat) if named.status in ANSWERED else None
        places.append(
            RecordPlace(before, at, len(content) - 1, None if number is None else line, answer, hash(content))
        )
        heads[at] = named
    if not damage and not left_out:
        return False
    places.sort(key=lambda place: place.number)
    try:
        if damage:
            places = list(_once_answered(settled(places), heads))
            _put_aside(path, sorted((place.at, place.size) for place in places))
        with replacing(path) as part, path.open("rb") as old, part.open("wb") as new:
            count = 0
            for place in places:
                old.seek(place.at)
                content = old.read(place.size) + b"\n"
                if (number := record_number(content)) is not None:
                    count += 1
                    content = content if number == count else sealed(content, count)
                new.write(content)
            new.flush()
            os.fsync(new.fileno())
    except OSError as error:
        raise storage_error(path, error) from error
    return True


def _once_answered(places: Iterable[RecordPlace], heads: Mapping[int, RecordHead]) -> Iterator[RecordPlace]:
    """Yield the places without records that come behind an answer to the same sample."""
    answered: set[tuple[str, int]] = set()
    for place in places:
        head = heads[place.at]
        if (head.sample_id, head.repeat) in answered:
            continue
        if place.answer is not None:
            answered.add(place.answer)
        yield place


def _put_aside(path: Path, intact: list[tuple[int, int]]) -> None:
    """Add what stands between the intact records of a journal to `results.damaged`."""
    pieces = []
    with path.open("rb") as old:
        end = 0
        for at, size in [*intact, (old.seek(0, os.SEEK_END), 0)]:
            old.seek(end)
            if piece := old.read(at - end).strip(b"\n"):
                pieces.append(piece + b"\n")
            end = at + size
    if pieces:
        place = path.with_name(ASIDE)
        if place.exists() and place.stat().st_nlink > 1:
            pieces.insert(0, place.read_bytes())
            place.unlink()  # a second name of another file, which stays as it is
        with place.open("ab") as aside:
            aside.writelines(pieces)
            aside.flush()
            os.fsync(aside.fileno())


def _opened(path: Path) -> IO[bytes]:
    """Open a journal for reading. Raise RunError if it is a folder or a pipe, or may not be read."""
    try:
        mode = path.stat().st_mode
        if not stat.S_ISREG(mode):
            raise RunError(f"{path} is no regular file", "Move it away, or restore the run's journal.")
        return path.open("rb")
    except OSError as error:
        raise RunError(f"{path} cannot be read: {error.strerror or error}", "Check its permissions.") from error


def storage_error(path: Path, error: OSError, option: str = "--out") -> StorageError:
    """Build the StorageError for a failed write; `option` names the folder."""
    return StorageError(
        f"cannot write {path}: {error.strerror or error}",
        f"What was recorded is intact. Free some space or choose another folder with {option}, then run the same command to resume.",
    )


FEW_LINES = 16
"""Lines that were deleted or added before a record move it by a few."""


class RecordPlace(NamedTuple):
    """A record in a journal.

    Attributes:
        number: its own, or that of the record before it where it has none.
        at, size: its bytes without the line end.
        line: its line; None where it has no number.
        answer: sample and repeat that it answers; None for a failure.
        digest: of its bytes.
    """

    number: int
    at: int
    size: int
    line: int | None
    answer: tuple[str, int] | None
    digest: int


def settled(places: Iterable[RecordPlace]) -> list[RecordPlace]:
    """Return the places by number: each number once, each answer once, and nothing of what remains disputed."""
    numbered: dict[Hashable, list[RecordPlace]] = defaultdict(list)
    rest: list[RecordPlace] = []
    for place in places:
        (rest if place.line is None else numbered[place.number]).append(place)
    undisputed = [own for several in numbered.values() if (own := _own(several)) is not None]
    answers: dict[Hashable, list[RecordPlace]] = defaultdict(list)
    for place in undisputed:
        answers[place.answer or (place.number,)].append(place)
    agreed = [own for several in answers.values() if (own := _own(several)) is not None]
    return sorted([*agreed, *rest], key=lambda place: (place.number, place.at))


def _own(several: list[RecordPlace]) -> RecordPlace | None:
    """Return the record that is clearly nearer to its place than any other that differs from it; None if none is."""
    nearest = min(several, key=_offset)
    others = [_offset(place) for place in several if place.digest != nearest.digest]
    return nearest if not others or 2 * _offset(nearest) + FEW_LINES < min(others) else None


def _offset(place: RecordPlace) -> int:
    return abs((place.line or 0) - place.number)
