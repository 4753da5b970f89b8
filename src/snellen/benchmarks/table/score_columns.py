"""Scores as arrays for a declaration's figures: values, gold and read answers, and groups of rows, all by row.

A row that counts once for each element of a list (`repeat_row`) is repeated here, in no more than this table.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from snellen.benchmarks.table.meta import column_name
from snellen.scoring.scores import Column, Scores, cluster_index
from snellen.scoring.statistics import scored

Mask = NDArray[np.bool_]
GOLD, READ, CHANCE, REPEAT = "target", "reply", "chance", "repeat"
"""Meta columns of gold answers, of answers read from replies, of chance, and of the number of a repeat."""
MAX_JOINS = 64


@dataclass(frozen=True)
class ScoreColumns:
    """Arrays of [n] rows.

    Attributes:
        scores: the rows, repeated where the declaration says so.
        value: the score, 0 for failed and unreadable rows.
        counted: rows that have a score.
        groups: by group, the number of the group of each row; -1 for rows of none, or of one that is not complete.
        each: columns whose values are lists, to what stands between the elements; a row has the value of each of them.
    """

    scores: Scores
    value: NDArray[np.float64]
    counted: Mask
    groups: dict[str, NDArray[np.int64]]
    each: Mapping[str, str] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.value)

    def has(self, column: str) -> bool:
        """Return True if any row has a value in a meta column."""
        return column in self.scores.meta

    def equals(self, column: str, value: str) -> Mask:
        """Return a mask of the rows with this value."""
        return self._having(self.scores, column, value)

    def _having(self, scores: Scores, column: str, value: str) -> Mask:
        values = scores.meta.get(column)
        if values is None:
            return np.zeros(len(scores), dtype=bool)
        if column in self.each:
            wanted = [code for code, name in enumerate(values.names) if value in self._elements(column, name)]
            return np.isin(values.codes, wanted)
        return np.equal(values.codes, values.names.index(value) if value in values.names else -2)

    def _elements(self, column: str, name: str) -> list[str]:
        return name.split(self.each[column]) if column in self.each else [name]

    def expected_where(self, values: Mapping[str, str]) -> int:
        """Count the rows of a complete run that have all these values."""
        if not self.each.keys() & values.keys():
            return self.scores.expected_where(values)
        missing = self.scores.missing
        others = None if missing is None else np.ones(len(missing), dtype=bool)
        for column, value in values.items():
            if missing is not None and others is not None:
                others &= self._having(missing, column, value)
        return self.scores.select(self.where(values), others).expected

    def codes(self, column: str, only: Sequence[str] = ()) -> NDArray[np.int64]:
        """Return a number from 0 for each value of a meta column, of `only` these if any; -1 for rows without one."""
        values = self.scores.meta.get(column)
        if values is None:
            return np.full(len(self), -1, dtype=np.int64)
        wanted = [name != "" and (not only or name in only) for name in values.names]
        number = np.where(wanted, np.arange(len(wanted)), -1) if wanted else np.zeros(0, dtype=np.int64)
        return np.append(number, -1)[values.codes].astype(np.int64)

    def where(self, values: Mapping[str, str]) -> Mask:
        """Return a mask of the rows that have all these values."""
        rows = np.ones(len(self), dtype=bool)
        for column, value in values.items():
            rows &= self.equals(column, value)
        return rows

    def values_of(self, column: str, rows: Mask) -> list[str]:
        """Return the values of a meta column that these rows have, in alphabetical order."""
        values = self.scores.meta.get(column)
        if values is None:
            return []
        codes = np.unique(values.codes[rows])
        named = (values.names[code] for code in codes if code >= 0)
        return sorted({value for name in named for value in self._elements(column, name) if value != ""})

    def chances(self) -> NDArray[np.float64] | None:
        """Return the chance of each row; None unless every row has one."""
        column = self.scores.meta.get(CHANCE)
        return None if column is None or not len(self) else column.numbers()

    def filled(self, column: str) -> Mask:
        """Return a mask of the rows that have a value in a meta column."""
        values = self.scores.meta.get(column)
        return np.zeros(len(self), dtype=bool) if values is None else np.greater_equal(values.codes, 0)

    def numbers(self, column: str, missing: float = 0.0) -> NDArray[np.float64]:
        """Return a meta column of numbers, `missing` for rows without one."""
        values = self.scores.meta.get(column)
        if values is None:
            return np.full(len(self), missing)
        return np.array([*map(float, values.names), missing])[values.codes]

    def clusters(self, groups: Iterable[str]) -> NDArray[np.int64]:
        """Return the cluster of each row, clusters joined that share a group of rows."""
        _, label = np.unique(self.scores.group, return_inverse=True)
        label = label.reshape(-1).astype(np.int64)
        start = label.copy()
        used = [self.groups[name] for name in groups]
        for _ in range(MAX_JOINS if used else 0):
            before = label.copy()
            for number in (*used, start):
                label = _least(label, number)
            if np.array_equal(label, before):
                break
        return label


def _least(label: NDArray[np.int64], number: NDArray[np.int64]) -> NDArray[np.int64]:
    """Give all rows of one number the least label among them."""
    inside = number >= 0
    if not inside.any():
        return label
    least = np.full(int(number.max()) + 1, np.iinfo(np.int64).max)
    np.minimum.at(least, number[inside], label[inside])
    joined = label.copy()
    joined[inside] = least[number[inside]]
    return joined


def score_columns(scores: Scores, groups: Sequence[str], repeated: Mapping[str, str]) -> ScoreColumns:
    """Return the arrays of scores.

    Args:
        groups: names of the declared groups.
        repeated: meta columns that hold lists, for each element of which a row counts once, to their separators.
    """
    value, counted = scored(scores)
    value = np.where(counted, value, 0.0)
    numbers = {name: _group_numbers(scores, counted, name) for name in groups}
    rows, meta = np.arange(len(scores)), dict(scores.meta)
    for name, separator in repeated.items():
        if name in meta:
            times, flat = _elements(meta[name], separator)
            rows = np.repeat(rows, times)
            meta = {other: Column(np.repeat(column.codes, times), column.names) for other, column in meta.items()}
            meta[name] = flat
    missing_meta = {} if scores.missing is None else scores.missing.meta
    if not any(name in meta or name in missing_meta for name in repeated):
        return ScoreColumns(scores, value, counted, numbers)
    missing = None if scores.missing is None else score_columns(scores.missing, (), repeated).scores
    before, after = (len(scores), len(rows)) if missing is None or scores.missing is None else (
        len(scores) + len(scores.missing), len(rows) + len(missing),
    )  # fmt: skip
    wide = Scores(
        scores.value[rows], scores.verdict[rows], scores.group[rows], scores.question[rows], meta,
        round(scores.expected * after / max(1, before)), missing, scores.derived,
    )  # fmt: skip
    return ScoreColumns(wide, value[rows], counted[rows], {name: number[rows] for name, number in numbers.items()})


def _elements(column: Column, separator: str) -> tuple[NDArray[np.int64], Column]:
    """Return how often each row counts, and the column with one element a row."""
    parts = [name.split(separator) for name in column.names]
    names = sorted({part for several in parts for part in several})
    code_of = {name: code for code, name in enumerate(names)}
    codes = [np.array([code_of[part] for part in several], dtype=np.int32) for several in parts]
    lengths = np.array([len(several) for several in parts] + [1], dtype=np.int64)
    missing = np.array([-1], dtype=np.int32)
    flat = [missing if code < 0 else codes[code] for code in column.codes]
    return lengths[column.codes], Column(np.concatenate(flat) if flat else missing[:0], tuple(names))


def _group_numbers(scores: Scores, counted: Mask, name: str) -> NDArray[np.int64]:
    """Number the groups from 0; repeats of a question form groups of their own."""
    column = scores.meta.get(column_name(name))
    if column is None:
        return np.full(len(scores), -1, dtype=np.int64)
    repeat = scores.meta.get(REPEAT)
    codes = column.codes.astype(np.int64)
    again = np.zeros(len(scores), dtype=np.int64) if repeat is None else repeat.codes.astype(np.int64) + 1
    width = 1 if repeat is None else len(repeat.names) + 1
    number, _ = cluster_index(codes * width + again)
    number = number.astype(np.int64)
    keys = np.array([int(key.partition(":")[0]) if key else 0 for key in (*column.names, "")], dtype=np.int64)
    size = keys[column.codes]
    rows_scored = np.bincount(number[counted], minlength=int(number.max()) + 1 if len(number) else 0)
    complete = (rows_scored[number] >= size) & (size > 0) if len(number) else np.zeros(0, dtype=bool)
    return np.where(complete, number, -1)
