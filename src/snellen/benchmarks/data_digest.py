"""The digest of a benchmark's data where the benchmark declares none of its own, as plug-ins may leave it out.

It covers the files that the user names (--data, --images, options that are paths) and every sample: id, texts, options, gold
answer and meta. Images are covered too: files by their content, whose digests are remembered, and all others by their bytes,
unless they lie in data that is covered already. One sample is held at a time.
"""

from __future__ import annotations

import itertools
import os
from array import array
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from snellen.errors import DataError, SnellenError
from snellen.sources.blobs import FileBlob
from snellen.sources.digests import digest
from snellen.sources.hub import HUB
from snellen.types import Blob, Image, Sample, Text, Video

if TYPE_CHECKING:
    from snellen.benchmarks.base import Benchmark, Data

SAMPLES = "samples:"
"""Begins the digest, and tells it from those that benchmarks declare."""
REMEMBERED = 10_000
"""Digests of images and films at hand at once; equal keys mean equal bytes."""


def default_digest(benchmark: Benchmark, data: Data) -> str:
    """`samples:` and SHA-256 over the declared data and all samples.

    Raises:
        DataError: a file that the user names cannot be read, the samples cannot be made, two of them have one id, or a
            target is none of the options.
    """
    total = sha256()
    covered = []
    for name, place in _declared(data):
        total.update(
            f"{name}\0{place if str(place).startswith(HUB) else digest(place)}\n".encode(errors="surrogatepass")
        )
        covered.append(os.path.realpath(place))
    digests: dict[str, bytes] = {}  # a film that many questions are about is read once
    hashes = array("q")
    for sample in benchmark.samples(data):
        _require_target(benchmark, sample)
        hashes.append(hash(sample.id))
        total.update(_text(sample))
        for blob in _blobs(sample):
            if blob.key not in digests:
                if len(digests) >= REMEMBERED:
                    digests.clear()
                digests[blob.key] = _image(blob, covered)
            total.update(digests[blob.key])
    _require_unique(benchmark, data, hashes)
    return f"{SAMPLES}{total.hexdigest()}"


def _require_target(benchmark: Benchmark, sample: Sample) -> None:
    """Raise DataError for a target that is none of the sample's options."""
    answers = {"choice": [*sample.options], "choice_text": [*sample.options.values()]}.get(sample.kind)
    targets = sample.target if isinstance(sample.target, (list, tuple, set, frozenset)) else [sample.target]
    if answers and not all(target in answers for target in targets):
        raise DataError(
            f"{benchmark.name}: the target {sample.target!r} of sample {sample.id!r} is none of its options: "
            f"{', '.join(answers)}",
            f"A target of kind {sample.kind} is {'the letter' if sample.kind == 'choice' else 'the text'} of an option.",
        )


def _require_unique(benchmark: Benchmark, data: Data, hashes: array[int]) -> None:
    """Raise DataError if two samples share an id.

    Args:
        hashes: the hash of each sample's id, in order: a million ids would take ten times the memory.
    """
    codes = np.array(hashes, dtype=np.int64)
    order = np.argsort(codes, kind="stable")
    twice = np.flatnonzero(codes[order][1:] == codes[order][:-1])
    if len(twice):
        first, second = order[twice[0]], order[twice[0] + 1]
        sample = next(itertools.islice(benchmark.samples(data), int(first), None))
        raise DataError(
            f"{benchmark.name}: sample {first + 1} and sample {second + 1} both have the id {sample.id!r}",
            "Give each sample an id of its own: replies are kept by id.",
        )


def _declared(data: Data) -> Iterator[tuple[str, Path]]:
    for name, place in (("path", data.path), ("images", data.images)):
        if place is not None and (str(place).startswith(HUB) or place.exists()):
            yield name, place
    for name, value in sorted(data.options.items()):
        if value and os.path.exists(value):  # noqa: PTH110 - any text, never an error
            yield name, Path(value)


def _text(sample: Sample) -> bytes:
    parts = [part.text if isinstance(part, Text) else type(part).__name__ for part in sample.prompt.parts]
    fields: list[Any] = [sample.id, sample.kind, sample.group, sample.prompt.system, parts]
    fields += [sample.options, sample.target, {name: sample.meta[name] for name in sorted(sample.meta)}]
    return _ENCODER.encode_lines(fields)[:-1] + b"\0"


def _type_name(value: Any) -> str:
    """Name the type of an object that JSON has no form for: its text may differ from run to run."""
    return f"<{type(value).__qualname__}>"


_ENCODER = msgspec.json.Encoder(order="deterministic", enc_hook=_type_name)


def _blobs(sample: Sample) -> Iterator[Blob]:
    for part in sample.prompt.parts:
        if isinstance(part, Image):
            yield part.blob
        elif isinstance(part, Video):
            yield from ([part.blob] if part.blob is not None else [])
            yield from (frame.blob for frame in part.frames)


def _image(blob: Blob, covered: list[str]) -> bytes:
    try:
        if isinstance(blob, FileBlob):
            real = os.path.realpath(blob.path) if covered else ""
            if any(real == place or real.startswith(place + os.sep) for place in covered):
                return os.path.relpath(real, covered[0]).encode(errors="surrogatepass")
            return digest(blob.path).encode()
        if covered:  # a member of an archive or a cell of a table that was read whole above
            return b"\0"
        return sha256(blob.read()).digest()
    except (SnellenError, OSError, ValueError) as error:  # the run will name it; here it is missing like any other
        return type(error).__name__.encode()
