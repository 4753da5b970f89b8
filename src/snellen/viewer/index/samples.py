"""Samples of a run by id, as its records need them: read once in the benchmark's order, and described for the index."""

from __future__ import annotations

import itertools
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import Any

import duckdb

from snellen.benchmarks.base import Benchmark, Data
from snellen.engine.data_paths import located
from snellen.engine.run_folder import RunFolder
from snellen.errors import UsageError
from snellen.runs.answer_view import answer_view
from snellen.runs.run import Run
from snellen.scoring.scores import question_code
from snellen.text import shorten
from snellen.types import Blob, Image, Part, Record, Sample, Text, Video
from snellen.viewer.index.database import SAMPLES, IndexDatabase, SetState, plain, put_set, table_of
from snellen.viewer.index.entries import RunEntry

SMALL = 20_000
"""Samples of a set that is held as a whole, for the next run of the same set."""
WINDOW = 50_000
"""Samples that are held at most while a journal comes in another order than the benchmark."""
MOST_PASSES = 20
HELD_SETS = 2
QUESTION_CHARACTERS, VALUE_CHARACTERS, TARGET_CHARACTERS = 4_000, 80, 400
FLUSH_ROWS, FLUSH_CHARACTERS = 1 << 15, 16_000_000
MOST_IMAGES, MOST_VALUES, MOST_FIELDS = 4, 1_000, 64
_NO_RECORD = Record("", "ok")


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


class SampleDescriber:
    """Adds what a benchmark says of its samples to a set of the index, in the order of the benchmark.

    Args:
        database: the index.
        state: the set.
        gold: False: gold answers, and meta that names them, are left out.
    """

    def __init__(self, database: IndexDatabase, state: SetState, *, gold: bool) -> None:
        self._database, self.state, self._gold = database, state, gold
        self._rows: list[tuple[Any, ...]] = []
        self._characters = 0

    def add(self, place: int, sample: Sample) -> None:
        """Add the sample at this place of the benchmark's order, unless the set has it."""
        state = self.state
        if place < state.described:
            return
        text = "\n".join(part.text for part in sample.prompt.parts if isinstance(part, Text))
        images = [digest for part in sample.prompt.parts for digest in _images(part)]
        meta = sample.meta if self._gold else answer_view(sample, _NO_RECORD, {}, show_target=False).meta
        target = None if sample.target is None or not self._gold else shorten(_text(sample.target), TARGET_CHARACTERS)
        self._rows.append(
            (
                state.set_no,
                place,
                question_code(sample.id),
                plain(sample.id),
                plain(shorten(text, QUESTION_CHARACTERS)),
                sample.kind,
                images[:MOST_IMAGES],
                len(images),
                self._slices(meta),
                None if target is None else plain(target),
                question_code(sample.group or sample.id),
            )
        )
        self._characters += len(text)
        state.described = place + 1
        if len(self._rows) >= FLUSH_ROWS or self._characters >= FLUSH_CHARACTERS:
            with self._database.change() as database:
                self.save(database)
            self._database.give_back()

    def _slices(self, meta: Mapping[str, Any]) -> list[tuple[str, str]]:
        """Return the fields that samples are filtered by: those with few values."""
        values, pairs = self.state.values, []
        for field_name, value in meta.items():
            name = plain(field_name)
            if name in self.state.wide or not isinstance(value, (str, int, float)):
                continue
            text = plain(shorten(str(value), VALUE_CHARACTERS))
            counts = values.get(name)
            if counts is None:
                if len(values) >= MOST_FIELDS:
                    self.state.wide.append(name)
                    continue
                counts = values[name] = {}
            if text not in counts and len(counts) >= MOST_VALUES:
                self.state.wide.append(name)
                del values[name]
                continue
            counts[text] = counts.get(text, 0) + 1
            pairs.append((name, text))
        return pairs

    def save(self, database: duckdb.DuckDBPyConnection) -> None:
        """Write what was added; of equal ids the first counts."""
        if self._rows:
            database.register("described", table_of(self._rows, SAMPLES))
            database.execute(
                "INSERT INTO sample_rows BY NAME SELECT d.* FROM described d ANTI JOIN (SELECT code FROM sample_rows WHERE set_no = ?) "
                "USING (code) QUALIFY row_number() OVER (PARTITION BY code ORDER BY place) = 1 ORDER BY place",
                [self.state.set_no],
            )
            database.unregister("described")
            self._rows, self._characters = [], 0
        put_set(database, self.state)


def _images(part: Any) -> list[str]:
    if isinstance(part, Image):
        return [image_digest(part.blob.key)]
    if isinstance(part, Video):
        return [image_digest(frame.blob.key) for frame in part.frames]
    return []


def image_digest(key: str) -> str:
    """Return the digest by which an image is named on pages: equal keys are equal bytes."""
    return blake2b(key.encode(errors="surrogatepass"), digest_size=16).hexdigest()


def _text(target: Any) -> str:
    if isinstance(target, bool):
        return "yes" if target else "no"
    return " | ".join(map(str, target)) if isinstance(target, (list, tuple, set, frozenset)) else str(target)


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
        images = [] if sample is None else [blob for part in sample.prompt.parts for blob in _images_of(part)]
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
        for blob in (*_images_of(part), *([] if clip is None else [clip])):
            content = getattr(blob, "data", None) or getattr(blob, "text", None)
            size += len(content) if isinstance(content, (bytes, str)) else 200
    return size


def _images_of(part: Part) -> Iterator[Blob]:
    if isinstance(part, Image):
        yield part.blob
    elif isinstance(part, Video):
        yield from (frame.blob for frame in part.frames)
