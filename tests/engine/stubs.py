"""A benchmark and a model made of arithmetic, for tests of the engine: no files, no network, answers known."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from typing import Any

from snellen.benchmarks.base import Benchmark, Data
from snellen.models.base import Model
from snellen.scoring.statistics import mean
from snellen.types import Prompt, Response, Sample, Score, Text, Usage


def samples(data: Data) -> Iterator[Sample]:
    for i in range(int(data.options.get("n", "100"))):
        yield Sample(f"q{i}", Prompt((Text(f"What is {i} mod 7?"),)), i % 7, "count", meta={"mod": str(i % 3)})


def score(sample: Sample, reply: str) -> Score:
    right = reply == str(sample.target)
    return Score(1.0 if right else 0.0, reply, "correct" if right else "wrong")


ARITHMETIC = Benchmark(
    name="arithmetic",
    version="1",
    samples=samples,
    score={"strict": score},
    summarize=lambda scores, profile: (
        [mean("accuracy", scores)] + [mean(f"accuracy/{m}", s) for m, s in scores.by("mod")]
    ),
    profiles={"strict": "the reply is the number"},
    size=lambda data: int(data.options.get("n", "100")),
    options={"n": "how many questions"},
)


class Calculator(Model):
    """Answers ARITHMETIC: right where i mod 10 is not 0. `fail` maps question numbers to errors, each raised once."""

    name = "calculator"

    def __init__(self, delay_s: float = 0.0, fail: Mapping[int, list[Exception]] | None = None) -> None:
        self.delay_s = delay_s
        self.fail = dict(fail or {})
        self.asked: list[int] = []
        self.most = 0
        self._now = 0

    def identity(self) -> Mapping[str, Any]:
        return {"name": self.name}

    async def preflight(self) -> None: ...

    async def answer(self, prompt: Prompt) -> Response:
        part = prompt.parts[0]
        i = int(part.text.split()[2])
        self.asked.append(i)
        self._now += 1
        self.most = max(self.most, self._now)
        try:
            if self.delay_s:
                await asyncio.sleep(self.delay_s)
            if self.fail.get(i):
                raise self.fail[i].pop(0)
        finally:
            self._now -= 1
        return Response(str(i % 7 if i % 10 else (i + 1) % 7), usage=Usage(10, 1))

    async def close(self) -> None: ...
