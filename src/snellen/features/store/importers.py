"""Import of features extracted elsewhere: .npz or .parquet to a store, with numpy and pyarrow only.

Names are read tolerantly, without regard to case: `FEATURES`, `LABELS` and so on below; in .npz also one array a
split, as train_features and test_labels or X_train and y_test. Two arrays that could be the same thing are an error,
never a choice made in silence.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import Struct

from snellen.atomic_write import replacing
from snellen.engine.run_folder import RunFolder
from snellen.errors import DataError, UsageError
from snellen.features.store import labels as reading
from snellen.features.store.format import META, StoreMeta, StoreOutput, fingerprint, read_meta, write_meta, write_table
from snellen.features.store.labels import Labels
from snellen.sources import digest
from snellen.sources.npz_limits import check_npz
from snellen.sources.parquet import read_whole

FEATURES = ("features", "feature", "embeddings", "embedding", "feats", "x", "data")
LABELS = ("labels", "label", "y", "targets", "target")
SPLIT = ("split", "splits")
IDS = ("ids", "id", "names", "paths", "files")
NAMES = ("class_names", "classes")
ROLES = {"features": FEATURES, "labels": LABELS, "split": SPLIT, "ids": IDS, "class_names": NAMES}
SPLITS = {
    "train": "train",
    "training": "train",
    "test": "test",
    "testing": "test",
    "val": "val",
    "valid": "val",
    "validation": "val",
    "dev": "val",
    "query": "query",
    "gallery": "gallery",
}
DTYPES = ("float16", "float32", "float64")
BLOCK_BYTES = 64 << 20


class FileColumns(Struct, frozen=True, eq=False):
    """Columns of a file before they are checked. `labels` and `features` are arrays or sequences of rows."""

    features: np.ndarray
    labels: Any
    split: Any
    ids: Any
    names: Any
    notes: tuple[str, ...] = ()


def import_file(
    file: Path | str,
    out: Path | str,
    *,
    dtype: str = "auto",
    output: str = "features",
    keys: Mapping[str, str] | None = None,
) -> Path:
    """Import a file of features and labels as a store.

    Args:
        file: .npz or .parquet. Features are [rows, width] (.parquet: a column of lists) of any float or integer type;
            labels are integers with or without gaps, texts, several numbers between blanks, lists, or [rows, classes]
            of 0 and 1.
        out: the store's folder. One that was made of the same file in the same way is left as it is.
        dtype: what values are stored as. `auto` keeps float16 and float32; float64 and integers become float32 where
            each value stays what it is, else float64.
        output: what the store calls the array.
        keys: role (features, labels, split, ids, class_names) to the name of the file's array, where it is none of
            the usual ones.

    Returns:
        The store's folder.

    Raises:
        UsageError: an unknown dtype or role.
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
    identity = {"file": digest(source), "dtype": dtype, "output": output, "keys": chosen_names}
    if (folder / META).exists() and _same(folder, identity):
        return folder
    columns = _read(source, chosen_names)
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
    notes = [*columns.notes, *_notes(features, stored, labels, ids)]
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
                notes=tuple(notes),
            ),
        )
    return folder


def _same(folder: Path, identity: Mapping[str, Any]) -> bool:
    """Return True if a complete store of this identity exists. Raises FingerprintError for another identity."""
    from snellen.features.store.writer import require_same

    meta = read_meta(folder)
    require_same(folder, meta.identity, identity)
    return meta.complete


def _read(file: Path, chosen_names: Mapping[str, str]) -> FileColumns:
    kind = file.suffix.lower()
    if kind == ".npz":
        return _read_npz(file, chosen_names)
    if kind in (".parquet", ".pq"):
        return _read_parquet(file, chosen_names)
    raise DataError(f"{file}: .npz or .parquet was expected", "Save the arrays with numpy.savez, or as parquet.")


