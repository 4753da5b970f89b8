"""FIKA-Bench: name the fine-grained thing on an image, with or without tools, strictly judged.

Source: Li and Peng 2026, arXiv 2605.13193; the data set oking0197/FIKA-Bench is gated. What its sources do not say (names of
fields, prompt, rubric) is ours and lies in data files: docs/fika.md.
"""

from __future__ import annotations

from snellen.benchmarks import published
from snellen.benchmarks.base import Benchmark
from snellen.benchmarks.fika import metrics, samples

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
    score={"strict": metrics.unjudged},
    summarize=metrics.summarize,
    profiles=PROFILES,
    size=samples.size,
    digest=samples.digest,
    options=samples.OPTIONS,
    restricted=True,
    about={
        "description": "FIKA-Bench: 311 pictures, name the fine-grained thing; gold answers are restricted.",
        "source": "Li and Peng 2026, FIKA-Bench, arXiv 2605.13193; oking0197/FIKA-Bench on the hub, gated",
        "licence": "its own: non-commercial evaluation, no redistribution of data or gold answers",
    },
    notices=samples.notices,
    rubric=metrics.rubric,
    judged_text=metrics.judged_text,
    ruled_correct=metrics.ruled_correct,
    headline=metrics.headline,
    variables=VARIABLES,
    places=PLACES,
    published=published.load(__name__),
)
