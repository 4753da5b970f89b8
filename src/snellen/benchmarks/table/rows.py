"""Rows of a table from any supported file, one dict at a time, with images that are read on demand.

A row that cannot be read stands as its error in its place. Cells are texts, numbers, truth values, lists and dicts as the file
has them; a cell of inline images is a tuple of blobs. A dialogue adds two columns, `conversations:question` and
`conversations:answer`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path, PurePosixPath
from typing import Any, TypeAlias

import msgspec
from msgspec import Struct, structs

from snellen.benchmarks.base import Data
from snellen.benchmarks.table.annotation_forms import SPACES, annotated
from snellen.benchmarks.table.declaration import Join, Source
from snellen.benchmarks.table.dialogue import COLUMNS as DIALOGUE_COLUMNS
from snellen.benchmarks.table.dialogue import with_dialogue
from snellen.benchmarks.table.images import FOLDERS, MEDIA_SUFFIXES, ImageRoot, image_root
from snellen.benchmarks.table.kit_reading import FORMS as TEXT_FORMS
from snellen.benchmarks.table.kit_reading import OPTION, as_kit, column_kinds, exploded, is_kit_reading, unpacked
from snellen.benchmarks.table.locate import LocatedTable, class_folders, locate_table
from snellen.benchmarks.table.row_forms import is_every, joined, line_rows, nested_rows
from snellen.benchmarks.table.vqa_form import COLUMNS as VQA_COLUMNS
from snellen.benchmarks.table.vqa_form import FORM as VQA
from snellen.benchmarks.table.vqa_form import annotations_of, is_questions, vqa_rows
from snellen.errors import DataError, UsageError
from snellen.sources.blobs import BytesBlob, FileBlob
from snellen.sources.encodings import pick, text_stream
from snellen.sources.number_formats import plain_value
from snellen.sources.rows import Place, json_document, until_lost
from snellen.sources.rows import salvaged as salvaged_rows
from snellen.sources.safe_paths import member_name
from snellen.sources.text_tables import is_inline, open_text_table, with_lazy_images
from snellen.sources.tree import FolderTree, Tree
from snellen.types import Blob

Row: TypeAlias = dict[str, Any]
Placed: TypeAlias = Iterator[tuple[str, Row | DataError]]
"""The place of each row, for messages, and the row or why it cannot be read."""
TEXT_SUFFIXES = (".csv", ".tsv", ".jsonl", ".ndjson")
EXCEL = "Excel"
FORMS = {
    **{".csv": "CSV", ".tsv": "TSV", ".jsonl": "JSON lines", ".ndjson": "JSON lines", ".json": "JSON"},
    **{".parquet": "parquet", ".arrow": "Arrow", ".feather": "Feather", ".xlsx": EXCEL},
}
CLASSES = "class folders"
COLUMNAR = (".parquet", ".arrow", ".feather")
DIALOGUES = frozenset(DIALOGUE_COLUMNS)
BOM = b"\xef\xbb\xbf"


class Rows(Struct, frozen=True):
    """An opened table, read once.

    Attributes:
        name: what the user named.
        form: the kind of file, in words.
        header: its columns in order, as far as they are known before the rows; empty for JSON.
        rows: the place of each row, for messages, and the row or why it cannot be read.
        root: where its images are looked for.
        files: the files that were opened, for the digest.
        notes: what a reader must know about where the table was found, in words.
        other_sheets: sheets of the workbook that could be named.
        gold: the space and order of its boxes, where the form of the file says it.
    """

    name: str
    form: str
    header: tuple[str, ...]
    rows: Placed
    root: ImageRoot
    files: tuple[Path, ...]
    notes: tuple[str, ...] = ()
    other_sheets: tuple[str, ...] = ()
    gold: str = ""


def open_rows(source: Source, data: Data, base: Path = Path()) -> Rows:
    """Open a table.

    Args:
        data: the user's settings: --data takes the place of the source, --images names the folder of the images.
        base: the folder at which relative paths of the source begin.

    Raises:
        DataError: nothing is there, it is no table, or it is not UTF-8.
        UsageError: several files, or several lists of a JSON file, could be the table.
    """
    located = locate_table(source, data, base)
    root = image_root(located.tree, _images(source, data, base), located.within, _archives(source, located, base))
    if not located.files:
        return Rows(located.name, CLASSES, ("image", "class"), _class_rows(located), root, (located.tree.path,))
    chosen = structs.replace(
        source,
        each=data.options.get("each", source.each),
        sheet=data.options.get("sheet", source.sheet),
        encoding=data.options.get("encoding", source.encoding),
    )
    opened = [_open(located.tree, file, chosen) for file in located.files]
    forms = list(dict.fromkeys(part.form for part in opened))
    several = [f"{PurePosixPath(file).name}, " for file in located.files] if len(opened) > 1 else [""]
    parts = [
        _told(prefix, part.rows, parts=not DIALOGUES.isdisjoint(part.header) or not part.header)
        for prefix, part in zip(several, opened, strict=True)
    ]
    rows: Placed = chain.from_iterable(parts)
    if (join := source.join) is not None:
        others = _open(located.tree, f"{located.within}{join.file}", Source(each=join.each))
        rows = joined(rows, join, others.rows)
    if source.file_column:
        names = map(_name_of, located.files)
        rows = chain.from_iterable(
            _with_column(part, source.file_column, name) for part, name in zip(parts, names, strict=True)
        )
    if source.unpack:
        rows = unpacked(rows, source.unpack)
    if source.explode:
        rows = exploded(rows, source.explode)
    form = " and ".join(forms)
    if form in TEXT_FORMS and is_kit_reading(source, data):
        plain = structs.replace(source, as_kit_reads=False)
        kinds = column_kinds(
            open_rows(plain, structs.replace(data, options={**data.options, OPTION: "false"}), base).rows
        )
        rows = as_kit(rows, kinds)
    header = opened[0].header
    if header:
        added = [name for part in source.unpack for name in part]
        header = tuple(dict.fromkeys([*header, *added, *filter(None, [source.file_column])]))
    notes = tuple(dict.fromkeys(note for part in opened for note in part.notes))
    first = opened[0]
    return Rows(
        located.name, form, header, rows, root, _paths(located, source.join), notes, first.other_sheets, first.gold
    )


def _name_of(file: str) -> str:
    """Return the name of a file without its ending, or that of its folder where it is a shard of a split."""
    path = PurePosixPath(file)
    return path.parent.name if _SHARD.fullmatch(path.stem) and path.parent.name else path.stem


_SHARD = re.compile(r"(?:train|test|validation|val|dev)(?:-\d+(?:-of-\d+)?)?")


def _with_column(rows: Placed, column: str, text: str) -> Placed:
    return ((place, row if isinstance(row, DataError) else {**row, column: text}) for place, row in rows)


def files_of(source: Source, data: Data, base: Path = Path()) -> tuple[Path, ...]:
    """Return the files of a table, which is not opened; raise as `open_rows` where it is not found."""
    return _paths(locate_table(source, data, base), source.join)


def image_places(source: Source, data: Data, base: Path, files: Sequence[Path]) -> Iterator[Path]:
    """Yield where a table's images lie, as far as its time tells that one was added: folders beside it, of classes, --images."""
    images = _images(source, data, base)
    if images is not None and images.exists():
        yield images
    for file in files:
        below = file.iterdir() if file.is_dir() else (file.parent / name for name in FOLDERS)
        yield from sorted(folder for folder in below if folder.is_dir())


