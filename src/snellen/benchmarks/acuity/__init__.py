"""Acuity: at which size, contrast or difference a model stops seeing, by adaptive thresholds on pictures drawn for the run.

Source of the method: psi-marginal (Kontsevich & Tyler 1999; Prins 2013) in batches; see docs/acuity.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from snellen.benchmarks.acuity.conditions import OPTIONS, plan
from snellen.benchmarks.acuity.metrics import results, snellen_fraction, threshold_metrics
from snellen.benchmarks.acuity.questions import VERSION, question
from snellen.benchmarks.acuity.scorers import strict
from snellen.benchmarks.acuity.steering import first_questions, grow
from snellen.benchmarks.base import Benchmark, Data, Headline, empty_digest
from snellen.scoring.scores import Scores
from snellen.types import Metric, Sample


def samples(data: Data) -> Iterator[Sample]:
    """Yield the first round of every condition that depends on no answer."""
    return (question(data, place.id) for place in first_questions(data))


def summarize(scores: Scores, profile: str) -> list[Metric]:
    """Return one threshold a condition; thresholds are never averaged over attributes."""
    settings = scores.meta["settings"].names[0] if "settings" in scores.meta else ""
    wanted = plan(dict(line.split("=", 1) for line in settings.splitlines()))
    return threshold_metrics(wanted, results(wanted, scores))


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
    digest=empty_digest,
    options=OPTIONS,
    about={
        "description": "Adaptive thresholds: the size, contrast or difference at which a model stops seeing, with intervals, "
        "on pictures that are drawn for the run.",
        "licence": "Apache-2.0",
    },
    headline=headline,
    cluster="condition",
    grow=grow,
    sample=question,
)
