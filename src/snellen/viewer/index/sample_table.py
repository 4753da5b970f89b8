"""Table of samples and runs: one row a sample (and repeat), one column a run, as arrays."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from snellen.viewer.index.patterns import Claim, VerdictPattern
from snellen.viewer.index.run_columns import ANSWER_STATUSES, RunColumns, SetColumns
from snellen.viewer.index.run_state import CODES, JUDGE_UNSURE, PROFILES_DIFFER, READ_BY_MODEL
from snellen.viewer.index.sample_page import VERDICTS, CellVerdict, Sort

CHUNK = 1 << 15
MOST_ANSWERS, PROBED = 16, 128
"""Up to so many different answers are counted one by one; the first rows tell whether there are more."""
_WRONG = (CODES["wrong"], CODES["unparseable"])
_RIGHT = CODES["right"]


class SampleAxis:
    """Rows of a table: samples (and repeats) of one or more sets, in the order of the benchmark.

    Samples of several sets with one id are one row. A sample that no run was to answer has none.

    Args:
        sets: the sets, the first one's order first.
        runs: the runs, each with the place of its set.
        requested: for each run, how many samples it was to answer; None: all that are known.
    """

    def __init__(
        self, sets: Sequence[SetColumns], runs: Sequence[tuple[RunColumns, int]], requested: Sequence[int | None]
    ) -> None:
        self.sets = sets
        if len(sets) == 1:
            self.ids: pa.Array = sets[0].ids
            self._of_set: list[NDArray[np.int64] | None] = [None]
            order = sets[0].order.astype(np.int64)
        else:
            encoded = pa.concat_arrays([each.ids for each in sets]).dictionary_encode()
            self.ids = encoded.dictionary
            every = encoded.indices.to_numpy().astype(np.int64)
            ends = np.cumsum([len(each.ids) for each in sets])
            parts = np.split(every, ends[:-1])
            self._of_set = list(parts)
            in_order = np.concatenate([own[each.order] for own, each in zip(parts, sets, strict=True)])
            _, first = np.unique(in_order, return_index=True)
            order = in_order[np.sort(first)]
        size = len(self.ids)
        included = np.zeros(size, bool)
        repeats = 1
        known: list[tuple[NDArray[np.int32], int]] = []
        described = dict.fromkeys(range(len(sets)), 0)
        for (run, place), samples in zip(runs, requested, strict=True):
            if not any(place == other and np.array_equal(run.ordinal, ordinal) for ordinal, other in known[-1:]):
                included[self._samples(place, run.ordinal)] = True
                known.append((run.ordinal, place))
            upto = sets[place].state.described
            described[place] = max(described[place], upto if samples is None else min(samples, upto))
            if len(run.repeat):
                repeats = max(repeats, int(run.repeat.max()) + 1)
        for place, upto in described.items():
            included[self._samples(place, sets[place].order[:upto])] = True
        self._repeats = repeats
        included_order = order[included[order]]
        if repeats == 1:
            self.sample, self.repeat = included_order, np.zeros(len(included_order), np.int32)
            self._row_of = np.full(size, -1, np.int64)
            self._row_of[included_order] = np.arange(len(included_order))
            return
        self._rank = np.empty(size, np.int64)
        self._rank[order] = np.arange(size)
        codes = [self._samples(place, run.ordinal) * np.int64(repeats) + run.repeat for run, place in runs]
        unrecorded = np.setdiff1d(included_order, np.concatenate(codes) // repeats)
        unique = np.unique(np.concatenate([*codes, unrecorded * repeats]))
        turn = np.lexsort((unique % repeats, self._rank[unique // repeats]))
        self.sample, self.repeat = unique[turn] // repeats, (unique[turn] % repeats).astype(np.int32)
        self._codes, self._row_of = unique, np.empty(len(unique), np.int64)
        self._row_of[turn] = np.arange(len(unique))

    def __len__(self) -> int:
        return len(self.sample)

    def _samples(self, place: int, numbers: NDArray[Any]) -> NDArray[Any]:
        """Return the samples of the axis with these numbers in a set; of an only set, the numbers themselves."""
        own = self._of_set[place]
        return numbers if own is None else np.asarray(own[numbers])

    @cached_property
    def numbers(self) -> NDArray[np.int32]:
        """Return the numbers of the rows: the records that count for a run that has one for each row, in their order."""
        return np.arange(len(self), dtype=np.int32)

    def rows(self, run: RunColumns, place: int) -> NDArray[np.int64]:
        """Return the row of each record of a run."""
        samples: NDArray[np.int64] = self._samples(place, run.ordinal)
        if self._repeats == 1:
            return np.asarray(self._row_of[samples])
        return np.asarray(self._row_of[np.searchsorted(self._codes, samples * np.int64(self._repeats) + run.repeat)])

    def counting_of(self, runs: Sequence[tuple[RunColumns, int]]) -> list[NDArray[np.int32]]:
        """Return `counting` of each run; runs with the same samples in the same order share an array."""
        records: list[NDArray[np.int32]] = []
        before: tuple[RunColumns, int] | None = None
        for run, place in runs:
            alike = before is not None and place == before[1] and run.places_as(before[0])
            records.append(records[-1] if alike else self.counting(run, place))
            if not alike:  # a sample with two records: which counts depends on the run's answers
                before = (run, place) if np.count_nonzero(records[-1] >= 0) == len(run.ordinal) else None
        return records

    def counting(self, run: RunColumns, place: int) -> NDArray[np.int32]:
        """Return for each row the record that counts, -1 for none: the first answer, else the last failure."""
        rows = self.rows(run, place)
        if len(rows) == len(self) and np.array_equal(rows, self.numbers):
            return self.numbers
        numbers = np.arange(len(rows), dtype=np.int32)
        result = np.full(len(self), -1, np.int32)
        result[rows] = numbers
        if np.array_equal(result[rows], numbers):  # no sample has two records
            return result
        answered = run.status < ANSWER_STATUSES
        result[rows[~answered]] = numbers[~answered]
        answers = np.flatnonzero(answered)[::-1]
        result[rows[answers]] = answers
        return result

    def of_samples(self, place: int, numbers: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return a mask of the rows of these samples of a set."""
        wanted = np.zeros(len(self.ids), bool)
        wanted[self._samples(place, numbers)] = True
        return wanted[self.sample]

    def number_in(self, row: int) -> tuple[int, int] | None:
        """Return (place of the set, number) of a row's sample in the first set that describes it."""
        sample = int(self.sample[row])
        last = None
        for place, own in enumerate(self._numbers):
            number = int(own[sample])
            if number >= 0:
                last = (place, number)
                if self.sets[place].info_row[number] >= 0:
                    return last
        return last

    @cached_property
    def _numbers(self) -> list[NDArray[np.int64]]:
        inverse = []
        for own in self._of_set:
            numbers = np.full(len(self.ids), -1, np.int64)
            numbers[slice(None) if own is None else own] = np.arange(len(self.ids) if own is None else len(own))
            inverse.append(numbers)
        return inverse

    @cached_property
    def slices(self) -> dict[str, tuple[tuple[str, int], ...]]:
        """Return field to its values with the number of samples of each, the most frequent first."""
        counts: dict[str, dict[str, int]] = {}
        counted = np.zeros(len(self.ids), bool)
        counted[self.sample] = True
        for place, each in enumerate(self.sets):
            if counted.all():
                own = each.slice_codes
            else:
                codes, samples = each.slice_items
                own = codes[counted[self._samples(place, samples)]]
            totals = np.bincount(own, minlength=len(each.state.slices))
            for (name, value), count in zip(each.state.slices, totals.tolist(), strict=True):
                if count and name not in each.state.wide:
                    values = counts.setdefault(name, {})
                    values[value] = values.get(value, 0) + count
            counted[self._samples(place, np.arange(len(each.ids)))] = False  # a sample of two sets counts once
        return {
            name: tuple(sorted(values.items(), key=lambda item: (-item[1], item[0]))) for name, values in counts.items()
        }


