"""Sources of one case: a record by its place in the journal, its sample, and the images of the sample."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence

from snellen.engine.data_paths import located
from snellen.engine.run_folder import RunFolder
from snellen.errors import UsageError
from snellen.runs.answer_view import AnswerView, answer_view
from snellen.runs.run import Run
from snellen.runs.scoring import scores_of
from snellen.types import Blob, Image, Part, Record, Sample, Text, Video
from snellen.viewer.index.entries import RunEntry
from snellen.viewer.index.journal_tail import read_record

HELD_SAMPLES = 4_096
"""Samples around the last one that stay in memory, for the next and the previous case."""
HELD_BYTES = 64 << 20
"""Memory of these samples at most: some hold their images instead of referring to files."""
GATHERED_SAMPLES = 256
"""Samples of the last pages that stay in memory, wherever they lie in the benchmark's order."""
OPEN_RUNS = 8


class CaseSource:
    """Reads what a page about one sample shows. May be used by several threads."""

    def __init__(self, *, show_gold: bool, trust: bool) -> None:
        self._show_gold, self._trust = show_gold, trust
        self._lock = threading.RLock()
        self._runs: OrderedDict[tuple[str, float], _OpenCase] = OrderedDict()

    def record(self, entry: RunEntry, at: int, size: int, sample_id: str, repeat: int) -> Record | None:
        """Read a record by its place; None if another one stands there now."""
        record = read_record(entry.path / "results.jsonl", at, size)
        return record if record is not None and (record.sample_id, record.repeat) == (sample_id, repeat) else None

    def answer(self, entry: RunEntry, record: Record) -> AnswerView | None:
        """Return the view of a record; None if the benchmark has no such sample.

        Raises:
            SnellenError: the benchmark or its data is not available.
        """
        with self._lock:
            opened = self._open(entry)
            sample = opened.sample(record.sample_id)
            if sample is None:
                return None
            benchmark, run = opened.run.benchmark, opened.run
            scores = scores_of(benchmark, sample, record, benchmark.score, run.verdicts())
            hidden = (benchmark.restricted or entry.restricted) and not self._show_gold
            return answer_view(sample, record, scores, show_target=not hidden)

    def image(self, entry: RunEntry, place: int, number: int, page: Sequence[int] = ()) -> Blob:
        """Return an image by the place of its sample in the benchmark's order.

        Args:
            entry: the run.
            place: of the sample.
            number: of the image.
            page: places of the samples on the same page, which are read in one pass.

        Raises:
            UsageError: there is none. SnellenError: the benchmark or its data is not available.
        """
        with self._lock:
            sample = self._open(entry).gather(place, page)
        images = [] if sample is None else [blob for part in sample.prompt.parts for blob in _images(part)]
        if number >= len(images):
            raise UsageError(f"sample {place} has no image {number}", "The data was changed: load the page again.")
        return images[number]

    def _open(self, entry: RunEntry) -> _OpenCase:
        folder = RunFolder(entry.path)
        key = (entry.key, folder.meta_path.stat().st_mtime)
        if key not in self._runs:
            self._runs[key] = _OpenCase(Run(folder, located(folder, folder.meta()), trust=self._trust))
            while len(self._runs) > OPEN_RUNS:
                self._runs.popitem(last=False)
        self._runs.move_to_end(key)
        return self._runs[key]


class _OpenCase:
    """A run with the samples that were last asked for."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self._places: dict[str, int] = {}
        self._samples: OrderedDict[int, Sample] = OrderedDict()
        self._gathered: OrderedDict[int, Sample] = OrderedDict()
        self._bytes = 0
        self._rest: Iterator[tuple[int, Sample]] | None = None
        self._next = 0

    def sample(self, sample_id: str) -> Sample | None:
        """Return a sample by id."""
        if (place := self._places.get(sample_id)) is not None:
            return self.at(place)
        for place, sample in self._from(self._next if self._rest is not None else 0):
            if sample.id == sample_id:
                return self._samples.get(place, sample)
        self._rest = None
        return None

    def at(self, place: int) -> Sample | None:
        """Return a sample by its place in the benchmark's order."""
        if place in self._samples:
            return self._samples[place]
        for number, sample in self._from(place):
            if number == place:
                return sample
        self._rest = None
        return None

    def gather(self, place: int, page: Sequence[int]) -> Sample | None:
        """Return a sample by its place; read those of its page in the order of the benchmark, which takes one pass."""
        if place in self._gathered:
            return self._gathered[place]
        for other in sorted({place, *page} - self._gathered.keys()):
            sample = self.at(other)
            if sample is not None:
                self._gathered[other] = sample
        sample = self._gathered.get(place)
        while len(self._gathered) > GATHERED_SAMPLES or sum(map(sample_bytes, self._gathered.values())) > HELD_BYTES:
            self._gathered.popitem(last=False)
        return sample

    def _from(self, place: int) -> Iterator[tuple[int, Sample]]:
        """Yield samples on their way to a place; from the beginning where it was passed."""
        if self._rest is None or place < self._next:
            samples = self.run.benchmark.samples(self.run.meta.spec.data)
            self._rest, self._next = iter(enumerate(samples)), 0
        for number, sample in self._rest:
            self._next = number + 1
            self._places[sample.id] = number
            if number not in self._samples:
                self._samples[number] = sample
                self._bytes += sample_bytes(sample)
            while len(self._samples) > HELD_SAMPLES or self._bytes > HELD_BYTES:
                self._bytes -= sample_bytes(self._samples.popitem(last=False)[1])
            yield number, sample


def sample_bytes(sample: Sample) -> int:
    """Estimate the memory of a sample: its texts, and the images that it holds instead of referring to files."""
    size = 1_000
    for part in sample.prompt.parts:
        if isinstance(part, Text):
            size += len(part.text)
            continue
        clip = part.blob if isinstance(part, Video) else None
        for blob in (*_images(part), *([] if clip is None else [clip])):
            content = getattr(blob, "data", None) or getattr(blob, "text", None)
            size += len(content) if isinstance(content, (bytes, str)) else 200
    return size


def _images(part: Part) -> Iterator[Blob]:
    if isinstance(part, Image):
        yield part.blob
    elif isinstance(part, Video):
        yield from (frame.blob for frame in part.frames)
