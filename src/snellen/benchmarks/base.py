"""What a benchmark is: a declaration of where samples come from, how a reply is scored, and how scores are summed up."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from msgspec import Struct

from snellen.scoring.table import Scores
from snellen.types import Metric, Sample, Score


class Data(Struct, frozen=True):
    """What the user says about the data: where it lies and how it is asked.

    `path` is --data, `images` is --images, `options` are `-o key=value` pairs that a benchmark declares itself,
    `seed` is the run's seed for whatever a benchmark draws (the embedded chart draws the same for the same seed).
    """

    path: Path | None = None
    images: Path | None = None
    options: Mapping[str, str] = {}
    seed: int = 0


Scorer: TypeAlias = Callable[[Sample, str], Score]
Summary: TypeAlias = Callable[[Scores, str], list[Metric]]


@dataclass(frozen=True)
class Benchmark:
    """A benchmark: declared, not subclassed.

    Attributes:
        name: as users type it, e.g. `chart/creatures`.
        version: raised whenever prompts, targets or ids change; part of the fingerprint.
        samples: yields every sample, lazily and in a fixed order.
        score: profile name to scorer; the first one is the default. A scorer is a pure function of sample and reply.
        summarize: columns of scores to metrics.
        profiles: profile name to one line that says what it is (the docs are tested against these).
        size: how many samples there are, where that is known without making them.
        digest: digest of the data that was read, for the fingerprint.
        options: option name to help text, for `-o`.
        restricted: gold never leaves the scorer.
        about: description, source, licence and citation, shown by `snellen list --long`.
        members: the benchmarks of a suite, empty otherwise.
    """

    name: str
    version: str
    samples: Callable[[Data], Iterator[Sample]]
    score: Mapping[str, Scorer]
    summarize: Summary
    profiles: Mapping[str, str]
    size: Callable[[Data], int | None] = lambda data: None
    digest: Callable[[Data], str] = lambda data: ""
    options: Mapping[str, str] = field(default_factory=dict)
    restricted: bool = False
    about: Mapping[str, str] = field(default_factory=dict)
    members: Sequence[Any] = ()
