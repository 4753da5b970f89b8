"""A model that stays loaded across runs."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from snellen.errors import SnellenError
from snellen.models.base import Model
from snellen.types import Prompt, Response


class SharedModel(Model):
    """A model wrapper that loads once, for the first run with pending samples; runs do not close it.

    The other hooks are the model's own. A model that could not be loaded is not loaded again: every run gets its error.
    """

    def __init__(self, model: Model, note: Callable[[str], None]) -> None:
        self.name = model.name
        self.in_flight, self.seed, self.price = model.in_flight, model.seed, model.price
        self.supports = model.supports
        self._model = model
        self._said = note
        self._loaded = False
        self._refused: SnellenError | None = None

    @property
    def batch_limit(self) -> int | None:  # type: ignore[override]
        return self._model.batch_limit

    def identity(self) -> Mapping[str, Any]:
        return self._model.identity()

    async def preflight(self) -> None:
        """Load the model once; re-raise its first error on later calls."""
        if self._refused is not None:
            raise self._refused
        if self._loaded:
            return
        self._said(f"{self.name}: getting ready")
        began = time.monotonic()
        try:
            await self._model.preflight()
        except SnellenError as error:
            self._refused = error
            raise
        self._loaded = True
        self.in_flight = self._model.in_flight  # that of workers is known once they have started
        self._said(f"{self.name}: ready after {time.monotonic() - began:.1f} s")

    def may_differ(self, prompt: Prompt) -> bool:
        return self._model.may_differ(prompt)

    def hide(self, paths: Sequence[Path]) -> None:
        self._model.hide(paths)

    async def request_identity(self, prompt: Prompt) -> bytes | None:
        return await self._model.request_identity(prompt)

    async def answer(self, prompt: Prompt) -> Response:
        return await self._model.answer(prompt)

    async def close(self) -> None:
        """Do nothing; `end` closes the model."""

    async def end(self) -> None:
        """Close the model."""
        await self._model.close()

    async def executed(self) -> Mapping[str, Any] | None:
        """Return the model's own facts for run_meta.json, else how many prompts a batch holds by now."""
        facts = await self._model.executed()
        limit = self.batch_limit
        return {"batch_limit": limit} if facts is None and limit is not None else facts
