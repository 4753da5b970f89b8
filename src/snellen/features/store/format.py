"""A feature store on disk: a folder of memory-mapped arrays, one table of rows, and store.json that says what they are.

store.json       what made it, its digest, the outputs with file, width and dtype; written last, by rename
rows.parquet     id, split and class ids of every row, in the order of the arrays
<output>.npy     [rows, width], a plain numpy file: any program can map it
commits.jsonl    while an extraction runs: which rows are on disk

Disk space of a feature store: what it takes, told before the first image is encoded.

Patch tokens of a store, read a few rows at a time: a file of them is often larger than the memory.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec
import numpy as np
from msgspec import UNSET, Struct, UnsetType, field

from snellen.atomic_write import replacing
from snellen.engine.fingerprint import digest
from snellen.engine.run_folder import RunFolder
from snellen.errors import DataError, StorageError
from snellen.features.store.labels import Labels, from_ids, from_lists
from snellen.sources.parquet import read_whole
from snellen.text import pretty_json

UNITS = (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3))


def size_text(count: float) -> str:
    """Return a number of bytes in the largest decimal unit that it reaches.

    >>> size_text(3_140_000_000), size_text(512)
    ('3.1 GB', '512 bytes')
    """
    for unit, size in UNITS:
        if count >= size:
            return f"{count / size:,.1f} {unit}"
    return f"{count:.0f} bytes"


def describe_space(path: Path | str, tokens: TokenOutput, rows: int) -> str:
    """Describe in one sentence what the patch tokens of these rows take, and what is free."""
    return (
        f"{PATCH_TOKENS}: {rows:,} images x {tokens.tokens:,} tokens x {tokens.width:,} values of {tokens.dtype} take "
        f"{size_text(rows * tokens.row_bytes)} of the disk; {size_text(free_bytes(Path(path)))} are free."
    )


def require_space(path: Path, outputs: Iterable[StoreOutput], tokens: TokenOutput | None, rows: int) -> None:
    """Raise StorageError if the arrays of a new store do not fit on its disk."""
    needed = rows * sum(array.width * np.dtype(array.dtype).itemsize for array in outputs)
    needed += rows * tokens.row_bytes if tokens is not None else 0
    free = free_bytes(path)
    if needed > free:
        hint = "Write to another disk with --out"
        hint += ", or omit --tokens." if tokens is not None else ", or store float16 with --dtype."
        raise StorageError(f"{path}: the store needs {size_text(needed)}; {size_text(free)} are free.", hint)


def free_bytes(path: Path) -> int:
    """Return the free bytes of the disk that a folder lies on, or will lie on."""
    place = path.absolute()
    while not place.exists() and place != place.parent:
        place = place.parent
    return shutil.disk_usage(place).free


META = "store.json"
PATCH_TOKENS = "patch_tokens"
FORMAT = 1
DAMAGED_HINT = "The store is damaged; create it again."


class StoreOutput(Struct, frozen=True):
    """One array of a store: [rows, width] of `dtype` (float16, float32 or float64) in `file`."""

    file: str
    width: int
    dtype: str


class TokenOutput(Struct, frozen=True, omit_defaults=True):
    """Patch tokens of a store: [rows and gaps, tokens, width] of `dtype` in `file`.

    Attributes:
        gaps: rows of the file that belong to no row of the store, ascending: images that could not be read.
    """

    file: str
    tokens: int
    width: int
    dtype: str
    gaps: tuple[int, ...] = ()

    @property
    def row_bytes(self) -> int:
        """Return the bytes of one image."""
        return self.tokens * self.width * np.dtype(self.dtype).itemsize


class MissingRow(Struct, frozen=True):
    """A row that was asked for and is not there: its image could not be read."""

    id: str
    split: str
    reason: str


class StoreMeta(Struct, frozen=True):
    """store.json.

    Attributes:
        kind: `extracted` by an encoder of this program, or `imported` from somebody's file.
        identity: everything that can change a value: encoder, transform, dtype, outputs, digest of the rows.
        fingerprint: 16 hexadecimal digits over `identity`.
        rows: how many rows the arrays have.
        outputs: name to array; the first is the one that is opened where none is named.
        table: file of the rows' ids, splits and labels.
        complete: False while an extraction runs or after it was killed.
        several: whether rows may have several labels.
        classes, names: as in `Labels`.
        missing: rows whose images could not be read (`--allow-missing`); not among `rows`.
        origin: where images and splits came from, as given; no part of the identity.
        notes: what was converted or found odd on the way in, for people.
        patch_tokens: where they were extracted.
    """

    kind: Literal["extracted", "imported"]
    identity: Mapping[str, Any]
    fingerprint: str
    rows: int
    outputs: Mapping[str, StoreOutput]
    complete: bool
    several: bool
    classes: tuple[int, ...]
    names: tuple[str, ...] | None
    table: str = "rows.parquet"
    missing: tuple[MissingRow, ...] = ()
    origin: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    format: int = FORMAT
    patch_tokens: TokenOutput | UnsetType = UNSET


def read_meta(path: Path) -> StoreMeta:
    """Read store.json of the folder `path`. Raises DataError if there is no store, or one of another format."""
    file = path / META
    try:
        data = file.read_bytes()
    except OSError as error:
        raise DataError(
            f"there is no feature store in {path}: {file.name} cannot be read: {error.strerror}",
            "Make one with `snellen features extract` or `snellen features import`.",
        ) from error
    try:
        meta = msgspec.json.decode(data, type=StoreMeta)
    except (msgspec.DecodeError, RecursionError) as error:
        raise DataError(f"{file} is not a valid store.json: {error}", "Create the store again.") from error
    files = [array.file for array in meta.outputs.values()]
    files += [] if isinstance(meta.patch_tokens, UnsetType) else [meta.patch_tokens.file]
    for name in (*files, meta.table):
        if Path(name).name != name:
            raise DataError(f"{file} names the file {name!r}; a file in its own folder was expected", DAMAGED_HINT)
    if meta.format != FORMAT:
        raise DataError(
            f"{file}: the store has format {meta.format}; this version reads {FORMAT}",
            "Create the store again, or use the version that wrote it.",
        )
    return meta


def write_meta(path: Path, meta: StoreMeta) -> None:
    """Replace store.json as a whole, on disk when this returns. Raises StorageError."""
    data = pretty_json(meta)
    RunFolder(path).write(path / META, data)


def fingerprint(identity: Mapping[str, Any]) -> str:
    """Compute 16 hexadecimal digits over an identity."""
    return digest(identity)


def write_table(path: Path, ids: Sequence[str], splits: Sequence[str], labels: Labels) -> None:
    """Write ids, splits and class ids of all rows as parquet, by rename."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pa.table(
        {
            "id": pa.array([str(row_id) for row_id in ids], pa.string()),
            "split": pa.array([str(split) for split in splits], pa.string()),
            "labels": pa.array(labels.ids(), pa.list_(pa.int64())),
        }
    )
    with replacing(path) as part:
        pq.write_table(table, part, compression="zstd")