def _paths(located: LocatedTable, join: Join | None) -> tuple[Path, ...]:
    if located.archive or not located.files:
        return (located.tree.path,)
    beside = [*map(annotations_of, located.files), *([f"{located.within}{join.file}"] if join is not None else [])]
    there = (name for name in beside if name and located.tree.exists(name))
    return tuple(located.tree.path / file for file in (*located.files, *there))


def _images(source: Source, data: Data, base: Path) -> Path | None:
    if data.images is not None:
        return data.images
    if source.hub:
        return None
    declared = source.images if isinstance(source.images, str) else next(iter(source.images), "")
    return base / declared if declared else None


def _archives(source: Source, located: LocatedTable, base: Path) -> list[Path]:
    """Return the declared places (patterns) of a data set of the hub that lie beside its table, and places behind the first of a file's.

    Raises DataError for a pattern that leads out of the data set; linked folders that do are passed over.
    """
    names, root = (
        (source.images,) if isinstance(source.images, str) else source.images,
        located.folder or located.tree.path,
    )
    if not source.hub:
        return [path for name in names[1:] if (path := base / name).exists()]
    patterns = [member_name(name, f"images of {source.hub}") for name in names if name]
    paths = [path for name in patterns for path in sorted(root.glob(name))]
    top = root.resolve()
    return [path for path in paths if path.is_file() or (path.is_dir() and path.resolve().is_relative_to(top))]


class _File(Struct, frozen=True):
    """One file of a table; see Rows."""

    form: str
    header: tuple[str, ...]
    rows: Placed
    notes: tuple[str, ...] = ()
    other_sheets: tuple[str, ...] = ()
    gold: str = ""


