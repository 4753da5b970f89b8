"""FIKA-Bench: name the fine-grained thing on an image, with or without tools, strictly judged.

Source: Li and Peng 2026, arXiv 2605.13193; the data set oking0197/FIKA-Bench is gated. What its sources do not say (names of
fields, prompt, rubric) is ours and lies in data files: docs/fika.md.

Metrics of FIKA-Bench: strict accuracy, its breakdowns, and the share of each class of verdict.
The released figures are shares of all 311 samples whose `judge_verdict` is `correct`; a sample without an answer stays
in the denominator.

Scorers of FIKA-Bench: a strict judge alone decides, and only `correct` counts.

Verdict classes and wording of the rubric are ours (snellen/scoring/rubrics/fika.toml).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
from msgspec import structs

from snellen.benchmarks import published
from snellen.benchmarks.base import Benchmark, Headline, Judged
from snellen.benchmarks.fika import samples
from snellen.benchmarks.fika.locate import is_whole_set
from snellen.benchmarks.fika.samples import PARTS, FikaQuestion
from snellen.scoring import json_answer, metrics, statistics
from snellen.scoring.metric_text import bracketed
from snellen.scoring.rubric import SOURCE, Rubric, built_in, gold_forms, plain_letters
from snellen.scoring.scores import Scores
from snellen.types import Metric, Sample, Score


@cache
def fika_rubric() -> Rubric:
    return built_in("fika")


def rubric(sample: Sample) -> Rubric:
    """Return the rubric of every sample: those that cannot be read stay in the denominator too."""
    return fika_rubric()


def judged_text(sample: Sample, reply: str) -> Judged | None:
    """Return the data set's question and the answer as it was read; None where the reply has no answer.

    Neither the reasoning nor the evidence goes to the judge, nor what we asked around the question.
    """
    parsed = json_answer.read(reply)
    if not parsed.answer:
        return None
    question = next((part.question for part in sample.prompt.parts if isinstance(part, FikaQuestion)), None)
    return Judged(question if question is not None else sample.prompt.words, parsed.answer)


def unjudged(sample: Sample, reply: str) -> Score:
    """Score a reply without an answer 0, as invalid.

    One with an answer is unscored until a judge has read it.
    """
    parsed = json_answer.read(reply)
    if not parsed.answer:
        return Score(0.0, None, "invalid", parsed.fault)
    return Score(None, parsed.answer, "unscored", "not judged yet: snellen judge RUN")


def ruled_correct(sample: Sample, answer: str) -> bool:
    """Return True if the answer is the gold answer or an alias: the same letters and digits in order."""
    plain = plain_letters(answer)
    return bool(plain) and plain in map(plain_letters, gold_forms(sample))


NAME, CLUSTERED = "strict_accuracy", "strict_accuracy_by_target"
JUDGED = "judge_verdict"


def summarize(scores: Scores, profile: str) -> list[Metric]:
    """Return the strict accuracy with both of its intervals, its parts, and the share of each class of verdict.

    Shares are of all samples; a sample without a verdict (`unjudged`) is not in the accuracy and lowers its coverage.
    """
    computed = [_per_question_accuracy(scores, NAME), _blank_unless_judged(scores, statistics.mean(CLUSTERED, scores))]
    for part in PARTS:
        column = scores.meta.get(part)
        for value, rows in scores.by(part) if column is not None else ():
            computed.append(_per_question_accuracy(rows, f"{NAME}/{part}/{value}"))
    for label in fika_rubric().verdict.labels:
        computed.append(_blank_unless_judged(scores, _share(scores, JUDGED, label, label)))
    computed += [metrics.share(scores, verdict, verdict) for verdict in ("invalid", "error")]
    computed.append(metrics.share(scores, "unscored", "unjudged"))
    if SOURCE in scores.meta and "rule" in scores.meta[SOURCE].names:
        computed.append(_share(scores, SOURCE, "rule", "by_rule"))
    return computed


def _per_question_accuracy(scores: Scores, name: str) -> Metric:
    """Return the mean with Wilson's interval: samples taken as independent, repeats of one as a cluster."""
    return _blank_unless_judged(scores, statistics.mean(name, replace(scores, group=scores.question)))


