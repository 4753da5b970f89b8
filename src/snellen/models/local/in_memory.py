"""A transformers model that is in memory already, as in a training loop: lent to a run and given back as it was.

Weights, modes of the modules, random states and the tokenizer's padding are afterwards what they were before, so that an
evaluation between two training steps changes neither of them.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from snellen.errors import UsageError
from snellen.models.base import Model, ModelOptions
from snellen.models.local.model import LocalModel, require_usable
from snellen.models.local.own_sampling import OwnSampling

if TYPE_CHECKING:
    from snellen.models.local.checkpoint import Loaded

KIND = "memory"
CHUNK = 1 << 24
"""Elements of a tensor that are summed at once: 128 MiB as 64-bit integers."""


def is_torch_model(model: object) -> bool:
    """Return True for a torch module that is no Model of Snellen; False without importing torch where nobody did."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(model, torch.nn.Module) and not isinstance(model, Model)


def name_of(model: Any) -> str:
    """Return what stands for the model in records: `memory:` and its class, without a wrapper."""
    return f"{KIND}:{type(unwrapped(model)).__name__}"


def unwrapped(model: Any) -> Any:
    """Return the model inside torch.compile, DataParallel and DistributedDataParallel."""
    import torch

    while True:
        if isinstance(model, torch.nn.DataParallel | torch.nn.parallel.DistributedDataParallel):
            model = model.module
        elif isinstance(inner := getattr(model, "_orig_mod", None), torch.nn.Module):
            model = inner
        else:
            return model


@contextmanager
def lent(model: Any, processor: Any, options: ModelOptions) -> Iterator[MemoryModel]:
    """Yield the model for a run, in evaluation mode; put back its modes, all random states and the padding afterwards.

    Raises:
        UsageError: no processor or chat template, a model that cannot generate or whose weights are not all here, or an
            option that such a model cannot use.
    """
    model = unwrapped(model)
    require_generating(model)
    require_processor(model, processor)
    require_usable(options, in_memory=True)
    modes = [(module, module.training) for module in model.modules()]
    tokenizer = processor.tokenizer
    padding = tokenizer.padding_side, tokenizer.pad_token
    with random_states_kept():
        try:
            model.eval()
            yield MemoryModel(model, processor, options)
        finally:
            tokenizer.padding_side, tokenizer.pad_token = padding
            for module, training in modes:  # parents come first, so that a child's own mode is set last
                if module.training != training:
                    module.train(training)


def require_generating(model: Any) -> None:
    """Raise UsageError for a model without `generate`, or one whose weights are sharded or not loaded."""
    name = type(model).__name__
    if not callable(getattr(model, "generate", None)) or not hasattr(model, "generation_config"):
        raise UsageError(
            f"{name} cannot generate: it has no method `generate` with a generation_config.",
            "Pass a model of transformers, such as one of AutoModelForImageTextToText.",
        )
    for parameter_name, parameter in model.named_parameters():
        if parameter.is_meta:
            raise UsageError(
                f"{name}: the weights of {parameter_name} are not in memory (device meta).",
                "Load the whole model, or evaluate its folder as local:PATH.",
            )
    if how := sharding(model):
        raise UsageError(
            f"{name}: its weights are sharded over several processes by {how}, and one of them alone cannot generate.",
            f"In a Trainer with FSDP, use EvaluationCallback, which gathers them. {SHARDED_HINTS[how]}"
            if how == "FSDP"
            else SHARDED_HINTS[how],
        )


SHARDED_HINTS = {
    "FSDP": "Save whole checkpoints or adapters, and evaluate those: snellen watch CHECKPOINTS --benchmark NAME",
    "ZeRO-3": "Set stage3_gather_16bit_weights_on_model_save in the configuration of DeepSpeed, and evaluate the saved "
    "checkpoints: snellen watch CHECKPOINTS --benchmark NAME",
}
"""What to do where the weights cannot be gathered, by `sharding`."""


def sharding(model: Any) -> str:
    """Return by what a model's weights are sharded over processes, FSDP (also `fully_shard`) or ZeRO-3; empty if whole."""
    wrapped = any(type(module).__name__ == "FullyShardedDataParallel" for module in model.modules())
    for parameter in model.parameters():
        if hasattr(parameter, "ds_id"):
            return "ZeRO-3"
        wrapped = wrapped or hasattr(parameter, "device_mesh")
    return "FSDP" if wrapped else ""


