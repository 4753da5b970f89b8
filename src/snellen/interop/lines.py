"""Rows of other people's answer files, read so that a damaged row costs that row alone.

Data sets are read by `snellen.sources`, which refuses a damaged row, since a question would be missing. Answers are
different: the run that made them is over, and the rest of them is still worth scoring.
"""

from __future__ import annotations

import codecs
import csv
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from snellen.errors import DataError
from snellen.interop.answers import Problems
from snellen.sources.confine import regular_file
from snellen.sources.rows import numbered

LINE_BYTES = 64 << 20
CELL_CHARACTERS = 64 << 20
JSON_LINES = (".jsonl", ".ndjson")
SEPARATED = {".csv": ",", ".tsv": "\t"}


def raw_lines(path: Path, problems: Problems) -> Iterator[tuple[int, bytes]]:
    """(line number, line) of every line that is not empty; a line of more than 64 MB is a problem and passed over."""
    regular_file(path)
    with path.open("rb") as file:
        number = 0
        while line := file.readline(LINE_BYTES + 1):
            number += 1
            if len(line) > LINE_BYTES and not line.endswith(b"\n"):
                while line and not line.endswith(b"\n"):
                    line = file.readline(LINE_BYTES)
                problems.add(f"line {number}", f"longer than {LINE_BYTES:,} bytes")
                continue
            if number == 1:
                line = line.removeprefix(codecs.BOM_UTF8)
            if line.strip():
                yield number, line


def json_rows(path: Path, problems: Problems) -> Iterator[tuple[int, dict[str, Any]]]:
    """(line number, object) of a JSONL file; a line that is not an object is a problem."""
    decode = msgspec.json.Decoder().decode
    for number, line in raw_lines(path, problems):
        try:
            row = decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            try:
                row = json.loads(line) if b"NaN" in line or b"Infinity" in line else None
            except (ValueError, RecursionError):
                row = None
            if row is None:
                problems.add(f"line {number}", f"not JSON: {error}")
                continue
        if isinstance(row, dict):
            yield number, row
        else:
            problems.add(f"line {number}", "not a JSON object")


def separated_rows(path: Path, mark: str, problems: Problems) -> Iterator[tuple[int, dict[str, Any]]]:
    """(line number, row) of a CSV or TSV file; an empty cell is None, a row of another width is a problem."""
    regular_file(path)
    csv.field_size_limit(max(csv.field_size_limit(), CELL_CHARACTERS))
    with path.open(encoding="utf-8-sig", errors="replace", newline="") as text:
        reader = csv.reader(text, delimiter=mark)
        line = 1
        try:
            header = next(reader, None)
            if not header:
                raise DataError(f"{path}: the file is empty; a line of column names was expected", "Give another file.")
            line = reader.line_num + 1
            for cells in reader:
                if cells and len(cells) != len(header):
                    problems.add(f"line {line}", f"{len(cells)} fields; the header has {len(header)}")
                elif cells:
                    yield line, {name: cell or None for name, cell in zip(header, cells, strict=True)}
                line = reader.line_num + 1
        except csv.Error as error:
            problems.add(f"line {line}", f"{error}; what follows was not read")


def separator(path: Path) -> str:
    """What parts the cells: that of the file's suffix, and the tabulator in a .csv whose header has that and no comma.

    VLMEvalKit writes such files.
    """
    mark = SEPARATED[path.suffix.lower()]
    regular_file(path)
    with path.open("rb") as file:
        header = file.readline(LINE_BYTES)
    return "\t" if mark == "," and b"\t" in header and b"," not in header else mark


def table_rows(
    path: Path, problems: Problems, columns: list[str] | None = None
) -> Iterator[tuple[str, dict[str, Any]]]:
    """(where, row) of a .jsonl, .csv, .tsv, .json, .parquet or .xlsx file; `columns` spares parquet the others.

    Raises:
        DataError: the file as a whole cannot be read, or is of another kind.
        MissingExtraError: an .xlsx without openpyxl.
    """
    suffix = path.suffix.lower()
    if suffix in JSON_LINES:
        return ((f"line {number}", row) for number, row in json_rows(path, problems))
    if suffix in SEPARATED:
        return ((f"line {number}", row) for number, row in separated_rows(path, separator(path), problems))
    wanted = columns if suffix == ".parquet" else None
    return ((f"row {number}", row) for number, row in numbered(path, columns=wanted))
