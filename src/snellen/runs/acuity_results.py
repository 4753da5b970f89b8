"""The conditions of a recorded run of acuity, measured from its journal, and two such runs beside each other."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from snellen.benchmarks.acuity.comparison import ThresholdComparison, compare_conditions, plan_notes
from snellen.benchmarks.acuity.conditions import AcuityPlan, plan
from snellen.benchmarks.acuity.metrics import ConditionResult, results
from snellen.errors import UsageError
from snellen.runs.run import Run
from snellen.runs.scoring import Scored, count
from snellen.scoring.scores import ScoreBuilder


@dataclass(frozen=True)
class MeasuredRun:
    """A run with the results of its conditions.

    Attributes:
        run: the run.
        plan: what it measures.
        results: one a condition that has an answer.
        scores: sample id to 1 (right) or 0; failed questions are left out.
    """

    run: Run
    plan: AcuityPlan
    results: list[ConditionResult]
    scores: dict[str, float] = field(repr=False)


def measured_run(run: Run) -> MeasuredRun:
    """Score a run's answers under the first profile, and measure its conditions.

    Raises:
        UsageError: it is a run of another benchmark, or has no answer.
    """
    if run.benchmark.name != "acuity":
        raise UsageError(f"{run.path} is a run of {run.benchmark.name}, not of acuity", "Name runs of acuity.")
    profile = next(iter(run.benchmark.score))
    builder = ScoreBuilder()
    scores: dict[str, float] = {}

    def add(scored: Scored) -> None:
        score = scored.scores[profile]
        builder.add(scored.sample, score)
        if score.verdict != "error":
            scores[scored.sample.id] = float(score.verdict == "correct")

    run.summarize(profile, each=add, save=False)
    if not scores:
        raise UsageError(f"{run.path} has no answer", "Run it first.")
    wanted = plan(run.meta.spec.data.options)
    expected = count(run.benchmark, run.meta.spec.data)
    return MeasuredRun(run, wanted, results(wanted, builder.build(expected)), scores)


def compare_thresholds(first: MeasuredRun, second: MeasuredRun) -> tuple[list[ThresholdComparison], list[str]]:
    """Compare two runs condition by condition; return the comparisons and what a reader must know of them.

    Raises:
        UsageError: the runs have no condition in common.
    """
    data = [each.run.meta.spec.data for each in (first, second)]
    versions = [each.run.meta.identity.get("version") for each in (first, second)]
    same = data[0].seed == data[1].seed and first.plan.wording == second.plan.wording and versions[0] == versions[1]
    compared = compare_conditions(first.results, second.results, (first.scores, second.scores) if same else None)
    if not compared:
        raise UsageError(
            f"{first.run.path} and {second.run.path} have no condition in common",
            f"The first has {', '.join(each.key for each in first.plan.conditions)}.",
        )
    notes = plan_notes(first.plan, second.plan)
    names = {each.name for each in compared}
    alone = [
        f"{each.condition.key} ({path})"
        for path, members in ((first.run.path, first.results), (second.run.path, second.results))
        for each in members
        if each.condition.key not in names
    ]
    if alone:
        notes.append(f"measured in one run only: {', '.join(alone)}")
    return compared, notes


def run_name(path: Path) -> str:
    """Return the last part of a run's folder, without the benchmark's name."""
    return path.name.removeprefix("acuity-")
