"""Files of the index: signed states, column files that are mapped into memory, and one writer at a time.

    <root>/.snellen-index/plain-2/       `gold-2` where the viewer was started with the gold answers of restricted sets
      runs/<folder>-<digest>/state.json  what is in the index of one run, and which files hold it
      runs/…/rows-000001.arrow           its records; scores-, text- and predictions- files beside them
      sets/<digest>/state.json           the samples of one benchmark

All of it is made from the runs and may be deleted at any time. A state that this user's Snellen did not write is ignored, so
that the index in a folder from elsewhere says nothing.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path
from typing import Any, TypeVar

import filelock
import msgspec
import pyarrow as pa
from msgspec import Struct

from snellen.atomic_write import replacing
from snellen.engine.folder_checks import seal_own
from snellen.engine.journal import storage_error
from snellen.text import slug

FOLDER = ".snellen-index"
FORMAT = 2
STATE = "state.json"
STATE_BYTES = 256 << 20
BATCH_ROWS = 1 << 16
"""Rows of each record batch of a column file but the last one: a row's batch is its number divided by this."""
T = TypeVar("T", bound=Struct)


class ColumnFile(Struct, frozen=True):
    """A file of the index: its name in the folder of its state, its rows and its size in bytes."""

    name: str
    rows: int
    size: int


class _Signed(Struct):
    body: msgspec.Raw
    mark: str


def default_cache() -> Path:
    """Return the folder for the indexes of roots that cannot be written."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")  # noqa: PTH111 - no error without a home
    return Path(base) / "snellen" / "view"


def index_folder(root: Path, cache: Path | None, *, gold: bool) -> Path:
    """Return the folder of a root's index: beside the runs, or in the cache where the root cannot be written.

    Args:
        root: the folder of the runs.
        cache: put it below this folder; None: beside the runs if they can be written.
        gold: it holds gold answers of restricted sets.
    """
    beside = root / FOLDER
    usable = os.access(root, os.W_OK) and not beside.is_symlink() and (not beside.exists() or _is_usable(beside))
    if cache is None and usable:
        place = beside
    else:
        name = blake2b(os.fsencode(os.path.realpath(root)), digest_size=8).hexdigest()
        place = (cache or default_cache()) / name
    return place / f"{'gold' if gold else 'plain'}-{FORMAT}"


def _is_usable(folder: Path) -> bool:
    own = not hasattr(os, "getuid") or folder.stat().st_uid == os.getuid()
    return own and folder.is_dir() and os.access(folder, os.W_OK)


class IndexStorage:
    """The folder of an index. Many may read it; one writes, under `writing`."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def run_folder(self, key: str) -> Path:
        """Return the folder for a run."""
        name = slug(key.rpartition("/")[2], 40) or "run"
        return self.path / "runs" / f"{name}-{_digest(key)}"

    def set_folder(self, name: str) -> Path:
        """Return the folder for a set of samples."""
        return self.path / "sets" / _digest(name)

    @contextlib.contextmanager
    def writing(self) -> Iterator[bool]:
        """Hold the writer's lock; yield False if another process has it, or the folder cannot be written."""
        lock = filelock.FileLock(self.path / "lock", thread_local=False)
        try:
            for folder in (self.path, self.path / "runs", self.path / "sets"):
                _remove_link(folder)
            self.path.mkdir(parents=True, exist_ok=True, mode=0o700)
            lock.acquire(timeout=0)
        except (filelock.Timeout, OSError):
            yield False
            return
        try:
            yield True
        finally:
            lock.release()

    def read_state(self, folder: Path, type_: type[T]) -> T | None:
        """Read the state in a folder; None where there is none, or one that this user's Snellen did not write."""
        path = folder / STATE
        try:
            if path.stat().st_size > STATE_BYTES:
                return None
            signed = msgspec.json.decode(path.read_bytes(), type=_Signed)
            body = bytes(signed.body)
            if signed.mark != seal_own(self._named(folder) + body):
                return None
            return msgspec.json.decode(body, type=type_)
        except (OSError, ValueError, RecursionError):  # msgspec's errors are ValueErrors
            return None

    def write_state(self, folder: Path, state: Struct) -> None:
        """Replace the state in a folder as a whole.

        Raises:
            StorageError: it cannot be written.
        """
        body = msgspec.json.encode(state)
        content = msgspec.json.encode(_Signed(msgspec.Raw(body), seal_own(self._named(folder) + body)))
        try:
            with replacing(folder / STATE) as part:
                part.write_bytes(content)
        except OSError as error:
            raise storage_error(folder / STATE, error) from error

    def _named(self, folder: Path) -> bytes:
        return os.fsencode(folder.name) + b"\0"

    def clear(self, folder: Path) -> None:
        """Remove what the index holds in a folder, and make it."""
        try:
            _remove_link(folder)
            with contextlib.suppress(OSError):
                (folder / STATE).unlink()
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError as error:
            raise storage_error(folder, error) from error

    def sweep(self, folder: Path, files: list[ColumnFile]) -> None:
        """Remove the files of a folder that its state no longer names."""
        names = {STATE, STATE + ".part", *(file.name for file in files)}
        for path in folder.iterdir():
            if path.name not in names:
                with contextlib.suppress(OSError):
                    path.unlink()


