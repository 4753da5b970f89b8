"""Images of samples, by the place of a sample in the order of its benchmark."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence

from snellen.engine.data_paths import located
from snellen.engine.run_folder import RunFolder
from snellen.errors import UsageError
from snellen.runs.run import Run
from snellen.types import Blob, Image, Part, Sample, Text, Video
from snellen.viewer.index.entries import RunEntry

HELD_SAMPLES = 256
"""Samples of the last pages that stay in memory."""
HELD_BYTES = 64 << 20
"""Memory of these samples at most: some hold their images instead of referring to files."""
OPEN_RUNS = 8


class SampleImages:
    """Reads the images that pages show. May be used by several threads."""

    def __init__(self, *, trust: bool) -> None:
        self._trust = trust
        self._lock = threading.RLock()
        self._runs: OrderedDict[tuple[str, float], SampleReader] = OrderedDict()

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

    def _open(self, entry: RunEntry) -> SampleReader:
        folder = RunFolder(entry.path)
        key = (entry.key, folder.meta_path.stat().st_mtime)
        if key not in self._runs:
            self._runs[key] = SampleReader(Run(folder, located(folder, folder.meta()), trust=self._trust))
            while len(self._runs) > OPEN_RUNS:
                self._runs.popitem(last=False)
        self._runs.move_to_end(key)
        return self._runs[key]


class SampleReader:
    """Reads samples of a run by their places; those of the last pages stay in memory."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._held: OrderedDict[int, Sample] = OrderedDict()
        self._bytes = 0
        self._rest: Iterator[tuple[int, Sample]] | None = None
        self._next = 0

    def gather(self, place: int, page: Sequence[int]) -> Sample | None:
        """Return a sample by its place; read those of its page in the order of the benchmark, which takes one pass."""
        found = self._held.get(place)
        if found is not None:
            return found
        wanted = {place, *page} - self._held.keys()
        if self._rest is None or min(wanted) < self._next:
            samples = self._run.benchmark.samples(self._run.meta.spec.data)
            self._rest, self._next = iter(enumerate(samples)), 0
        for number, sample in self._rest:
            self._next = number + 1
            if number == place:
                found = sample
            if number in wanted:
                self._hold(number, sample)
            if self._next > max(wanted):
                return found
        self._rest = None
        return found

    def _hold(self, place: int, sample: Sample) -> None:
        self._held[place] = sample
        self._bytes += sample_bytes(sample)
        while len(self._held) > HELD_SAMPLES or self._bytes > HELD_BYTES:
            self._bytes -= sample_bytes(self._held.popitem(last=False)[1])


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
