"""Import of features extracted elsewhere: a file of any known format to a store.

Features are checked and written in blocks, so that memory does not grow with them where their format can be read so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import structs

from snellen.atomic_write import replacing
from snellen.engine.run_folder import RunFolder
from snellen.errors import DataError, UsageError
from snellen.features.store import labels as reading
from snellen.features.store.columns import ROLES, SPLITS, FileColumns, Request, Rows
from snellen.features.store.format import META, StoreMeta, StoreOutput, fingerprint, read_meta, write_meta, write_table
from snellen.features.store.labels import Labels
from snellen.sources import digest

DTYPES = ("float16", "float32", "float64")
BLOCK_BYTES = 64 << 20
READERS = {
    ".npz": "array_files:read_npz",
    ".npy": "array_files:read_npy",
    ".pt": "array_files:read_torch",
    ".pth": "array_files:read_torch",
    ".safetensors": "array_files:read_safetensors",
    ".h5": "array_files:read_hdf5",
    ".hdf5": "array_files:read_hdf5",
    ".parquet": "row_files:read_parquet",
    ".pq": "row_files:read_parquet",
    ".tar": "row_files:read_webdataset",
    ".tgz": "row_files:read_webdataset",
}
LABEL_READERS = {**READERS, **dict.fromkeys((".csv", ".tsv", ".txt"), "row_files:read_text_table")}


def import_file(
    file: Path | str,
    out: Path | str,
    *,
    dtype: str = "auto",
    output: str = "features",
    keys: Mapping[str, str] | None = None,
    labels: Path | str | None = None,
) -> Path:
    """Import a file of features and labels as a store.

    Args:
        file: .npz, .npy, .pt, .pth, .safetensors, .h5, .hdf5, .parquet, or shards of WebDataset as NAME-{000..009}.tar.
            Features are [rows, width] (.parquet: a column of lists) of any float or integer type; labels are integers
            with or without gaps, texts, several numbers between blanks, lists, or [rows, classes] of 0 and 1.
        out: the store's folder. One that was made of the same file in the same way is left as it is.
        dtype: what values are stored as. `auto` keeps float16 and float32; float64 and integers become float32 where
            each value stays what it is, else float64.
        output: what the store calls the array.
        keys: role (features, labels, split, ids, class_names) to the name of the file's array, where it is none of
            the usual ones. With `labels`, all but features are looked for there.
        labels: a second file with the labels and, where it has them, split, ids and names of classes of the same rows:
            one of the formats above, a .csv or .tsv with a line of names, or a .txt of one label a line.

    Returns:
        The store's folder.

    Raises:
        UsageError: an unknown dtype or role.
        MissingExtraError: the library that reads the format is not installed.
        DataError: not such a file; no features or labels; lengths that differ; values that are not finite, labels
            that are none. The message names array and row.
        FingerprintError: `out` holds another store.
        StorageError: it cannot be written.
    """
    source, folder = Path(file), Path(out)
    chosen_names = dict(keys or {})
    if dtype != "auto" and dtype not in DTYPES:
        raise UsageError(f"dtype {dtype!r} is not known.", f"Choose one of: auto, {', '.join(DTYPES)}.")
    if unknown := sorted(chosen_names.keys() - ROLES.keys()):
        raise UsageError(f"there is no role {unknown[0]!r}.", f"Roles are: {', '.join(ROLES)}.")
    identity = {"file": _digest(source), "dtype": dtype, "output": output, "keys": chosen_names}
    if labels is not None:
        identity["labels"] = digest(labels)
    if (folder / META).exists() and _same(folder, identity):
        return folder
    with ExitStack() as opened:
        columns = _read(source, labels, chosen_names, opened)
        _store(columns, folder, source, identity, dtype, output)
    return folder


def _store(
    columns: FileColumns, folder: Path, source: Path, identity: Mapping[str, Any], dtype: str, output: str
) -> None:
    """Check all columns, then write them."""
    names = _class_names(columns.names, source)
    features = columns.features
    _check_shape(features, source)
    rows = len(features)
    labels = _labels(columns.labels, names, rows, source)
    split = _texts(columns.split, rows, "split", source, [""] * rows)
    split = [SPLITS.get(text.strip().lower(), text.strip()) for text in split]
    ids = _texts(columns.ids, rows, "ids", source, [str(row) for row in range(rows)])
    _check_values(features, source)
    stored = _stored_dtype(features, dtype)
    with RunFolder(folder).locked():
        name = f"{output}.npy"
        _write_values(folder / name, features, stored, source)
        write_table(folder / "rows.parquet", ids, split, labels)
        write_meta(
            folder,
            StoreMeta(
                kind="imported",
                identity=identity,
                fingerprint=fingerprint(identity),
                rows=rows,
                outputs={output: StoreOutput(name, features.shape[1], stored)},
                complete=True,
                several=labels.many is not None,
                classes=tuple(int(class_id) for class_id in labels.classes),
                names=labels.names,
                origin={"file": str(source)},
                notes=tuple(_notes(features, stored, labels, ids)),
            ),
        )


def _digest(source: Path) -> str | list[str]:
    """Return the digest of a file, or of each shard of a name with braces."""
    if "{" not in source.name or source.exists():
        return digest(source)
    from snellen.features.store.row_files import shards

    return [digest(shard) for shard in shards(source)]


def _read(
    source: Path, label_file: Path | str | None, chosen_names: Mapping[str, str], opened: ExitStack
) -> FileColumns:
    """Return the columns of a file, those that it lacks from the file of labels. Raises DataError where both differ."""
    if label_file is None:
        return _reader(source, READERS)(Request(source, chosen_names, ("features", "labels"), opened))
    own = {role: name for role, name in chosen_names.items() if role == "features"}
    other = {role: name for role, name in chosen_names.items() if role != "features"}
    columns = _reader(source, READERS)(Request(source, own, ("features",), opened))
    beside = _reader(Path(label_file), LABEL_READERS)(Request(Path(label_file), other, ("labels",), opened))
    added = {role: value for role, value in structs.asdict(beside).items() if role != "features" and value is not None}
    for role in added:
        if (first := getattr(columns, role)) is not None and not np.array_equal(first, added[role]):
            raise DataError(
                f"{source} and {label_file} both hold {role}, and they differ",
                "Remove them from one of the files; rows must be the same, in the same order.",
            )
    return structs.replace(columns, **added)


def _reader(file: Path, readers: Mapping[str, str]) -> Callable[[Request], FileColumns]:
    """Return the function that reads a format; its module is imported now."""
    name = file.name.lower()
    reader = readers.get(".tar" if name.endswith(".tar.gz") else file.suffix.lower())
    if reader is None:
        raise DataError(
            f"{file}: one of {', '.join(readers)} was expected", "Save the arrays with numpy.savez, or as parquet."
        )
    module, _, function = reader.partition(":")
    read: Callable[[Request], FileColumns] = getattr(import_module(f"snellen.features.store.{module}"), function)
    return read


def _same(folder: Path, identity: Mapping[str, Any]) -> bool:
    """Return True if a complete store of this identity exists. Raises FingerprintError for another identity."""
    from snellen.features.store.writer import require_same

    meta = read_meta(folder)
    require_same(folder, meta.identity, identity)
    return meta.complete


def _class_names(names: Any, file: Path) -> list[str] | None:
    if names is None:
        return None
    array = np.asarray(names)
    if array.ndim != 1:
        raise DataError(f"{file}: class names of shape {list(array.shape)}; a list was expected", "Save one a class.")
    return reading.as_texts(array)


def _labels(values: Any, names: list[str] | None, rows: int, file: Path) -> Labels:
    return reading.one_each(_read_labels(values, names, rows, file))


def _read_labels(values: Any, names: list[str] | None, rows: int, file: Path) -> Labels:
    if isinstance(values, np.ndarray) and values.ndim == 0:
        raise DataError(f"{file}: labels are one value for {rows:,} rows", "Save one label a row.")
    if len(values) != rows:
        raise DataError(
            f"{file}: {len(values):,} labels for {rows:,} rows of features", "Save as many labels as features."
        )

    def place(row: int) -> str:
        return f"row {row:,}"

    if isinstance(values, list):
        if _is_matrix(values):
            return reading.from_array(np.array(values), names, str(file), place)
        if all(isinstance(value, (int, float)) for row in values for value in row):
            return reading.from_lists(_whole(values, file), names, str(file))
        known = names or sorted({str(label) for row in values for label in row})
        index = {name: number for number, name in enumerate(known)}
        for row, texts in enumerate(values):
            for text in texts:
                if str(text) not in index:
                    raise DataError(
                        f"{file}: {place(row)}: the label {text!r} is not among the class names",
                        "Labels are numbers or, letter by letter, names of the list.",
                    )
        return reading.from_lists([[index[str(label)] for label in row] for row in values], known, str(file))
    array = np.asarray(values)
    if array.dtype.kind == "O":
        array = np.array([str(label) for label in array.tolist()])
    return reading.from_array(array, names, str(file), place)


def _is_matrix(rows: Sequence[Sequence[Any]]) -> bool:
    """Return True if lists are rows of 0 and 1 rather than ids: all of one length, at least 2.

    Read as ids, each would name the classes 0 and 1, or one of them twice.
    """
    width = len(rows[0]) if rows else 0
    return width > 1 and all(len(row) == width and all(value in (0, 1) for value in row) for row in rows)


def _whole(rows: Sequence[Sequence[float]], file: Path) -> list[list[int]]:
    """Convert lists to class ids. Raises DataError naming the row of a number that is not a 64-bit integer."""
    for number, row in enumerate(rows):
        for label in row:
            if not (abs(label) < 1 << 63 and label == int(label)):
                raise DataError(
                    f"{file}: row {number:,}: the label {label} is no 64-bit integer", "Class ids are whole numbers."
                )
    return [[int(label) for label in row] for row in rows]


def _texts(values: Any, rows: int, role: str, file: Path, default: list[str]) -> list[str]:
    if values is None:
        return default
    array = np.asarray(values)
    if array.ndim != 1 or len(array) != rows:
        raise DataError(
            f"{file}: {role} of shape {list(array.shape)} for {rows:,} rows of features", "Save one for every row."
        )
    if role == "split" and array.dtype.kind in "iu":
        array = array.astype(str)
    if role == "split" and array.dtype.kind not in "SUO":
        raise DataError(
            f"{file}: the split is of type {array.dtype}; a text for every row was expected, such as train or test",
            "Write the names of the splits.",
        )
    return reading.as_texts(array)


def _check_shape(features: Rows, file: Path) -> None:
    if features.ndim != 2 or 0 in features.shape or features.dtype.kind not in "biuf":
        raise DataError(
            f"{file}: features of shape {list(features.shape)} and type {features.dtype}; [rows, width] of numbers "
            "was expected",
            "Save one row of numbers an image.",
        )


def _check_values(features: Rows, file: Path) -> None:
    if features.dtype.kind != "f":
        return
    for start, block in _blocks(features):
        wrong = np.flatnonzero(~np.isfinite(block).all(axis=1))
        if len(wrong):
            row = int(wrong[0])
            column = int(np.flatnonzero(~np.isfinite(block[row]))[0])
            raise DataError(
                f"{file}: row {start + row:,}: feature {column:,} is {block[row, column]}",
                "No distance to it is defined. Extract that row again, or remove it.",
            )


def _stored_dtype(features: Rows, dtype: str) -> str:
    if dtype != "auto":
        return dtype
    if features.dtype in (np.float16, np.float32):
        return str(features.dtype.newbyteorder("="))
    with np.errstate(over="ignore"):
        exact = all(
            bool((block.astype(np.float32).astype(np.float64) == block).all()) for _, block in _blocks(features)
        )
    return "float32" if exact else "float64"


def _write_values(path: Path, features: Rows, stored: str, file: Path) -> None:
    from snellen.engine.journal import storage_error

    try:
        with replacing(path) as part:
            values = np.lib.format.open_memmap(part, "w+", np.dtype(stored), features.shape)
            for start, block in _blocks(features):
                with np.errstate(over="ignore"):
                    converted = block.astype(stored)
                wrong = np.flatnonzero(~np.isfinite(converted).all(axis=1))
                if len(wrong):
                    raise DataError(
                        f"{file}: row {start + int(wrong[0]):,}: a feature is too large for {stored}",
                        "Store it with --dtype float32 or float64.",
                    )
                values[start : start + len(block)] = converted
            values.flush()
    except OSError as error:
        raise storage_error(path, error) from error


def _blocks(features: Rows) -> Iterator[tuple[int, np.ndarray]]:
    rows = max(1, BLOCK_BYTES // (8 * features.shape[1]))
    for start in range(0, len(features), rows):
        yield start, features[start : start + rows]


def _notes(features: Rows, stored: str, labels: Labels, ids: Sequence[str]) -> Iterator[str]:
    if str(features.dtype) != stored:
        yield f"features of type {features.dtype} are stored as {stored}"
    if (twice := len(ids) - len(set(ids))) > 0:
        yield f"{twice:,} rows have an id that another row has"
    negative = labels.classes[labels.classes < 0]
    if len(negative):
        yield f"labels below 0 are taken as classes like any other: {', '.join(map(str, negative[:5]))}"
    if labels.many is not None and (empty := int((~labels.many.any(axis=1)).sum())):
        yield f"{empty:,} rows have no label at all"
