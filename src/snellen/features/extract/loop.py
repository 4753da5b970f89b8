"""Encoding loop: rows of images to features, a batch at a time, decoded ahead in threads; and torch's number of threads."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from itertools import cycle, islice
from math import log2
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec import Struct

from snellen.errors import DataError
from snellen.features.extract.preprocess import Transform, normalise, normalise_into, read_pixels
from snellen.features.ranking.blas import single_threaded
from snellen.types import Blob

if TYPE_CHECKING:
    import torch

    from snellen.features.encoders.base import Encoder

# An image's pixels, or the error in their place.
Pixels = Any


class EncodedRows(Struct, frozen=True, eq=False):
    """Features of some rows.

    Attributes:
        rows: their numbers.
        values: output to float32 [rows, width], of patch tokens [rows, tokens, width]; zeros where an image is missing.
        missing: row number to why its image could not be read.
    """

    rows: Sequence[int]
    values: dict[str, np.ndarray]
    missing: dict[int, str]


def encode_rows(
    encoder: Encoder,
    blob: Callable[[int], Blob],
    rows: Iterable[int],
    batch_size: int,
    workers: int,
    allow_missing: bool = False,
) -> Iterator[EncodedRows]:
    """Encode the rows with these numbers, a batch at a time, in their order.

    Nothing is written and nothing is shared between calls: several processes, GPUs or hosts may each take some of the
    row numbers, and whoever holds the store writes what they return.

    Args:
        blob: row number to its image.
        workers: threads that decode; ahead of the encoder by two batches or two images each, whichever is more, unless
            the encoder computes on several cores of this processor.

    Raises:
        DataError: an image cannot be read and `allow_missing` is False.
    """
    import torch

    transform = encoder.transform
    rows = list(rows)
    batch_size = max(1, min(batch_size, len(rows)))  # no room for images that there are not
    on_cpu = encoder.device.type == "cpu"
    # With several threads, small passes mean more waits: on a loaded machine they cost more than the cache saves.
    size = images_per_pass(encoder.work(), batch_size) if torch.get_num_threads() == 1 else batch_size
    room = torch.empty(size if on_cpu else 0, 3, *transform.size)
    # Threads of a product wait for each other by spinning: where they use all cores, decoding beside them only adds waits.
    spins = on_cpu and torch.get_num_threads() > 1 and batch_size >= workers
    ahead = 0 if spins else 2 * max(batch_size, workers)
    with single_threaded():  # each thread that decodes forms its own products
        for numbers, images in _batches(blob, rows, transform, batch_size, workers, ahead):
            missing = {
                row: str(pixels) for row, pixels in zip(numbers, images, strict=True) if isinstance(pixels, DataError)
            }
            if missing and not allow_missing:
                fault = next(pixels for pixels in images if isinstance(pixels, DataError))
                raise DataError(
                    fault.message,
                    f"{fault.hint} To continue without such images: --allow-missing lists them in the store.",
                ) from fault
            present = [index for index, pixels in enumerate(images) if not isinstance(pixels, DataError)]
            values: dict[str, np.ndarray] = {}
            if present:
                with torch.inference_mode():
                    chosen = [images[index] for index in present]
                    if on_cpu:
                        passes = [
                            encoder.encode(normalise_into(room, chosen[start : start + len(room)], transform))
                            for start in range(0, len(chosen), len(room))
                        ]
                        outputs = {name: torch.cat([part[name] for part in passes]) for name in passes[0]}
                    else:  # bytes are a quarter of what there would be to send
                        outputs = encoder.encode(normalise(torch.stack(chosen).to(encoder.device), transform))
                for name, tensor in outputs.items():
                    values[name] = np.zeros((len(numbers), *tensor.shape[1:]), dtype=np.float32)
                    values[name][present] = tensor.cpu().numpy()
            yield EncodedRows(numbers, values, missing)


def _batches(
    blob: Callable[[int], Blob],
    rows: Iterable[int],
    transform: Transform,
    batch_size: int,
    workers: int,
    ahead: int,
) -> Iterator[tuple[list[int], list[Pixels]]]:
    """Yield batches of (row numbers, pixels or the error in their place); holds one batch and `ahead` images read ahead.

    A batch's pixels are overwritten after the next one is asked for.
    """
    import torch

    capacity = batch_size + ahead
    places = torch.empty(capacity, 3, *transform.size, dtype=torch.uint8)
    turns = cycle(places.unbind())

    def load(row: int, place: torch.Tensor) -> torch.Tensor | DataError:
        try:
            return read_pixels(blob(row), transform, place)
        except DataError as error:
            return error

    with ThreadPoolExecutor(workers, thread_name_prefix="decode") as pool:
        waiting: deque[tuple[int, Future[Any]]] = deque()
        coming = iter(rows)
        try:
            while True:
                for row in islice(coming, capacity - len(waiting)):
                    waiting.append((int(row), pool.submit(load, int(row), next(turns))))
                if not waiting:
                    return
                batch = [waiting.popleft() for _ in range(min(batch_size, len(waiting)))]
                yield [row for row, _ in batch], [future.result() for _, future in batch]
        finally:
            for _, future in waiting:
                future.cancel()


WORK_OF_A_PASS = 1e10
"""Multiply-adds of the images that a processor encodes at once. Their activations (some megabytes) stay in its cache: for
a ViT-Ti, 64 at once take a quarter more time an image than 8.
"""
LEAST_IMAGES = 4


def images_per_pass(work: float, batch_size: int) -> int:
    """Return how many images of `work` multiply-adds each a processor encodes at once: a power of two, or the batch."""
    images = max(LEAST_IMAGES, 1 << int(log2(max(1.0, WORK_OF_A_PASS / max(1.0, work)))))
    return min(batch_size, images)


WORK_OF_A_THREAD = 2e9
"""Multiply-adds of a batch that keep one thread busy: some 40 ms of a core, against some microseconds a barrier.

The threads of a product wait for each other by spinning. For an encoder of a few hundred thousand weights the waiting
costs more than the help is worth. The number of threads changes a result in its last bit at most.
"""


def threads_for(work: float, available: int) -> int:
    """Return the threads for a batch of `work` multiply-adds, at most `available` and at least 1."""
    return max(1, min(available, int(work // WORK_OF_A_THREAD)))


@contextmanager
def torch_threads(encoder: Encoder, batch_size: int, threads: int | None = None) -> Iterator[int]:
    """Set torch's threads for encoding batches of this size, yield their number, and restore the setting.

    Args:
        threads: their number; None uses `threads_for`, and never more than torch's own setting.
    """
    import torch

    before = torch.get_num_threads()
    chosen = threads_for(encoder.work() * batch_size, before) if threads is None else threads
    torch.set_num_threads(chosen)
    try:
        yield chosen
    finally:
        torch.set_num_threads(before)
