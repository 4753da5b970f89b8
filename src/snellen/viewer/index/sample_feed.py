"""Samples of a run by id, as its records need them: read once in the benchmark's order, with a bounded number held."""

from __future__ import annotations

import itertools
from collections import OrderedDict
from collections.abc import Callable, Iterator

from snellen.benchmarks.base import Benchmark, Data
from snellen.types import Sample

SMALL = 20_000
"""Samples of a set that is held as a whole, for the next run of the same set."""
WINDOW = 50_000
"""Samples that are held at most while a journal comes in another order than the benchmark."""
MOST_PASSES = 20
HELD_SETS = 2


class SampleFeed:
    """Samples by id, read in order; an id far from its place makes the feed begin again, a few times.

    Args:
        samples: begins to yield all samples.
        each: is called with (place, sample) for every sample, the first time it is read.
    """

    def __init__(self, samples: Callable[[], Iterator[Sample]], each: Callable[[int, Sample], None]) -> None:
        self._begin, self._each = samples, each
        self._rest = enumerate(samples())
        self._waiting: OrderedDict[str, Sample] = OrderedDict()
        self._evicted = False
        self._unknown: set[str] = set()
        self._passes = 1
        self.seen = 0
        self.finished = False

    def get(self, sample_id: str) -> Sample | None:
        """Return the sample with this id; None if the benchmark has none."""
        sample = self._waiting.get(sample_id)
        if sample is not None or sample_id in self._unknown:
            return sample
        sample = self._advance(sample_id)
        if sample is None and self._evicted and self._passes < MOST_PASSES:
            self._passes += 1
            self._waiting.clear()
            self._evicted, self.finished = False, False
            self._rest = enumerate(self._begin())
            sample = self._advance(sample_id)
        if sample is None and len(self._unknown) < WINDOW:
            self._unknown.add(sample_id)
        return sample

    def _advance(self, sample_id: str | None) -> Sample | None:
        for place, sample in self._rest:
            if place >= self.seen:
                self._each(place, sample)
                self.seen = place + 1
            self._waiting[sample.id] = sample
            if len(self._waiting) > WINDOW:
                self._waiting.popitem(last=False)
                self._evicted = True
            if sample.id == sample_id:
                return sample
        self.finished = True
        return None

    def drop(self, sample_id: str) -> None:
        """Forget a sample that is answered in every repeat."""
        if self._waiting.pop(sample_id, None) is not None:
            self._evicted = True

    def read_on(self, upto: int | None) -> None:
        """Read the samples that no record has asked for yet, up to a number of them; None: all."""
        for place, sample in self._rest if upto is None else itertools.islice(self._rest, max(0, upto - self.seen)):
            if place >= self.seen:
                self._each(place, sample)
                self.seen = place + 1
        if upto is None:
            self.finished = True


class HeldSamples:
    """The samples of the sets that were used last, as long as they are small."""

    def __init__(self) -> None:
        self._sets: OrderedDict[str, list[Sample]] = OrderedDict()

    def begin(self, name: str, benchmark: Benchmark, data: Data) -> Callable[[], Iterator[Sample]]:
        """Return a function that begins to yield the samples of a set, from memory where they are held."""

        def samples() -> Iterator[Sample]:
            in_memory = self._sets.get(name)
            if in_memory is not None:
                self._sets.move_to_end(name)
                return iter(in_memory)
            return self._collected(name, benchmark.samples(data))

        return samples

    def _collected(self, name: str, samples: Iterator[Sample]) -> Iterator[Sample]:
        collected: list[Sample] | None = []
        for sample in samples:
            if collected is not None:
                collected.append(sample)
                if len(collected) > SMALL:
                    collected = None
            yield sample
        if collected is not None:
            self._sets[name] = collected
            while len(self._sets) > HELD_SETS:
                self._sets.popitem(last=False)
