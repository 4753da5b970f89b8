"""Static key-value caches and compiled decoding of local models (`--kv-cache static`, `--compile`).

A dynamic cache grows by one position a token, so every step has another shape. A static cache has one length for the
whole answer, and torch.compile then needs one graph for all steps. Lengths are powers of two and never shrink while a
model is compiled, so that the number of graphs is bounded by the context of the model.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any

import torch
import transformers
from torch._dynamo.exc import TorchDynamoException
from transformers import CompileConfig, GenerationConfig

from snellen.errors import BadRequestError, ModelError, PreflightError

static_cache: Any = transformers.StaticCache  # typed in parts, as the loaders are
BACKEND = "inductor"
SHORTEST = 256
"""Tokens of the shortest static cache."""
CONFLICTING = (
    *("num_beams", "num_return_sequences", "use_cache", "cache_implementation", "cache_config", "past_key_values"),
    *("prompt_lookup_num_tokens", "assistant_model", "penalty_alpha", "prefill_chunk_size", "max_new_tokens"),
)
"""Arguments of `generate` that change the rows, the length or the kind of the cache."""


def cache_length(tokens: int, longest: int | None) -> int:
    """Return the length of a static cache for prompt and answer: a power of two, or the context where that is shorter.

    Args:
        tokens: of prompt and longest answer together.
        longest: tokens that the model reads at most; None: unknown.
    """
    length = max(SHORTEST, 1 << (tokens - 1).bit_length())
    return max(tokens, longest) if longest is not None and longest < length else length


def require_static_cache(model: Any, name: str) -> None:
    """Raise PreflightError for a model whose class has no static cache in the installed transformers."""
    if getattr(model, "_can_compile_fullgraph", False) and not model.config.is_encoder_decoder:
        return
    raise PreflightError(
        f"{name}: {type(model).__name__} of transformers {transformers.__version__} does not support a static cache.",
        "Use --kv-cache dynamic, and omit --compile.",
    )


def require_compiler(model: Any, name: str) -> None:
    """Raise PreflightError where torch.compile cannot compile this model: a compiler is missing, or it is excluded."""
    quantizer = getattr(model, "hf_quantizer", None)
    spread = set((getattr(model, "hf_device_map", None) or {}).values())
    if (
        (quantizer is not None and not quantizer.is_compileable)
        or "llama4" in model.config.model_type
        or ("disk" in spread or (len(spread) > 1 and "cpu" in spread))
    ):
        raise PreflightError(
            f"{name}: transformers does not compile this model (Llama 4, some quantizations, and offloaded layers).",
            "Omit --compile.",
        )
    if model.device.type == "mps":
        raise PreflightError(f"{name}: --compile is for CUDA and CPUs, not for mps.", "Omit --compile.")
    if model.device.type == "cuda" and find_spec("triton") is None:
        raise PreflightError("--compile on CUDA needs triton, which is not installed.", "Run: pip install triton")
    if (missing := missing_compiler(model.device.type, os.environ)) is not None:
        raise PreflightError(
            f"--compile needs a C++ compiler, and {missing} is not on the PATH.",
            "Install one (Debian and Ubuntu: apt-get install g++; conda: conda install -c conda-forge cxx-compiler), "
            "or name it in CXX (CUDA: in CC).",
        )


def missing_compiler(device: str, environment: Mapping[str, str]) -> str | None:
    """Return the compiler that torch.compile would start and that is not there; None if there is one."""
    if device == "cuda":  # triton builds its launchers with a C compiler
        candidates = [environment["CC"]] if environment.get("CC") else ["gcc", "clang"]
    else:
        candidates = [environment.get("CXX") or ("clang++" if sys.platform == "darwin" else "g++")]
    if any(shutil.which(program, path=environment.get("PATH")) for program in candidates):
        return None
    return " or ".join(candidates)


@contextmanager
def compile_errors() -> Iterator[None]:
    """Turn an error of torch.compile into a ModelError for the whole batch: smaller batches would fail likewise."""
    try:
        yield
    except TorchDynamoException as error:
        first = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
        raise ModelError(f"torch.compile failed: {type(error).__name__}: {first}", "Omit --compile.") from error


class StaticDecoding:
    """Static caches for batches, and compiled decoding of the batches that are full.

    A batch of more than half of the largest size is filled with copies of its first prompt, so that all compiled batches
    have one number of rows. Smaller batches are not compiled and have a dynamic cache.

    Args:
        model: of a class that supports static caches.
        context: tokens that the model reads at most; None: unknown.
        compiled: compile the steps after the first one; False: only the cache is static.
    """

    def __init__(self, model: Any, context: int | None, *, compiled: bool) -> None:
        self.compiled = compiled
        self._config = model.config.get_text_config(decoder=True)
        self._context = context
        self._cache: Any = None
        self._shape = (0, 0)
        self._rows: int | None = None

    def rows(self, prompts: int, limit: int) -> int:
        """Return the rows of a batch: `limit`, where that is compiled and less than twice the prompts."""
        if not self.compiled:
            return prompts
        self._rows = limit
        return limit if limit < 2 * prompts else prompts

    def arguments(self, config: GenerationConfig, extra: Mapping[str, Any], rows: int, tokens: int) -> dict[str, Any]:
        """Return further arguments of `generate` for one batch; `config` is set to compile, or not to.

        Raises:
            BadRequestError: `extra` names an argument that does not go with a static cache.
        """
        names = [name for name in CONFLICTING if name in extra]
        if config.num_beams not in (None, 1):
            names.append("num_beams")
        if names:
            raise BadRequestError(
                f"{names[0]} cannot be combined with a static cache.", "Use --kv-cache dynamic, and omit --compile."
            )
        config.disable_compile = True
        if not self.compiled:
            return {"past_key_values": static_cache(self._config, cache_length(tokens, self._context))}
        if rows != self._rows:
            return {}
        config.disable_compile = False
        # CUDA graphs of older versions fail outside the main thread (pytorch issue 123177).
        version = tuple(int(number) for number in torch.__version__.split(".")[:2])
        mode = "reduce-overhead" if version >= (2, 13) else "default"
        config.compile_config = CompileConfig(backend=BACKEND, mode=mode)
        config.compile_config._compile_all_devices = True  # or only accelerators are compiled for
        return {"past_key_values": self._reused(rows, cache_length(tokens, self._context))}

    def _reused(self, rows: int, length: int) -> Any:
        """Return the cache of the batch before, emptied, where it fits: CUDA graphs are recorded for its addresses."""
        if self._shape[0] == rows and self._shape[1] >= length:
            self._cache.reset()
            return self._cache
        length = max(length, self._shape[1])
        self.release()
        self._cache, self._shape = static_cache(self._config, length), (rows, length)
        return self._cache

    def release(self) -> None:
        """Free the memory of the cache."""
        self._cache, self._shape = None, (0, 0)
