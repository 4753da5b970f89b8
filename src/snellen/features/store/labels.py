"""Class labels of rows: one class a row, or any number of them; ids may have gaps, names may be missing."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from msgspec import Struct

from snellen.errors import DataError

NUMBERS = re.compile(r"\s*[+-]?\d+(\s+[+-]?\d+)*\s*")

# How an error calls a row: "row 17", "line 18 of train.csv".
Place = Callable[[int], str]


class Labels(Struct, frozen=True, eq=False):
    """Labels of n rows: either `single` or `many` is set.

    Attributes:
        classes: [c] int64, ascending: the ids of all classes that a row has, that have a name, or (of a 0/1 matrix)
            that have a column. Ids may have gaps: the j-th class is `classes[j]`, not j.
        single: [n] int64, the class id of each row as it was given; None where rows may have several.
        many: [n, c] bool, whether row i has the class `classes[j]`; None where each row has one. A row may have none.
        names: [c] texts, the name of `classes[j]`; None where classes have no names.
    """

    classes: np.ndarray
    single: np.ndarray | None = None
    many: np.ndarray | None = None
    names: tuple[str, ...] | None = None

    def __len__(self) -> int:
        rows = self.single if self.single is not None else self.many
        return 0 if rows is None else len(rows)

    @property
    def columns(self) -> np.ndarray:
        """[n] int64 with gaps closed: position in `classes` of each row's class. Only where labels are `single`."""
        if self.single is None:
            raise ValueError("rows may have several labels; use `many`")
        return np.searchsorted(self.classes, self.single).astype(np.int64)

    def take(self, rows: np.ndarray | slice) -> Labels:
        """Take the labels of some rows, in their order; classes and names stay, also those that no row is left of."""
        return Labels(
            self.classes,
            None if self.single is None else self.single[rows],
            None if self.many is None else self.many[rows],
            self.names,
        )

    def name(self, column: int) -> str:
        """Return the name of the class `classes[column]`, else its id."""
        return str(self.classes[column]) if self.names is None else self.names[column]

    def ids(self) -> list[list[int]]:
        """Return the class ids of every row, ascending, as lists."""
        if self.single is not None:
            return [[int(class_id)] for class_id in self.single]
        if self.many is not None:
            return [[int(class_id) for class_id in self.classes[row]] for row in self.many]
        return []


def find_columns(classes: np.ndarray, ids: np.ndarray) -> np.ndarray:
    """Return [n] int64, the place of each class id among ascending `classes`; -1 for an id that is not there."""
    if not len(classes):
        return np.full(len(ids), -1, dtype=np.int64)
    at = np.minimum(np.searchsorted(classes, ids), len(classes) - 1)
    return np.where(classes[at] == ids, at, -1).astype(np.int64)


def as_texts(values: np.ndarray) -> list[str]:
    """Convert an array of texts, bytes or other values to texts; bytes are read as UTF-8."""
    return [value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value) for value in values.tolist()]


def from_ids(ids: np.ndarray, names: Sequence[str] | None, where: str) -> Labels:
    """Build labels from one class id a row.

    Args:
        ids: [n] integers; gaps and negative numbers are ids like any other.
        names: names[id] is the name of a class, as in a file of one name a line; None where there are none.
        where: the file, for messages.

    Raises:
        DataError: a class has no name among `names`.
    """
    present = np.unique(ids).astype(np.int64)
    classes, called = _named(present, names, where)
    return Labels(classes, single=np.ascontiguousarray(ids, dtype=np.int64), names=called)


def from_lists(rows: Sequence[Sequence[int]], names: Sequence[str] | None, where: str) -> Labels:
    """Build labels from any number of class ids a row, none included. Raises DataError where a class has no name among `names`."""
    lengths = np.fromiter((len(row) for row in rows), np.int64, len(rows))
    flat = np.fromiter((class_id for row in rows for class_id in row), np.int64, int(lengths.sum()))
    classes, called = _named(np.unique(flat), names, where)
    many = np.zeros((len(rows), len(classes)), dtype=bool)
    many[np.repeat(np.arange(len(rows)), lengths), np.searchsorted(classes, flat)] = True
    return Labels(classes, many=many, names=called)


