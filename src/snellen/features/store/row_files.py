"""Files with one entry a row as columns: parquet, WebDataset shards, and labels in .csv or .txt."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from io import BytesIO
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from snellen.errors import DataError
from snellen.features.store.array_files import UNPACKED_BYTES, load_tensors
from snellen.features.store.columns import (
    IDS,
    LABELS,
    SPLIT,
    FileColumns,
    LazyRows,
    Request,
    named_columns,
    streamed_rows,
)
from snellen.sources.open_tree import TARS
from snellen.sources.parquet import opened, read_whole
from snellen.sources.rows import rows as table_rows
from snellen.sources.tar_archive import TarTree
from snellen.sources.tree import ArchiveLimits
from snellen.sources.zip_archive import check_header

VECTORS = ("npy", "pth", "pt")
CLASSES = ("cls", "cls.txt")
SHARD_LIMITS = ArchiveLimits(read_bytes=64 << 20)
MAX_SHARDS = 100_000
ROWS_AT_ONCE = 16_384
EXPORT_AGAIN = "Re-export the file."
BRACES = re.compile(r"\{([^{}]*)\}")


def read_parquet(request: Request) -> FileColumns:
    """Return the columns of a parquet file; features are read in blocks."""
    file = request.file
    with opened(file, file, EXPORT_AGAIN) as reader:
        schema, rows = reader.file.schema_arrow, reader.file.metadata.num_rows
        size = sum(reader.file.metadata.row_group(at).total_byte_size for at in range(reader.file.num_row_groups))

    def load(name: str, role: str) -> Any:
        if role == "features" and rows and _holds_numbers(schema.field(name).type):
            return _rows_of_lists(file, name, rows, max(1, UNPACKED_BYTES * rows // max(size, 1)))
        return _from_arrow(read_whole(file, EXPORT_AGAIN, [name])[name], name, role, file)

    return request.columns(list(schema.names), load)


def _holds_numbers(kind: Any) -> bool:
    import pyarrow as pa

    is_list = pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    return bool(is_list and (pa.types.is_integer(kind.value_type) or pa.types.is_floating(kind.value_type)))


def _rows_of_lists(file: Path, name: str, rows: int, at_once: int) -> LazyRows:
    """Return a column of lists of numbers as [rows, width], read `at_once` rows at a time."""

    def blocks() -> Iterator[np.ndarray]:
        width = None
        with opened(file, file, EXPORT_AGAIN) as reader:
            for batch in reader.batches(min(at_once, ROWS_AT_ONCE), [name]):
                block = _from_arrow(batch.column(name), name, "features", file, reader.row, width)
                width = block.shape[1]
                yield block

    first = next(blocks(), None)
    if first is None:
        raise DataError(f"{file}: {name!r} claims {rows:,} rows and holds none", EXPORT_AGAIN)
    return streamed_rows((rows, first.shape[1]), first.dtype, blocks)


def _from_arrow(column: Any, name: str, role: str, file: Path, start: int = 0, width: int | None = None) -> Any:
    """Convert a column to an array; lists of equal length as [rows, length]; other lists as lists.

    `start` is the number of its first row, and `width` the length of the lists before it.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    if column.null_count:
        row = start + int(np.argmax(column.is_null().to_numpy(zero_copy_only=False)))
        raise DataError(f"{file}: row {row:,}: {name!r} is empty", "Every row needs one.")
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    kind = array.type
    if not (pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)):
        return array.to_numpy(zero_copy_only=False)
    flat = array.flatten()
    if flat.null_count:
        raise DataError(f"{file}: {name!r} holds lists with empty places", "Every place needs a value.")
    if role == "labels":
        return array.to_pylist()
    lengths = pc.list_value_length(array).to_numpy(zero_copy_only=False)
    width = int(lengths[0]) if width is None and len(lengths) else width or 0
    wrong = np.flatnonzero(lengths != width)
    if len(wrong):
        raise DataError(
            f"{file}: row {start + wrong[0]:,}: {name!r} has {lengths[wrong[0]]:,} values, row 0 has {width:,}",
            "All rows need features of one width.",
        )
    return flat.to_numpy(zero_copy_only=False).reshape(len(lengths), width)


