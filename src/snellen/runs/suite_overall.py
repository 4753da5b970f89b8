"""Overall metrics of a suite whose members were run one by one, such as `overall_8` of eight runs of `vlm2/…`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from msgspec import structs

from snellen.benchmarks import registry
from snellen.benchmarks.base import Benchmark
from snellen.benchmarks.suite import member_name
from snellen.errors import UsageError
from snellen.runs import scoring
from snellen.runs.run import Run
from snellen.scoring.scores import ScoreBuilder
from snellen.scoring.statistics import with_cluster
from snellen.types import Metric


class SuiteOverall(NamedTuple):
    """The overall metrics of one model over the runs of a suite's members, under one profile."""

    suite: str
    model: str
    profile: str
    metrics: tuple[Metric, ...]
    runs: tuple[Run, ...]


def suite_overall(runs: Sequence[Run], profile: str | None = None) -> list[SuiteOverall]:
    """Return the overall metrics that runs of a suite's members give together, by suite, model and profile.

    Args:
        runs: any runs; those of suites without overall metrics, and of whole suites, are passed over. Of two runs of one
            member the second belongs to a second group.
        profile: a profile, several by comma, `all`; None: the suite's first.

    Returns:
        Groups for which at least one overall metric has a value; others are left out.
    """
    groups: list[tuple[Benchmark, dict[str, Run]]] = []
    for run in runs:
        suite = _suite_of(run.benchmark.name)
        if suite is None:
            continue
        name, model = member_name(suite.name, run.benchmark), run.meta.spec.model_with_adapter
        for known, members in groups:
            first = next(iter(members.values()))
            if known is suite and name not in members and first.meta.spec.model_with_adapter == model:
                members[name] = run
                break
        else:
            groups.append((suite, {name: run}))
    return [overall for suite, members in groups if len(members) > 1 for overall in _over(suite, members, profile)]


def _suite_of(benchmark: str) -> Benchmark | None:
    """Return the suite that a benchmark is a member of, if the suite has overall metrics."""
    head, slash, _ = benchmark.rpartition("/")
    if not slash or registry.is_path(benchmark) or registry.is_code(benchmark):
        return None
    try:
        suite = registry.find(head)
    except UsageError:
        return None
    return suite if suite.overall and any(member.name == benchmark for member in suite.members) else None


def _over(suite: Benchmark, members: dict[str, Run], profile: str | None) -> list[SuiteOverall]:
    model = next(iter(members.values())).meta.spec.model_with_adapter
    overall = []
    for name in scoring.profiles_of(suite, profile):
        builder, expected = ScoreBuilder(), 0
        for task, run in members.items():
            scorers = scoring.profiles_of(run.benchmark, name)
            verdicts, spec = run.verdicts(), run.meta.spec
            for sample, record in run.answers():
                score = scoring.scores_of(run.benchmark, sample, record, scorers, verdicts)[name]
                group = f"{task}/{sample.group}" if sample.group else ""
                meta = {**sample.meta, "task": task}
                builder.add(
                    structs.replace(sample, id=f"{task}/{sample.id}", group=group, meta=meta), score, record.repeat
                )
            expected += scoring.count(run.benchmark, spec.data) * spec.repeats
        metrics = with_cluster(suite.summarize(builder.build(expected), name), suite.cluster)
        known = tuple(metric for metric in metrics if metric.name in suite.overall and metric.value is not None)
        if known:
            overall.append(SuiteOverall(suite.name, model, name, known, tuple(members.values())))
    return overall
