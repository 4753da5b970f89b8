"""Scorers of the chart: `strict` uses careful extractors, `exact` compares as a naive harness does."""

from __future__ import annotations

from collections.abc import Mapping

from snellen.benchmarks.base import Scorer
from snellen.scoring.extract import correct, read
from snellen.scoring.scores import Scores, guessing
from snellen.scoring.statistics import mean
from snellen.types import Metric, Sample, Score

CELLS = (
    *(
        f"{kind}/{level}"
        for kind in ("short", "truth", "choice", "pair")
        for level in ("class", "genus", "species", "attribute")
    ),
    "choice_text",
    "count",
    "count/legs",
    "set",
    "group",
    "relation",
    "motion",
    *(f"digits/{kind}" for kind in ("short", "truth", "choice", "pair")),
)


def expected(sample: Sample) -> str:
    """Return the gold answer in the form that the question asks for."""
    if sample.kind == "truth":
        words = ("yes", "no") if sample.meta["form"] == "yes/no" else ("t", "f")
        return words[0] if sample.target else words[1]
    return str(int(sample.target)) if sample.kind == "number" else str(sample.target)


def strict(sample: Sample, reply: str) -> Score:
    """Return the answer that a careful reader finds in the reply.

    A reply that names none, or two, is wrong and says why.
    """
    question = sample.prompt.parts[-1].text  # type: ignore[union-attr]
    reading = read(
        sample.kind,
        reply,
        question=question,
        options=sample.options,
        form=str(sample.meta["form"]) if sample.kind == "truth" else None,
    )
    if reading.value is None:
        return Score(0.0, None, "invalid", reading.reason)
    right = correct(sample.kind, reading.value, sample.target)
    return Score(float(right), reading.value, "correct" if right else "wrong", reading.reason)


def exact(sample: Sample, reply: str) -> Score:
    """The whole reply, without case, outer space and one final full stop, equals the gold answer in the asked form."""
    answer = reply.strip().removesuffix(".").lower()
    right = answer == expected(sample).lower()
    return Score(
        float(right), answer, "correct" if right else "wrong", None if right else "the reply is not the gold answer"
    )


SCORERS: Mapping[str, Scorer] = {"strict": strict, "exact": exact}
PROFILES: Mapping[str, str] = {
    "strict": "reads the one answer that the reply gives, whatever the wording; no answer or two count as wrong",
    "exact": "the whole reply must be the gold answer in the asked form, as a naive harness compares",
}


def summarize(scores: Scores, profile: str) -> list[Metric]:
    """`accuracy` over everything, then `accuracy/<cell>` for each kind and level that was asked; all with chance.

    A cell is a kind and a level (`short/species`), or a task of its own (`count`, `group`, `digits/truth`).
    """
    metrics = [mean("accuracy", scores, chance=guessing(scores))]
    tasks = list(scores.by("task"))
    if len(tasks) > 1:
        metrics += [mean(f"accuracy/{task}", part, chance=guessing(part)) for task, part in tasks]
    parts = dict(scores.by("cell"))
    metrics += [mean(f"accuracy/{cell}", parts[cell], chance=guessing(parts[cell])) for cell in CELLS if cell in parts]
    return metrics
