"""Pairing of two runs' scores, question by question: what both have, their parts, and a test for each part."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from snellen.runs.compared_runs import QuestionScores
from snellen.scoring import statistics
from snellen.scoring.scores import Scores, cluster_index
from snellen.scoring.statistics import Comparison
from snellen.scoring.statistics.intervals import GROUP
from snellen.scoring.statistics.paired import compare_by_t

MOST_SLICES = 40

FEW_CLUSTERS = 50
"""Fewer clusters than this are tested by drawn flips on pages too: a t test asks for more."""
FEWER_FLIPS = 2_000


class ComparedPart(Struct, frozen=True):
    """Comparison over a part of the questions, named `all` or `level=species`; the means are over that part."""

    name: str
    baseline: float
    other: float
    comparison: Comparison


@dataclass(frozen=True)
class PairedScores:
    """Scores of two runs on the questions that both have a score for.

    Attributes:
        code: [q] sorted codes of the questions.
        baseline, other: [q] scores of the two runs, means over repeats.
        group: [q] the cluster of each question.
        row: [q] the question's first row in the baseline's scores, where its meta stands.
        answered: [q] True where both runs have an answer; a failed sample has a score of 0 and no answer.
        only_baseline, only_other: questions that one run alone has.
        unscored: questions that both have, and at least one has no score for.
    """

    code: NDArray[np.int64]
    baseline: NDArray[np.float64]
    other: NDArray[np.float64]
    group: NDArray[np.int64]
    row: NDArray[np.intp]
    answered: NDArray[np.bool_]
    only_baseline: int
    only_other: int
    unscored: int

    def __len__(self) -> int:
        return len(self.code)


def pair_scores(baseline: QuestionScores, other: QuestionScores) -> PairedScores:
    """Pair two runs by question; questions without a score in both are counted, not paired."""
    _, at_a, at_b = np.intersect1d(baseline.code, other.code, assume_unique=True, return_indices=True)
    counts = np.isfinite(baseline.value[at_a]) & np.isfinite(other.value[at_b])
    first, second = at_a[counts], at_b[counts]
    return PairedScores(
        code=baseline.code[first],
        baseline=baseline.value[first],
        other=other.value[second],
        group=baseline.group[first],
        row=baseline.row[first],
        answered=baseline.answered[first] & other.answered[second],
        only_baseline=len(baseline.code) - len(at_a),
        only_other=len(other.code) - len(at_b),
        unscored=int((~counts).sum()),
    )


def slice_masks(
    scores: Scores, rows: NDArray[np.intp], by: Sequence[str], most: int = MOST_SLICES
) -> Iterator[tuple[str, str, NDArray[np.bool_]]]:
    """Yield (column, value, mask of `rows`) for each value of meta columns that have 2 to `most` values among `rows`."""
    for name in by:
        column = scores.meta.get(name)
        if column is None:
            continue
        codes = column.codes[rows]
        present = [code for code in np.unique(codes).tolist() if code >= 0]
        if 1 < len(present) <= most:
            for code in present:
                yield name, column.names[code], codes == code


def compare_parts(
    scores: Scores,
    paired: PairedScores,
    by: Sequence[str],
    cluster: str,
    test: Callable[..., Comparison] = statistics.compare,
) -> Iterator[ComparedPart]:
    """Compare the other run with the baseline on all paired questions, then on each slice.

    Args:
        scores: the baseline's, which have the meta.
        paired: the two runs.
        by: meta columns to slice by, where they are there.
        cluster: what the rows of a cluster share, in words.
        test: `statistics.compare`, or `compare_on_page`.
    """

    def part(name: str, mask: NDArray[np.bool_]) -> ComparedPart:
        x, y = paired.baseline[mask], paired.other[mask]
        comparison = test(y, x, paired.group[mask], cluster=cluster)
        return ComparedPart(name, float(x.mean()), float(y.mean()), comparison)

    yield part("all", np.ones(len(paired), dtype=bool))
    for name, value, mask in slice_masks(scores, paired.row, by):
        yield part(f"{name}={value}", mask)


def compare_on_page(
    a: NDArray[np.float64], b: NDArray[np.float64], group: NDArray[np.int64], *, cluster: str = GROUP
) -> Comparison:
    """Compare two runs in a few milliseconds, for pages that hold many comparisons.

    Exact McNemar where `statistics.compare` has it, and a cluster-robust paired t test in place of drawn
    flips; fewer than FEW_CLUSTERS clusters get those, with fewer draws.
    """
    if cluster_index(group)[1] < FEW_CLUSTERS:
        return statistics.compare(a, b, group, flips=FEWER_FLIPS, cluster=cluster)
    return compare_by_t(a, b, group, cluster=cluster)
