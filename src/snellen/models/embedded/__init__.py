"""The embedded model: a real, very small VLM in the package, loaded by the same code path as any local model.

weights/MODEL_CARD.md says what it was trained on and how well it sees.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from snellen.errors import UsageError
from snellen.models.base import ModelOptions
from snellen.models.local.model import open_model as open_local

if TYPE_CHECKING:
    from snellen.models.local.model import LocalModel

__all__ = ["open_model", "path"]


def path() -> Path:
    """Return the folder that AutoProcessor and AutoModelForImageTextToText load, offline."""
    return Path(__file__).parent / "weights"


def open_model(name: str, options: ModelOptions) -> LocalModel:
    """Return the model behind `--model embedded`.

    Raises:
        UsageError: a name was given after the colon, or videos are to be sent as files.
        MissingExtraError: torch or transformers is not installed.
    """
    if name:
        raise UsageError(f"--model embedded:{name}: there is one embedded model.", "Write --model embedded.")
    if options.media.video == "native":
        raise UsageError("--video native: the embedded model takes images alone.", "Choose --video frames.")
    return open_local(str(path()), options, "embedded")
