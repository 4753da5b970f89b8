"""Model in Ray workers, with the interface of any other model."""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from msgspec import structs

from snellen.engine.fingerprint import differences
from snellen.engine.ray.cluster import Cluster
from snellen.engine.ray.pool import WorkerPool
from snellen.engine.ray.transfer import packed_prompt, unpacked_prompt
from snellen.engine.ray.worker import UNSEEN
from snellen.errors import PreflightError, UsageError
from snellen.models.base import Model, ModelOptions
from snellen.models.registry import KINDS, open_model, runtime_of
from snellen.types import Prompt, Response

ROUNDING = (
    "Each worker batches what it is asked, so that nproc decides which prompts share a batch. In {dtype} a near tie "
    "between two tokens can fall either way with the batch."
)


class RayModel(Model):
    """A local model in several workers. The number of workers changes no fingerprint."""

    def __init__(self, spec: str, options: ModelOptions, nproc: int | None, address: str | None) -> None:
        """Store the settings; nothing is loaded or contacted before preflight.

        Args:
            spec, options: as for `open_model`; each worker opens the model by them.
            nproc: how many workers; None asks the cluster.
            address: of Ray; None starts one on this machine.

        Raises:
            UsageError: a model that several workers cannot share, or a device that names one GPU.
            MissingExtraError: Ray is not installed.
        """
        kind, _, name = spec.partition(":")
        if kind in KINDS and not runtime_of(kind).here:  # more of what waits for another machine is --concurrency
            raise UsageError(
                f"--nproc and --ray start several copies of a local model; --model {spec} is not one.",
                "For more concurrent requests, use --concurrency.",
            )
        if options.device.startswith("cuda:"):
            raise UsageError(
                f"--device {options.device} names one GPU, but every worker has its own.",
                "Use --device cuda.",
            )
        self._plan = open_model(spec, options)
        if not self._plan.shareable:
            raise UsageError(
                f"--model {spec} keeps its own files or sample ids, so workers cannot share it.",
                "Omit --nproc and --ray.",
            )
        if kind == "local" and Path(name).expanduser().is_dir():
            spec = f"local:{Path(name).expanduser().absolute()}"  # a worker's folder is another one
        if options.adapter is not None:
            options = structs.replace(options, adapter=str(Path(options.adapter).expanduser().absolute()))
        self.name = self._plan.name
        self._build = partial(HostedModel, spec, options)
        self._each = self._plan.in_flight or options.concurrency
        self._cluster = Cluster(address, nproc, gpus=options.device != "cpu")
        self._entered = False
        self._pool: WorkerPool | None = None
        self._states: list[Mapping[str, Any]] = []
        self.seed, self.supports = self._plan.seed, self._plan.supports

    @property
    def in_flight(self) -> int:  # type: ignore[override]
        return self._each * (1 if self._pool is None else max(1, self._pool.size))

    def identity(self) -> Mapping[str, Any]:
        return self._plan.identity()

    def may_differ(self, prompt: Prompt) -> bool:
        return self._plan.may_differ(prompt)

    async def preflight(self) -> None:
        """Start or find Ray, and load the model in every worker. Raise PreflightError."""
        self._cluster.__enter__()
        self._entered = True
        pool = WorkerPool(self._cluster, self._build, self._each, self._same)
        self._pool = pool
        await pool.start()

    async def answer(self, prompt: Prompt) -> Response:
        """Return one reply with the worker's `latency_s`. Raise what the model raises, and see `WorkerPool.ask`."""
        if self._pool is None:
            await self.preflight()
        assert self._pool is not None  # noqa: S101 - preflight made it
        response: Response = await self._pool.ask(partial(packed_prompt, prompt))
        return response

    async def executed(self) -> dict[str, Any]:
        """Describe the workers for run_meta.json."""
        if self._pool is None:
            return {}
        states = await self._pool.states()
        dtype = self.identity().get("dtype", "float32")
        note = {} if dtype == "float32" else {"note": ROUNDING.format(dtype=dtype)}
        return {**self._pool.record(), "states": [dict(state) for state in states], **note}

    async def close(self) -> None:
        """End the workers, and Ray if it was started here."""
        if self._pool is not None:
            await self._pool.close()
        if self._entered:
            self._entered = False
            self._cluster.__exit__()
        await self._plan.close()

    def _same(self, loaded: Any) -> None:
        """Return True if a worker holds the model that the run names."""
        changed = [
            f"{name} {before!r} here and {after!r} there"
            for name, before, after in differences(self.identity(), loaded)
        ]
        if changed:
            raise PreflightError(
                f"a worker loaded another model than this process: {'; '.join(changed)}.",
                "Put the same files on all hosts; if their hardware differs, set --dtype.",
            )


class HostedModel:
    """The model inside its worker."""

    def __init__(self, spec: str, options: ModelOptions) -> None:
        self._model: Model = open_model(spec, options)
        self._loaded_s = 0.0

    async def load(self) -> dict[str, Any]:
        began = time.perf_counter()
        identity = dict(self._model.identity())
        await self._model.preflight()
        self._loaded_s = time.perf_counter() - began
        return identity

    async def ask(self, request: Prompt) -> Any:
        prompt = unpacked_prompt(request)
        return UNSEEN if prompt is None else await self._model.answer(prompt)

    def state(self) -> Mapping[str, Any]:
        limit = self._model.batch_limit
        return {"load_s": round(self._loaded_s, 3)} | ({} if limit is None else {"batch_limit": limit})
