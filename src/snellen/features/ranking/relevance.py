"""Relevance of gallery items to queries, by the same class or a shared label, and junk items that are removed from the ranking of single queries."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from snellen.errors import DataError, UsageError
from snellen.features.store.labels import Labels, find_columns, from_array, from_lists, one_each

Flat: TypeAlias = tuple[NDArray[np.int64], NDArray[np.int64]]
RowsOf: TypeAlias = "NDArray[Any] | Sequence[int] | str | None"


def as_labels(labels: Any, rows: int) -> Labels:
    """Convert labels to the form that measures take.

    Args:
        labels: Labels; [n] integers (gaps and negative ids are fine) or texts; [n, c] of 0 and 1; or n sets of ids.
        rows: how many rows the features have.

    Raises:
        DataError: another shape or kind, or another number of rows.
    """
    if isinstance(labels, Labels):
        known = labels
    elif isinstance(labels, np.ndarray):
        known = from_array(labels, None, "labels", lambda row: f"row {row}")
    else:
        rows_of_labels = list(labels)
        if (
            rows_of_labels
            and isinstance(rows_of_labels[0], Iterable)
            and not isinstance(rows_of_labels[0], (str, bytes, np.ndarray))
        ):
            known = from_lists([[int(class_id) for class_id in row] for row in rows_of_labels], None, "labels")
        else:
            array = np.asarray(rows_of_labels) if rows_of_labels else np.zeros(0, dtype=np.int64)
            known = from_array(array, None, "labels", lambda row: f"row {row}")
    if len(known) != rows:
        raise DataError(f"{len(known):,} labels for {rows:,} rows of features", "Give one label a row.")
    return known if isinstance(labels, Labels) else one_each(known)


def single_labels(labels: Labels) -> NDArray[np.int64]:
    """Return [n] class ids of rows that have one each. Raises UsageError if rows may have several."""
    if labels.single is None:
        raise UsageError(
            "these rows have several labels each, and a vote of neighbours names one class",
            "Use retrieval (items that share a label are relevant) or the multi-label probe.",
        )
    return np.asarray(labels.single)


def select_rows(chosen: RowsOf, split: Sequence[str] | NDArray[Any] | None, rows: int, role: str) -> NDArray[np.int64]:
    """Return the row numbers of queries or gallery.

    Args:
        chosen: row numbers, a bool mask, the name of a split, or None for all rows.
        split: [n] names of splits; needed where `chosen` is a name.
        role: "queries" or "gallery", for messages.

    Raises:
        UsageError: a row that is not there or comes twice, or a split that no row has.
    """
    if chosen is None:
        return np.arange(rows, dtype=np.int64)
    if isinstance(chosen, str):
        if split is None:
            raise UsageError(f"{role} are given as split {chosen!r}, but the rows have no splits", "Give row numbers.")
        names = np.asarray(split).astype(str)
        matches = np.flatnonzero(names == chosen)
        if not len(matches) and not any(names):
            raise UsageError(
                f"{role}: no row is in split {chosen!r}; the rows have no splits",
                "Import them with a split for each row, or extract with --split NAME=FILE.",
            )
        if not len(matches):
            raise UsageError(
                f"{role}: no row is in split {chosen!r}; there are: {', '.join(map(repr, np.unique(names).tolist()))}",
                "Name one of these.",
            )
        return matches.astype(np.int64)
    index = np.asarray(chosen)
    if index.dtype == bool:
        if index.shape != (rows,):
            raise UsageError(f"{role}: a mask of shape {list(index.shape)} for {rows:,} rows", "Give one bool a row.")
        return np.flatnonzero(index).astype(np.int64)
    if index.ndim != 1 or (len(index) and index.dtype.kind not in "iu"):
        raise UsageError(
            f"{role}: row numbers of shape {list(index.shape)} and type {index.dtype}", "Give [k] integers."
        )
    index = index.astype(np.int64)
    if len(index) and (index.min() < 0 or index.max() >= rows):
        raise UsageError(f"{role}: rows {index.min()} to {index.max()} of {rows:,}", "Row numbers go from 0 to n - 1.")
    if len(np.unique(index)) != len(index):
        raise UsageError(f"{role}: a row number comes twice", "Give every row once.")
    return index


class Relevance(Struct, frozen=True, eq=False):
    """Relevant gallery items of each query; items and queries by their place.

    Attributes:
        selves: [q] the query's own place in the gallery, -1 where it is not there.
        counts: [q] relevant items of each query, itself and its junk left out.
        cluster: [q] equal for queries of the same class (or the same set of labels).
        junk: pairs (query, item) that are in no ranking, ordered by query, then by item.
    """

    selves: NDArray[np.int64]
    counts: NDArray[np.int64]
    cluster: NDArray[np.int64]
    order: NDArray[np.int64]
    starts: NDArray[np.int64]
    sizes: NDArray[np.int64]
    query_class: NDArray[np.int64]
    query_many: NDArray[np.float32] | None
    gallery_many: NDArray[np.float32] | None
    junk: Flat

    def of(self, queries: NDArray[np.int64]) -> Flat:
        """Return pairs (place in `queries`, place in the gallery) of all relevant items, ordered by query, then by item."""
        if self.query_many is not None and self.gallery_many is not None:
            shared = self.query_many[queries] @ self.gallery_many.T > 0.5
            row, item = np.nonzero(shared)
        else:
            row, item = class_members(self.order, self.starts, self.sizes, self.query_class[queries])
        keep = item != self.selves[queries][row]
        if len(self.junk[0]):
            junk_row, junk_item = self.junk_of(queries)
            width = 1 + max(int(item.max(initial=0)), int(junk_item.max(initial=0)))
            keep &= ~np.isin(row * width + item, junk_row * width + junk_item)
        return row[keep].astype(np.int64), item[keep].astype(np.int64)

    def junk_of(self, queries: NDArray[np.int64]) -> Flat:
        """Return pairs (place in `queries`, place in the gallery) of the junk of some queries (ascending)."""
        query, item = self.junk
        first, last = np.searchsorted(query, queries), np.searchsorted(query, queries, side="right")
        size = last - first
        row = np.repeat(np.arange(len(queries)), size)
        within = np.arange(len(row)) - np.repeat(np.cumsum(size) - size, size)
        return row, item[np.repeat(first, size) + within]


def class_members(
    order: NDArray[np.int64], starts: NDArray[np.int64], sizes: NDArray[np.int64], codes: NDArray[np.int64]
) -> Flat:
    """Return the members of the classes `codes` (-1: none), one after the other: (place in `codes`, member)."""
    length = np.where(codes >= 0, sizes[codes], 0) if len(sizes) else np.zeros(len(codes), dtype=np.int64)
    row = np.repeat(np.arange(len(codes)), length)
    within = np.arange(len(row)) - np.repeat(np.cumsum(length) - length, length)
    return row, order[starts[codes[row]] + within] if len(row) else row


def find_relevant(
    labels: Labels, queries: NDArray[np.int64], gallery: NDArray[np.int64], junk: Junk | None = None
) -> Relevance:
    """Find the relevance of gallery rows to query rows: the same class, or at least one label in common; never a row itself.

    `junk`: row number of a query to row numbers that are removed from its ranking. Raises UsageError as `junk_pairs`.
    """
    pairs = junk_pairs(junk, queries, gallery, len(labels))
    place = np.full(len(labels), -1, dtype=np.int64)
    place[gallery] = np.arange(len(gallery))
    selves = place[queries]
    none = np.zeros(0, dtype=np.int64)
    if labels.many is not None:
        query_many, gallery_many = labels.many[queries].astype(np.float32), labels.many[gallery].astype(np.float32)
        counts = np.zeros(len(queries), dtype=np.int64)
        for start in range(0, len(queries), 256):
            counts[start : start + 256] = (query_many[start : start + 256] @ gallery_many.T > 0.5).sum(axis=1)
        counts -= (selves >= 0) & (query_many.sum(axis=1) > 0)
        for start in range(0, len(pairs[0]), 65_536):
            query, item = (ends[start : start + 65_536] for ends in pairs)
            shared = np.einsum("pc,pc->p", query_many[query], gallery_many[item]) > 0.5
            counts -= np.bincount(query[shared], minlength=len(queries))
        _, cluster = np.unique(labels.many[queries], axis=0, return_inverse=True)
        return Relevance(selves, counts, cluster.reshape(-1), none, none, none, none, query_many, gallery_many, pairs)
    classes_of = single_labels(labels)
    classes, codes = np.unique(classes_of[gallery], return_inverse=True)
    order = np.argsort(codes, kind="stable").astype(np.int64)
    sizes = np.bincount(codes, minlength=len(classes)).astype(np.int64)
    starts = np.cumsum(sizes) - sizes
    query_class = find_columns(classes, classes_of[queries])
    counts = np.where(query_class >= 0, sizes[query_class], 0) if len(sizes) else np.zeros_like(query_class)
    counts = counts - (selves >= 0)
    if len(pairs[0]):
        shared = query_class[pairs[0]] == codes[pairs[1]]
        counts = counts - np.bincount(pairs[0][shared], minlength=len(queries))
    return Relevance(selves, counts, classes_of[queries], order, starts, sizes, query_class, None, None, pairs)


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