def read_text_table(request: Request) -> FileColumns:
    """Return the columns of a .csv or .tsv whose first line names them, or the lines of a .txt as the one needed role."""
    file = request.file
    if file.suffix.lower() == ".txt":
        try:
            lines = file.read_text(encoding="utf-8").splitlines()
        except (OSError, ValueError) as error:
            raise DataError(f"{file} cannot be read as text: {error}", "Write one label a line, in UTF-8.") from error
        return named_columns({request.needed[0]: np.array(lines, dtype=str)})
    table = list(table_rows(file))
    names = list(table[0]) if table else []
    return request.columns(names, lambda name, role: np.array([str(row[name]) for row in table], dtype=str))


def shards(pattern: Path) -> list[Path]:
    """Return the files of a name with braces, as x-{000..009}.tar or {a,b}.tar; without braces the name itself.

    Raises:
        DataError: braces that are no list and no range, or more than 100,000 files.
    """
    text = str(pattern)
    choices: list[list[str]] = []
    for inner in BRACES.findall(text):
        first, dots, last = inner.partition("..")
        if dots and first.isdecimal() and last.isdecimal() and int(first) <= int(last) < int(first) + MAX_SHARDS:
            choices.append([str(number).zfill(len(first)) for number in range(int(first), int(last) + 1)])
        elif "," in inner and not dots:
            choices.append(inner.split(","))
        else:
            raise DataError(
                f"{pattern}: {{{inner}}} is neither a range nor a list", "Write shards as {000..009} or {a,b}."
            )
    if int(np.prod([len(choice) for choice in choices], dtype=np.float64)) > MAX_SHARDS:
        raise DataError(f"{pattern}: more than {MAX_SHARDS:,} files", "Import fewer shards at a time.")
    form = BRACES.sub("\0", text).split("\0")
    return [
        Path("".join(part + chosen for part, chosen in zip(form, (*picked, ""), strict=True)))
        for picked in product(*choices)
    ]


def is_shard(file: Path) -> bool:
    """Return True for the name of a tar file."""
    return file.name.lower().endswith(TARS)


def read_webdataset(request: Request) -> FileColumns:
    """Return the columns of WebDataset shards: KEY.npy, KEY.pth or KEY.pt with KEY.cls or fields of KEY.json.

    Members are indexed when a shard is opened; features are read a block of rows at a time. Rows are in the order of the
    shards and, in each, of their keys.
    """
    samples: list[tuple[TarTree, str, dict[str, str]]] = []
    for file in shards(request.file):
        tree = TarTree(file, SHARD_LIMITS)
        request.opened.callback(tree.close)
        samples += [(tree, key, members) for key, members in _samples(tree).items()]
    if not samples:
        raise DataError(f"{request.file}: there is no sample in it", "A sample is KEY.npy with KEY.cls or KEY.json.")
    first_fields = _fields(*samples[0])
    names = [*samples[0][2], *first_fields]
    usual = {
        "features": tuple(name.lower() for name in names if name.lower().rpartition(".")[2] in VECTORS),
        "labels": (*CLASSES, *LABELS),
        "split": SPLIT,
        "ids": tuple(name for name in IDS if name in request.chosen_names.values()),
    }
    roles = request.roles(names, usual)
    for role in request.needed:
        if role not in roles:
            raise request.missing(role, usual[role] or [f"KEY.{ending}" for ending in VECTORS], names)
    vectors = [(tree, key, members.get(roles["features"], "")) for tree, key, members in samples]
    first = _vector(*vectors[0])

    def read(start: int, stop: int) -> np.ndarray:
        block = np.empty((stop - start, len(first)), first.dtype)
        for row, (tree, key, member) in enumerate(vectors[start:stop]):
            vector = _vector(tree, key, member)
            if vector.shape != first.shape or vector.dtype != first.dtype:
                raise DataError(
                    f"{tree.path}: {member!r} is {list(vector.shape)} {vector.dtype}, the first "
                    f"{list(first.shape)} {first.dtype}",
                    "All rows need features of one width and type.",
                )
            block[row] = vector
        return block

    columns: dict[str, list[Any]] = {role: [] for role in roles if role != "features"}
    ids = [key for _, key, _ in samples]
    for sample in samples if columns else []:
        for role, values in columns.items():
            values.append(_value(sample, roles[role]))
    by_role: dict[str, Any] = {
        "ids": np.array(ids, dtype=str),
        **{role: _column(values) for role, values in columns.items()},
    }
    return named_columns({**by_role, "features": LazyRows((len(samples), len(first)), first.dtype, read)})


