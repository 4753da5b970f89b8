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
    root: Path, skills: Mapping[str, float], *, n: int = 60, levels: Sequence[str] = ("order", "genus")
) -> Path:
    """Write runs of one table benchmark below `root`, by recorded answers, and return the table's file.

    A model of skill s answers s of the samples right; on the last level, 0.25 less. Every third sample is hard for all.
    """
    from snellen.runs.evaluate import evaluate

    table = root / "birds.jsonl"
    rows = [
        {
            "id": f"bird {number}",
            "question": f"Which bird is number {number}?",
            "options": ["crow", "owl", "heron", "finch"],
            "answer": "ABCD"[number % 4],
            "category": levels[number % len(levels)],
        }
        for number in range(n)
    ]
    table.write_text("".join(json.dumps(row) + "\n" for row in rows))
    for name, skill in skills.items():
        chance = random.Random(name)
        answers = []
        for number, row in enumerate(rows):
            level = skill - (0.25 if row["category"] == levels[-1] else 0.0) - (0.2 if number % 3 == 0 else 0.0)
            right = chance.random() < level
            letter = row["answer"] if right else "ABCD"["ABCD".index(str(row["answer"])) - 1]
            answers.append({"id": row["id"], "reply": letter})
        replies = root / "answers" / f"{name}.jsonl"
        replies.parent.mkdir(exist_ok=True)
        replies.write_text("".join(json.dumps(answer) + "\n" for answer in answers))
        evaluate(str(table), f"replay:{replies}", out=root / "runs" / name)
    return table
