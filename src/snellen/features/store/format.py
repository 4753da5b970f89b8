"""A feature store on disk: a folder of memory-mapped arrays, one table of rows, and store.json that says what they are.

store.json       what made it, its digest, the outputs with file, width and dtype; written last, by rename
rows.parquet     id, split and class ids of every row, in the order of the arrays
<output>.npy     [rows, width], a plain numpy file: any program can map it
commits.jsonl    while an extraction runs: which rows are on disk
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec
import numpy as np
from msgspec import UNSET, Struct, UnsetType, field

from snellen.atomic_write import replacing
from snellen.engine.fingerprint import digest
from snellen.engine.run_folder import RunFolder
from snellen.errors import DataError
from snellen.features.store.labels import Labels, from_ids, from_lists
from snellen.sources.parquet import read_whole
from snellen.text import pretty_json

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
