"""Pictures of splits to a feature store: read and decoded ahead in threads, encoded in batches, committed in shards."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from hashlib import sha256
from itertools import cycle, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from msgspec import Struct

from snellen.errors import DataError, UsageError
from snellen.features.blas import single_threaded
from snellen.features.layout import StoreMeta
from snellen.features.pixels import Transform, normalised, normalised_into, read
from snellen.features.splits import read_splits
from snellen.features.writing import Rows, Writer
from snellen.sources import FileBlob, Tree, ZipBlob, open_tree
from snellen.types import Blob

if TYPE_CHECKING:
    import torch

    from snellen.features.encoders.base import Encoder
    from snellen.features.scattered import Scattered

DTYPES = ("float16", "float32")
SHARD_ROWS = 512

# A picture's pixels, or why there are none.
Pixels = Any


class Encoded(Struct, frozen=True, eq=False):
    """Features of some rows.

    Attributes:
        rows: their numbers.
        values: output to float32 [rows, width]; zeros where a picture is missing.
        missing: row number to why its picture could not be read.
    """

    rows: Sequence[int]
    values: dict[str, np.ndarray]
    missing: dict[int, str]


def extract(
    encoder: Encoder | Scattered,
    splits: Sequence[str | Path],
    images: Path | str,
    out: Path | str,
    *,
    dtype: str = "float32",
    batch_size: int = 64,
    workers: int | None = None,
    allow_missing: bool = False,
    shard_rows: int = SHARD_ROWS,
    progress: Callable[[int, int], None] | None = None,
) -> StoreMeta:
    """Encode every picture of the splits into the store `out`, or go on where an earlier call was killed.

    Args:
        encoder: what encodes, with the outputs to store; its transform is used for every split. In several workers:
            `snellen.features.scattered`.
        splits: csv files, see `snellen.features.splits`.
        images: folder, .zip or .tar that the paths lie under.
        out: the store's folder.
        dtype: what values are stored as: float16 or float32.
        batch_size: pictures encoded at once.
        workers: threads that read and decode; None takes one a processor.
        allow_missing: go on without pictures that are not there or cannot be decoded; each is listed in store.json.
        shard_rows: rows between two commits; at most so many are encoded again after a kill.
        progress: called with rows done and rows in all.

    Raises:
        UsageError: a setting out of its range.
        DataError: a split or a picture cannot be read; the message names file and line, or picture.
        FingerprintError: `out` was begun with other settings.
        RunLockedError, StorageError: see `Writer`.
    """
    if dtype not in DTYPES:
        raise UsageError(f"dtype {dtype!r} is not known.", f"Choose one of: {', '.join(DTYPES)}.")
    threads = workers if workers is not None else os.cpu_count() or 1
    if batch_size < 1 or threads < 1 or shard_rows < 1:
        raise UsageError("batch size, workers and rows of a shard are 1 or more.", "Correct the number.")
    rows = read_splits(splits)
    tree = open_tree(images)
    try:
        marks = _marks(tree, rows.ids, Path(images), allow_missing)
        identity = {**encoder.identity(), "dtype": dtype, "data": data_digest(rows, marks)}
        origin = {"encoder": encoder.name, "splits": [str(one) for one in splits], "images": str(images)}
        with Writer(out, identity, rows, encoder.widths(), dtype, origin, _notes(rows)) as writer:
            remaining = writer.remaining
            done = len(rows.ids) - len(remaining)
            if not len(remaining) and writer.complete:
                return writer.meta()

            def blob(row: int) -> Blob:
                return tree.blob(rows.ids[row])

            # An encoder in several workers takes the shards in its own order, and hands back parts of them.
            elsewhere = getattr(encoder, "encode_shards", None)
            parts_of: Iterable[Iterable[Encoded]]
            if elsewhere is not None:
                parts_of = elsewhere(blob, _shards(remaining, shard_rows), batch_size, workers, allow_missing)
            else:
                parts_of = (
                    encode_rows(cast("Encoder", encoder), blob, shard, batch_size, threads, allow_missing)
                    for shard in _shards(remaining, shard_rows)
                )
            for parts in parts_of:
                for part in parts:
                    writer.stage(part.rows, part.values, part.missing)
                    done += len(part.rows)
                    if progress is not None:
                        progress(done, len(rows.ids))
                writer.commit()
            return writer.finish()
    finally:
        tree.close()


def encode_rows(
    encoder: Encoder,
    blob: Callable[[int], Blob],
    rows: Iterable[int],
    batch_size: int,
    workers: int,
    allow_missing: bool = False,
) -> Iterator[Encoded]:
    """Features of the rows with these numbers, a batch at a time, in their order.

    Nothing is written and nothing is shared between calls: several processes, GPUs or hosts may each take some of the
    row numbers, and whoever holds the store writes what they return.

    Args:
        blob: row number to its picture.
        workers: threads that decode, two batches ahead of the encoder.

    Raises:
        DataError: a picture cannot be read and `allow_missing` is False.
    """
    import torch

    transform = encoder.transform
    rows = list(rows)
    batch_size = max(1, min(batch_size, len(rows)))  # no room for pictures that there are not
    room: torch.Tensor | None = None
    with single_threaded():  # each thread that decodes forms its own products
        for numbers, pictures in _batches(blob, rows, transform, batch_size, workers):
            missing = {row: str(one) for row, one in zip(numbers, pictures, strict=True) if isinstance(one, DataError)}
            if missing and not allow_missing:
                fault = next(one for one in pictures if isinstance(one, DataError))
                raise DataError(
                    fault.message,
                    f"{fault.hint} Or go on without such pictures: --allow-missing lists them in the store.",
                ) from fault
            there = [index for index, one in enumerate(pictures) if not isinstance(one, DataError)]
            values: dict[str, np.ndarray] = {}
            if there:
                with torch.inference_mode():
                    chosen = [pictures[index] for index in there]
                    if encoder.device.type == "cpu":
                        if room is None:
                            room = torch.empty(batch_size, 3, *transform.size, dtype=torch.float32)
                        seen = encoder.encode(normalised_into(room, chosen, transform))
                    else:  # bytes are a quarter of what there would be to send
                        seen = encoder.encode(normalised(torch.stack(chosen).to(encoder.device), transform))
                for name, tensor in seen.items():
                    values[name] = np.zeros((len(numbers), tensor.shape[1]), dtype=np.float32)
                    values[name][there] = tensor.cpu().numpy()
            yield Encoded(numbers, values, missing)


def _batches(
    blob: Callable[[int], Blob], rows: Iterable[int], transform: Transform, batch_size: int, workers: int
) -> Iterator[tuple[list[int], list[Pixels]]]:
    """Batches of (row numbers, pixels or the error in their place); at most three batches are held.

    A batch's pixels are overwritten after the next one is asked for.
    """
    import torch

    places = torch.empty(3 * batch_size, 3, *transform.size, dtype=torch.uint8)
    turns = cycle(places.unbind())

    def load(row: int, place: torch.Tensor) -> torch.Tensor | DataError:
        try:
            return read(blob(row), transform, place)
        except DataError as error:
            return error

    with ThreadPoolExecutor(workers, thread_name_prefix="decode") as pool:
        waiting: deque[tuple[int, Future[Any]]] = deque()
        coming = iter(rows)
        try:
            while True:
                for row in islice(coming, 3 * batch_size - len(waiting)):
                    waiting.append((int(row), pool.submit(load, int(row), next(turns))))
                if not waiting:
                    return
                batch = [waiting.popleft() for _ in range(min(batch_size, len(waiting)))]
                yield [row for row, _ in batch], [future.result() for _, future in batch]
        finally:
            for _, future in waiting:
                future.cancel()


def data_digest(rows: Rows, marks: Sequence[str]) -> str:
    """`sha256:` over ids, splits, class ids and names of all rows, and over the size or checksum of their pictures."""
    total = sha256()
    for one in zip(rows.ids, rows.splits, rows.labels.ids(), marks, strict=True):
        total.update("\0".join(map(str, one)).encode(errors="surrogateescape") + b"\n")
    total.update("\n".join(rows.labels.names or ()).encode())
    return f"sha256:{total.hexdigest()}"


def _marks(tree: Tree, ids: Sequence[str], root: Path, allow_missing: bool) -> list[str]:
    """Size in bytes or checksum of every picture, "" where there is none; reading no picture.

    Raises:
        DataError: pictures are not there and `allow_missing` is False.
    """
    marks: list[str] = []
    absent: list[str] = []
    whole = False
    for name in ids:
        if not tree.exists(name):
            absent.append(name)
            marks.append("")
            continue
        one = tree.blob(name)
        if isinstance(one, FileBlob):
            marks.append(str(one.path.stat().st_size))
        elif isinstance(one, ZipBlob):
            marks.append(f"{one.tree.size(one.name)} {one.tree.checksum(one.name):08x}")
        else:
            marks.append("there")
            whole = True
    if whole:  # members of a tar have no checksums
        marks[0] += f" {tree.digest()}"
    if absent and (not allow_missing or len(absent) == len(ids)):
        raise DataError(
            f"{len(ids) - len(absent):,} of {len(ids):,} pictures are under {root}; the first that is not: {absent[0]!r}",
            "Check --images: paths in the splits are relative to it."
            + ("" if len(absent) == len(ids) else " Or encode those that are there: --allow-missing."),
        )
    return marks


def _shards(rows: np.ndarray, size: int) -> Iterator[list[int]]:
    """Row numbers in runs without gaps, of at most `size`."""
    start = 0
    for end in range(1, len(rows) + 1):
        if end == len(rows) or end - start == size or rows[end] != rows[end - 1] + 1:
            yield [int(row) for row in rows[start:end]]
            start = end


def _notes(rows: Rows) -> list[str]:
    twice = len(rows.ids) - len(set(rows.ids))
    return [f"{twice:,} rows show a picture that another row shows"] if twice else []
