"""Check that a run is not worse than a baseline by more than a margin; samples without an answer are worth 0."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import numpy as np
from msgspec import Struct, structs
from numpy.typing import NDArray

from snellen.errors import DataError, UsageError
from snellen.runs.compare import same_questions
from snellen.runs.compared_runs import ComparedRun, open_runs, question_scores
from snellen.runs.run import Run
from snellen.scoring import statistics
from snellen.scoring.statistics import DropTest

ALPHA, MIN_COVERAGE = 0.05, 0.9
WORSE, INCOMPLETE = 10, 9
"""Exit statuses of a run that is worse, and of a run that lacks answers."""


class DropCheck(Struct, frozen=True):
    """One run checked against the baseline. Scores and their difference are over n, with 0 for a missing answer.

    Attributes:
        baseline, run: the folders, A and B.
        profile: the scoring profile.
        status: `worse`, `incomplete` (too few answers to pass) or `passed`.
        margin: the drop that is accepted.
        alpha: the level of the test.
        min_coverage: the share of samples that each run must have an answer to.
        baseline_score, score: mean scores.
        difference: score minus baseline_score.
        ci95: 95 % interval of the difference.
        p_value: one-sided, under "B is at most `margin` worse".
        p_adjusted: the same after Holm, if several runs are checked against one baseline.
        test: the test of the p-value.
        n, clusters: samples, and independent units among them.
        missing_baseline, missing: samples of n that a run has no answer or no score for.
        coverage_baseline, coverage: share of the samples that each run has an answer to.
        detectable: the smallest true drop that these samples show with 80 % power; None if they can show none, or if no
            score differs.
        text: all of it in one sentence.
    """

    baseline: str
    run: str
    profile: str
    status: Literal["worse", "incomplete", "passed"]
    margin: float
    alpha: float
    min_coverage: float
    baseline_score: float
    score: float
    difference: float
    ci95: tuple[float, float] | None
    p_value: float
    p_adjusted: float
    test: str
    n: int
    clusters: int
    missing_baseline: int
    missing: int
    coverage_baseline: float
    coverage: float
    detectable: float | None
    text: str = ""

    @property
    def passed(self) -> bool:
        return self.status == "passed"

    @property
    def powerless(self) -> bool:
        """Return True if there are so few clusters that no drop, however large, could be significant."""
        return 0.5**self.clusters > self.alpha

    @property
    def exit_status(self) -> int:
        return {"worse": WORSE, "incomplete": INCOMPLETE, "passed": 0}[self.status]


def check_drop(
    baseline: str | Path | Run,
    *runs: str | Path | Run,
    margin: float = 0.0,
    alpha: float = ALPHA,
    min_coverage: float = MIN_COVERAGE,
    profile: str | None = None,
    data: str | Path | None = None,
    images: str | Path | None = None,
    trust: bool = False,
) -> list[DropCheck]:
    """Check that runs are not significantly worse than a baseline by more than a margin.

    The test is one-sided, paired by sample and clustered by the benchmark's group (usually the image). A sample that one
    of the two runs lacks, or has no answer or score for, is worth 0 there. A run, or a baseline, that has an answer to less
    than `min_coverage` of its samples does not pass. Of several runs, the p-values are adjusted after Holm.

    >>> old = snellen.evaluate("chart/digits", "embedded", limit=30, out="results/old")
    >>> new = snellen.evaluate("chart/digits", "embedded", limit=30, repeats=2, out="results/new")
    >>> check_drop(old, new, margin=0.01)[0].passed
    True

    Args:
        baseline: folder of the baseline, or an open run.
        runs: what is checked.
        margin: the drop that is accepted, from 0 to below 1; scores are 0 to 1.
        alpha: level of the test.
        min_coverage: share of the samples that must have an answer, 0 to 1.
        profile: one scoring profile; None: the benchmark's first.
        data, images, trust: as for `compare`.

    Raises:
        DifferentSamplesError: other questions. NothingAnsweredError: a run without any answer.
        UsageError: wrong margin, alpha or coverage. RunError: no run there.
    """
    opened, name = open_runs([baseline, *runs], profile, data=data, images=images, trust=trust)
    return check_drops(
        [ComparedRun(run) for run in opened], name, margin=margin, alpha=alpha, min_coverage=min_coverage
    )


def check_drops(
    sides: Sequence[ComparedRun],
    profile: str,
    *,
    margin: float = 0.0,
    alpha: float = ALPHA,
    min_coverage: float = MIN_COVERAGE,
) -> list[DropCheck]:
    """Check each run against the first; as `check_drop`, for runs that are open."""
    require_margin(margin, alpha, min_coverage)
    for side in sides[1:]:
        same_questions(sides[0], side)
    pairs = [_CheckedPair.of(sides[0], side, profile) for side in sides[1:]]
    tests = [statistics.drop_test(pair.b, pair.a, pair.group, margin=margin, alpha=alpha) for pair in pairs]
    adjusted = statistics.holm([test.p_value for test in tests])
    return [
        _check(pair, test, p_adjusted, profile, alpha, min_coverage, several=len(pairs) > 1)
        for pair, test, p_adjusted in zip(pairs, tests, adjusted, strict=True)
    ]


def require_margin(margin: float, alpha: float, min_coverage: float) -> None:
    """Raise UsageError for numbers that make no check."""
    if not 0.0 <= margin < 1.0:
        raise UsageError(
            f"the margin {margin:g} is not from 0 to below 1; scores run from 0 to 1",
            "For one point of 100, write --margin 0.01.",
        )
    if not 0.0 < alpha <= 0.5:
        raise UsageError(f"the level {alpha:g} of the test is not above 0 and at most 0.5", "The usual: --alpha 0.05.")
    if not 0.0 <= min_coverage <= 1.0:
        raise UsageError(f"the coverage {min_coverage:g} is not a share from 0 to 1", "Write --min-coverage 0.9.")


class _CheckedPair(Struct, frozen=True):
    """Baseline and run over the samples that either has: scores [n] with 0 where one is missing, and clusters [n]."""

    sides: tuple[ComparedRun, ComparedRun]
    a: NDArray[np.float64]
    b: NDArray[np.float64]
    group: NDArray[np.int64]
    missing: tuple[int, int]
    coverage: tuple[float, float]

    @classmethod
    def of(cls, baseline: ComparedRun, other: ComparedRun, profile: str) -> _CheckedPair:
        sides = (baseline, other)
        scores = [question_scores(side.scores(profile)) for side in sides]
        codes = np.union1d(scores[0].code, scores[1].code)
        value, answered, group = np.full((2, len(codes)), np.nan), np.zeros((2, len(codes)), dtype=bool), codes.copy()
        for row, each in enumerate(scores):
            at = np.searchsorted(codes, each.code)
            value[row, at], answered[row, at], group[at] = each.value, each.answered, each.group
        counts = np.isfinite(value).any(axis=0)
        if not counts.any():
            raise DataError(
                f"{baseline.folder.path} and {other.folder.path} have no scored sample", "Judge or score them first."
            )
        # A sample that neither run has a score for waits for a judge in both, or has no gold answer: it says nothing.
        lacking = ~answered | (~np.isfinite(value) & counts)
        coverage = [_coverage(side, int((~row).sum()), len(codes)) for side, row in zip(sides, lacking, strict=True)]
        missing = (lacking & counts).sum(axis=1)
        full = np.where(np.isfinite(value), value, 0.0)[:, counts]
        return cls(
            sides, full[0], full[1], group[counts], (int(missing[0]), int(missing[1])), (coverage[0], coverage[1])
        )


def _coverage(side: ComparedRun, answered: int, samples: int) -> float:
    """Return the answered share of the samples that the run was to answer, or that either run has, if these are more."""
    part = side.run.sized_meta.coverage
    sizes = [count for count in (part.limit, part.of) if count is not None]
    return answered / max(samples, min(sizes, default=0))


def _check(
    pair: _CheckedPair,
    test: DropTest,
    p_adjusted: float,
    profile: str,
    alpha: float,
    min_coverage: float,
    *,
    several: bool,
) -> DropCheck:
    comparison = test.comparison
    lacks = min(pair.coverage) < min_coverage
    check = DropCheck(
        baseline=str(pair.sides[0].folder.path),
        run=str(pair.sides[1].folder.path),
        profile=profile,
        status="worse" if p_adjusted < alpha else "incomplete" if lacks else "passed",
        margin=test.margin,
        alpha=alpha,
        min_coverage=min_coverage,
        baseline_score=float(pair.a.mean()),
        score=float(pair.b.mean()),
        difference=comparison.difference,
        ci95=comparison.ci95,
        p_value=test.p_value,
        p_adjusted=p_adjusted,
        test=test.test,
        n=comparison.n,
        clusters=comparison.clusters,
        missing_baseline=pair.missing[0],
        missing=pair.missing[1],
        coverage_baseline=pair.coverage[0],
        coverage=pair.coverage[1],
        detectable=test.detectable,
    )
    return structs.replace(check, text=_sentence(check, pair.sides[0].benchmark.cluster, several=several))


def _sentence(check: DropCheck, cluster: str, *, several: bool) -> str:
    """Describe a check: the order of the runs, the verdict, and the figures that it rests on."""
    beyond = f" by more than {check.margin:g}" if check.margin else ""
    verdict = "is significantly worse" if check.status == "worse" else "is not significantly worse"
    adjusted = f", {check.p_adjusted:.2g} after Holm" if several else ""
    interval = "" if check.ci95 is None else f" (95 % interval {check.ci95[0]:+.4f} to {check.ci95[1]:+.4f})"
    units = "" if check.clusters == check.n else f" in {check.clusters:,} clusters (by {cluster})"
    text = (
        f"B = {check.run} {verdict} than A = {check.baseline}{beyond}: mean score {check.score:.4f} against "
        f"{check.baseline_score:.4f}, difference B - A {check.difference:+.4f}{interval}, one-sided "
        f"p = {check.p_value:.2g}{adjusted} (worse means p < {check.alpha:g}), margin {check.margin:g}, "
        f"n = {check.n:,} samples{units}"
    )
    missing = [f"{count:,} of {name}" for name, count in (("A", check.missing_baseline), ("B", check.missing)) if count]
    if missing:
        text += f"; samples without an answer count as 0: {' and '.join(missing)}"
    if check.status == "incomplete":
        short = [
            f"{name} has an answer to {share:.1%} of its samples"
            for name, share in (("A", check.coverage_baseline), ("B", check.coverage))
            if share < check.min_coverage
        ]
        text += f". This does not pass: {' and '.join(short)}, less than {check.min_coverage:.0%}"
    elif check.passed and check.detectable is not None:
        text += f". A true drop of {check.detectable:.4f} would be detected with 80 % power"
    elif check.passed and check.powerless:
        text += ". So few samples cannot show any drop"
    return f"{text}."
