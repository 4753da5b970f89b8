"""Models whose weights are sharded over processes (FSDP, FSDP2): a whole copy on the main process, to be evaluated there."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import torch
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict
from torch.distributed.fsdp import FullyShardedDataParallel
from transformers import PreTrainedModel

from snellen.errors import UsageError
from snellen.models.local.in_memory import SHARDED_HINTS, random_states_kept, sharding

model_class: Any = PreTrainedModel


def require_gatherable(model: Any) -> None:
    """Raise UsageError for a sharded model that `whole_copy` cannot make whole."""
    how = sharding(model)
    if how != "FSDP" or not isinstance(_inside(model), model_class):
        kind = type(_inside(model)).__name__
        raise UsageError(
            f"{kind}: its weights are sharded over several processes by {how}, and cannot be gathered for an evaluation.",
            SHARDED_HINTS[how],
        )


def whole_copy(model: Any, device: Any) -> Any:
    """Gather the weights; return a copy of the model on the main process, and None on the others.

    All processes call it, and wait for each other. The main process needs memory for the whole model beside its shard,
    on the device and, while the weights come, in RAM. Weights, gradients and random states stay as they are.

    Args:
        model: sharded by FullyShardedDataParallel or `fully_shard`, possibly inside torch.compile.
        device: of the copy.
    """
    inside = _inside(model)
    with random_states_kept():
        # On the processor, FSDP frees what it would offload there (torch 2.13: a segmentation fault).
        offload = any(parameter.device.type != "cpu" for parameter in model.parameters())
        options = StateDictOptions(full_state_dict=True, cpu_offload=offload)
        weights = get_model_state_dict(model, options=options)
        distributed: Any = torch.distributed
        if distributed.get_rank() != 0:
            return None
        kind: Any = next(each for each in type(inside).__mro__ if not each.__name__.startswith("FSDP"))
        copy = kind.from_pretrained(None, config=deepcopy(inside.config), state_dict=weights, dtype=inside.dtype)
        copy.generation_config = deepcopy(inside.generation_config)
        return copy.to(device)


def _inside(model: Any) -> Any:
    """Return the model that FullyShardedDataParallel wraps; `fully_shard` wraps none."""
    return model.module if isinstance(model, FullyShardedDataParallel) else model
