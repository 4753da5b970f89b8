"""Aggregated figures of the two harnesses that EASI drives, as they stand in their files: nothing is scaled or renamed.

lmms-eval: `<time>_results.json`. VLMEvalKit: `<model>_<data>*_acc.csv`, most of them parted by tabulators. What the figures
mean, and which of them EASI's payload has, is the benchmarks' business.
"""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from snellen.errors import DataError
from snellen.formats.base import Problems
from snellen.sources.safe_paths import regular_file

BYTES = 64 << 20
LABELS = ("setting", "split")
VANILLA = "vanilla"


def read_lmms_results(path: Path) -> dict[str, dict[str, float]]:
    """Task to metric to figure of one `*_results.json`.

    A metric's name ends at its first comma (`acc,none` is `acc`; of two such the later one counts). A metric that is an
    object, as VSI-Bench's `vsibench_score` once was, gives `<metric>.<name>` for each number in it. What is no finite number
    (`N/A`, NaN, truth values) is left out. `groups` are read for tasks that `results` does not have.

    Raises:
        DataError: there is no such file, it is longer than 64 MB, no JSON, or has no object `results`.
    """
    try:
        whole = json.loads(_bytes(path).decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise DataError(
            f"{path}: not JSON: {str(error)[:200]}",
            "lmms-eval's <time>_results.json was expected; is it whole?",
        ) from error
    tables = whole.get("results") if isinstance(whole, dict) else None
    if not isinstance(tables, dict):
        raise DataError(f"{path}: there is no object 'results' in it", "lmms-eval's <time>_results.json was expected.")
    grouped = whole.get("groups")
    merged = {**(grouped if isinstance(grouped, dict) else {}), **tables}
    return {task: dict(_metrics(table)) for task, table in merged.items() if isinstance(table, dict)}


def read_all_lmms_results(paths: Iterable[Path], problems: Problems) -> dict[str, dict[str, float]]:
    """The figures of several `*_results.json`: in order of their names, of each task those of the last file that has it.

    A file that cannot be read goes to the problems, and the others are read.
    """
    found: dict[str, dict[str, float]] = {}
    for path in sorted(paths, key=lambda one: one.name):
        try:
            found.update(read_lmms_results(path))
        except DataError as error:
            problems.add(str(path), error.message.removeprefix(f"{path}: "))
    return found


def read_kit_acc(path: Path) -> dict[str, float]:
    """Column to figure of one of VLMEvalKit's `*_acc.csv`, whatever parts its cells.

    Wide tables: the figures of the first row, and where it has none that of the next row that does (SPAR-Bench's first row
    has only four). Tables whose rows are labelled by `setting` (3DSRBench) or `split`: the row `vanilla`, else the first,
    under plain names, and each row under `<label>.<column>`. Tables with the columns metric and value: one a row. What is
    no finite number is left out.

    Raises:
        DataError: there is no such file, it is longer than 64 MB, or there is no table in it.
    """
    header, rows = _table(path)
    names = [name.strip().lower() for name in header]
    if sorted(names) == ["metric", "value"]:
        at, value = names.index("metric"), names.index("value")
        listed = ((row[at].strip(), _number(row[value])) for row in rows)
        return {name: figure for name, figure in listed if name and figure is not None}
    label = next((names.index(one) for one in LABELS if one in names), None)
    found: dict[str, float] = {}
    if label is None:
        for row in rows:
            for name, figure in _figures(header, row, label):
                found.setdefault(name, figure)
        return found
    plain = next((row for row in rows if row[label].strip() == VANILLA), rows[0])
    found.update(_figures(header, plain, label))
    for row in rows:
        for name, figure in _figures(header, row, label):
            found.setdefault(f"{row[label].strip()}.{name}", figure)
    return found


def _metrics(table: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    for key, value in table.items():
        name = key.partition(",")[0].strip()
        if isinstance(value, dict):
            for part, one in value.items():
                if (figure := _number(one)) is not None:
                    yield f"{name}.{part}", figure
        elif (figure := _number(value)) is not None and not isinstance(value, str):
            yield name, figure


def _figures(header: list[str], row: list[str], label: int | None) -> Iterator[tuple[str, float]]:
    for at, (name, cell) in enumerate(zip(header, row, strict=True)):
        figure = None if at == label or not name.strip() else _number(cell)
        if figure is not None:
            yield name.strip(), figure


def _number(value: Any) -> float | None:
    """A finite number, or what a cell says of one; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    if isinstance(value, str) and (len(value) > 64 or "_" in value):
        return None
    try:
        figure = float(value)
    except (ValueError, OverflowError):
        return None
    return figure if math.isfinite(figure) else None


def _table(path: Path) -> tuple[list[str], list[list[str]]]:
    """Header and rows of a table, each row as wide as the header.

    Raises:
        DataError: the file is no table with at least one row.
    """
    lines = _bytes(path).decode("utf-8-sig", errors="replace").splitlines()
    head = next((line for line in lines if line.strip()), "")
    mark = max("\t,;", key=lambda one: head.count(one))
    try:
        # No limit of the module's is touched: a cell of more than 131,072 characters is no figure.
        rows = [row for row in csv.reader(lines, delimiter=mark) if any(cell.strip() for cell in row)]
    except csv.Error as error:
        raise DataError(f"{path}: not a table: {error}", "VLMEvalKit's *_acc.csv was expected.") from error
    if len(rows) < 2:
        raise DataError(
            f"{path}: {len(rows)} rows; a line of names and at least one of figures were expected",
            "VLMEvalKit's *_acc.csv was expected; is it whole?",
        )
    header = rows[0]
    return header, [(row + [""] * len(header))[: len(header)] for row in rows[1:]]


def _bytes(path: Path) -> bytes:
    size = regular_file(path).st_size
    if size > BYTES:
        raise DataError(f"{path}: {size:,} bytes; a file of figures has far fewer than {BYTES:,}", "Give another file.")
    return path.read_bytes()