def _open(tree: Tree, name: str, source: Source) -> _File:
    blob = tree.blob(name)
    suffix = Path(blob.key).suffix.lower()
    if source.line:
        columns = tuple(re.findall(r"\{(\w+)\}", source.line))
        return _File(
            "lines", columns, _placed(line_rows(text_stream(blob, source.encoding)[0], source.line, blob.key), "line")
        )
    form = FORMS[suffix]
    if suffix in (".jsonl", ".ndjson") and _begins(blob, b"[", source.encoding):
        suffix, form = ".json", FORMS[".json"]
    if suffix in TEXT_SUFFIXES:
        table = open_text_table(blob, source.encoding)
        return _File(form, table.header, _placed(table.rows, "line"))
    if suffix == ".json":
        with text_stream(blob, source.encoding)[0] as file:
            value = json_document(file, blob.key)
        if not source.each and is_questions(value):
            beside = annotations_of(name)
            answers = _json_beside(tree, beside)
            return _File(VQA, VQA_COLUMNS, _placed(enumerate(vqa_rows(value, answers, blob.key, beside), 1), ""))
        if not source.each and (export := annotated(value, blob.key)) is not None:
            form, images = export
            return _File(
                form,
                columns_of(
                    ("id", "image", "question", "kind", "answer"), [row for row in images if isinstance(row, dict)]
                ),
                _placed(enumerate(images, 1), ""),
                gold=SPACES[form],
            )
        return _File(form, (), _placed(enumerate(_json_rows(value, source, blob.key), 1), ""))
    if suffix in COLUMNAR and isinstance(blob, FileBlob):
        from snellen.sources import parquet_images

        return _File(form, parquet_images.columns(blob.path), _placed(_columnar_rows(blob.path), ""))
    if suffix == ".xlsx":
        from snellen.sources import xlsx

        opened = xlsx.open_sheet(blob, blob.key, source.sheet or None)
        pick(opened.header, None, blob.key)
        placed = _placed(until_lost(xlsx.sheet_rows(blob, blob.key, opened), blob.key), "sheet row")
        return _File(form, opened.header, placed, opened.notes, opened.others)
    rows = salvaged_rows(blob)
    lazy = ((at, row if isinstance(row, DataError) else _with_bytes(row, blob.key, at)) for at, row in rows)
    return _File(form, (), _placed(lazy, ""))


def _json_beside(tree: Tree, name: str) -> Any:
    """Return what a JSON file of the same folder or archive holds; None where it is not there."""
    blob = tree.find(name) if name else None
    if blob is None:
        return None
    with text_stream(blob, "")[0] as file:
        return json_document(file, blob.key)


def _begins(blob: Blob, mark: bytes, encoding: str) -> bool:
    with text_stream(blob, encoding)[0] as source:
        return source.read(64).removeprefix(BOM).lstrip().startswith(mark)


def _told(prefix: str, rows: Placed, *, parts: bool) -> Placed:
    """Return rows with the name of their file before their place, and with the parts of their dialogues if they may have some."""
    if parts:
        rows = ((place, with_dialogue(row) if isinstance(row, dict) else row) for place, row in rows)
    return ((f"{prefix}{place}", row) for place, row in rows) if prefix else rows


def _placed(rows: Iterator[tuple[int, Row | DataError]], unit: str) -> Placed:
    for number, (at, row) in enumerate(rows, 1):
        yield f"row {number:,} ({unit} {at:,})" if unit and at != number else f"row {number:,}", row


def _columnar_rows(path: Path) -> Iterator[tuple[int, Row]]:
    from snellen.sources.parquet_images import ParquetCell, class_names, rows_with_images

    classes = class_names(path)
    for number, row, counts in rows_with_images(path):
        for column, words in classes.items():
            label = row.get(column)
            if isinstance(label, int) and 0 <= label < len(words):
                row[column] = words[label]
        for column, cell in row.items():
            if isinstance(cell, str) and is_inline(cell):
                row[column] = (ParquetCell(path, number - 1, column),)
        for column, count in counts.items():
            items = [-1] if count < 0 else range(count)
            row[column] = tuple(ParquetCell(path, number - 1, column, item) for item in items)
        yield number, row


def _with_bytes(row: Row, name: str, number: int) -> Row:
    """Return a row whose bytes, alone or in a struct of `bytes` and `path`, are blobs."""
    for column, value in row.items():
        cells = value if isinstance(value, list) else [value]
        data = [cell.get("bytes") if isinstance(cell, dict) else cell for cell in cells]
        if not any(isinstance(part, bytes) for part in data):
            row[column] = plain_value(value)
            continue
        at = f"{name}, row {number:,}, {column}"
        images = [
            BytesBlob(f"{at}, image {item}", part) if isinstance(part, bytes) else cell
            for item, (part, cell) in enumerate(zip(data, cells, strict=True), 1)
            if part or cell
        ]
        row[column] = tuple(images) if all(isinstance(image, BytesBlob) for image in images) else images
    return row


