"""Models in an inference engine inside this process: `vllm:MODEL` and `sglang:MODEL`, which batch by themselves.

`open_vllm` and `open_sglang` are all that other packages need. An engine is imported when its model is started.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

from snellen.errors import MissingExtraError, UsageError
from snellen.installation import install_hint
from snellen.models.base import ModelOptions
from snellen.models.local.model import require_usable

if TYPE_CHECKING:
    from snellen.models.in_process.model import EngineModel

__all__ = ["open_sglang", "open_vllm"]

FIXED_ARGUMENTS = ("model", "model_path", "tokenizer", "tokenizer_path", "revision", "dtype", "seed", "random_seed")
ADAPTER_ARGUMENTS = ("enable_lora", "lora_paths", "lora_modules")
"""Arguments of an engine that Snellen sets itself, from options of its own."""


def open_vllm(name: str, options: ModelOptions) -> EngineModel:
    """Return the model behind `--model vllm:NAME`; `preflight` starts the engine.

    Raises:
        MissingExtraError: vLLM is not installed.
        UsageError: no name, or an option that an engine in this process cannot use.
    """
    _require("vllm", "vllm", name, options)
    from snellen.models.in_process.vllm_engine import VllmEngine

    return _model("vllm", name, options, VllmEngine())


def open_sglang(name: str, options: ModelOptions) -> EngineModel:
    """Return the model behind `--model sglang:NAME`; `preflight` starts the engine. Raises as `open_vllm`."""
    _require("sglang", "sglang", name, options)
    from snellen.models.in_process.sglang_engine import SglangEngine

    return _model("sglang", name, options, SglangEngine())


def _model(kind: str, name: str, options: ModelOptions, engine: object) -> EngineModel:
    from snellen.models.in_process.model import EngineModel

    return EngineModel(kind, name, options, engine)  # type: ignore[arg-type]


def _require(package: str, extra: str, name: str, options: ModelOptions) -> None:
    for needed in (package, "transformers"):
        if find_spec(needed) is None:
            raise MissingExtraError(
                f"--model {package}:NAME needs {needed}, which is not installed.",
                f"{install_hint(extra)}\nFor a server of its own, use --model api:NAME.",
            )
    if not name:
        raise UsageError(
            "no model is named.", f"Write --model {package}:NAME, with a folder or a hub id such as owner/name."
        )
    require_usable(options)
    if options.device != "auto":
        raise UsageError(
            f"--device {options.device} is not for --model {package}:NAME; the engine chooses its devices.",
            "Set CUDA_VISIBLE_DEVICES, or --engine-args '{\"tensor_parallel_size\": 2}'.",
        )
    if options.stop_after_first_json:
        raise UsageError(
            "--stop-after-first-json is for --model local:NAME; an engine generates in a process of its own.",
            "Omit --stop-after-first-json.",
        )
    if options.generation.logprobs is not None:
        raise UsageError(
            f"--logprobs is not available for --model {package}:NAME.",
            f"Start the engine as a server and use --model api:NAME, for example by `snellen serve {package}`."
            if package == "vllm"
            else "Start the engine as a server and use --model api:NAME.",
        )
    fixed_arguments = FIXED_ARGUMENTS if options.adapter is None else (*FIXED_ARGUMENTS, *ADAPTER_ARGUMENTS)
    if fixed := next((argument for argument in fixed_arguments if argument in options.engine_args), None):
        raise UsageError(
            f"--engine-args sets {fixed!r}, which Snellen sets itself.",
            "Use --model, --revision, --dtype or --seed.",
        )
