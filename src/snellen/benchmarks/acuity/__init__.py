"""Acuity: at which size, contrast or difference a model stops seeing, by adaptive thresholds on pictures drawn for the run.

Source of the method: psi-marginal (Kontsevich & Tyler 1999; Prins 2013) in batches; see docs/acuity.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from snellen.benchmarks.acuity.comparison import digest, is_like, open_ids, questions_of
from snellen.benchmarks.acuity.conditions import OPTIONS, AcuityPlan, expected_questions, plan
from snellen.benchmarks.acuity.details import condition_details, tables
from snellen.benchmarks.acuity.metrics import results, snellen_fraction, strict, threshold_metrics
from snellen.benchmarks.acuity.prescription import acuity_details
from snellen.benchmarks.acuity.questions import VERSION, question
from snellen.benchmarks.acuity.steering import grow
from snellen.benchmarks.acuity.through import with_media
from snellen.benchmarks.base import Benchmark, Data, Forecast, Headline, ModelFacts, ScoredAnswer, SummaryDetails
from snellen.scoring.scores import LEFT_OUT, Scores
from snellen.types import Metric, Sample


def samples(data: Data) -> Iterator[Sample]:
    """Yield the first round of every condition that depends on no answer; all questions of a run like another one."""
    if is_like(data):
        return (question(data, name) for name in questions_of(data))
    return iter(grow(data, {}))


def open_questions(data: Data, answers: Mapping[str, ScoredAnswer]) -> list[Sample]:
    """Return all questions that are open now."""
    if is_like(data):
        return [question(data, name) for name in open_ids(data, answers)]
    return grow(data, answers)


def forecast(data: Data) -> Forecast:
    """Return how many questions are expected, and how many are asked at most."""
    acuity_plan = plan(data.options)
    if is_like(data):
        number = len(questions_of(data))
        return Forecast(number, number)
    expected = (min(acuity_plan.limit(each), expected_questions(acuity_plan, each)) for each in acuity_plan.conditions)
    return Forecast(sum(expected), sum(map(acuity_plan.limit, acuity_plan.conditions)))


def summarize(scores: Scores, profile: str) -> list[Metric]:
    """Return one threshold a condition; thresholds are never averaged over attributes."""
    acuity_plan = _plan_of(scores)
    return threshold_metrics(acuity_plan, results(acuity_plan, scores))


def details(scores: Scores, profile: str, model: ModelFacts) -> SummaryDetails:
    """Return the conditions with thresholds in words, states and checks; effective pixels and prescription."""
    acuity_plan = _plan_of(scores)
    advice = acuity_details(scores, profile, model)
    pixels: list[dict[str, Any]] = advice.fields["conditions"]
    measured = [condition_details(acuity_plan, result) for result in results(acuity_plan, scores)]
    conditions = [{**condition, **sizes} for condition, sizes in zip(measured, pixels, strict=True)]
    return SummaryDetails({**advice.fields, "conditions": conditions}, advice.lines)


def _plan_of(scores: Scores) -> AcuityPlan:
    settings = scores.meta["settings"].names[0] if "settings" in scores.meta else ""
    return plan(dict(line.split("=", 1) for line in settings.splitlines()))


def headline(metrics: Sequence[Metric]) -> Headline | None:
    """Return the gap as a Snellen fraction, where it was measured."""
    gap = next((metric for metric in metrics if metric.name.partition("@")[0] == "threshold/gap"), None)
    if gap is None or gap.value is None or gap.ci95 is None:
        return None
    low, high = gap.ci95
    text = f"gap {gap.value:.1f} px [{low:.1f}, {high:.1f}]: {snellen_fraction(gap.value)}"
    return Headline(text, {"gap_px": gap.value, "snellen": snellen_fraction(gap.value)})


ACUITY = Benchmark(
    name="acuity",
    version=VERSION,
    samples=samples,
    score={"strict": strict},
    summarize=summarize,
    profiles={"strict": "right, wrong, or an abstention where the reply names no option, two options, or refuses"},
    digest=digest,
    options=OPTIONS,
    about={
        "description": "Adaptive thresholds: the size, contrast or difference at which a model stops seeing, with intervals, "
        "on pictures that are drawn for the run.",
        "licence": "Apache-2.0",
    },
    headline=headline,
    details=details,
    tables=tables,
    cluster="condition",
    unanswered=LEFT_OUT,
    grow=open_questions,
    sample=question,
    forecast=forecast,
    groups=lambda data: len(plan(data.options).conditions),
    with_media=with_media,
)
