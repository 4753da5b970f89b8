"""A tiny benchmark with rubrics of its own, and a model whose replies tell the judge of judge_server what to say."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from snellen.benchmarks.base import Benchmark, Data
from snellen.errors import ModelTimeoutError
from snellen.formats.base import Problems
from snellen.models.base import Model
from snellen.scoring.metrics import breakdown
from snellen.scoring.rubric import Rubric, built_in
from snellen.scoring.scores import Scores
from snellen.types import Metric, Prompt, Record, Response, Sample, Score, Text

RUBRICS = {"AB": built_in("vlm2-ab"), "ABA": built_in("vlm2-aba")}
SAID = ("right", "score1", "score2", "score0", "score3", "bold")
"""Marks of six samples: a plain question, then AB and ABA by turns (score3 is out of range, bold is no verdict)."""
FORMS = (None, "AB", "ABA", "AB", "ABA", "AB")


def samples(data: Data) -> Iterator[Sample]:
    for i, form in enumerate(FORMS):
        meta = {"form": form} if form else {}
        kind = "open" if form else "short"
        yield Sample(f"v{i}", Prompt((Text(f"Describe clip {i}"),)), "Phascolarctos", kind, group=f"g{i}", meta=meta)


def rubric(sample: Sample) -> Rubric | None:
    return RUBRICS.get(sample.meta.get("form", ""))


def summarize(scores: Scores, profile: str) -> list[Metric]:
    finite = float(np.isfinite(scores.value).sum())
    return [
        *breakdown(scores, ("form",), "video"),
        *breakdown(scores.where(kind="short"), ("kind",), profile),
        *breakdown(scores, ("repeat",), "again"),
        Metric("with_value", finite, len(scores), unit="rows"),
    ]


def results(path: Path, data: Data, problems: Problems) -> Iterator[tuple[Sample, Record]] | None:
    if path.suffix != ".own":
        return None
    known = {sample.id: sample for sample in samples(data)}
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    return ((known[row["vid"]], Record(row["vid"], "ok", response=Response(row["said"]))) for row in rows)


CLIPS = Benchmark(
    name="clips",
    version="1",
    samples=samples,
    score={
        "official": lambda sample, reply: Score(1.0, reply, "correct"),
        "strict": lambda sample, reply: Score(0.0, reply, "wrong"),
    },
    summarize=summarize,
    profiles={"official": "what is said is right", "strict": "nothing is"},
    size=lambda data: len(FORMS),
    rubric=rubric,
    results=results,
)
SECRET = replace(CLIPS, name="secret-clips", restricted=True)
PLAIN = replace(CLIPS, name="plain-clips", rubric=None)


class Scripted(Model):
    name = "scripted"

    def __init__(self, said: tuple[str | None, ...] = SAID) -> None:
        self.said = said

    async def answer(self, prompt: Prompt) -> Response:
        part = prompt.parts[0]
        assert isinstance(part, Text)
        mark = self.said[int(part.text.rpartition(" ")[2])]
        if mark is None:
            raise ModelTimeoutError("too slow")
        return Response(f"One person walks, then another one. [[{mark}]]")


def register(monkeypatch: Any) -> None:
    """The benchmarks by name, as runs on disk name them."""
    from snellen.benchmarks import registry

    for one in ("CLIPS", "SECRET", "PLAIN"):
        monkeypatch.setitem(registry.BUILT_IN, globals()[one].name, f"{__name__}:{one}")
