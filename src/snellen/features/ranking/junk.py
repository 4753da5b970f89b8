"""Junk lists: gallery items that are removed from the ranking of single queries.

Junk items are neither relevant nor irrelevant: those behind them move up, as in revisited Oxford and Paris (Radenovic et
al. 2018, arXiv 1803.11285) and in person re-identification, where images of the query's own camera are junk.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from snellen.errors import DataError, UsageError

HEADER = ["query", "item"]
"""The first line that a CSV file may have."""

Junk: TypeAlias = "Mapping[int, Iterable[int]]"


def junk_pairs(
    junk: Junk | None, queries: NDArray[np.int64], gallery: NDArray[np.int64], rows: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return pairs (place of the query, place of the item), each once, ordered by query, then by item.

    A query itself and rows outside the gallery are in no ranking anyway and are dropped.

    Args:
        junk: row number of a query to the row numbers of its junk.
        queries, gallery: row numbers.
        rows: how many rows there are.

    Raises:
        UsageError: a row number that does not exist, or a row with junk that is no query.
    """
    if not junk:
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    pairs = [(int(query), int(item)) for query, items in junk.items() for item in items]
    for role, numbers in (("query", list(junk)), ("junk", [item for _, item in pairs])):
        outside = next((number for number in numbers if not 0 <= int(number) < rows), None)
        if outside is not None:
            raise UsageError(f"junk: {role} row {outside} of {rows:,}", "Row numbers go from 0 to n - 1.")
    query_place, item_place = (np.full(rows, -1, dtype=np.int64) for _ in range(2))
    query_place[queries], item_place[gallery] = np.arange(len(queries)), np.arange(len(gallery))
    stray = next((int(query) for query in junk if query_place[int(query)] < 0), None)
    if stray is not None:
        raise UsageError(f"junk: row {stray} has junk but is no query", "Give junk for the rows of `queries` only.")
    table = np.array(pairs, dtype=np.int64).reshape(-1, 2)
    table = table[(table[:, 0] != table[:, 1]) & (item_place[table[:, 1]] >= 0)]
    cells = np.unique(query_place[table[:, 0]] * len(gallery) + item_place[table[:, 1]])
    return cells // max(len(gallery), 1), cells % max(len(gallery), 1)


def read_junk(
    path: Path, ids: NDArray[Any], queries: NDArray[np.int64], gallery: NDArray[np.int64]
) -> dict[int, list[int]]:
    """Read junk by ids: a JSON object of lists, `{"query id": ["item id", ...]}`, or CSV lines `query id,item id`,
    behind a first line `query,item` or not.

    Args:
        path: the file; `.csv` is CSV, another ending JSON.
        ids: [n] ids of all rows.
        queries, gallery: row numbers among which the ids are sought; an id that several rows have means all of them.

    Raises:
        DataError: the file cannot be read, has another shape, or names an id that no query or no gallery row has.
    """
    lists = _read_csv(path) if path.suffix.lower() == ".csv" else _read_json(path)
    query_rows, item_rows = _rows_by_id(ids, queries), _rows_by_id(ids, gallery)
    junk: dict[int, list[int]] = {}
    for query, items in lists.items():
        if query not in query_rows:
            raise DataError(f"{path}: no query has the id {query!r}", _known("queries", query_rows))
        for item in items:
            if item not in item_rows:
                raise DataError(
                    f"{path}: {query!r} has the junk {item!r}, which is no id of the gallery",
                    _known("gallery", item_rows),
                )
        for row in query_rows[query]:
            junk.setdefault(row, []).extend(number for item in items for number in item_rows[item])
    return junk


def _rows_by_id(ids: NDArray[Any], rows: NDArray[np.int64]) -> dict[str, list[int]]:
    by_id: dict[str, list[int]] = {}
    for row in rows.tolist():
        by_id.setdefault(str(ids[row]), []).append(row)
    return by_id


def _known(role: str, rows: Mapping[str, Any]) -> str:
    return f"Ids are those of the store's rows.parquet; the {role} begin with: {', '.join(list(rows)[:3]) or '(none)'}."


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"cannot read {path}: {error}", "Give a JSON or CSV file with --junk.") from error


def _read_json(path: Path) -> dict[str, list[str]]:
    try:
        lists = json.loads(_read_text(path))
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path} is no JSON: {error}", "Name CSV files *.csv.") from error
    if not isinstance(lists, dict) or not all(
        isinstance(items, list) and all(isinstance(item, str) for item in items) for items in lists.values()
    ):
        raise DataError(
            f"{path} holds another shape than an object of lists of ids",
            'As in {"query.jpg": ["junk 1.jpg", "junk 2.jpg"]}.',
        )
    return lists


def _read_csv(path: Path) -> dict[str, list[str]]:
    lists: dict[str, list[str]] = {}
    try:
        for number, line in enumerate(csv.reader(_read_text(path).splitlines(), strict=True), start=1):
            if not line or (number == 1 and line == HEADER):
                continue
            if len(line) != 2:
                raise DataError(
                    f"{path}, line {number:,}: {len(line)} cells; `query id,item id` was expected",
                    "Quote ids that contain commas.",
                )
            lists.setdefault(line[0], []).append(line[1])
    except csv.Error as error:
        raise DataError(f"{path} is no CSV: {error}", "Write one `query id,item id` a line.") from error
    return lists
