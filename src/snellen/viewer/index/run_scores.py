"""Scores of indexed runs as columns, for statistics: what `snellen compare` computes from journals, from the index."""

from __future__ import annotations

from collections import OrderedDict
from threading import Lock
from typing import Any

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from snellen.runs.paired_scores import MOST_SLICES
from snellen.scoring.scores import Column, Scores, question_code
from snellen.types import VERDICTS as SCORE_VERDICTS
from snellen.viewer.index.run_columns import ANSWER_STATUSES, RunColumns, SetColumns
from snellen.viewer.index.run_state import CODE_OF_VERDICT, RunIndexState
from snellen.viewer.index.sample_page import VERDICTS
from snellen.viewer.index.sample_sets import SampleSet
from snellen.viewer.index.storage import STATE, IndexStorage

MOST_CACHED = 4_000_000
"""Rows of scores in memory at most, over all runs."""
KIND = "kind"
_SCORE_CODE = np.full(len(VERDICTS), 255, np.uint8)
"""Code of a verdict in `Scores.verdict` by its code in the index; 255 for verdicts that say nothing of a score."""
for _name, _code in CODE_OF_VERDICT.items():
    _SCORE_CODE[_code] = SCORE_VERDICTS.index(_name)


class SampleFacts(Struct, frozen=True):
    """What statistics need of a set of samples, by the samples' numbers.

    Attributes:
        question: [s] code of each sample's id.
        group: [s] code of its cluster; that of the sample itself where the benchmark has not described it.
        fields: field of the meta to ([s] codes, names); only fields with 2 to MOST_SLICES values.
    """

    question: NDArray[np.int64]
    group: NDArray[np.int64]
    fields: dict[str, tuple[NDArray[np.int32], tuple[str, ...]]]


class ScoreTables:
    """Scores of runs from their columns in the index, the latest in memory. May be used by several threads."""

    def __init__(self, storage: IndexStorage) -> None:
        self._storage = storage
        self._lock = Lock()
        self._facts: OrderedDict[str, tuple[Any, SampleFacts]] = OrderedDict()
        self._scores: OrderedDict[tuple[str, str], tuple[Any, Scores]] = OrderedDict()

    def scores(self, state: RunIndexState, profile: str, expected: int | None) -> Scores | None:
        """Return the scores of a run's records under a profile, one row for each sample and repeat.

        Args:
            state: what the index holds of the run.
            profile: a profile; empty: the first.
            expected: records of a complete run; None where that is not known.

        Returns:
            None where the index has no verdicts of the run, or none under this profile.
        """
        profile = profile or next(iter(state.profiles), "")
        if profile not in state.profiles or not state.set_name:
            return None
        stamp = (state.files, state.profiles, expected)
        with self._lock:
            known = self._scores.get((state.key, profile))
            if known is not None and known[0] == stamp:
                self._scores.move_to_end((state.key, profile))
                return known[1]
        run = RunColumns(self._storage.run_folder(state.key), state)
        if not run.whole:
            return None
        scores = read_scores(run, profile, self._facts_of(state.set_name), expected)
        with self._lock:
            self._scores[state.key, profile] = (stamp, scores)
            self._scores.move_to_end((state.key, profile))
            while len(self._scores) > 1 and sum(len(each) for _, each in self._scores.values()) > MOST_CACHED:
                self._scores.popitem(last=False)
        return scores

    def _facts_of(self, name: str) -> SampleFacts:
        try:
            status = (self._storage.set_folder(name) / STATE).stat()
            stamp = (status.st_mtime_ns, status.st_size, status.st_ino)
        except OSError:
            stamp = None
        with self._lock:
            known = self._facts.get(name)
            if known is not None and known[0] == stamp and stamp is not None:
                return known[1]
        facts = sample_facts(SetColumns(SampleSet(self._storage, name)))
        with self._lock:
            self._facts[name] = (stamp, facts)
            while len(self._facts) > 1 and sum(len(each.question) for _, each in self._facts.values()) > MOST_CACHED:
                self._facts.popitem(last=False)
        return facts


def sample_facts(samples: SetColumns) -> SampleFacts:
    """Collect codes, clusters and fields of a set of samples."""
    question = np.array([question_code(sample_id) for sample_id in samples.ids.to_pylist()], dtype=np.int64)
    group = question.copy()
    described = samples.info.array("ordinal", np.int32)
    if len(described):
        group[described] = samples.info.array("group", np.int64)
    pairs = samples.state.slices
    values: dict[str, list[int]] = {}
    for code, (name, _) in enumerate(pairs):
        values.setdefault(name, []).append(code)
    codes, rows = samples.slice_items
    fields = {}
    for name, own in values.items():
        if not 1 < len(own) <= MOST_SLICES or name in samples.state.wide:
            continue
        order = sorted(own, key=lambda code: pairs[code][1])
        place = np.full(len(pairs), -1, np.int32)
        place[order] = np.arange(len(order), dtype=np.int32)
        column = np.full(len(question), -1, np.int32)
        mine = place[codes] >= 0
        column[rows[mine]] = place[codes[mine]]
        fields[name] = (column, tuple(pairs[code][1] for code in order))
    if KIND not in fields:
        column, names = _kinds(samples, described, len(question))
        fields[KIND] = (column, names)
    return SampleFacts(question, group, fields)


def _kinds(samples: SetColumns, described: NDArray[np.int32], count: int) -> tuple[NDArray[np.int32], tuple[str, ...]]:
    """Return the kind of each sample as codes and names."""
    column = np.full(count, -1, np.int32)
    if not len(described):
        return column, ()
    kinds = np.concatenate([batch.column("kind").to_numpy(zero_copy_only=False) for batch in samples.info.batches()])
    names, codes = np.unique(kinds.astype(str), return_inverse=True)
    column[described] = codes.reshape(-1).astype(np.int32)
    return column, tuple(names.tolist())


def read_scores(run: RunColumns, profile: str, facts: SampleFacts, expected: int | None) -> Scores:
    """Read a run's scores, sorted as `ScoreBuilder` sorts them; of several records of a sample one counts.

    That is its first answer, or its last failure where there is no answer. Records without a verdict have no row.
    """
    number = run.state.profiles[profile]
    scored = run.scores.rows
    ordinal, repeat, status = run.ordinal[:scored], run.repeat[:scored], run.status[:scored]
    code = _SCORE_CODE[run.scores.array(f"{number}.code", np.uint8)]
    value = run.scores.array(f"{number}.value", np.float64)
    answered = status < ANSWER_STATUSES
    place = np.where(answered, np.arange(scored), -np.arange(scored))
    turn = np.lexsort((place, ~answered, repeat, ordinal))
    first = np.ones(scored, bool)
    first[1:] = (np.diff(ordinal[turn]) != 0) | (np.diff(repeat[turn]) != 0)
    rows = turn[first]
    rows = rows[code[rows] != 255]
    samples = ordinal[rows]
    question, value = facts.question[samples], value[rows]
    order = np.lexsort((value, question))
    rows, samples = rows[order], samples[order]
    return Scores(
        value=value[order],
        verdict=code[rows],
        group=facts.group[samples],
        question=question[order],
        meta={name: Column(codes[samples], names) for name, (codes, names) in facts.fields.items()},
        expected=len(rows) if expected is None else expected,
    )