def read_table(path: Path, meta: StoreMeta) -> tuple[np.ndarray, np.ndarray, Labels]:
    """Read (ids, splits, labels) of a store's rows: [n] and [n] object arrays of str. Raises DataError."""
    file = path / meta.table
    table = read_whole(file, DAMAGED_HINT)
    if missing := {"id", "split", "labels"}.difference(table.column_names):
        raise DataError(f"{file}: no column {min(missing)!r}", DAMAGED_HINT)
    ids, splits = table["id"].to_numpy(), table["split"].to_numpy()
    column = table["labels"].combine_chunks()
    classes = np.array(meta.classes, dtype=np.int64)
    flat = column.flatten().to_numpy().astype(np.int64)
    lengths = np.diff(column.offsets.to_numpy())
    if len(ids) != meta.rows or not np.isin(flat, classes).all() or (not meta.several and (lengths != 1).any()):
        raise DataError(
            f"{file}: {len(ids):,} rows with {len(flat):,} labels do not match {META} ({meta.rows:,} rows)",
            DAMAGED_HINT,
        )
    if not meta.several:
        return ids, splits, Labels(classes, single=flat, names=meta.names)
    many = np.zeros((len(ids), len(classes)), dtype=bool)
    many[np.repeat(np.arange(len(ids)), lengths), np.searchsorted(classes, flat)] = True
    return ids, splits, Labels(classes, many=many, names=meta.names)


def labels_of_rows(labels: Labels, rows: np.ndarray) -> Labels:
    """Return the labels of some rows; classes without a name and without a row are dropped."""
    remaining = labels.take(rows)
    if labels.names is not None:
        return remaining
    if remaining.single is not None:
        return from_ids(remaining.single, None, "")
    return from_lists(remaining.ids(), None, "")


class PatchTokens(Struct, frozen=True, eq=False):
    """Patch tokens of the n rows of a store.

    Attributes:
        values: [n and gaps, tokens, width], memory-mapped, as stored.
        rows: [n] row of `values` of each row.
        path: the store's folder.
    """

    values: np.ndarray
    rows: np.ndarray
    path: Path

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def shape(self) -> tuple[int, int, int]:
        """Return (n, tokens, width)."""
        return len(self.rows), int(self.values.shape[1]), int(self.values.shape[2])

    def read(self, rows: np.ndarray) -> np.ndarray:
        """Read some rows, in their order: float32 [m, tokens, width]."""
        return np.asarray(self.stored(rows), dtype=np.float32)

    def stored(self, rows: np.ndarray) -> np.ndarray:
        """Read some rows as they are stored."""
        return np.asarray(self.values[self.rows[rows]])

    def take(self, rows: np.ndarray) -> PatchTokens:
        """Take some rows, in their order, without reading them."""
        return PatchTokens(self.values, self.rows[rows], self.path)


def open_tokens(path: Path | str) -> PatchTokens:
    """Open the patch tokens of a store without reading them.

    Raises:
        DataError: no store there, an unfinished or damaged one, or one without patch tokens.
    """
    folder = Path(path)
    meta = read_meta(folder)
    if not meta.complete:
        raise DataError(
            f"{folder}: its extraction is incomplete, so rows are missing",
            "Repeat the command that began it; it resumes.",
        )
    tokens = meta.patch_tokens
    if isinstance(tokens, UnsetType):
        raise DataError(
            f"{folder} holds no patch tokens; it has: {', '.join(meta.outputs)}",
            "Extract them into a new store: snellen features extract … --tokens --out NEW.",
        )
    file = folder / tokens.file
    try:
        values: np.ndarray = np.load(file, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise DataError(f"{file} cannot be read: {error}", DAMAGED_HINT) from error
    expected = [meta.rows + len(tokens.gaps), tokens.tokens, tokens.width]
    if list(values.shape) != expected or str(values.dtype) != tokens.dtype:
        raise DataError(
            f"{file} holds {list(values.shape)} {values.dtype}; store.json says {expected} {tokens.dtype}", DAMAGED_HINT
        )
    rows = np.setdiff1d(np.arange(expected[0]), np.array(tokens.gaps, dtype=np.int64))
    if len(rows) != meta.rows:
        raise DataError(f"{folder}: the gaps of its patch tokens are not rows of {file.name}", DAMAGED_HINT)
    return PatchTokens(values, rows, folder)
