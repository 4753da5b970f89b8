"""The model behind `--model embedded`: a local model whose runtime is NumPy."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from snellen.errors import PreflightError, SnellenError
from snellen.models.base import ModelOptions
from snellen.models.embedded.runtime import EmbeddedRuntime
from snellen.models.local.batching import Job
from snellen.models.local.checkpoint import Checkpoint, find
from snellen.models.local.model import EncodedBatch, LocalModel, SharedWeights
from snellen.models.local.replies import Reply
from snellen.types import ProcessedImage


class EmbeddedModel(LocalModel):
    """The embedded checkpoint in NumPy: the same queue, batches and identity as on torch, and so the same runs."""

    def __init__(self, folder: str, options: ModelOptions) -> None:
        super().__init__(folder, options, "embedded")
        self._omitted = frozenset()  # its chat template writes system texts and earlier turns

    def share(self, weights: SharedWeights) -> None:
        """Share nothing: the weights are read in less time than a question takes."""

    async def executed(self) -> Mapping[str, Any] | None:
        """Return what a local model does, and the runtime. A run on torch does not name its own."""
        return {**(await super().executed() or {}), "runtime": f"numpy {np.__version__}"}

    @cached_property
    def _place(self) -> Checkpoint:
        return find(self._path, self._options.revision, check=lambda config, name: None)

    def _found(self) -> Checkpoint:
        return self._place

    def _dtype(self) -> str:
        return "float32"

    def _load(self) -> Any:
        return EmbeddedRuntime(self._found().folder)

    def _own_limit(self, loaded: Any) -> int | None:
        return int(loaded.own_limit)

    def _require_arguments(
        self, loaded: Any, arguments: Mapping[str, Any], error: type[SnellenError] = PreflightError
    ) -> None:
        if arguments:
            raise error(
                f"--chat-template-kwargs has {next(iter(arguments))!r}, and the chat template of {self.name} reads none.",
                "Omit it.",
            )

    def _processed(self, loaded: Any, sent: Sequence[tuple[int, int]]) -> list[ProcessedImage]:
        return [loaded.processed(*size) for size in sent]

    def _encode(self, loaded: Any, jobs: Sequence[Job[Reply]]) -> EncodedBatch:
        inputs = loaded.encode([job.content.result().conversation for job in jobs])
        return EncodedBatch(inputs, inputs.texts)

    def _generate(
        self, loaded: Any, jobs: Sequence[Job[Reply]], batch: EncodedBatch, stopped: Callable[[], bool]
    ) -> list[Reply]:
        settings, _ = jobs[0].batch_key
        seeds = [job.content.result().seed for job in jobs]
        replies: list[Reply] = loaded.generate(batch.inputs, settings, seeds, stopped)
        return replies
