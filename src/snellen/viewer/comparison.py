"""Comparison of runs for a page: paired differences, a ranking, common errors, and differences by slice."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import isfinite

import numpy as np
from numpy.typing import NDArray

from snellen.errors import DataError, UsageError
from snellen.runs.compared_runs import (
    MOST_SLICES,
    PairedScores,
    QuestionScores,
    compare_on_page,
    pair_scores,
    question_scores,
    slice_masks,
)
from snellen.runs.ranking import RankEntry, Ranking, rank_entries
from snellen.scoring import statistics
from snellen.scoring.scores import Scores
from snellen.scoring.statistics import Comparison
from snellen.scoring.statistics.agreement import ErrorConsistency, error_consistency
from snellen.scoring.statistics.intervals import GROUP, cluster_word
from snellen.viewer.index import RunEntry

MOST_COMPARED = 12
"""Runs on a page at most: 66 pairs."""
RIGHT_FROM = 0.5
"""A sample counts as right from this score on, the mean over its repeats."""
LETTERS = "ABCDEFGHIJKL"
DEFAULT_FIELDS = 3
LAST_FIELDS = frozenset({"answer", "chance", "gold", "reply", "target"})
"""Fields that repeat what a slice is seldom made of; they stand last."""


@dataclass(frozen=True)
class ComparedSide:
    """One run of a comparison, with its scores under the profile of the page."""

    letter: str
    entry: RunEntry
    scores: Scores
    questions: QuestionScores

    @classmethod
    def of(cls, place: int, entry: RunEntry, scores: Scores) -> ComparedSide:
        """Build the side in this place, from 0."""
        return cls(LETTERS[place], entry, scores, question_scores(scores))


@dataclass(frozen=True)
class PairView:
    """The other run compared with the baseline; a difference is the other's mean minus the baseline's.

    Attributes:
        baseline, other: the two runs.
        baseline_mean, other_mean: their means over the paired samples.
        comparison: difference, interval, p-value and smallest detectable difference.
        p_adjusted: the p-value after Holm, over the runs that are compared with the same baseline.
        paired: how many samples were paired, and what was left out.
    """

    baseline: ComparedSide
    other: ComparedSide
    baseline_mean: float
    other_mean: float
    comparison: Comparison
    p_adjusted: float
    paired: PairedScores


@dataclass(frozen=True)
class SlicePair:
    """A slice under the baseline and one other run; `comparison` is None where they share no sample of it."""

    comparison: Comparison | None
    p_adjusted: float | None


@dataclass(frozen=True)
class SliceView:
    """One slice of the samples.

    Attributes:
        field, value: `field=value` of the samples' meta.
        n: samples of it that every run has a score for.
        means: one for each run, over those n samples; None where n is 0.
        pairs: one for each run but the baseline.
    """

    field: str
    value: str
    n: int
    means: tuple[float | None, ...]
    pairs: tuple[SlicePair, ...]


@dataclass(frozen=True)
class CommonErrors:
    """Errors of two runs on the samples that both answered."""

    first: ComparedSide
    second: ComparedSide
    consistency: ErrorConsistency
    unanswered: int


@dataclass(frozen=True)
class RunComparison:
    """All that the page shows of runs that are compared.

    Attributes:
        profile: the scoring profile.
        cluster: what rows of a cluster share.
        sides: the runs; the first is the baseline.
        pairs: every other run with the baseline.
        ranking: the runs by their mean over the samples that all of them have, with every pair tested; None for runs
            that share none.
        errors: every pair of runs, in the order of the sides.
        all_wrong, all_right, shared: samples that every run gets wrong or right, of those that every run answered.
        fields: fields of the meta that the samples can be sliced by, with the number of their values.
        slices: the slices by the field of the page.
        tests: slices that the adjustment of each other run is over.
    """

    profile: str
    cluster: str
    sides: tuple[ComparedSide, ...]
    pairs: tuple[PairView, ...]
    ranking: Ranking | None
    errors: tuple[CommonErrors, ...]
    all_wrong: int
    all_right: int
    shared: int
    fields: tuple[tuple[str, int], ...]
    slices: tuple[SliceView, ...]
    tests: int


def check_sides(runs: Sequence[str]) -> None:
    """Refuse fewer than two runs, more than a page holds, and a run that is named twice.

    Raises:
        UsageError: naming what to do.
    """
    if len(runs) < 2:
        raise UsageError(
            f"a comparison needs two or more runs, and this address names {len(runs)}",
            "Select runs on the page Matrix or Runs.",
        )
    if len(runs) > MOST_COMPARED:
        raise UsageError(
            f"this address names {len(runs)} runs, and a page compares {MOST_COMPARED} at most",
            "Select fewer runs, or use `snellen compare`, which has no such limit.",
        )
    if len(set(runs)) < len(runs):
        raise UsageError("this address names a run twice", "Name different runs.")


def compare_sides(
    sides: Sequence[ComparedSide], profile: str, by: Sequence[str] | None = None, cluster: str = ""
) -> RunComparison:
    """Compare runs, each with the first.

    Args:
        sides: two to MOST_COMPARED runs of the same samples.
        profile: the profile of their scores.
        by: fields of the meta to slice by; None: the first DEFAULT_FIELDS, or one for more than DEFAULT_FIELDS runs. A field
            that no sample has gives no slices.
        cluster: what the rows of a cluster share, in the benchmark's own word; empty: `group`.

    Raises:
        DataError: a run shares no scored sample with the baseline.
    """
    baseline = sides[0]
    word = cluster_word(baseline.scores)
    word = (cluster or word) if word == GROUP else word
    pairs = _pairs(sides, word)
    fields = slice_fields(baseline.scores)
    most = DEFAULT_FIELDS if len(sides) <= DEFAULT_FIELDS else 1
    slices = _slices(sides, pairs, [name for name, _ in fields[:most]] if by is None else by, word)
    common = [_common_errors(first, second, word) for first, second in combinations(sides, 2)]
    wrong, right, shared = _unanimous(sides)
    return RunComparison(
        profile,
        word,
        tuple(sides),
        pairs,
        _ranking(sides, profile, word),
        tuple(common),
        wrong,
        right,
        shared,
        fields,
        slices,
        max((sum(part.pairs[k].comparison is not None for part in slices) for k in range(len(pairs))), default=0),
    )


def slice_fields(scores: Scores) -> tuple[tuple[str, int], ...]:
    """Return the meta fields with 2 to MOST_SLICES values, and how many values each has; `kind` first,
    LAST_FIELDS last."""
    fields = []
    for name, column in scores.meta.items():
        count = len(np.unique(column.codes[column.codes >= 0]))
        if 1 < count <= MOST_SLICES:
            fields.append((name, count))
    return tuple(sorted(fields, key=lambda field: (field[0] in LAST_FIELDS, field[0] != "kind", field[0])))


def _right(values: NDArray[np.float64]) -> NDArray[np.bool_]:
    return values >= RIGHT_FROM


def _pairs(sides: Sequence[ComparedSide], word: str) -> tuple[PairView, ...]:
    baseline = sides[0]
    pairs, comparisons = [], []
    for other in sides[1:]:
        paired = pair_scores(baseline.questions, other.questions)
        if not len(paired):
            raise DataError(
                f"{baseline.entry.key} and {other.entry.key} have no scored sample in common",
                "Compare runs of the same benchmark over the same data.",
            )
        pairs.append(paired)
        comparisons.append(compare_on_page(paired.other, paired.baseline, paired.group, cluster=word))
    adjusted = statistics.holm([comparison.p_value for comparison in comparisons])
    return tuple(
        PairView(
            baseline,
            other,
            float(paired.baseline.mean()),
            float(paired.other.mean()),
            comparison,
            p_adjusted,
            paired,
        )
        for other, paired, comparison, p_adjusted in zip(sides[1:], pairs, comparisons, adjusted, strict=True)
    )


def _ranking(sides: Sequence[ComparedSide], profile: str, word: str) -> Ranking | None:
    entries = [RankEntry(side.entry.key, side.entry.model, side.questions) for side in sides]
    try:
        return rank_entries(entries, profile, word, test=compare_on_page)
    except DataError:  # each shares samples with the baseline, and all of them none
        return None


def _common_errors(first: ComparedSide, second: ComparedSide, word: str) -> CommonErrors:
    paired = pair_scores(first.questions, second.questions)
    answered = paired.answered
    a, b = ((~_right(values[answered])).astype(np.float64) for values in (paired.baseline, paired.other))
    consistency = error_consistency(a, b, paired.group[answered], cluster=word)
    return CommonErrors(first, second, consistency, int((~answered).sum()))


def _unanimous(sides: Sequence[ComparedSide]) -> tuple[int, int, int]:
    """Count samples that every run gets wrong and right, and those that every run answered with a score."""
    shared: NDArray[np.int64] | None = None
    for side in sides:
        codes = side.questions.code[side.questions.answered & np.isfinite(side.questions.value)]
        shared = codes if shared is None else np.intersect1d(shared, codes, assume_unique=True)
    assert shared is not None  # noqa: S101 - there are two sides or more
    right = np.zeros(len(shared), dtype=np.int64)
    for side in sides:
        right += _right(side.questions.value[np.searchsorted(side.questions.code, shared)])
    return int((right == 0).sum()), int((right == len(sides)).sum()), len(shared)


def _slices(
    sides: Sequence[ComparedSide], pairs: Sequence[PairView], fields: Sequence[str], word: str
) -> tuple[SliceView, ...]:
    """Compare the slices of some fields: means over the samples that all runs have, differences over each pair's."""
    shared = _shared_codes(sides)
    first = sides[0].questions
    rows = first.row[np.searchsorted(first.code, shared)]
    values = [side.questions.value[np.searchsorted(side.questions.code, shared)] for side in sides]
    means = {
        (field, value): (int(mask.sum()), tuple(float(each[mask].mean()) for each in values))
        for field, value, mask in slice_masks(sides[0].scores, rows, fields)
    }
    tested: list[dict[tuple[str, str], Comparison]] = []
    for pair in pairs:
        paired = pair.paired
        masks = slice_masks(sides[0].scores, paired.row, fields)
        tested.append(
            {
                (field, value): compare_on_page(
                    paired.other[mask], paired.baseline[mask], paired.group[mask], cluster=word
                )
                for field, value, mask in masks
            }
        )
    adjusted = [
        dict(zip(slices, statistics.holm([each.p_value for each in slices.values()]), strict=True)) for slices in tested
    ]
    names = dict.fromkeys(name for slices in tested for name in slices)
    order = sorted(names, key=lambda name: (fields.index(name[0]), natural_key(name[1])))
    return tuple(
        SliceView(
            *name,
            means[name][0] if name in means else 0,
            means[name][1] if name in means else (None,) * len(sides),
            tuple(
                SlicePair(slices.get(name), p_values.get(name))
                for slices, p_values in zip(tested, adjusted, strict=True)
            ),
        )
        for name in order
    )


def _shared_codes(sides: Iterable[ComparedSide]) -> NDArray[np.int64]:
    """Return the sorted codes of the samples that every run has a score for."""
    shared: NDArray[np.int64] | None = None
    for side in sides:
        codes = side.questions.code[np.isfinite(side.questions.value)]
        shared = codes if shared is None else np.intersect1d(shared, codes, assume_unique=True)
    return np.zeros(0, dtype=np.int64) if shared is None else shared


def natural_key(text: str) -> tuple[int, float, str]:
    """Sort numbers by their value, before other texts."""
    try:
        number = float(text)
    except ValueError:
        return (1, 0.0, text)
    return (0, number, text) if isfinite(number) else (1, 0.0, text)