def _read_npz(file: Path, chosen_names: Mapping[str, str]) -> FileColumns:
    try:
        with file.open("rb") as beginning:
            if beginning.read(2) != b"PK" and beginning.seek(0) == 0 and beginning.read(6) != b"\x93NUMPY":
                raise DataError(
                    f"{file} is no .npz file: it does not begin as one", "Save the arrays with numpy.savez."
                )
        if zipfile.is_zipfile(file):
            check_npz(file)
        archive = np.load(file, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise DataError(f"{file} cannot be read as .npz: {error}", "Re-export it with numpy.savez.") from error
    if not isinstance(archive, np.lib.npyio.NpzFile):
        raise DataError(f"{file} is one array, not an archive of arrays", "Save it with numpy.savez.")
    with archive:
        names = list(archive.files)
        names_by_role = _roles(names, chosen_names, file)
        if "features" in names_by_role:
            load = {role: _load(archive, name, file) for role, name in names_by_role.items()}
            return _columns(load, file, names)
        by_split = _by_split(names)
        if not any("features" in roles for roles in by_split.values()):
            raise _nothing(file, "features", FEATURES, names)
        return _joined(archive, by_split, names_by_role, file)


def _load(archive: Any, name: str, file: Path) -> np.ndarray:
    try:
        array: np.ndarray = archive[name]
    except ValueError as error:
        raise DataError(
            f"{file}: {name!r} is an array of Python objects, which only a pickle can hold: {error}",
            "A pickle can run code and is never opened. Save numbers or texts; labels of several classes as [rows, "
            "classes] of 0 and 1, or as texts such as '3 17'.",
        ) from error
    except (OSError, zipfile.BadZipFile, EOFError) as error:
        raise DataError(f"{file}: {name!r} cannot be read: {error}", "The file is damaged; fetch it again.") from error
    return array


def _roles(names: Sequence[str], chosen_names: Mapping[str, str], file: Path) -> dict[str, str]:
    """Map each role to the file's name for it."""
    names_by_role: dict[str, str] = {}
    for role, usual in ROLES.items():
        if role in chosen_names:
            if chosen_names[role] not in names:
                raise DataError(
                    f"{file}: there is no {chosen_names[role]!r}; there are: {', '.join(map(repr, names))}",
                    f"Name one of these: --key {role}=NAME.",
                )
            names_by_role[role] = chosen_names[role]
            continue
        fitting = [name for name in names if name.lower() in usual and name not in chosen_names.values()]
        if len(fitting) > 1:
            raise DataError(
                f"{file}: {' and '.join(map(repr, fitting))} could each be the {role}",
                f"Select one: --key {role}=NAME.",
            )
        if fitting:
            names_by_role[role] = fitting[0]
    return names_by_role


def _by_split(names: Sequence[str]) -> dict[str, dict[str, str]]:
    """Map split to role to name, for names such as train_features, X_test, ids_val."""
    by_split: dict[str, dict[str, str]] = {}
    for name in names:
        low = name.lower()
        for word, split in SPLITS.items():
            if low.startswith(word + "_"):
                rest = low[len(word) + 1 :]
            elif low.endswith("_" + word):
                rest = low[: -len(word) - 1]
            else:
                continue
            role = next((role for role in ("features", "labels", "ids") if rest in ROLES[role]), None)
            if role is not None:
                if role in by_split.setdefault(split, {}):
                    raise DataError(
                        f"{by_split[split][role]!r} and {name!r} could each be the {role} of the split {split!r}",
                        "Remove one of them from the file.",
                    )
                by_split[split][role] = name
    return by_split


def _joined(
    archive: Any, by_split: Mapping[str, Mapping[str, str]], common: Mapping[str, str], file: Path
) -> FileColumns:
    """Concatenate the splits, in the file's order."""
    parts: dict[str, list[np.ndarray]] = {"features": [], "labels": [], "ids": []}
    split: list[str] = []
    for name, roles in by_split.items():
        for role in ("features", "labels"):
            if role not in roles:
                raise DataError(
                    f"{file}: the split {name!r} has {', '.join(map(repr, roles.values()))} and no {role}",
                    "Save features and labels of every split.",
                )
        rows = {role: _load(archive, array_name, file) for role, array_name in roles.items()}
        for role, array in rows.items():
            if array.ndim == 0 or len(array) != len(rows["features"]):
                raise DataError(
                    f"{file}: {roles[role]!r} has shape {list(array.shape)}, {roles['features']!r} "
                    f"{list(rows['features'].shape)}; as many rows were expected",
                    "Save as many of each.",
                )
            parts[role].append(array)
        if "ids" not in rows:
            parts["ids"].append(np.array([f"{name}/{row}" for row in range(len(rows["features"]))]))
        split += [name] * len(rows["features"])
    for role, arrays in parts.items():
        kinds = {("text" if array.dtype.kind in "SU" else "number", array.shape[1:]) for array in arrays}
        if len(kinds) > 1:
            shapes = ", ".join(f"{list(array.shape)} {array.dtype}" for array in arrays)
            raise DataError(f"{file}: the {role} of the splits do not go together: {shapes}", "Save all alike.")
    names = _load(archive, common["class_names"], file) if "class_names" in common else None
    joined = {role: np.concatenate(arrays) for role, arrays in parts.items()}
    return FileColumns(joined["features"], joined["labels"], split, joined["ids"], names)


def _read_parquet(file: Path, chosen_names: Mapping[str, str]) -> FileColumns:
    table = read_whole(file, "Re-export the file.")
    names = list(table.column_names)
    names_by_role = _roles(names, chosen_names, file)
    load = {role: _from_arrow(table[name], name, role, file) for role, name in names_by_role.items()}
    return _columns(load, file, names)


def _from_arrow(column: Any, name: str, role: str, file: Path) -> Any:
    """Convert a column to an array; lists of equal length as [rows, length]; other lists as lists."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if column.null_count:
        row = column.is_null().to_numpy().argmax()
        raise DataError(f"{file}: row {row:,}: {name!r} is empty", "Every row needs one.")
    array = column.combine_chunks()
    kind = array.type
    if not (pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)):
        return array.to_numpy(zero_copy_only=False)
    flat = array.flatten()
    if flat.null_count:
        raise DataError(f"{file}: {name!r} holds lists with empty places", "Every place needs a value.")
    if role == "labels":
        return array.to_pylist()
    lengths = pc.list_value_length(array).to_numpy(zero_copy_only=False)
    wrong = np.flatnonzero(lengths != lengths[0]) if len(lengths) else np.array([], dtype=np.int64)
    if len(wrong):
        raise DataError(
            f"{file}: row {wrong[0]:,}: {name!r} has {lengths[wrong[0]]:,} values, row 0 has {lengths[0]:,}",
            "All rows need features of one width.",
        )
    return flat.to_numpy(zero_copy_only=False).reshape(len(lengths), int(lengths[0]) if len(lengths) else 0)


def _columns(load: Mapping[str, Any], file: Path, names: Sequence[str]) -> FileColumns:
    for role in ("features", "labels"):
        if role not in load:
            raise _nothing(file, role, ROLES[role], names)
    return FileColumns(load["features"], load["labels"], load.get("split"), load.get("ids"), load.get("class_names"))


def _nothing(file: Path, role: str, usual: Sequence[str], names: Sequence[str]) -> DataError:
    return DataError(
        f"{file}: there are no {role} in it: none of {', '.join(usual)}; it holds: {', '.join(map(repr, names))}",
        f"Name their array: --key {role}=NAME.",
    )


def _class_names(names: Any, file: Path) -> list[str] | None:
    if names is None:
        return None
    array = np.asarray(names)
    if array.ndim != 1:
        raise DataError(f"{file}: class names of shape {list(array.shape)}; a list was expected", "Save one a class.")
    return reading.as_texts(array)


def _labels(values: Any, names: list[str] | None, rows: int, file: Path) -> Labels:
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
    if role == "split" and array.dtype.kind not in "SUO":
        raise DataError(
            f"{file}: the split is of type {array.dtype}; a text for every row was expected, such as train or test",
            "Write the names of the splits.",
        )
    return reading.as_texts(array)


def _check_shape(features: np.ndarray, file: Path) -> None:
    if features.ndim != 2 or 0 in features.shape or features.dtype.kind not in "biuf":
        raise DataError(
            f"{file}: features of shape {list(features.shape)} and type {features.dtype}; [rows, width] of numbers "
            "was expected",
            "Save one row of numbers an image.",
        )


def _check_values(features: np.ndarray, file: Path) -> None:
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


def _stored_dtype(features: np.ndarray, dtype: str) -> str:
    if dtype != "auto":
        return dtype
    if features.dtype in (np.float16, np.float32):
        return str(features.dtype.newbyteorder("="))
    with np.errstate(over="ignore"):
        exact = all(
            bool((block.astype(np.float32).astype(np.float64) == block).all()) for _, block in _blocks(features)
        )
    return "float32" if exact else "float64"


def _write_values(path: Path, features: np.ndarray, stored: str, file: Path) -> None:
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


def _blocks(features: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
    rows = max(1, BLOCK_BYTES // (8 * features.shape[1]))
    for start in range(0, len(features), rows):
        yield start, features[start : start + rows]


def _notes(features: np.ndarray, stored: str, labels: Labels, ids: Sequence[str]) -> Iterator[str]:
    if str(features.dtype) != stored:
        yield f"features of type {features.dtype} are stored as {stored}"
    if (twice := len(ids) - len(set(ids))) > 0:
        yield f"{twice:,} rows have an id that another row has"
    negative = labels.classes[labels.classes < 0]
    if len(negative):
        yield f"labels below 0 are taken as classes like any other: {', '.join(map(str, negative[:5]))}"
    if labels.many is not None and (empty := int((~labels.many.any(axis=1)).sum())):
        yield f"{empty:,} rows have no label at all"
