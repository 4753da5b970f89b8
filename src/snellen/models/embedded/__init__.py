"""The embedded model: a real, very small VLM in the package, answered by NumPy.

weights/MODEL_CARD.md says what it was trained on and how well it sees. The folder is a checkpoint like any other:
`--model local:FOLDER`, `snellen serve embedded` and `snellen features` load it with transformers.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from snellen.errors import MissingExtraError, UsageError
from snellen.installation import install_hint
from snellen.models.base import ModelOptions, changed_option
from snellen.models.local.model import open_model as open_local
from snellen.models.local.model import require_usable

if TYPE_CHECKING:
    from snellen.models.local.model import LocalModel

__all__ = ["open_model", "path"]
HERE = {"device": "cpu", "dtype": "float32"}
"""Options of torch with the value that NumPy has."""


def path() -> Path:
    """Return the folder that AutoProcessor and AutoModelForImageTextToText load, offline."""
    return Path(__file__).parent / "weights"


def open_model(name: str, options: ModelOptions) -> LocalModel:
    """Return the model behind `--model embedded`: in NumPy, and on torch where an option asks for what only torch does.

    Raises:
        UsageError: a name was given after the colon, videos are to be sent as files, or an option is not for local models.
        MissingExtraError: an option needs torch and transformers, and one of them is not installed.
    """
    if name:
        raise UsageError(f"--model embedded:{name}: there is one embedded model.", "Write --model embedded.")
    if options.media.video == "native":
        raise UsageError("--video native: the embedded model takes images alone.", "Choose --video frames.")
    require_usable(options)
    if (option := _option_of_torch(options)) is None:
        from snellen.models.embedded.model import EmbeddedModel

        return EmbeddedModel(str(path()), options)
    if missing := [package for package in ("torch", "transformers") if find_spec(package) is None]:
        raise MissingExtraError(
            f"{option} with --model embedded needs {' and '.join(missing)}, not installed here.",
            f"Omit {option}, and NumPy answers; or add the extra. {install_hint('local')}",
        )
    return open_local(str(path()), options, "embedded")


def _option_of_torch(options: ModelOptions) -> str | None:
    """Return the first option that asks for torch, as typed on the command line; None if there is none."""
    names = [name for name, value in HERE.items() if getattr(options, name) != value]
    if option := changed_option(options, (*names, "kv_cache", "compile", "adapter")):
        return option
    return "Generation.extra" if options.generation.extra else None