def _remove_link(path: Path) -> None:
    """Remove a symbolic link in the place of a folder: an index from elsewhere could lead to files that are not the index's."""
    if path.is_symlink():
        path.unlink()


def _digest(text: str) -> str:
    return blake2b(text.encode(errors="surrogatepass"), digest_size=10).hexdigest()


def file_number(files: list[ColumnFile]) -> int:
    """Return the number for the next file: one more than the last one's."""
    return 1 + max((int(file.name.rpartition("-")[2].partition(".")[0]) for file in files), default=0)


class ColumnWriter:
    """Writer of one column file, batch by batch; `close` returns its description. An aborted one leaves nothing of use."""

    def __init__(self, folder: Path, kind: str, number: int, schema: pa.Schema) -> None:
        self.schema = schema
        self.rows = 0
        self._path = folder / f"{kind}-{number:06d}.arrow"
        self._pending: list[pa.RecordBatch] = []
        self._pending_rows = 0
        self._sink = pa.OSFile(str(self._path), "wb")
        self._writer = pa.ipc.new_file(self._sink, schema)

    def add(self, columns: dict[str, Any]) -> None:
        """Append rows given as columns (lists or arrays of equal length)."""
        batch = pa.record_batch([_array(columns[field.name], field.type) for field in self.schema], schema=self.schema)
        self.add_batch(batch)

    def add_batch(self, batch: pa.RecordBatch) -> None:
        """Append the rows of a batch."""
        self._pending.append(batch)
        self._pending_rows += batch.num_rows
        self.rows += batch.num_rows
        if self._pending_rows >= BATCH_ROWS:
            self._flush(whole=False)

    def _flush(self, *, whole: bool) -> None:
        if not self._pending_rows:
            return
        table = pa.Table.from_batches(self._pending, self.schema)
        full = self._pending_rows if whole else self._pending_rows - self._pending_rows % BATCH_ROWS
        for start in range(0, full, BATCH_ROWS):
            part = table.slice(start, min(BATCH_ROWS, full - start)).combine_chunks()
            self._writer.write_batch(part.to_batches()[0])
        rest = table.slice(full)
        self._pending = rest.to_batches() if rest.num_rows else []
        self._pending_rows = rest.num_rows

    def close(self) -> ColumnFile:
        """Finish the file."""
        self._flush(whole=True)
        self._writer.close()
        self._sink.close()
        return ColumnFile(self._path.name, self.rows, self._path.stat().st_size)


def _array(values: Any, type_: pa.DataType) -> pa.Array:
    if isinstance(values, pa.Array):
        return values
    try:
        return pa.array(values, type_)
    except UnicodeEncodeError:  # a lone surrogate, which JSON can name and no text can hold
        return pa.array([_plain(value) for value in values], type_)


def _plain(value: Any) -> Any:
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else value


def open_columns(folder: Path, file: ColumnFile) -> pa.Table | None:
    """Map a column file into memory; None if it is not the one that its state names."""
    path = folder / file.name
    try:
        if path.is_symlink() or path.stat().st_size != file.size:
            return None
        return pa.ipc.open_file(pa.memory_map(str(path), "r")).read_all()
    except (OSError, pa.ArrowInvalid):
        return None
