"""Profiles `judge:NAME` of a run: the verdicts of its judged runs by a rubric that the user named.

The judged runs lie beside the run, in folders whose names begin with `RUN_judged`. What no verdict decides is scored by the
benchmark's first rule.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from msgspec import structs

from snellen.benchmarks.base import Benchmark, Scorer
from snellen.engine.journal import record_name
from snellen.engine.run_folder import JUDGED, RunFolder, derived_folder
from snellen.errors import JudgeError, SnellenError
from snellen.runs.judge.benchmark import (
    LEFT_TO_JUDGE,
    NONE_NAMED,
    OWN,
    WITHOUT_VERDICT,
    none_named,
    rubric_chooser,
    rubrics_used,
)
from snellen.runs.judge.benchmark import PROFILE as JUDGE
from snellen.runs.judge.verdicts import read
from snellen.scoring import statistics
from snellen.scoring.rubric import Rubric, Rubrics, load_rubrics, score_judged
from snellen.scoring.scores import RepeatScorer, Scores
from snellen.types import Metric, Sample, Score

if TYPE_CHECKING:
    from snellen.runs.run import Run

PREFIX = "judge:"


def rubric_runs(source: RunFolder, beside: Iterable[RunFolder]) -> dict[str, RunFolder]:
    """Return those of the judged runs beside a run that give it a profile, by its name."""
    usual = derived_folder(source.path, JUDGED).name
    found: dict[str, RunFolder] = {}
    for judged in beside:
        options = judged.meta().spec.data.options
        if options.get("rubric", OWN) == OWN or options.get(LEFT_TO_JUDGE):
            continue
        name = PREFIX + _stem(options["rubric"])
        suffix = judged.path.name.removeprefix(usual)
        found[name if name not in found else name + (suffix or "-2")] = judged
    return found


def _stem(rubric: str) -> str:
    return Path(rubric).stem if rubric.endswith(".toml") else rubric


def usable(judged: RunFolder) -> Rubrics:
    """Return the rubrics of a judged run.

    Raises:
        JudgeError: their file is gone, or its one rubric asks something else than it did.
    """
    meta = judged.meta()
    rubrics = load_rubrics(meta.spec.data.options["rubric"])
    recorded = str(meta.identity.get("data", "")).rpartition(" ")[2]
    if rubrics.alone is not None and recorded not in ("", rubrics.alone.digest):
        raise JudgeError(f"rubric {rubrics.name} has changed since {judged.path}", "Judge again by the changed rubric.")
    return rubrics


class VerdictScorer(RepeatScorer):
    """Scorer by the verdicts of a judged run; they are read when the first reply is scored."""

    def __init__(self, benchmark: Benchmark, source: RunFolder, judged: RunFolder, rubrics: Rubrics) -> None:
        self._benchmark, self._source, self._judged = benchmark, source, judged
        self._rule = next(iter(benchmark.score.values()))
        self._rubric_of: Callable[[Sample], Rubric | None] = rubric_chooser(benchmark, rubrics)

    @cached_property
    def _verdicts(self) -> Mapping[str, str]:
        return read(self._judged, self._source)

    def of_repeat(self, sample: Sample, reply: str, repeat: int) -> Score:
        """Score a reply by its verdict; unscored where it has none, by the first rule where the rubric is not for it."""
        rubric, narrowed = self._rubric_of(sample), self._benchmark.judged_text
        if rubric is None or (narrowed is not None and narrowed(sample, reply) is None):
            return self._rule(sample, reply)
        said = self._verdicts.get(record_name(sample.id, repeat))
        if said is None:
            return Score(None, None, "unscored", "the judge gave no verdict")
        return score_judged(sample, said, rubric, self._rule)


def with_judge_profiles(benchmark: Benchmark, source: RunFolder, judged_runs: Mapping[str, RunFolder]) -> Benchmark:
    """Return a run's benchmark with a profile for each of its judged runs whose rubric can be read."""
    score: dict[str, Scorer] = {}
    profiles: dict[str, str] = {}
    for name, judged in judged_runs.items():
        try:
            score[name] = VerdictScorer(benchmark, source, judged, usable(judged))
        except JudgeError:  # `judge_lines` says so
            continue
        meta = judged.meta()
        profiles[name] = f"verdicts of {meta.spec.model} by the rubric {meta.spec.data.options['rubric']}"
    if not score:
        return benchmark
    first, details = next(iter(benchmark.score)), benchmark.details

    def summarize(table: Scores, profile: str) -> list[Metric]:
        if profile not in score:
            return benchmark.summarize(table, profile)
        lost = table.has("unscored")
        share = replace(table, value=lost.astype(np.float64), verdict=np.zeros_like(table.verdict))
        return [*benchmark.summarize(table, first), statistics.mean(WITHOUT_VERDICT, share), *none_named(table)]

    return replace(
        benchmark,
        score={**benchmark.score, **score},
        profiles={**benchmark.profiles, **profiles},
        summarize=summarize,
        details=None
        if details is None
        else lambda table, profile, model: details(table, first if profile in score else profile, model),
    )


def judge_lines(
    source: RunFolder,
    judged_runs: Mapping[str, RunFolder],
    saved: Callable[[RunFolder], Mapping[str, Sequence[Metric]]],
    *,
    trust: bool,
) -> list[str]:
    """Return a line for each profile of verdicts: who judged how many replies, and what a reader must know of it.

    Args:
        judged_runs: profile to the run of its verdicts.
        saved: returns the metrics that a run's folder holds, by profile.
        trust: rubric files of another user's run may be read.
    """
    lines = []
    for name, judged in judged_runs.items():
        meta = judged.meta()
        try:
            usable(judged)
            known = remarks(
                meta.spec.model, rubrics_used(structs.replace(meta.spec.data, path=source.path), trust=trust)
            )
        except SnellenError as error:
            lines.append(f"no profile {name}: {error.message}")
            continue
        shares = {metric.name: (metric.value, metric.n) for metric in saved(judged).get(JUDGE, [])}
        counts = f"{meta.totals.ok:,} replies"
        (lost, of), (none, among) = (shares.get(name, (None, 0)) for name in (WITHOUT_VERDICT, NONE_NAMED))
        if lost is not None:
            without = round(lost * of)
            counts = f"{of - without:,} of {of:,} replies; {without:,} have no verdict"
        if none is not None:
            counts += f"; {round(none * among):,} name no option and count as wrong"
        head = f"profile {name}: judged by {meta.spec.model} in {judged.path}: {counts}"
        lines.append("; ".join([head, *known]))
    return lines


def remarks(model: str, rubrics: Iterable[Rubric]) -> list[str]:
    """Return what to know of verdicts by rubrics: another judge than the published one, no marks, and whose words they are."""
    used = {rubric.digest: rubric for rubric in rubrics}.values()
    named = model.rpartition(":")[2].rpartition("/")[2]
    lines = [
        f"the published judge is {judge}, and another one judged"
        for judge in sorted({rubric.judge for rubric in used} - {"", named})
    ]
    if any(not rubric.guarded for rubric in used):
        lines.append(
            "the rubric has no {nonce}, so that a reply can pass for the rubric's own words and steer the verdict"
        )
    return [*lines, *(f"words of {source}" for source in sorted({rubric.source for rubric in used} - {""}))]


def judged_remarks(judged: Run) -> list[str]:
    """Return the remarks on a judge's run; none where the run that it is about cannot be read."""
    spec = judged.meta.spec
    try:
        return remarks(spec.model, rubrics_used(spec.data, trust=judged.trust))
    except SnellenError:
        return []
