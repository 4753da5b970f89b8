"""Sampling settings that a checkpoint ships: the fields of its generation_config.json, where it samples by itself."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec

from snellen.errors import PreflightError
from snellen.models.base import AUTO, CHECKPOINT, ModelOptions, effective
from snellen.types import Generation

FILE, MOST_BYTES = "generation_config.json", 1 << 20
DECLARED = "declared_temperature"
FIELDS = ("temperature", "top_p", "top_k", "min_p", "repetition_penalty")
"""Fields of the file that are taken, with our names. Its length limit counts after that of the benchmark."""


class OwnSampling:
    """Sampling of one model: what the user set, then the checkpoint's own where that is wanted, then the benchmark's.

    Where nobody chose the checkpoint's own (AUTO), a benchmark that declares a temperature keeps its protocol.

    Args:
        options: generation and sampling as the user set them.
        folder: of the checkpoint; None: a model in memory, which has none.
        name: for messages.

    Raises:
        PreflightError: the file cannot be read, or was asked for and does not sample.
    """

    def __init__(self, options: ModelOptions, folder: Path | None, name: str) -> None:
        wanted = folder is not None and options.sampling in (AUTO, CHECKPOINT)
        self.fields = read_own(folder, name) if wanted and folder is not None else {}
        if options.sampling == CHECKPOINT and not self.fields:
            raise PreflightError(
                f"--sampling checkpoint: {name} has no {FILE} with do_sample: true.",
                "Omit --sampling, or choose greedy or a recipe: snellen recipes",
            )
        self.declared = False
        self._asked, self._auto = options.generation, options.sampling == AUTO
        self._filled = effective(options.generation, Generation(**self.fields))

    def of(self, prompted: Generation | None) -> Generation:
        """Return the settings of one prompt."""
        declared = self._auto and prompted is not None and prompted.temperature is not None
        self.declared |= declared and bool(self.fields)
        return effective(self._asked if declared else self._filled, prompted)

    def facts(self) -> dict[str, Any]:
        """Return for the run's record whether a benchmark's temperature took the place of the checkpoint's sampling."""
        return {DECLARED: True} if self.declared else {}


def read_own(folder: Path, name: str) -> dict[str, Any]:
    """Return the sampling settings of a checkpoint by our names; empty where it has no file of them, or decodes greedily.

    What the file does not state is left out: transformers itself would add top_k 50, vLLM and SGLang would not.

    Raises:
        PreflightError: the file cannot be read, or a field has no value of its kind.
    """
    path = folder / FILE
    if not path.is_file():
        return {}
    try:
        if path.stat().st_size > MOST_BYTES:
            raise ValueError(f"it is larger than {MOST_BYTES:,} bytes")
        stated = json.loads(path.read_bytes())
        if not isinstance(stated, dict) or stated.get("do_sample") is not True:
            return {}
        found = {field: stated[field] for field in FIELDS if stated.get(field) is not None}
        if "top_k" in found and found["top_k"] <= 0:  # no limit
            del found["top_k"]
        msgspec.convert(found, Generation)
    except (OSError, ValueError, TypeError, RecursionError) as error:
        raise PreflightError(
            f"{name}: {FILE} cannot be read: {error}", "Correct it, or sample by your own settings: --sampling none."
        ) from error
    return {"temperature": 1.0, **found}