class SampleTable:
    """The verdicts of some runs under one profile on the rows of an axis."""

    def __init__(self, axis: SampleAxis, runs: Sequence[tuple[RunColumns, int]], profile: str) -> None:
        self.axis, self.profile = axis, profile
        self.runs = [run for run, _ in runs]
        self.records = axis.counting_of(runs)
        self.verdicts = [
            self._of_rows(run.codes(profile), own) for run, own in zip(self.runs, self.records, strict=True)
        ]

    def _of_rows(self, values: NDArray[Any], record: NDArray[np.int32]) -> NDArray[Any]:
        """Return for each row the value of its record; `values` has one more at the end, for rows without a record."""
        return values[:-1] if record is self.axis.numbers else values[record]

    def fits(self, pattern: VerdictPattern) -> NDArray[np.bool_]:
        """Return a mask of the rows that fit a verdict pattern."""
        if isinstance(pattern, Claim):
            accepted = np.zeros(len(VERDICTS), bool)
            accepted[[CODES[verdict] for verdict in VERDICTS if verdict in pattern.verdicts]] = True
            count = np.zeros(len(self.axis), np.uint16)
            for run in pattern.runs:
                count += accepted[self.verdicts[run]]
            return np.asarray(count >= pattern.at_least, bool)
        masks = [self.fits(part) for part in pattern.parts]
        if pattern.joined_by == "not":
            return ~masks[0]
        join = np.logical_and if pattern.joined_by == "and" else np.logical_or
        return np.asarray(join.reduce(masks), bool)

    def sort_key(self, sort: Sort) -> NDArray[np.uint16] | None:
        """Return the key of each row, larger ones first; None: the order of the benchmark."""
        if sort == "id":
            return None
        if sort == "wrong":
            return self._count(*_WRONG)
        if sort == "disagree":
            right = self._count(_RIGHT)
            others = self._count(*_WRONG, CODES["partial"])
            return np.minimum(right, others)
        if sort == "margin":
            margin = self.margins
            return np.where(np.isnan(margin), 0, 60_000 - np.nan_to_num(margin) * 50_000).astype(np.uint16)
        if sort in ("confident", "unsure"):
            mean = self.confidences
            rank = mean if sort == "confident" else 1 - mean
            return np.where(np.isnan(mean), 0, 1 + np.nan_to_num(rank) * 60_000).astype(np.uint16)
        bit = {"profiles": PROFILES_DIFFER, "reader": READ_BY_MODEL}.get(sort, JUDGE_UNSURE)
        count = np.zeros(len(self.axis), np.uint16)
        for run, record in zip(self.runs, self.records, strict=True):
            count += self._of_rows((run.flags & bit) != 0, record)
        return count

    def _count(self, *codes: int) -> NDArray[np.uint16]:
        count = np.zeros(len(self.axis), np.uint16)
        for verdict in self.verdicts:
            for code in codes:
                count += verdict == code
        return count

    @cached_property
    def margins(self) -> NDArray[np.float32]:
        """Return for each row the share of the commonest answer minus that of the second; NaN without an answer."""
        result = np.full(len(self.axis), np.nan, np.float32)
        answers = [
            self._of_rows(run.answers(self.profile), own) for run, own in zip(self.runs, self.records, strict=True)
        ]
        for start in range(0, len(self.axis), CHUNK):
            result[start : start + CHUNK] = margins(np.stack([own[start : start + CHUNK] for own in answers]))
        return result

    @property
    def has_confidence(self) -> bool:
        """Return True if some reply of a run has option probabilities."""
        return any(run.state.has_confidence for run in self.runs)

    @cached_property
    def confidences(self) -> NDArray[np.float32]:
        """Return for each row the mean confidence of the runs that have one; NaN for none."""
        total, count = np.zeros(len(self.axis), np.float32), np.zeros(len(self.axis), np.uint16)
        for run, record in zip(self.runs, self.records, strict=True):
            values = self._of_rows(run.confidences(self.profile), record)
            there = ~np.isnan(values)
            total += np.where(there, values, 0)
            count += there
        with np.errstate(invalid="ignore"):
            return np.where(count > 0, total / count, np.nan).astype(np.float32)

    def margins_of(self, rows: Sequence[int]) -> list[float | None]:
        """Return the margins of some rows; None for a row without an answer."""
        if not rows:
            return []
        answers = [
            [int(run.answers_at(self.profile, int(record[row]))) for row in rows]
            for run, record in zip(self.runs, self.records, strict=True)
        ]
        values = margins(np.array(answers, np.uint32)).tolist()
        return [None if value != value else value for value in values]

    def verdict_counts(self, rows: NDArray[np.int64] | None) -> tuple[dict[CellVerdict, int], ...]:
        """Return for each run the number of rows by verdict."""
        counts = []
        for verdict in self.verdicts:
            own = verdict if rows is None else verdict[rows]
            numbers = [int(np.count_nonzero(own == code)) for code in range(len(VERDICTS))]
            counts.append({name: count for name, count in zip(VERDICTS, numbers, strict=True) if count})
        return tuple(counts)


