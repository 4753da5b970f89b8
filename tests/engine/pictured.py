"""Arithmetic questions with pictures: few pictures, each in several questions."""

from __future__ import annotations

from collections.abc import Iterator
from io import BytesIO

import numpy as np
from PIL import Image as Pillow
from stubs import ARITHMETIC, score

from snellen.benchmarks.base import Benchmark, Data
from snellen.scoring.statistics import mean
from snellen.sources.blobs import BytesBlob
from snellen.types import Image, Prompt, Sample, Text

N, IMAGES = 20, 5


def picture(number: int) -> Image:
    noise = np.random.default_rng(number).integers(0, 255, (20, 20, 3), dtype=np.uint8)
    out = BytesIO()
    Pillow.fromarray(noise).save(out, "PNG")
    return Image(BytesBlob(f"picture {number}", out.getvalue()))


PICTURES = [picture(number) for number in range(IMAGES)]


def samples(data: Data) -> Iterator[Sample]:
    for i in range(int(data.options.get("n", str(N)))):
        yield Sample(f"q{i}", Prompt((PICTURES[i % IMAGES], Text(f"What is {i} mod 7?"))), i % 7, "count")


PICTURED = Benchmark(
    name="pictured",
    version="1",
    samples=samples,
    score={"strict": score},
    summarize=lambda scores, profile: [mean("accuracy", scores)],
    profiles=ARITHMETIC.profiles,
    size=lambda data: int(data.options.get("n", str(N))),
    options=ARITHMETIC.options,
)
