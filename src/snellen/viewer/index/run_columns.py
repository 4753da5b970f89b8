"""Columns of one run's part of the index, mapped into memory: numbers as arrays, texts by row."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from snellen.viewer.index.run_state import CODES, OTHER_STATUS, RunIndexState
from snellen.viewer.index.sample_sets import SampleSet
from snellen.viewer.index.storage import ColumnFile, open_columns

ANSWER_STATUSES = 2
"""Codes of a record's status below this are answers."""


class MappedColumns:
    """Columns of several files, one after the other."""

    def __init__(self, folder: Path, files: Sequence[ColumnFile]) -> None:
        tables = [open_columns(folder, file) for file in files]
        self.whole = all(table is not None for table in tables)
        self._batches = [batch for table in tables if table is not None for batch in table.to_batches()]
        self._starts = np.cumsum([0, *(batch.num_rows for batch in self._batches)])
        self._begins: list[int] = self._starts.tolist()
        self.rows = self._begins[-1]

    def array(self, name: str, dtype: Any) -> NDArray[Any]:
        """Return a column of numbers; nulls of floats are NaN."""
        parts = [batch.column(name).to_numpy(zero_copy_only=False) for batch in self._batches]
        return np.concatenate(parts).astype(dtype, copy=False) if parts else np.zeros(0, dtype)

    def fill(self, into: NDArray[Any], name: str) -> None:
        """Write a column of whole numbers without nulls into an array, as far as either reaches."""
        for start, batch in zip(self._starts[:-1].tolist(), self._batches, strict=True):
            part = into[start : start + batch.num_rows]
            part[:] = batch.column(name).to_numpy(zero_copy_only=False)[: len(part)]

    def value(self, name: str, row: int) -> Any:
        """Return one cell."""
        batch = bisect_right(self._begins, row) - 1
        return self._batches[batch].column(name)[row - self._begins[batch]].as_py()

    def lists(self, name: str) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """Return all items of a column of lists, and the row of each."""
        items, rows = [np.zeros(0, np.int32)], [np.zeros(0, np.int64)]
        for start, batch in zip(self._starts[:-1], self._batches, strict=True):
            column = batch.column(name)
            lengths = np.diff(column.offsets.to_numpy())
            items.append(column.flatten().to_numpy(zero_copy_only=False))
            rows.append(np.repeat(np.arange(batch.num_rows, dtype=np.int64) + int(start), lengths))
        return np.concatenate(items), np.concatenate(rows)

    def items(self, name: str) -> NDArray[np.int32]:
        """Return all items of a column of lists."""
        parts = [batch.column(name).flatten().to_numpy(zero_copy_only=False) for batch in self._batches]
        return np.concatenate(parts) if parts else np.zeros(0, np.int32)

    def batches(self) -> list[pa.RecordBatch]:
        """Return the rows as record batches."""
        return self._batches


