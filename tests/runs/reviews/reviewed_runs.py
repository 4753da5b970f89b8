"""A small benchmark of two profiles, runs of it with known mistakes, and reviews of them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from snellen import evaluate
from snellen.benchmarks.base import Benchmark, Data
from snellen.scoring.rubric import built_in
from snellen.scoring.scorers import accuracy, choice
from snellen.types import Prompt, Sample, Score, Text

OPTIONS = {"A": "robin", "B": "wren", "C": "finch"}
N = 400


def samples(data: Data) -> Iterator[Sample]:
    for number in range(int(data.options.get("n", N))):
        yield Sample(
            f"q{number}",
            Prompt((Text(f"Which bird is it? (image {number})"),)),
            "A",
            "choice",
            OPTIONS,
            group=f"image-{number // 2}",
            meta={"category": "garden" if number % 4 else "forest"},
        )


def first_letter(sample: Sample, reply: str) -> Score:
    right = reply[:1] == sample.target
    return Score(float(right), reply[:1], "correct" if right else "wrong")


def half(sample: Sample, reply: str) -> Score:
    """Give half a point for a wren."""
    value = {"A": 1.0, "B": 0.5}.get(reply[:1], 0.0)
    return Score(value, reply[:1], {1.0: "correct", 0.5: "partial"}.get(value, "wrong"))


BIRDS = Benchmark(
    name="birds",
    version="1",
    samples=samples,
    score={"strict": choice, "letter": first_letter, "half": half},
    summarize=accuracy("category"),
    profiles={"strict": "a single clear answer", "letter": "the first letter", "half": "half a point for B"},
    size=lambda data: int(data.options.get("n", N)),
    options={"n": "how many"},
    cluster="image",
)
SECRET = replace(BIRDS, name="secret-birds", restricted=True)
JUDGED = replace(
    BIRDS,
    name="judged-birds",
    rubric=lambda sample: built_in("vlm2-ab") if sample.meta["category"] == "forest" else None,
)
ALONE = replace(BIRDS, name="lone-birds", samples=lambda data: (replace_group(sample) for sample in samples(data)))


def replace_group(sample: Sample) -> Sample:
    from msgspec import structs

    return structs.replace(sample, group="")


def answer(folder: Path, replies: dict[str, str], *, n: int = N, benchmark: Benchmark = BIRDS) -> Path:
    """Make a run whose replies are A, except for those given."""
    rows = ({"id": f"q{number}", "reply": replies.get(f"q{number}", "A")} for number in range(n))
    file = folder.with_suffix(".jsonl")
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    evaluate(benchmark, f"replay:{file}", out=folder, benchmark_options={"n": str(n)})
    return folder


def decide(
    folder: Path,
    decisions: dict[str, str] | Iterable[tuple[str, str]],
    *,
    reviewer: str = "ada",
    design: str = "audit",
    **fields: object,
) -> None:
    """Append decisions to reviews.jsonl as another program would write them."""
    pairs = decisions.items() if isinstance(decisions, dict) else decisions
    with (folder / "reviews.jsonl").open("a") as file:
        for name, word in pairs:
            row = {"sample_id": name, "reviewer": reviewer, "decision": word, "at": "2026-11-01T10:00:00+00:00"}
            file.write(json.dumps({**row, "design": design, **fields}) + "\n")
