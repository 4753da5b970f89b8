"""What workers of tests hold: it answers, dies, fails or sees no file, as it is asked to. No torch, no model."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from snellen.engine.ray.worker import UNSEEN
from snellen.errors import BadRequestError, PreflightError


class Fragile:
    """Holds nothing. `folder` keeps one mark for each death, by what it was asked."""

    def __init__(self, folder: Path, loads: bool = True) -> None:
        self._folder = folder
        self._loads = loads

    async def load(self) -> str:
        if not self._loads:
            raise PreflightError("the weights are damaged", "Fetch them again.")
        return "fragile"

    async def ask(self, asked: Any) -> Any:
        word, by_value = asked
        await asyncio.sleep(0.02)
        kind, _, times = str(word).partition(":")
        if kind == "die":
            marks = len(list(self._folder.glob(f"{word}.*")))
            if marks < int(times):
                (self._folder / f"{word}.{marks}").touch()
                os._exit(1)
        if kind == "refuse":
            raise BadRequestError("too long", "Shorten it.")
        if kind == "break":
            raise KeyError("no such thing")
        if kind == "file" and not by_value:
            return UNSEEN
        return word, by_value, os.getpid()

    def state(self) -> Mapping[str, Any]:
        return {}