def require_processor(model: Any, processor: Any) -> None:
    """Raise UsageError unless the processor turns images and messages into inputs."""
    name = type(model).__name__
    hint = "Pass processor=AutoProcessor.from_pretrained(CHECKPOINT)."
    if processor is None:
        raise UsageError(f"{name} is a model in memory, and a processor was expected with it.", hint)
    kind = type(processor).__name__
    if not callable(getattr(processor, "apply_chat_template", None)):
        raise UsageError(
            f"processor is {kind}; a processor of transformers with apply_chat_template was expected.", hint
        )
    if getattr(processor, "tokenizer", None) is None or getattr(processor, "image_processor", None) is None:
        missing = "image processor" if getattr(processor, "image_processor", None) is None else "tokenizer"
        raise UsageError(f"processor is {kind}, which has no {missing}; benchmarks have images and texts.", hint)
    if (
        getattr(processor, "chat_template", None) is None
        and getattr(processor.tokenizer, "chat_template", None) is None
    ):
        raise UsageError(
            f"{kind} has no chat template, so nothing says how a question is put to {name}.",
            "Set processor.chat_template, or take the processor of an instruction-tuned checkpoint.",
        )


class MemoryModel(LocalModel):
    """A model in memory: answered by the same batches as a checkpoint, and identified by a digest of its weights."""

    def __init__(self, model: Any, processor: Any, options: ModelOptions) -> None:
        super().__init__("", options, name_of(model))
        self._model, self._processor = model, processor

    def identity(self) -> Mapping[str, Any]:
        """Return class, digests of weights and processor, precision and stopping: what can change an answer."""
        return {
            "kind": KIND,
            "class": type(self._model).__name__,
            "weights": weights_digest(self._model),
            "processor": _processor_digest(self._processor),
            "dtype": str(self._model.dtype).removeprefix("torch."),
            "stop_after_first_json": self._options.stop_after_first_json,
            **self._decoding(),
        }

    @cached_property
    def _sampling(self) -> OwnSampling:
        return OwnSampling(self._options, None, self.name)

    def _load(self) -> Loaded:
        from snellen.models.local.checkpoint import prepared

        return prepared(self._processor, self._model, inference_mode=False)


def weights_digest(model: Any) -> str:
    """Return a digest of all parameters and saved buffers, the same on every device.

    Two sums of each tensor's bits, one weighted by position, are taken where the tensor lies: copying the weights of a large
    model to the processor would take longer than a short evaluation.
    """
    total = blake2b(digest_size=16)
    for name, tensor in sorted(model.state_dict().items()):
        if not hasattr(tensor, "dtype") or not hasattr(tensor, "shape"):
            total.update(f"{name} {tensor!r}\n".encode())
            continue
        total.update(f"{name} {tensor.dtype} {tuple(tensor.shape)} {_bit_sums(tensor)}\n".encode())
    return total.hexdigest()


def _bit_sums(tensor: Any) -> tuple[int, int]:
    """Return the sum of a tensor's 16-bit words (bytes, if their number is odd), and the sum weighted by odd numbers, modulo 2^64."""
    import torch

    flat = tensor.detach().contiguous().flatten().view(torch.uint8)
    flat = flat.view(torch.int16) if flat.numel() % 2 == 0 and flat.storage_offset() % 2 == 0 else flat
    plain = weighted = 0
    for start in range(0, flat.numel(), CHUNK):
        words = flat[start : start + CHUNK].to(torch.int64)
        weights = torch.arange(2 * start + 1, 2 * (start + words.numel()) + 1, 2, device=words.device)
        # Odd multipliers of many bits, so that neighbouring words do not cancel out.
        plain += int(words.sum())
        weighted += int((words * (weights * 0x9E3779B1 % 0x7FFFFFFF)).sum())
    return plain % 2**64, weighted % 2**64


def _processor_digest(processor: Any) -> str:
    templates = [getattr(part, "chat_template", None) for part in (processor, processor.tokenizer)]
    images = processor.image_processor
    settings = images.to_json_string() if hasattr(images, "to_json_string") else repr(images)
    text = f"{templates!r}\n{len(processor.tokenizer)}\n{settings}"
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


@contextmanager
def random_states_kept() -> Iterator[None]:
    """Restore the random states of Python, numpy and torch, on all devices, at the end."""
    import numpy as np
    import torch

    python, arrays, processor = random.getstate(), np.random.get_state(), torch.get_rng_state()
    gpus: Any = torch.cuda
    cuda = gpus.get_rng_state_all() if gpus.is_available() and gpus.is_initialized() else None
    mps = torch.mps.get_rng_state() if torch.backends.mps.is_available() else None
    try:
        yield
    finally:
        random.setstate(python)
        np.random.set_state(arrays)
        torch.set_rng_state(processor)
        if cuda is not None:
            gpus.set_rng_state_all(cuda)
        if mps is not None:
            torch.mps.set_rng_state(mps)
