"""Two single-thread processes that average their gradients: faster on two cores than one process with two threads."""

from __future__ import annotations

import os

import torch
import torch.distributed as dist

RANK = int(os.environ.get("RANK", "0"))
WORLD = int(os.environ.get("WORLD_SIZE", "1"))


def start() -> None:
    """One thread, and the process group if there is more than one process."""
    torch.set_num_threads(1)
    if WORLD > 1:
        dist.init_process_group("gloo")


def averaged(parameters: list[torch.nn.Parameter]) -> None:
    """Replace every gradient by its mean over the processes."""
    if WORLD == 1:
        return
    for parameter in parameters:
        if parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter)
    flat = torch.cat([parameter.grad.flatten() for parameter in parameters])
    dist.all_reduce(flat)
    flat /= WORLD
    start = 0
    for parameter in parameters:
        size = parameter.numel()
        parameter.grad.copy_(flat[start : start + size].view_as(parameter))
        start += size