def _json_rows(value: Any, source: Source, name: str) -> Iterator[Row | DataError]:
    for number, row in enumerate(_rows_in(value, source.each, name), 1):
        if isinstance(row, dict):
            yield with_lazy_images(row, f"{name}, row {number:,}", None, Place(0, 0, number))
        elif isinstance(row, DataError):
            yield row
        else:
            yield DataError(
                f"{name}, row {number:,}: an object of columns was expected", "Write each row as an object."
            )


def _with_file_names(rows: Sequence[Any], files: Any) -> Sequence[Any]:
    """Return COCO's annotations with the file names of their images, which a list of its own holds by `id`."""
    images = [part for part in files if isinstance(part, dict)] if isinstance(files, list) else []
    names = {str(part["id"]): part["file_name"] for part in images if "id" in part and "file_name" in part}
    if not names:
        return rows
    return [
        {"file_name": names.get(str(row["image_id"])), **row} if isinstance(row, dict) and "image_id" in row else row
        for row in rows
    ]


def _rows_in(value: Any, each: str, name: str) -> Sequence[Any]:
    """Return the list of rows in a parsed JSON file.

    Raises:
        DataError: there is none.
        UsageError: several lists could be the rows.
    """
    files = value.get("images") if isinstance(value, dict) else None
    steps = [step for step in each.split(".") if step]
    while steps and not is_every(steps[0]):
        value = value.get(steps.pop(0).removesuffix("[]")) if isinstance(value, dict) else None
    value = list(nested_rows(value, steps)) if steps else value
    if isinstance(value, list):
        return _with_file_names(value, files)
    if not isinstance(value, dict) or not value:
        raise DataError(f"{name}: a list of objects was expected", "Name the rows in it: -o each=PATH.OF.THE.LIST")
    columns = [part for part in value.values() if isinstance(part, list)]
    scalar = any(not isinstance(cell, dict) for part in columns for cell in part[:1])
    if len(columns) == len(value) and scalar and len({len(part) for part in columns}) == 1:
        return [dict(zip(value, cells, strict=True)) for cells in zip(*columns, strict=True)]
    lists = {key: part for key, part in value.items() if isinstance(part, list) and part and isinstance(part[0], dict)}
    about = [key for key, part in lists.items() if "image_id" in part[0]] if "images" in lists else []
    if len(lists) == 1 or len(about) == 1:
        return _with_file_names(lists[about[0]] if about else next(iter(lists.values())), files)
    if lists:
        raise UsageError(
            f"{name}: {len(lists)} lists could be the rows: {', '.join(lists)}",
            f"Choose one: -o each={next(iter(lists))}",
        )
    if all(isinstance(part, dict) for part in value.values()):
        keys = [set(part) for part in value.values()]
        if all(own == keys[0] for own in keys) and all(key.isdigit() for key in keys[0]):
            return [{name: part.get(key) for name, part in value.items()} for key in value[next(iter(value))]]
        return [{"@key": key, **part} for key, part in value.items()]
    inner = [key for key, part in value.items() if isinstance(part, dict)]
    if len(inner) == 1:
        return _rows_in(value[inner[0]], "", name)
    raise DataError(f"{name}: no list of objects was found in it", "Name the rows in it: -o each=PATH.OF.THE.LIST")


def _class_rows(located: LocatedTable) -> Placed:
    for name in _class_images(located):
        yield name, {"image": name, "class": name.rpartition("/")[0].rpartition("/")[2].replace("_", " ")}


def _class_images(located: LocatedTable) -> Iterator[str]:
    if isinstance(located.tree, FolderTree):
        for folder in class_folders(located.tree.path):
            for entry in sorted((located.tree.path / folder).iterdir()):
                if entry.name.lower().endswith(MEDIA_SUFFIXES) and entry.is_file():
                    yield f"{folder}/{entry.name}"
    else:
        yield from (name for name in located.tree.names() if name.lower().endswith(MEDIA_SUFFIXES) and "/" in name)


def columns_of(header: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """Return the columns of a table: its header's, then those that only rows name, in order of first appearance."""
    return tuple(dict.fromkeys([*header, *(column for row in rows for column in row)]))


def plain_text(value: Any) -> str:
    """Return a cell as text: whole numbers without a point, lists as JSON, nothing for an empty cell."""
    if isinstance(value, str):
        return value
    if value is None or value != value:
        return ""
    if isinstance(value, bool):
        return "True" if value else "False"
    if isinstance(value, float) and value.is_integer() and abs(value) < 1 << 53:
        return str(int(value))
    if isinstance(value, (int, float)):
        return str(value)
    if isinstance(value, (list, dict)):
        return msgspec.json.encode(value, enc_hook=str).decode()
    return str(value)
