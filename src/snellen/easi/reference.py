"""Comparison with EASI's published scores: verification rows, recomputed, and models' rows on EASI-8.

`snellen report --reference easi` calls this. Differences are told and not explained away: a figure of a part of the
questions says so, a mean says what it is over, and another model's row has a difference and no status.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from snellen.benchmarks.spatial import FURTHER
from snellen.benchmarks.spatial.reference import known_bugs, published
from snellen.benchmarks.spatial.reference.published import Average, Figures, points
from snellen.benchmarks.spatial.reference.verification import (
    HARNESSES,
    Status,
    VerificationRow,
    same_model,
    status,
    verification_rows,
)
from snellen.benchmarks.spatial.tasks import EIGHT, EVERY, MORE
from snellen.easi.leaderboard import LeaderboardEntry
from snellen.easi.result import AnswerSource, BenchmarkResult, by_benchmark, find_sources
from snellen.easi.score import score_result
from snellen.errors import UsageError
from snellen.runs.caveats import conditions
from snellen.types import Metric

PROFILES = ("easi", "lmms-eval")
"""Under whose rules figures are made: EASI's of VLMEvalKit's run, and lmms-eval's."""
UNKNOWN_MODEL = "(files)"


class MeasuredFigure(Struct, frozen=True):
    """A measured score in points; `value` is None if there is none, `n` is the number of answers."""

    value: float | None
    ci95: tuple[float, float] | None
    n: int


class TargetDifference(Struct, frozen=True):
    """A score compared with a row's target, in points, with the status by the verification rule.

    `status` is None where there is nothing to hold it against, and for ours in another model's row.
    """

    value: float | None
    delta: float | None
    status: Status | None


class ComparedRow(Struct, frozen=True):
    """One row of the verification table, with the measured scores for it.

    Attributes:
        data, model, metric: what the row is about.
        target, target_from: what figures are held against in points, and whether that is a paper's (`paper`) or the
            authors' code's or a report's (`other`).
        same_model: whether the row is about the model that answered, by its name or because the user says so.
        theirs: what EASI got, by harness.
        ours: by profile.
        gold: column to the gold answers that it rests on, where there are several revisions of them.
    """

    data: str
    model: str
    metric: str
    target: float | None
    target_from: str
    same_model: bool
    theirs: Mapping[str, TargetDifference]
    ours: Mapping[str, TargetDifference]
    gold: Mapping[str, str] = {}


class ReferenceResult(Struct, frozen=True):
    """The comparison of one benchmark, as printed and as JSON.

    Attributes:
        benchmark, id: Snellen's name and the payload's key; of half of SITE `site/image`.
        run: the run, where several are of one set, in different forms or subsets.
        whole: whether every question of the whole set has a scored answer; only then does a status stand for itself.
        coverage: answers of those that the whole set has, 0 to 1.
        remarks: why it is not whole, and how it was asked where that is not how the benchmark asks.
        figures: overall by profile.
        rows: of the verification table; those of this model where there are any, else those of the same data.
    """

    benchmark: str
    id: str
    whole: bool
    coverage: float
    remarks: tuple[str, ...]
    figures: Mapping[str, MeasuredFigure]
    rows: tuple[ComparedRow, ...]
    run: str = ""


class ReferenceLine(Struct, frozen=True):
    """One row of the published table: points by benchmark, and their mean over the measured benchmarks.

    `comparable` is False where some of these are missing, so that the mean is over fewer; of ours where one of them is of
    part of the questions.
    """

    name: str
    measured: bool
    values: Mapping[str, float | None]
    average: float | None
    coverage: str
    comparable: bool


class BugDifference(Struct, frozen=True):
    """A score that EASI would print differently, in points; NaN as the text `NaN`."""

    harness: str
    id: str
    key: str
    ours: float | None
    easi: float | str | None


class ReferenceComparison(Struct, frozen=True):
    """The comparison of one model with the published scores.

    Attributes:
        model: as it was named.
        results: in EASI's order.
        title, source: of the published rows.
        missing: of the eight, those that there is no figure of.
        lines: ours first; empty where there is none of the eight.
        printed: what the faults that were asked for change.
        entry: the scores and sub-scores in points, as a row of the leaderboard.
    """

    model: str
    results: tuple[ReferenceResult, ...]
    title: str
    source: str
    missing: tuple[str, ...]
    lines: tuple[ReferenceLine, ...]
    printed: tuple[BugDifference, ...]
    entry: LeaderboardEntry


