"""A model that stays loaded while one run after the other asks it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from snellen.errors import SnellenError
from snellen.models.base import Model
from snellen.types import Prompt, Response


class Kept:
    """Loads the model for the first run that has something to ask, and no run closes it.

    Whatever else a model may have (`in_flight`, `seed`, `executed`) is the model's own. A model that could not be loaded is
    not loaded again: every run is told why.
    """

    def __init__(self, model: Model, said: Callable[[str], None]) -> None:
        self.name = model.name
        self._model = model
        self._said = said
        self._loaded = False
        self._refused: SnellenError | None = None
        if getattr(model, "executed", None) is None and hasattr(model, "batch_limit"):
            self.executed = self._fewer

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    def identity(self) -> Mapping[str, Any]:
        return self._model.identity()

    async def preflight(self) -> None:
        """Load it, the first time. Raises what the model raises, again and again."""
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
        self._said(f"{self.name}: ready after {time.monotonic() - began:.1f} s")

    async def answer(self, prompt: Prompt) -> Response:
        return await self._model.answer(prompt)

    async def close(self) -> None:
        """Nothing yet: see `end`."""

    async def end(self) -> None:
        """Close the model."""
        await self._model.close()

    async def _fewer(self) -> dict[str, Any]:
        """For run_meta.json: how many prompts a batch holds by now, which is fewer once memory ran out."""
        return {"batch_limit": self._model.batch_limit}  # type: ignore[attr-defined]