def _blank_unless_judged(scores: Scores, metric: Metric) -> Metric:
    """Without a figure where no answer was judged: the ones that could not be read are no accuracy by themselves."""
    unjudged = bool(scores.has("unscored").any()) and not bool((scores.has("correct") | scores.has("wrong")).any())
    return structs.replace(metric, value=None, ci95=None, n=0, coverage=0.0) if unjudged else metric


def _share(scores: Scores, column: str, value: str, name: str) -> Metric:
    """Return the share of rows with a value in a column, of all rows."""
    recorded = scores.meta.get(column)
    code = recorded.names.index(value) if recorded is not None and value in recorded.names else -2
    hits = (recorded.codes == code).astype(np.float64) if recorded is not None else np.zeros(len(scores))
    rows = replace(scores, value=hits, verdict=np.zeros_like(scores.verdict), group=scores.question)
    return statistics.mean(name, rows)


def headline(computed: Sequence[Metric]) -> Headline | None:
    """`strict accuracy 12.54 % [9.3 – 16.7]: 39 of 311 correct`, and the same as flat figures."""
    by_name = {metric.name: metric for metric in computed}
    whole, clustered = by_name.get(NAME), by_name.get(CLUSTERED)
    if whole is None or whole.value is None:
        return None
    correct = round(whole.value * whole.n)
    text = f"strict accuracy {100 * whole.value:.2f} %{_percent(whole)}: {correct:,} of {whole.n:,} correct"
    if clustered is not None and clustered.ci95 is not None:
        text += f"; by target{_percent(clustered)}"
    unjudged = by_name.get("unjudged")
    lost = 0 if unjudged is None or unjudged.value is None else round(unjudged.value * unjudged.n)
    if lost:
        text += f"; {lost:,} have no verdict and are not counted"
    labels = [*fika_rubric().verdict.labels, "invalid", "error"]
    figures: dict[str, Any] = {
        NAME: whole.value,
        "ci95": whole.ci95,
        "ci95_by_target": None if clustered is None else clustered.ci95,
        "n_total": whole.n + lost,
        "n_correct": correct,
        "verdict_counts": {**{name: _count(by_name.get(name)) for name in labels}, "judge_error": lost},
    }
    for part in PARTS:
        head = f"{NAME}/{part}/"
        rows = {name.removeprefix(head): metric for name, metric in by_name.items() if name.startswith(head)}
        figures[f"by_{part}"] = {
            name: {NAME: metric.value, "n": metric.n, "ci95": metric.ci95} for name, metric in rows.items()
        }
    return Headline(text, figures)


def _count(metric: Metric | None) -> int:
    return 0 if metric is None or metric.value is None else round(metric.value * metric.n)


def _percent(metric: Metric) -> str:
    return bracketed(metric.ci95, ".1f", scale=100.0)


VERSION = "1"
PROFILES = {
    "strict": "a judge compares the answer with the gold one and its aliases; only `correct` counts, and no answer is wrong"
}
VARIABLES = {
    "DATA_ZIP": "data",
    "LIMIT": "limit",
    "OUT_DIR": "out",
    "MODEL_PATH": "model",
    "HF_CACHE_DIR": "hub cache",
    "SIF": "image",
}

PLACES = {
    "data": (
        "../release/fika-bench-testset.zip",
        "../release/*.zip",
        "release/fika-bench-testset.zip",
        "release/*.zip",
        "data/fika-bench-testset.zip",
        "fika-bench-testset.zip",
    ),
    "image": ("../containers/*.sif", "containers/*.sif"),
}
"""The layout that the authors' README recommends, seen from the checkout and from the folder above it."""

FIKA = Benchmark(
    cluster="target",
    name="fika",
    version=VERSION,
    samples=samples.samples,
    score={"strict": unjudged},
    summarize=summarize,
    profiles=PROFILES,
    size=samples.size,
    digest=samples.digest,
    options=samples.OPTIONS,
    restricted=True,
    holds=is_whole_set,
    about={
        "description": "FIKA-Bench: 311 pictures, name the fine-grained thing; gold answers are restricted.",
        "source": "Li and Peng 2026, FIKA-Bench, arXiv 2605.13193; oking0197/FIKA-Bench on the hub, gated",
        "licence": "its own: non-commercial evaluation, no redistribution of data or gold answers",
    },
    notices=samples.notices,
    rubric=rubric,
    judged_text=judged_text,
    ruled_correct=ruled_correct,
    headline=headline,
    variables=VARIABLES,
    places=PLACES,
    published=published.load(__name__),
)