def _samples(tree: TarTree) -> dict[str, dict[str, str]]:
    """Return key to ending to member. As in WebDataset, the ending begins at the first dot of the file's name."""
    samples: dict[str, dict[str, str]] = {}
    for member in tree.names():
        folder, slash, name = member.rpartition("/")
        stem, dot, ending = name.partition(".")
        if stem and dot:
            samples.setdefault(folder + slash + stem, {})[ending.lower()] = member
    return samples


def _vector(tree: TarTree, key: str, member: str) -> np.ndarray:
    """Read the feature of one sample: [width]. Raises DataError."""
    where = f"{tree.path}: {member or key!r}"
    if not member:
        raise DataError(f"{where} has no features, which the first sample has", "Every sample needs them.")
    stream = BytesIO(tree.read(member))
    if member.lower().endswith(".npy"):
        check_header(stream, len(stream.getbuffer()), where)
        stream.seek(0)
        try:
            array = np.load(stream, allow_pickle=False)
        except (OSError, ValueError, EOFError) as error:
            raise DataError(f"{where} cannot be read as .npy: {error}", "Save numbers with numpy.save.") from error
    else:
        value = load_tensors(stream, where)
        array = value.detach().float().numpy() if hasattr(value, "detach") else np.asarray(value)
    if array.ndim == 2 and len(array) == 1:
        array = array[0]
    if array.ndim != 1 or array.dtype.kind not in "biuf":
        raise DataError(
            f"{where} is {list(array.shape)} {array.dtype}; one row of numbers was expected", "Pool the tokens first."
        )
    return np.asarray(array)


def _fields(tree: TarTree, key: str, members: Mapping[str, str]) -> dict[str, Any]:
    """Return the object in KEY.json; {} if there is none."""
    if "json" not in members:
        return {}
    try:
        content = json.loads(tree.read(members["json"]))
    except (ValueError, RecursionError) as error:
        raise DataError(f"{tree.path}: {members['json']!r} is no JSON: {error}", "Write one object.") from error
    if not isinstance(content, dict):
        raise DataError(f"{tree.path}: {members['json']!r} is no JSON object", "Write one object.")
    return content


def _value(sample: tuple[TarTree, str, dict[str, str]], name: str) -> Any:
    """Return a text, or a list of numbers and texts: a member's content, or a field of KEY.json."""
    tree, key, members = sample
    if name in members:
        try:
            return tree.read(members[name]).decode().strip()
        except ValueError as error:
            raise DataError(f"{tree.path}: {members[name]!r} is no UTF-8 text", "Write the class as text.") from error
    value = _fields(*sample).get(name)
    if isinstance(value, str | int | float):
        return str(int(value)) if isinstance(value, bool) else str(value)
    if isinstance(value, list) and all(isinstance(entry, str | int | float) for entry in value):
        return value
    raise DataError(
        f"{tree.path}: {key!r} has no {name!r}, or one that is no number, text or list", "Every sample needs one."
    )


def _column(values: Sequence[Any]) -> Any:
    """Return texts as an array, and lists as they are; a text among lists is a list of one."""
    if any(isinstance(value, list) for value in values):
        return [value if isinstance(value, list) else [value] for value in values]
    return np.array(values, dtype=str)
