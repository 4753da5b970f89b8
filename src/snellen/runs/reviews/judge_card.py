"""A judge's card: automatic verdicts against people's decisions, by slice and by model, with intervals.

A judge is a model that gave verdicts, or the rules that read answers from replies.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

import numpy as np
from msgspec import Struct

from snellen.errors import RunError, UsageError
from snellen.runs.compared_runs import SLICED_BY
from snellen.runs.reviews.audit_sample import read_audit_sample
from snellen.runs.reviews.cases import is_read, reviewed_profile
from snellen.runs.reviews.current import CurrentReviews
from snellen.runs.reviews.decisions import ReviewRules, Ruling
from snellen.runs.run import Run
from snellen.runs.scoring import rubric_for, scores_of
from snellen.scoring.statistics import mean_of
from snellen.scoring.statistics.agreement import Coefficient, cohen_kappa
from snellen.types import Metric, Score

MARKED: Mapping[str, str] = {"correct": "right", "wrong": "wrong", "invalid": "unparseable", "partial": "partial"}
"""Automatic verdicts, by the words of the card's rows."""
PEOPLE = ("correct", "incorrect", "other value", "gold-wrong", "ambiguous", "unreadable", "cannot-tell", "tie")
"""Columns of a card: what people settle about the reply, or why they do not."""
DECIDED = ("correct", "incorrect", "other value")
MOST_VALUES = 40


class ConfusionPart(Struct, frozen=True):
    """Automatic verdicts against people's decisions, over a part of the replies.

    Attributes:
        name: `all`, `model=NAME`, `run=FOLDER` or `META=VALUE`.
        n: replies with a decision.
        counts: replies by automatic verdict and by what people settle.
        metrics: error rates. `error`: share of verdicts that are wrong; `false_right`: of replies marked right, those that
            are incorrect; `false_wrong`: of the others, those that are correct; `sensitivity`: of correct replies, those
            marked right; `specificity`: of incorrect ones, those that are not; `gold_error`: share of wrong gold answers.
        kappa: agreement on correct or incorrect beyond chance.
    """

    name: str
    n: int
    counts: Mapping[str, Mapping[str, int]]
    metrics: tuple[Metric, ...]
    kappa: Coefficient


class JudgeCard(Struct, frozen=True):
    """The card of one judge.

    Attributes:
        judge: its model, or `rules of PROFILE`.
        benchmarks, runs, reviewers: whose verdicts and decisions these are.
        design: `audit` for random samples alone, `all` for every decision.
        parts: all replies first, then by model, then by slice.
        notes: what a reader must know.
    """

    judge: str
    benchmarks: tuple[str, ...]
    runs: tuple[str, ...]
    reviewers: tuple[str, ...]
    design: str
    parts: tuple[ConfusionPart, ...]
    notes: tuple[str, ...] = ()


class _Case(Struct, frozen=True):
    """One reply with a decision."""

    run: str
    benchmark: str
    model: str
    marked: str
    people: str
    group: str
    cluster: str
    weight: float
    slices: tuple[str, ...]
    reviewers: tuple[str, ...]


def judge_cards(
    runs: Sequence[Run], *, of: str | None = None, by: Sequence[str] | None = None, design: str | None = None
) -> list[JudgeCard]:
    """Return a card for each judge of these runs.

    Args:
        runs: runs with reviews.
        of: the profile whose verdicts were reviewed; None: each benchmark's first.
        by: meta columns to slice by; None: kind, level, task and similar ones.
        design: `audit` for decisions of random samples alone, `all`; None: `audit` if every run has such decisions.

    Raises:
        RunError: no run has a decision that counts.
        UsageError: there is no such design, profile or meta column.
    """
    if design not in (None, "audit", "all"):
        raise UsageError(f"--design {design}: expected audit or all", "Choose one of them.")
    opened = []
    for run in runs:
        verdicts, profile = run.verdicts(), reviewed_profile(run, of, "--of")
        opened.append((run, profile, verdicts, CurrentReviews(run, profile, ReviewRules(of), verdicts)))
    chosen = design or ("audit" if all(reviews.any_audit for *_, reviews in opened) else "all")
    cases: dict[str, list[_Case]] = defaultdict(list)
    notes: list[str] = []
    for run, profile, verdicts, reviews in opened:
        weights = {} if (sample := read_audit_sample(run.path)) is None else sample.probabilities()
        columns: set[str] = set()
        for answered, record in run.answers():
            score = scores_of(run.benchmark, answered, record, {profile: run.benchmark.score[profile]}, verdicts)[
                profile
            ]
            everybody, audit = reviews.rulings(answered, record, score)
            ruling = audit if chosen == "audit" else everybody
            columns |= answered.meta.keys()
            if ruling is None or score.verdict not in MARKED:
                continue
            judged = rubric_for(run.benchmark, answered, record) is not None
            judge = f"rules of {profile}"
            if verdicts is not None and (judged or is_read(score)):
                judge = (verdicts.model or verdicts.by) if judged else f"{verdicts.reader} as a reader"
            meta = {"kind": answered.kind, **answered.meta}
            cases[judge].append(
                _Case(
                    run=str(run.path),
                    benchmark=run.benchmark.name,
                    model=run.meta.spec.model,
                    marked=MARKED[score.verdict],
                    people=_people(score, ruling),
                    group=f"{run.benchmark.name}\0{answered.group or answered.id}",
                    cluster=run.benchmark.cluster,
                    weight=1.0 / weights.get((answered.id, record.repeat), 1.0) if chosen == "audit" else 1.0,
                    slices=tuple(f"{name}={meta[name]}" for name in by or SLICED_BY if name in meta),
                    reviewers=ruling.reviewers,
                )
            )
        reviews.finish()
        notes += [f"{run.path.name}: {line}" for line in (*reviews.faults, *reviews.tally.notes())]
        lost = [name for name in by or () if name not in columns | {"kind"}]
        if lost:
            raise UsageError(
                f"no sample of {run.path} has the meta field {lost[0]!r}", f"It has: {', '.join(sorted(columns))}."
            )
    if not cases:
        listed = ", ".join(str(run.path) for run in runs)
        raise RunError(
            f"no decision about a verdict in {listed} counts" + (" for an audit" if chosen == "audit" else ""),
            f"Review the verdicts: snellen view {runs[0].path.parent} --review NAME",
        )
    if chosen == "all":
        notes.insert(
            0, "the decisions include a queue of doubtful replies: the rates are those of the reviewed replies alone"
        )
    return [_card(judge, rows, chosen, notes) for judge, rows in sorted(cases.items())]


