"""Runs of known scores for tests of the matrix and the comparison: entries, score columns, and folders on disk."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from snellen.scoring import statistics
from snellen.scoring.scores import ScoreBuilder, Scores
from snellen.types import Metric, Prompt, Sample, Score, Text, Verdict
from snellen.viewer.comparison import ComparedSide
from snellen.viewer.index import RunEntry


def entry(key: str, model: str, benchmark: str = "birds", **changes: Any) -> RunEntry:
    """A complete run with one metric; `value` and `n` give its accuracy."""
    value, n = changes.pop("value", 0.5), changes.pop("n", 100)
    coverage = changes.pop("coverage", 1.0)
    metric = Metric("accuracy", value, n, tuple(statistics.wilson(value, n)), coverage=coverage, chance=0.25)
    metrics = changes.pop("metrics", {"strict": [metric]})
    state = changes.pop("state", "complete" if coverage == 1.0 else "partial")
    headline = changes.pop("headline", next(iter(metrics.values()))[0] if metrics else None)
    return RunEntry(
        key,
        Path(key),
        benchmark,
        model,
        state=state,
        coverage=coverage,
        headline=headline,
        metrics=metrics,
        verified=True,
        indexed=n,
        **changes,
    )


def scores(
    rights: Mapping[str, float | None],
    *,
    groups: Mapping[str, str] | None = None,
    failed: Sequence[str] = (),
    **meta: Any,
) -> Scores:
    """Score columns from sample ids to scores; `meta` has a function of the id for each field."""
    builder = ScoreBuilder()
    for sample_id, value in rights.items():
        fields = {name: of(sample_id) for name, of in meta.items()}
        group = (groups or {}).get(sample_id, "")
        sample = Sample(sample_id, Prompt((Text("?"),)), None, "choice", group=group, meta=fields)
        verdict: Verdict = "unscored" if value is None else "correct" if value == 1.0 else "wrong"
        builder.add(sample, Score(value, None, "error" if sample_id in failed else verdict))
    return builder.build()


def sides(*columns: Scores) -> list[ComparedSide]:
    """The sides of a comparison, in their order."""
    return [ComparedSide.of(place, entry(f"run-{place}", f"model-{place}"), each) for place, each in enumerate(columns)]


def write_runs(
    root: Path,
    skills: Mapping[str, float],
    *,
    names: Sequence[str] = ("birds",),
    n: int = 60,
    levels: Sequence[str] = ("order", "genus"),
    partial: Sequence[str] = (),
) -> None:
    """Write runs of tables below `root`, `<table>/<model>`, by recorded answers.

    A model of skill s answers s of the samples right; on the last level, 0.25 less. Every third sample is hard for all.
    Models in `partial` answer a half of the last table.
    """
    from snellen.runs.evaluate import evaluate

    rows = {name: [_row(name, number, levels) for number in range(n)] for name in names}
    for name, samples in rows.items():
        (root / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in samples))
    (root / "answers").mkdir(exist_ok=True)
    for model, skill in skills.items():
        chance = random.Random(model)
        replies = root / "answers" / f"{model}.jsonl"
        answers = []
        for row in (row for samples in rows.values() for row in samples):
            level = skill - (0.25 if row["category"] == levels[-1] else 0.0) - (0.2 if row["hard"] == "yes" else 0.0)
            letter = row["answer"] if chance.random() < level else "ABCD"["ABCD".index(row["answer"]) - 1]
            answers.append({"id": row["id"], "reply": letter})
        replies.write_text("".join(json.dumps(answer) + "\n" for answer in answers))
        for name in names:
            limit = n // 2 if model in partial and name == names[-1] else None
            evaluate(str(root / f"{name}.jsonl"), f"replay:{replies}", out=root / name / model, limit=limit)


def _row(name: str, number: int, levels: Sequence[str]) -> dict[str, Any]:
    return {
        "id": f"{name} {number}",
        "question": f"Which of the {name} is number {number}?",
        "options": ["crow", "owl", "heron", "finch"],
        "answer": "ABCD"[number % 4],
        "category": levels[number % len(levels)],
        "hard": "yes" if number % 3 == 0 else "no",
    }
