"""Extraction on Ray: workers read, decode and encode; only the main process writes."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from snellen.engine.fingerprint import differences
from snellen.engine.ray.cluster import Cluster
from snellen.engine.ray.pool import WorkerPool
from snellen.engine.ray.transfer import packed, unpacked
from snellen.engine.ray.worker import UNSEEN
from snellen.errors import DataError, PreflightError, UsageError
from snellen.features.encoders import open_encoder
from snellen.features.extract.loop import EncodedRows, encode_rows
from snellen.sources import Unreadable
from snellen.types import Blob

if TYPE_CHECKING:
    import torch

    from snellen.features.encoders.base import Encoder

AHEAD = 2  # pieces that a worker is given at once: one is encoded while the next is decoded
MOST_BATCHES = 8  # of one piece: what is encoded again when a worker is lost


class RayEncoder:
    """Encoder for `extract` that runs in several Ray workers; open only as a context."""

    def __init__(
        self,
        spec: str,
        outputs: Sequence[str] | None = None,
        *,
        device: str = "auto",
        compute: str = "auto",
        revision: str | None = None,
        tokens: bool = False,
        nproc: int | None = None,
        ray: str | None = None,
    ) -> None:
        """Nothing is loaded or contacted before the context is entered.

        Args:
            spec, outputs, device, compute, revision, tokens: as for `open_encoder`, which each worker calls.
            nproc: how many workers; None asks the cluster.
            ray: address of the cluster; None starts one on this machine.

        Raises:
            UsageError: a device that names one GPU. MissingExtraError: Ray is not installed.
        """
        if device.startswith("cuda:"):
            raise UsageError(f"--device {device} names one GPU, but every worker has its own.", "Use --device cuda.")
        folder = Path(spec.removeprefix("hf:")).expanduser()
        location = str(folder.absolute()) if folder.is_dir() and spec != "embedded" else spec
        self.name = spec
        self.tokens = tokens
        self._opening = partial(
            open_encoder, location, outputs, device=device, compute=compute, revision=revision, tokens=tokens
        )
        self._cluster = Cluster(ray, nproc, gpus=device != "cpu")
        self._runner = asyncio.Runner()
        self._pool: WorkerPool | None = None
        self._loaded: Mapping[str, Any] = {}

    def __enter__(self) -> RayEncoder:
        """Start or find Ray, and load the encoder in every worker. Raises PreflightError, UsageError."""
        try:
            self._cluster.__enter__()
            self._pool = WorkerPool(self._cluster, partial(HostedEncoder, self._opening), AHEAD, self._same)
            self._runner.run(self._pool.start())
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *fault: object) -> None:
        if self._pool is not None:
            self._runner.run(self._pool.close())
            self._cluster.__exit__()
        self._runner.close()

    def identity(self) -> dict[str, Any]:
        return dict(self._loaded["identity"])

    def shapes(self) -> dict[str, tuple[int, ...]]:
        return dict(self._loaded["shapes"])

    def encode_shards(
        self,
        blob: Callable[[int], Blob],
        shards: Iterable[Sequence[int]],
        batch_size: int,
        workers: int | None,
        allow_missing: bool,
    ) -> Iterator[list[EncodedRows]]:
        """Encode the rows, a piece of a shard at a time, in order of completion.

        Args:
            blob, batch_size, allow_missing: as for `encode_rows`.
            shards: row numbers in runs without gaps; a piece is a run of whole batches, as `encode_rows` forms them.
            workers: threads of each worker that decode; None takes its part of its host's processors.
        """
        pool = self._pool
        if pool is None:
            raise RuntimeError("open it as a context")
        loop = self._runner.get_loop()
        settings = (batch_size, workers, allow_missing)
        pieces = _pieces(shards, batch_size, pool.size)
        flying: set[asyncio.Task[list[EncodedRows]]] = set()
        while True:
            for rows in islice(pieces, AHEAD * pool.size - len(flying)):
                request = partial(_packed_rows, blob, rows, settings)
                flying.add(loop.create_task(pool.ask(request)))
            if not flying:
                return
            done, flying = self._runner.run(_first_of(flying))
            for task in done:
                yield task.result()

    def _same(self, loaded: Mapping[str, Any]) -> None:
        """Raise PreflightError unless all workers hold the same encoder."""
        self._loaded = self._loaded or loaded
        changed = [f"{name} {first!r} and {second!r}" for name, first, second in differences(self._loaded, loaded)]
        if changed:
            raise PreflightError(
                f"workers loaded different encoders: {'; '.join(changed)}.",
                "Put the same files on all hosts; where hosts differ in what they compute with, name --compute.",
            )


class HostedEncoder:
    """The encoder in its worker."""

    def __init__(self, opening: Callable[[], Encoder]) -> None:
        import torch

        self._encoder = opening()
        # Requests overlap, so that images of one are decoded while those of another are encoded: they share the passes.
        self._threads = torch.get_num_threads()
        self._passes = self._threads if self._encoder.device.type == "cpu" else 1
        if self._passes > 1:
            torch.set_num_threads(1)
        self._turn = _Turn(self._encoder, self._passes)

    async def load(self) -> dict[str, Any]:
        return {"identity": self._encoder.identity(), "shapes": self._encoder.shapes()}

    async def ask(self, request: Any) -> Any:
        (batch_size, workers, allow_missing), carried = request
        blobs = {row: unpacked(blob) for row, blob in carried}
        if any(blob is None for blob in blobs.values()):
            return UNSEEN

        def encoded() -> list[EncodedRows]:
            encoder = cast("Encoder", self._turn)
            read = cast(Callable[[int], Blob], blobs.__getitem__)
            threads = workers or self._threads
            return list(encode_rows(encoder, read, blobs, batch_size, threads, allow_missing, self._passes))

        return await asyncio.to_thread(encoded)

    def state(self) -> Mapping[str, Any]:
        return {}


class _Turn:
    """Encoder that at most `passes` threads use at once, however many requests there are."""

    def __init__(self, encoder: Encoder, passes: int) -> None:
        self._encoder = encoder
        self._free = threading.Semaphore(passes)
        self.transform, self.device, self.work = encoder.transform, encoder.device, encoder.work

    def encode(self, pixels: torch.Tensor) -> dict[str, torch.Tensor]:
        with self._free:
            return self._encoder.encode(pixels)


def _packed_rows(
    blob: Callable[[int], Blob], rows: Sequence[int], settings: tuple[int, int | None, bool], by_value: bool
) -> Any:
    carried: list[tuple[int, Any]] = []
    for row in rows:
        try:
            carried.append((row, packed(blob(row), by_value)))
        except DataError as error:
            carried.append((row, Unreadable(str(row), error.message, error.hint)))
    return settings, carried


def _pieces(shards: Iterable[Sequence[int]], batch_size: int, workers: int) -> Iterator[Sequence[int]]:
    """Cut shards at whole batches, so that each worker gets several pieces."""
    for shard in shards:
        batches = -(-len(shard) // batch_size)
        size = batch_size * max(1, min(MOST_BATCHES, batches // (AHEAD * workers)))
        for start in range(0, len(shard), size):
            yield shard[start : start + size]


async def _first_of(
    flying: set[asyncio.Task[list[EncodedRows]]],
) -> tuple[set[asyncio.Task[list[EncodedRows]]], set[asyncio.Task[list[EncodedRows]]]]:
    return await asyncio.wait(flying, return_when=asyncio.FIRST_COMPLETED)
