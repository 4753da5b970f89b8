"""Runs that are compared: opening them, their scores by question, and the profile that they share.

Pairing of two runs' scores, question by question: what both have, their parts, and a test for each part.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from shlex import quote

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from snellen.benchmarks.base import Benchmark
from snellen.benchmarks.table.summary import RESERVED
from snellen.engine.run_folder import RunFolder, RunMeta
from snellen.errors import NothingAnsweredError, UsageError
from snellen.runs import scoring
from snellen.runs.judge.profiles import PREFIX
from snellen.runs.run import Run, load_run
from snellen.scoring import statistics
from snellen.scoring.scores import ScoreBuilder, Scores, cluster_index
from snellen.scoring.statistics import Comparison
from snellen.scoring.statistics.intervals import GROUP, cluster_word
from snellen.scoring.statistics.paired import compare_by_t

SLICED_BY = ("kind", "level", "task", "asked", "category")


@dataclass(frozen=True)
class ComparedRun:
    """One of the runs, with its scores under each profile that was asked for."""

    run: Run
    _scores: dict[str, Scores] = field(default_factory=dict, repr=False, compare=False)

    @property
    def folder(self) -> RunFolder:
        return self.run.folder

    @property
    def meta(self) -> RunMeta:
        return self.run.meta

    @property
    def benchmark(self) -> Benchmark:
        return self.run.benchmark

    def scores(self, profile: str) -> Scores:
        """Score the run under one profile, one row for each record; each profile once."""
        if profile not in self._scores:
            self._scores[profile] = self._score(profile)
        return self._scores[profile]

    def cluster(self, profile: str) -> str:
        """Return what rows of one cluster share, in the benchmark's own word."""
        word = cluster_word(self.scores(profile))
        return self.benchmark.cluster if word == GROUP else word

    def slices(self, profile: str) -> list[str]:
        """Return the meta columns of the default subgroups: the usual ones, and the categories of a user's table."""
        own = set() if self.benchmark.table is None else set(self.scores(profile).meta) - RESERVED
        return [*SLICED_BY, *sorted(own - set(SLICED_BY))]

    def _score(self, profile: str) -> Scores:
        replies = self.run.verdicts()
        if scoring.review_profiles(self.benchmark, profile):
            from snellen.runs.reviews.summary import reviewed_scores

            return reviewed_scores(self.run, replies)
        scorer = scoring.profiles_of(self.benchmark, profile)[profile]
        builder = ScoreBuilder()
        for sample, record in scoring.recorded_answers(self.folder, self.meta, self.benchmark):
            builder.add(sample, scoring.scores_of(self.benchmark, sample, record, {profile: scorer}, replies)[profile])
        return builder.build(scoring.count(self.benchmark, self.meta.spec.data) * self.meta.spec.repeats)


@dataclass(frozen=True)
class QuestionScores:
    """A run's scores by question.

    Attributes:
        code: [q] sorted codes of the questions.
        value: [q] means over repeats; NaN where there is no score.
        row: [q] the first row of each question in the scores.
        group: [q] its cluster.
        answered: [q] True where a repeat has an answer, with a score or without.
    """

    code: NDArray[np.int64]
    value: NDArray[np.float64]
    row: NDArray[np.intp]
    group: NDArray[np.int64]
    answered: NDArray[np.bool_]


def question_scores(scores: Scores) -> QuestionScores:
    """Return the scores of a run by question, as means over its repeats."""
    value, usable = statistics.scored(scores)
    code, row, index = np.unique(scores.question, return_index=True, return_inverse=True)
    index = index.reshape(-1)
    n = np.bincount(index, weights=usable, minlength=len(code))
    total = np.bincount(index, weights=np.where(usable, value, 0.0), minlength=len(code))
    mean = np.divide(total, n, out=np.full(len(code), np.nan), where=n > 0)
    answered = np.bincount(index, weights=~scores.has("error"), minlength=len(code)) > 0
    return QuestionScores(code, mean, row, scores.group[row], answered)


def open_runs(
    runs: Sequence[str | Path | Run],
    profile: str | None,
    *,
    data: str | Path | None = None,
    images: str | Path | None = None,
    trust: bool = False,
) -> tuple[list[Run], str]:
    """Open two or more different runs; return them and the name of the profile that they are compared under.

    Args:
        runs: folders, or open runs.
        profile: one scoring profile; None: the first run's first.
        data, images, trust: as for `compare`.

    Raises:
        UsageError: fewer than two runs, one run twice, several profiles, no such profile.
        NothingAnsweredError: a run has no answer at all. RunError: no run there.
    """
    opened = [run if isinstance(run, Run) else load_run(run, trust=trust).moved(data, images) for run in runs]
    if len(opened) < 2:
        raise UsageError("a single run cannot be compared", "Pass two or more runs.")
    places = [run.path.resolve() for run in opened]
    if len(set(places)) < len(places):
        raise UsageError("one run was passed twice", "Pass different runs.")
    for run in opened:
        if not run.request_errors().answered:
            raise NothingAnsweredError(
                f"{run.path} cannot be compared: {run.request_errors().text or 'no sample has an answer'}",
                f"Resume it: snellen rerun {run.path}",
            )
    _require_verdicts(opened, profile)
    reviewed = scoring.review_profiles(opened[0].benchmark, profile)
    if scoring.AUDITED in reviewed:
        raise UsageError(
            "runs are compared sample by sample, and audited is an estimate for a whole run",
            "Compare the decided samples with --profile reviewed; score each run with snellen score RUN --profile audited.",
        )
    chosen = dict.fromkeys(reviewed) if profile in reviewed else scoring.profiles_of(opened[0].benchmark, profile)
    if len(chosen) > 1:
        raise UsageError(
            f"runs are compared under one profile, and {len(chosen)} were named", "Name one with --profile."
        )
    (name,) = chosen
    return opened, name


def _require_verdicts(runs: Sequence[Run], profile: str | None) -> None:
    """Raise UsageError for a run without the verdicts by a rubric (`judge:NAME`) that another one has."""
    name = profile or ""
    if not name.startswith(PREFIX) or not any(name in run.benchmark.score for run in runs):
        return
    for run in runs:
        if name not in run.benchmark.score:
            gone = [line for line in run.notes() if line.startswith(f"no profile {name}:")]
            raise UsageError(
                f"{run.path} is not judged by the rubric {name.removeprefix(PREFIX)}, and has no profile {name}",
                gone[0]
                if gone
                else f"snellen judge {quote(str(run.path))} --rubric NAME|FILE, with that of the other run.",
            )


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