def margins(answers: NDArray[np.uint32]) -> NDArray[np.float32]:
    """Return the share of the commonest answer minus that of the second commonest, for each column.

    Args:
        answers: [runs, samples]; 0 stands for no answer.
    """
    most, second = _two_counts(answers)
    answered = (answers != 0).sum(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(answered > 0, (most.astype(np.float32) - second) / answered, np.nan).astype(np.float32)


def _two_counts(answers: NDArray[np.uint32]) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Return how often the commonest answer of each column stands in it, and the second commonest."""
    runs, samples = answers.shape
    most, second = np.zeros(samples, np.uint8), np.zeros(samples, np.uint8)
    if len(np.unique(answers[:, :PROBED])) <= MOST_ANSWERS:
        rest = answers != 0
        for _ in range(MOST_ANSWERS):
            at = int(rest.argmax())
            if not rest.flat[at]:
                return most, second
            same = answers == answers.flat[at]
            count = same.view(np.uint8).sum(axis=0, dtype=np.uint8)
            np.maximum(second, np.minimum(most, count), out=second)
            np.maximum(most, count, out=most)
            rest ^= same
    votes = np.zeros((runs, samples), np.uint8)
    for i in range(runs):
        votes[i] += answers[i] != 0
        for j in range(i + 1, runs):
            same = (answers[i] == answers[j]) & (answers[i] != 0)
            votes[i] += same
            votes[j] += same
    top = votes.argmax(axis=0)
    columns = np.arange(samples)
    return votes[top, columns], np.where(answers == answers[top, columns], 0, votes).max(axis=0)
