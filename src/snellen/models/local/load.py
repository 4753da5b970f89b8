"""Loading: a checkpoint's weights and processor on a device."""

from __future__ import annotations

import gc
from dataclasses import dataclass
from typing import Any

import torch
import transformers
from transformers.utils import logging

from snellen.errors import PreflightError
from snellen.models.local.checkpoint import Checkpoint

# transformers is typed in parts, and its loaders return what their arguments say.
auto_processor: Any = transformers.AutoProcessor
auto_model: Any = transformers.AutoModelForImageTextToText
transformers_logging: Any = logging


@dataclass(frozen=True)
class Loaded:
    """A model that can be asked.

    Attributes:
        processor: tokenizer and image processor, padding on the left.
        model: in evaluation mode.
        context: tokens that prompt and answer may have together; None where the configuration does not say.
        inference_mode: generate in torch's inference mode. False for a model that is trained further: tensors that it
            keeps from inference mode cannot be trained with.
    """

    processor: Any
    model: Any
    context: int | None
    inference_mode: bool = True


def pick_device(device: str) -> str:
    """Return the device: `auto` is CUDA, then Apple's MPS, then the processor. Raises PreflightError for a missing device."""
    if device == "auto":
        if torch.cuda.is_available():
            return "cuda"
        return "mps" if torch.backends.mps.is_available() else "cpu"
    if device.startswith("cuda"):
        count = torch.cuda.device_count() if torch.cuda.is_available() else 0
        if int(device.partition(":")[2] or 0) >= count:
            raise PreflightError(
                f"device {device} was asked for; torch sees {count} CUDA devices.", "Try --device auto."
            )
    if device == "mps" and not torch.backends.mps.is_available():
        raise PreflightError("device mps was asked for; torch does not see it.", "Try --device auto.")
    return device


def pick_dtype(dtype: str, device: str, stored: str | None) -> str:
    """Return name of the torch dtype that the weights are computed in.

    Args:
        dtype: what the user asked for; `auto` decides here.
        device: as `pick_device` returned it.
        stored: dtype of the checkpoint, None where its configuration does not say.

    `auto` keeps the checkpoint's dtype on accelerators. On a processor it is float32 (float16 is emulated there and
    measured 2.4 times slower), except for a bfloat16 checkpoint where the processor multiplies bfloat16 matrices in
    hardware (AMX).
    """
    if dtype != "auto":
        return dtype
    if device != "cpu":
        return stored or "float32"
    amx = bool(torch.cpu.get_capabilities().get("amx_bf16")) if hasattr(torch.cpu, "get_capabilities") else False
    return "bfloat16" if stored == "bfloat16" and amx else "float32"


def stored_dtype(config: Any) -> str | None:
    """Return the dtype that config.json names, at the top or for the language model. `torch_dtype` is its older name."""
    for part in (config, config.get("text_config") or {}):
        name = part.get("dtype") or part.get("torch_dtype")
        if isinstance(name, str):
            return name.removeprefix("torch.")
    return None


def load(checkpoint: Checkpoint, name: str, device: str, dtype: str) -> Loaded:
    """Read processor and weights. Code inside the checkpoint is never run; missing tensors are never made up.

    Args:
        device: what the user asked for, `auto` included: with several GPUs, `auto` spreads the layers over them.

    Raises:
        PreflightError: the checkpoint is incomplete or damaged, or does not fit into memory.
    """
    target = pick_device(device)
    spread = device == "auto" and target == "cuda" and torch.cuda.device_count() > 1
    verbose = transformers_logging.is_progress_bar_enabled()
    transformers_logging.disable_progress_bar()
    try:
        processor = auto_processor.from_pretrained(checkpoint.folder, trust_remote_code=False, local_files_only=True)
        model, report = auto_model.from_pretrained(
            checkpoint.folder,
            dtype=getattr(torch, pick_dtype(dtype, target, stored_dtype(checkpoint.config))),
            device_map="auto" if spread else None,
            use_safetensors=True,
            trust_remote_code=False,
            local_files_only=True,
            output_loading_info=True,
        )
        if not spread:
            model = model.to(target)
    except ImportError as error:
        raise PreflightError(
            f"{name}: its processor needs a package that is not installed: {_first_line(error)}",
            "Install that package; torchvision must match the installed torch.",
        ) from error
    except (MemoryError, torch.OutOfMemoryError) as error:
        raise PreflightError(
            f"{name}: the weights do not fit into the memory of {target}.", "Try --dtype bfloat16 or a smaller model."
        ) from error
    except Exception as error:  # whatever a damaged folder makes transformers, tokenizers or safetensors raise
        raise PreflightError(
            f"{name}: the checkpoint cannot be loaded: {type(error).__name__}: {_first_line(error)}",
            "Fetch it again, or check that the installed transformers is new enough for it.",
        ) from error
    finally:
        if verbose:
            transformers_logging.enable_progress_bar()
    missing = sorted(report["missing_keys"])
    if missing:
        raise PreflightError(
            f"{name}: {len(missing)} tensors are missing from the weights, first {missing[0]!r}; "
            "they would be filled with random numbers.",
            "Fetch the checkpoint again.",
        )
    if (
        getattr(processor, "chat_template", None) is None
        and getattr(processor.tokenizer, "chat_template", None) is None
    ):
        raise PreflightError(
            f"{name}: it has no chat template, so nothing says how a question is put to it.",
            "Choose an instruction-tuned checkpoint (often named …-Instruct or …-it).",
        )
    return prepared(processor, model)


def prepared(processor: Any, model: Any, *, inference_mode: bool = True) -> Loaded:
    """Set the tokenizer's padding and the model's mode for generation."""
    processor.tokenizer.padding_side = "left"
    if processor.tokenizer.pad_token is None:
        processor.tokenizer.pad_token = processor.tokenizer.eos_token
    context = getattr(model.config.get_text_config(), "max_position_embeddings", None)
    return Loaded(processor, model.eval(), context if isinstance(context, int) else None, inference_mode)


def release_memory() -> None:
    """Hand memory that nobody holds back to the device."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    elif torch.backends.mps.is_available():
        torch.mps.empty_cache()


def is_out_of_memory(error: BaseException) -> bool:
    """Return True if an error means that memory is used up: torch's own, Python's, or an allocator's without a class."""
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    text = str(error)
    return isinstance(error, RuntimeError) and (
        "out of memory" in text or "not enough memory" in text or "can't allocate memory" in text
    )


def _first_line(error: BaseException) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