def compare_with_easi(
    results: Sequence[str | Path],
    *,
    model: str | None = None,
    fault_names: Sequence[str] = (),
    trust: bool = False,
    say: Callable[[str], None] = lambda line: None,
) -> list[ReferenceComparison]:
    """Compare results of one or several models with the scores that EASI published.

    Args:
        results: run folders, folders of runs, or folders and files of lmms-eval's or VLMEvalKit's results.
        model: which of the tables' models answered, where its name does not say so.
        fault_names: of `snellen.benchmarks.spatial.reference.known_bugs.OF_FIGURES`: what EASI would have printed with them.
        trust: as for `load_run`.
        say: is told what of the results is left out.

    Raises:
        UsageError: no spatial benchmark there, two results for one, no such fault or model.
        SnellenError: what is there cannot be read or scored.
    """
    known_bugs.check(fault_names)
    _known(model)
    by_model: dict[str, list[AnswerSource]] = {}
    for source in find_sources(results, further=True, trust=trust, say=say):
        name = UNKNOWN_MODEL if source.run is None else source.run.meta.spec.model
        by_model.setdefault(name, []).append(source)
    return [_compare(name, _located(sources), model or name, fault_names) for name, sources in by_model.items()]


def _located(sources: Iterable[AnswerSource]) -> list[BenchmarkResult]:
    """Return the results of one model: one for each set of the payload, and one for each run of the others, in EASI's order."""
    known = list(sources)
    further = [BenchmarkResult(source.task, (source,)) for source in known if not source.task.in_payload]
    order = list(MORE)
    further.sort(key=lambda result: order.index(result.task.name))
    return [*by_benchmark(source for source in known if source.task.in_payload).values(), *further]


def _known(model: str | None) -> None:
    listed = {check.model for name in EVERY for check in verification_rows(name, None)}
    if model is not None and not any(same_model(model, name) for name in listed):
        raise UsageError(f"EASI's verification table has no model {model!r}", f"It has: {', '.join(sorted(listed))}.")


def _compare(
    name: str, located: Sequence[BenchmarkResult], table_model: str, fault_names: Sequence[str]
) -> ReferenceComparison:
    counts = Counter(result.task.name for result in located)
    scored = [{profile: _scored(result, profile) for profile in PROFILES} for result in located]
    first = [by_profile[PROFILES[0]] for by_profile in scored]
    values = {result.task.name: result.figures().overall for result in first}
    table = published.table()
    measured = published.mean_over(values, EIGHT)
    results = [
        _result(by_profile, table_model, several=counts[result.task.name] > 1)
        for result, by_profile in zip(located, scored, strict=True)
    ]
    comparable = all(result.whole for result in results if result.benchmark in measured.known)
    lines = [_line(name, values, measured, measured=True, comparable=comparable)] if measured.known else []
    for row in table.rows if measured.known else ():
        line = dict(zip(EIGHT, row.values, strict=True))
        mean = published.mean_over(line, measured.known)
        lines.append(_line(row.name, line, mean, measured=False, comparable=not mean.missing))
    return ReferenceComparison(
        name,
        tuple(results),
        table.title,
        table.source,
        measured.missing,
        tuple(lines),
        tuple(_printed(scored, fault_names)),
        _entry(name, first),
    )


def _scored(result: BenchmarkResult, profile: str) -> BenchmarkResult:
    """Return a result scored; without figures under a profile that its set does not have, as some have no lmms-eval task."""
    known = result.task.in_payload or profile in FURTHER[result.task.name].profiles
    return score_result(result, profile) if known else result


def _entry(name: str, results: Iterable[BenchmarkResult]) -> LeaderboardEntry:
    figures = {result.task.id: result.figures() for result in results if result.task.in_payload and not result.half}
    return LeaderboardEntry(
        name,
        {key: points(own.overall) for key, own in figures.items()},
        {key: {sub: points(value) for sub, value in own.parts.items()} for key, own in figures.items() if own.parts},
    )


def _line(
    name: str, values: Mapping[str, float | None], mean: Average, *, measured: bool, comparable: bool
) -> ReferenceLine:
    values_in_points = {benchmark: points(values.get(benchmark)) for benchmark in EIGHT}
    value = None if mean.value is None else round(mean.value, 4)
    return ReferenceLine(name, measured, values_in_points, value, mean.coverage, comparable)


