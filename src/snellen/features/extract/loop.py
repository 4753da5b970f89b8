"""Encoding loop: rows of images to features, a batch at a time, decoded ahead in threads; and torch's number of threads."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from itertools import cycle, islice
from math import log2
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from msgspec import Struct

from snellen.errors import DataError
from snellen.features.extract.preprocess import Transform, normalise, normalise_into, read_pixels
from snellen.features.ranking.similarity import single_threaded
from snellen.types import Blob

if TYPE_CHECKING:
    import torch

    from snellen.features.encoders.base import Encoder

# An image's pixels, or the error in their place.
Pixels = Any
Outputs: TypeAlias = "dict[str, torch.Tensor]"


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
    passes: int | None = None,
) -> Iterator[EncodedRows]:
    """Encode the rows with these numbers, a batch at a time, in their order.

    Nothing is written and nothing is shared between calls: several processes, GPUs or hosts may each take some of the
    row numbers, and whoever holds the store writes what they return.

    Args:
        blob: row number to its image.
        workers: threads that decode; ahead of the encoder by two batches or two images each, whichever is more.
        passes: threads that encode a part of a batch each, on the processor; None takes torch's number of threads, and
            lets torch use one in each while the rows are encoded.

    Raises:
        DataError: an image cannot be read and `allow_missing` is False.
    """
    import torch

    transform = encoder.transform
    rows = list(rows)
    batch_size = max(1, min(batch_size, len(rows)))  # no room for images that there are not
    on_cpu = encoder.device.type == "cpu"
    own = torch.get_num_threads()
    passes = (own if passes is None else passes) if on_cpu else 1
    size = min(images_per_pass(encoder.work(), batch_size), -(-batch_size // passes)) if on_cpu else batch_size
    # While the last passes of a batch are encoded, threads that are free begin with those of the next.
    behind = 0 if passes == 1 else -(-passes // -(-batch_size // size))
    with _encoding_threads(encoder, size, passes) as encode, single_threaded():
        encoding: deque[tuple[list[int], list[Pixels], list[Future[Outputs]]]] = deque()
        for numbers, images in _batches(blob, rows, transform, batch_size, workers, behind):
            missing = [pixels for pixels in images if isinstance(pixels, DataError)]
            if missing and not allow_missing:
                raise DataError(
                    missing[0].message,
                    f"{missing[0].hint} To continue without such images: --allow-missing lists them in the store.",
                ) from missing[0]
            present = [pixels for pixels in images if not isinstance(pixels, DataError)]
            parts = [encode(present[start : start + size]) for start in range(0, len(present), size)]
            encoding.append((numbers, images, parts))
            if len(encoding) > behind:
                yield _encoded(*encoding.popleft())
        while encoding:
            yield _encoded(*encoding.popleft())


@contextmanager
def _encoding_threads(
    encoder: Encoder, size: int, passes: int
) -> Iterator[Callable[[Sequence[torch.Tensor]], Future[Outputs]]]:
    """Yield a function that encodes up to `size` images; on the processor, in one of `passes` threads.

    Each thread encodes images of its own with products of one thread. Threads of one product would wait for each other
    several hundred times a batch, by spinning: on a machine with other work that costs as much as the encoder.
    """
    import torch

    transform, on_cpu = encoder.transform, encoder.device.type == "cpu"
    rooms = threading.local()

    def encode(images: Sequence[torch.Tensor]) -> Outputs:
        with torch.inference_mode():
            if not on_cpu:  # bytes are a quarter of what there would be to send
                return encoder.encode(normalise(torch.stack(list(images)).to(encoder.device), transform))
            if not hasattr(rooms, "pixels"):
                rooms.pixels = torch.empty(size, 3, *transform.size)
            return encoder.encode(normalise_into(rooms.pixels, images, transform))

    if passes == 1:

        def encode_now(images: Sequence[torch.Tensor]) -> Future[Outputs]:
            done: Future[Outputs] = Future()
            done.set_result(encode(images))
            return done

        yield encode_now
        return
    before = torch.get_num_threads()
    torch.set_num_threads(1)  # threads that begin after this have one too
    try:
        with ThreadPoolExecutor(passes, thread_name_prefix="encode") as pool:
            try:
                yield lambda images: pool.submit(encode, images)
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise
    finally:
        torch.set_num_threads(before)


def _encoded(numbers: list[int], images: list[Pixels], parts: Sequence[Future[Outputs]]) -> EncodedRows:
    """Return a batch's features, when all its parts are encoded."""
    present = [index for index, pixels in enumerate(images) if not isinstance(pixels, DataError)]
    missing = {row: str(pixels) for row, pixels in zip(numbers, images, strict=True) if isinstance(pixels, DataError)}
    outputs = [part.result() for part in parts]
    values: dict[str, np.ndarray] = {}
    for name, tensor in outputs[0].items() if outputs else ():
        values[name] = np.zeros((len(numbers), *tensor.shape[1:]), dtype=np.float32)
        values[name][present] = np.concatenate([part[name].cpu().numpy() for part in outputs])
    return EncodedRows(numbers, values, missing)


def _batches(
    blob: Callable[[int], Blob],
    rows: Iterable[int],
    transform: Transform,
    batch_size: int,
    workers: int,
    behind: int,
) -> Iterator[tuple[list[int], list[Pixels]]]:
    """Yield batches of (row numbers, pixels or the error in their place), and read two batches ahead.

    A batch's pixels are overwritten after the next one is asked for, or `behind` ones more.
    """
    import torch

    capacity = batch_size + 2 * max(batch_size, workers)
    places = torch.empty(capacity + behind * batch_size, 3, *transform.size, dtype=torch.uint8)
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