class RunColumns:
    """The records of one run and their scores, by row of the index.

    Attributes:
        state: what the index holds of the run.
        rows, scores: the columns of the files.
    """

    def __init__(self, folder: Path, state: RunIndexState) -> None:
        self.state, self.folder = state, folder
        self.rows = MappedColumns(folder, state.rows)
        self.scores = MappedColumns(folder, state.scores)
        self.saved = MappedColumns(folder, [] if state.predictions is None else [state.predictions])
        self.whole = self.rows.whole and self.scores.whole

    @property
    def profiles(self) -> tuple[str, ...]:
        """Return the profiles that there are verdicts of, the default one first."""
        return tuple(self.state.profiles) or ((self.state.saved_profile,) if self.saved.rows else ())

    def source(self, profile: str, row: int) -> tuple[MappedColumns, int] | None:
        """Return the columns that hold a record's score under a profile, and their number; None if there are none."""
        column = self.state.profiles.get(profile)
        if column is not None and row < self.scores.rows:
            return self.scores, column
        return (self.saved, 0) if self._uses_saved(profile) and row < self.saved.rows else None

    def _uses_saved(self, profile: str) -> bool:
        return bool(self.saved.rows) and profile == self.state.saved_profile

    @cached_property
    def ordinal(self) -> NDArray[np.int32]:
        """Return the number of each record's sample in its set."""
        return self.rows.array("ordinal", np.int32)

    @cached_property
    def repeat(self) -> NDArray[np.int32]:
        """Return the repeat of each record."""
        return self.rows.array("repeat", np.int32)

    @cached_property
    def status(self) -> NDArray[np.uint8]:
        """Return the status of each record, by code."""
        return self.rows.array("status", np.uint8)

    def codes(self, profile: str) -> NDArray[np.uint8]:
        """Return the verdict of each record under a profile, by code; one more for `missing` at the end."""
        sources = self._sources(profile)
        codes = np.empty(self.rows.rows + 1, np.uint8)
        codes[-1] = CODES["missing"]
        if not sources or sources[-1][0].rows < self.rows.rows:
            failed = (self.status >= ANSWER_STATUSES) & (self.status <= OTHER_STATUS)
            codes[:-1] = np.where(failed, CODES["failed"], CODES["unknown"])
        for columns, column in sources:
            columns.fill(codes[:-1], f"{column}.code")
        return codes

    def answers(self, profile: str) -> NDArray[np.uint32]:
        """Return a number for what was read from each reply, 0 for nothing; one more 0 at the end."""
        answers = np.zeros(self.rows.rows + 1, np.uint32)
        for columns, column in self._sources(profile):
            columns.fill(answers[:-1], f"{column}.answer")
        return answers

    def confidences(self, profile: str) -> NDArray[np.float32]:
        """Return the probability of the option that was read from each reply, NaN for none; one more NaN at the end."""
        confidences = np.full(self.rows.rows + 1, np.nan, np.float32)
        column = self.state.profiles.get(profile)
        if column is not None and self.state.has_confidence:
            known = self.scores.array(f"{column}.confidence", np.float32)[: self.rows.rows]
            confidences[: len(known)] = known
        return confidences

    def places_as(self, other: RunColumns) -> bool:
        """Return True if the records of another run are of the same samples and repeats, in the same order."""
        return np.array_equal(self.ordinal, other.ordinal) and np.array_equal(self.repeat, other.repeat)

    def _sources(self, profile: str) -> list[tuple[MappedColumns, int]]:
        """Return the columns with scores under a profile; later ones count where they reach."""
        column = self.state.profiles.get(profile)
        saved = [(self.saved, 0)] if self._uses_saved(profile) else []
        return saved if column is None or not self.scores.rows else [*saved, (self.scores, column)]

    def answers_at(self, profile: str, row: int) -> int:
        """Return a number for what was read from one reply, 0 for nothing."""
        source = self.source(profile, row) if row >= 0 else None
        return 0 if source is None else int(source[0].value(f"{source[1]}.answer", row))

    @cached_property
    def flags(self) -> NDArray[np.uint8]:
        """Return the flags of each record; one more 0 at the end."""
        flags = np.zeros(self.rows.rows + 1, np.uint8)
        self.scores.fill(flags[:-1], "flags")
        return flags


class SetColumns:
    """The samples of one set: ids by number, and what the benchmark says of them in its order."""

    def __init__(self, samples: SampleSet) -> None:
        self.state = samples.state
        self.folder = samples.folder
        self.ids = samples.ids
        self.info = MappedColumns(samples.folder, samples.state.info)

    @cached_property
    def order(self) -> NDArray[np.int32]:
        """Return the numbers of all samples in the order of the benchmark; those it has not described come last."""
        described = self.info.array("ordinal", np.int32)
        rest = np.ones(len(self.ids), bool)
        rest[described] = False
        return np.concatenate([described, np.flatnonzero(rest).astype(np.int32)])

    @cached_property
    def info_row(self) -> NDArray[np.int32]:
        """Return the row of `info` of each sample, -1 for none."""
        described = self.info.array("ordinal", np.int32)
        rows = np.full(len(self.ids), -1, np.int32)
        rows[described] = np.arange(len(described), dtype=np.int32)
        return rows

    @property
    def slice_codes(self) -> NDArray[np.int32]:
        """Return every code of a slice, in no order."""
        return self.info.items("slices")

    @cached_property
    def slice_items(self) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """Return every code of a slice, and the number of its sample."""
        codes, rows = self.info.lists("slices")
        return codes, self.info.array("ordinal", np.int32)[rows].astype(np.int64)