def _result(by_profile: Mapping[str, BenchmarkResult], table_model: str, *, several: bool) -> ReferenceResult:
    result = by_profile[PROFILES[0]]
    task = result.task
    # "only ..." is omitted: the result's faults give the answered part already.
    remarks = [
        line for run in result.runs for line in conditions(run.meta, run.benchmark) if not line.startswith("only ")
    ]
    sources = result.provenance["sources"]
    judges = {source["judge"]["model"] for source in sources if source.get("judge")}
    remarks += [f"under {PROFILES[0]}, a judge decided: {name}" for name in sorted(judges)]
    remarks += [f"asked by {source['harness']}" for source in sources if source["harness"] != "snellen"]
    frames = {source.get("frames") for source in sources}
    if len(result.runs) < len(result.sources) and any(row.frames for row in verification_rows(task.name, None)):
        remarks.append("the files do not say how many frames were shown")
    options = result.runs[0].meta.spec.data.options if result.runs else None
    shown = frames.pop() if len(frames) == 1 else None
    rows = [] if result.half else verification_rows(task.name, shown, options)
    own = [row for row in rows if same_model(table_model, row.model)]
    remarks += [f"the table's {column} figures rest on {name}" for row in rows for column, name in row.gold.items()]
    return ReferenceResult(
        result.name,
        result.id,
        result.complete,
        result.coverage,
        (*result.faults, *dict.fromkeys(remarks)),
        {profile: _figure(scored) for profile, scored in by_profile.items()},
        tuple(_row(row, by_profile, bool(own)) for row in own or rows),
        result.runs[0].path.name if several else "",
    )


def _figure(result: BenchmarkResult) -> MeasuredFigure:
    metric = result.overall if result.done else Metric("overall", None, 0, coverage=0.0)
    ends = None if metric.ci95 is None else (round(100 * metric.ci95[0], 4), round(100 * metric.ci95[1], 4))
    return MeasuredFigure(points(metric.value), ends, metric.n)


def _row(check: VerificationRow, by_profile: Mapping[str, BenchmarkResult], same: bool) -> ComparedRow:
    # Questions without any answer count as wrong, and a figure of nothing else than these is none.
    metrics = {
        profile: scored.metrics.get(check.metric) if scored.done else None for profile, scored in by_profile.items()
    }
    return ComparedRow(
        check.data,
        check.model,
        check.metric,
        check.target,
        check.target_from,
        same,
        {harness: _held(check, value, True) for harness, value in check.measured.items()},
        {
            profile: _held(check, None if metric is None else points(metric.value), same)
            for profile, metric in metrics.items()
        },
        check.gold,
    )


def _held(check: VerificationRow, value: float | None, judged: bool) -> TargetDifference:
    delta = None if value is None else check.delta(value)
    return TargetDifference(value, delta, status(delta) if judged and delta is not None else None)


def _printed(scored: Iterable[Mapping[str, BenchmarkResult]], names: Sequence[str]) -> Iterable[BugDifference]:
    if not names:
        return
    every = [by_profile for by_profile in scored if by_profile[PROFILES[0]].task.in_payload]
    for profile in PROFILES:
        harness = HARNESSES[profile]
        figures = {by_profile[profile].id: _figures(by_profile[profile]) for by_profile in every}
        changed = known_bugs.with_faults(figures, harness, names)
        for key in (*figures, *(id_ for id_ in changed if id_ not in figures)):
            yield from _differences(harness, key, figures.get(key), changed.get(key))


def _figures(result: BenchmarkResult) -> Figures:
    """Return the payload's scores; for half of SITE its own, as a known bug reports them for SITE."""
    if not result.half:
        return result.figures()
    return Figures(
        result.overall.value, {key: result.metrics[key].value for key in result.task.keys if key in result.metrics}
    )


def _differences(harness: str, name: str, measured: Figures | None, easi: Figures | None) -> Iterable[BugDifference]:
    before_by_key, after_by_key = (_flat(figures) for figures in (measured, easi))
    for key in {**before_by_key, **after_by_key}:
        before, after = points(before_by_key.get(key)), points(after_by_key.get(key))
        printed = "NaN" if after is not None and math.isnan(after) else after
        if (key in before_by_key) != (key in after_by_key) or before != printed:
            yield BugDifference(harness, name, key, before, printed)


def _flat(figures: Figures | None) -> dict[str, float | None]:
    return {} if figures is None else {"score": figures.overall, **figures.parts}
