"""Local models: any image-text-to-text checkpoint of the Hugging Face format, answered in dynamic batches.

`open_model` is all that other rooms need. Nothing here imports torch or transformers until a model is opened.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

from snellen.errors import MissingExtraError, UsageError
from snellen.models.base import ModelOptions

if TYPE_CHECKING:
    from snellen.models.local.model import LocalModel

__all__ = ["has_static_cache", "open_model", "require_usable"]

KV_CACHES = ("auto", "dynamic", "static")
DTYPES = ("auto", "float32", "bfloat16", "float16")


def open_model(name: str, options: ModelOptions, label: str | None = None) -> LocalModel:
    """Return the model behind `--model local:NAME`. Cheap: `preflight` looks for files and reads weights.

    Args:
        name: a folder with `config.json` and safetensors weights, or a hub id `owner/name`.
        options: what the user set.
        label: the model's `name` in records and reports; `local:NAME` if None.

    Raises:
        MissingExtraError: torch or transformers is not installed.
        UsageError: no name, an option that a local model cannot use, or an unknown dtype or device.
    """
    for package in ("torch", "transformers"):
        if find_spec(package) is None:
            raise MissingExtraError(
                f"a local model needs {package}, which is not installed.",
                'Install it with: pip install "snellen[local]"',
            )
    if not name:
        raise UsageError("no model is named.", "Write --model local:NAME, with a folder or a hub id owner/name.")
    require_usable(options)
    from snellen.models.local.model import LocalModel

    return LocalModel(name, options, label or f"local:{name}")


def has_static_cache(options: ModelOptions) -> bool:
    """Return True if answers are decoded with a cache of fixed length; `auto` is one only for compiled decoding."""
    return options.kv_cache == "static" or options.compile


def require_usable(options: ModelOptions, *, in_memory: bool = False) -> None:
    """Raise UsageError for an option that a local model cannot use; one in memory has a device and precision already."""
    if in_memory and options.compile:
        raise UsageError(
            "compile is set, but a model in memory would stay compiled after the run.",
            "Omit compile, or evaluate the saved checkpoint as local:PATH.",
        )
    if in_memory:
        own = {"device": options.device != "auto", "dtype": options.dtype != "auto", "revision": bool(options.revision)}
        for name in (name for name, is_set in own.items() if is_set):
            raise UsageError(
                f"{name} is {getattr(options, name)!r}, but a model in memory keeps its own.",
                f"Omit {name}; move or convert the model before the call.",
            )
    remote = {
        "--base-url": options.base_url,
        "--key-env": options.key_env,
        "--extra-body": options.extra_body,
        "--prices": options.prices,
    }
    for flag, value in remote.items():
        if value:
            raise UsageError(
                f"{flag} is for models behind an endpoint; a local model does not use it.",
                f"Omit {flag}, or name the model as api:NAME.",
            )
    if options.media.format != "original":
        raise UsageError(
            f"images are to be sent as {options.media.format}, but a local model takes pixels, not files.",
            "Omit --image-format for local models.",
        )
    if options.media.video != "frames":
        raise UsageError(
            "--video native sends a video's file, but a local model takes pixels, not files.",
            "Choose --video frames, with --frames or --fps.",
        )
    if options.dtype not in DTYPES:
        raise UsageError(f"dtype {options.dtype!r} is not known.", f"Choose one of: {', '.join(DTYPES)}.")
    if options.kv_cache not in KV_CACHES:
        raise UsageError(f"--kv-cache {options.kv_cache!r} is not known.", f"Choose one of: {', '.join(KV_CACHES)}.")
    if options.compile and options.kv_cache == "dynamic":
        raise UsageError("--compile needs a static cache.", "Omit --kv-cache dynamic, or omit --compile.")
    kind, _, index = options.device.partition(":")
    if kind not in ("auto", "cpu", "cuda", "mps") or (index and not (kind == "cuda" and index.isdecimal())):
        raise UsageError(f"device {options.device!r} is not known.", "Choose one of: auto, cpu, cuda, cuda:N, mps.")
    if options.batch_size < 1:
        raise UsageError(f"--batch-size {options.batch_size} is too small.", "Choose a batch size of 1 or more.")