def _people(score: Score, ruling: Ruling) -> str:
    """Return what people settle about a reply."""
    if ruling.decision is None:
        return "tie"
    if ruling.decision not in ("right", "wrong"):
        return ruling.decision
    if score.verdict == "partial":
        return "correct" if ruling.decision == "right" else "other value"
    return "correct" if (score.verdict == "correct") == (ruling.decision == "right") else "incorrect"


def _card(judge: str, cases: Sequence[_Case], design: str, notes: Sequence[str]) -> JudgeCard:
    parts = [_part("all", cases)]
    models = sorted({case.model for case in cases})
    if len(models) > 1:
        parts += [_part(f"model={model}", [case for case in cases if case.model == model]) for model in models]
    runs = sorted({case.run for case in cases})
    if len(runs) > len(models):
        parts += [_part(f"run={run}", [case for case in cases if case.run == run]) for run in runs]
    slices = Counter(name for case in cases for name in case.slices)
    values = Counter(name.partition("=")[0] for name in slices)
    for name in sorted(slices):
        if 1 < values[name.partition("=")[0]] <= MOST_VALUES:
            parts.append(_part(name, [case for case in cases if name in case.slices]))
    return JudgeCard(
        judge,
        tuple(sorted({case.benchmark for case in cases})),
        tuple(runs),
        tuple(sorted({name for case in cases for name in case.reviewers})),
        design,
        tuple(parts),
        tuple(notes),
    )


def _part(name: str, cases: Sequence[_Case]) -> ConfusionPart:
    counts = {
        marked: {people: number for people in PEOPLE if (number := _count(cases, marked, people))}
        for marked in MARKED.values()
    }
    decided = [case for case in cases if case.people in DECIDED]
    binary = [case for case in decided if case.marked != "partial"]
    firm = [case for case in cases if case.people in (*DECIDED, "gold-wrong", "ambiguous", "unreadable")]
    rates = (
        ("error", decided, lambda case: case.people == "other value" or _differ(case)),
        ("false_right", [case for case in binary if case.marked == "right"], _differ),
        ("false_wrong", [case for case in binary if case.marked != "right"], _differ),
        ("sensitivity", [case for case in binary if case.people == "correct"], lambda case: not _differ(case)),
        ("specificity", [case for case in binary if case.people == "incorrect"], lambda case: not _differ(case)),
        ("gold_error", firm, lambda case: case.people == "gold-wrong"),
    )
    metrics = []
    for rate, rows, holds in rates:
        if rows:
            metrics.append(_share(rate, rows, [holds(case) for case in rows]))
    automatic = ["correct" if case.marked == "right" else "incorrect" for case in binary]
    kappa = cohen_kappa(automatic, [case.people for case in binary])
    return ConfusionPart(
        name, len(cases), {row: cells for row, cells in counts.items() if cells}, tuple(metrics), kappa
    )


def _count(cases: Sequence[_Case], marked: str, people: str) -> int:
    return sum(case.marked == marked and case.people == people for case in cases)


def _differ(case: _Case) -> bool:
    return case.marked != "partial" and (case.marked == "right") != (case.people == "correct")


def _share(name: str, cases: Sequence[_Case], flags: Sequence[bool]) -> Metric:
    """Return the share with its interval, clustered by group and weighted by the design."""
    numbers: dict[str, int] = {}
    group = np.array([numbers.setdefault(case.group, len(numbers)) for case in cases], dtype=np.int64)
    weights = np.array([case.weight for case in cases])
    equal = bool(np.ptp(weights) < 1e-9 * weights.max())
    return mean_of(
        name,
        np.array(flags, dtype=np.float64),
        group,
        weights=None if equal else weights / weights.sum(),
        cluster=cases[0].cluster,
    )