def from_texts(texts: Sequence[str], names: Sequence[str] | None, where: str, place: Place) -> Labels:
    """Build labels from texts: numbers ("3"), several numbers between blanks ("3 17"), or names of classes.

    They are numbers where every text is; several a row where any text holds several, or is empty beside numbers.
    Else each text is the name of a class: its id is its place in `names`, or in the sorted order of the texts.

    Raises:
        DataError: an empty label where rows have one each, or a name that is not among `names`.
    """
    filled = [text for text in texts if text.strip()]
    if filled and all(NUMBERS.fullmatch(text) for text in filled):
        rows = [[int(number) for number in text.split()] for text in texts]
        outside = next((i for i, row in enumerate(rows) if any(abs(number) >= 1 << 63 for number in row)), None)
        if outside is not None:
            raise DataError(
                f"{where}: {place(outside)}: the label {texts[outside]!r} is no 64-bit integer",
                "Renumber the classes.",
            )
        if any(len(row) > 1 for row in rows):
            return from_lists(rows, names, where)
        _refuse_empty(texts, where, place)
        return from_ids(np.array([row[0] for row in rows], dtype=np.int64), names, where)
    _refuse_empty(texts, where, place)
    if names is None:
        known = sorted(set(texts))
        index = {name: number for number, name in enumerate(known)}
        return from_ids(np.array([index[text] for text in texts], dtype=np.int64), known, where)
    index = {name: number for number, name in enumerate(names)}
    unknown = next((i for i, text in enumerate(texts) if text not in index), None)
    if unknown is not None:
        raise DataError(
            f"{where}: {place(unknown)}: the label {texts[unknown]!r} is not among the {len(names):,} class names",
            "Labels are numbers or, letter by letter, names of the list.",
        )
    return from_ids(np.array([index[text] for text in texts], dtype=np.int64), names, where)


def from_array(labels: Any, names: Sequence[str] | None, where: str, place: Place) -> Labels:
    """Build labels from an array.

    Args:
        labels: [n] or [n, 1] integers, whole floats, bools or texts; or [n, c] of 0 and 1, where column j is class j.

    Raises:
        DataError: another shape or kind of values, naming the row.
    """
    labels = np.asarray(labels)
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.dtype.kind in "SU" and labels.ndim == 1:
        return from_texts(as_texts(labels), names, where, place)
    if labels.ndim not in (1, 2) or labels.dtype.kind not in "biuf":
        raise DataError(
            f"{where}: labels of shape {list(labels.shape)} and type {labels.dtype}; [rows] integers or texts, "
            "or [rows, classes] of 0 and 1, were expected",
            "Save labels as an array of integers.",
        )
    if labels.ndim == 2:
        wrong = np.flatnonzero(~np.isin(labels, (0, 1)).all(axis=1))
        if len(wrong):
            raise DataError(
                f"{where}: {place(int(wrong[0]))}: labels of shape {list(labels.shape)} hold more than 0 and 1",
                "A label matrix says with 1 which classes a row has; a vector gives one class a row.",
            )
        many = labels.astype(bool)
        if names is not None and len(names) != many.shape[1]:
            raise DataError(
                f"{where}: {len(names):,} class names for {many.shape[1]:,} label columns", "Give one name a column."
            )
        called = None if names is None else tuple(names)
        return Labels(np.arange(many.shape[1], dtype=np.int64), many=many, names=called)
    ids = labels
    if labels.dtype.kind == "f":
        wrong = np.flatnonzero(~(np.isfinite(labels) & (labels == np.floor(labels)) & (np.abs(labels) < 2.0**63)))
        if len(wrong):
            raise DataError(
                f"{where}: {place(int(wrong[0]))}: the label {labels[wrong[0]]} is no whole number",
                "Class ids are whole numbers.",
            )
        ids = labels.astype(np.int64)
    elif labels.dtype.kind == "u" and len(labels) and int(labels.max()) >= 1 << 63:
        raise DataError(f"{where}: the label {labels.max()} is no 64-bit integer", "Renumber the classes.")
    return from_ids(ids.astype(np.int64), names, where)


def one_each(labels: Labels) -> Labels:
    """Return labels of which each row has exactly one as `single`: a one-hot matrix, lists of one id. Others stay as they are."""
    if labels.many is None or not (labels.many.sum(axis=1) == 1).all():
        return labels
    return Labels(labels.classes, single=labels.classes[labels.many.argmax(axis=1)], names=labels.names)


def _refuse_empty(texts: Sequence[str], where: str, place: Place) -> None:
    empty = next((i for i, text in enumerate(texts) if not text.strip()), None)
    if empty is not None:
        raise DataError(
            f"{where}: {place(empty)}: it has no label", "Every row needs one; remove the rows without a label."
        )


def _named(present: np.ndarray, names: Sequence[str] | None, where: str) -> tuple[np.ndarray, tuple[str, ...] | None]:
    """Return all classes, ascending, with their names: those that occur and those that have a name."""
    if names is None:
        return present, None
    outside = present[(present < 0) | (present >= len(names))]
    if len(outside):
        raise DataError(
            f"{where}: class {outside[0]} has no name: the list of names has {len(names):,} (0 to {len(names) - 1:,})",
            "Give a name for every class id, in the order of the ids, or no names.",
        )
    return np.arange(len(names), dtype=np.int64), tuple(names)
