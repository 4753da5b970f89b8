"""What identifies weights that come from a library and not from a folder."""

from __future__ import annotations

from hashlib import sha256

import torch
from torch import nn


def weights_digest(module: nn.Module) -> str:
    """`sha256:` over names, types, shapes and bytes of all parameters and buffers, in the order of their names."""
    total = sha256()
    for name, tensor in sorted(module.state_dict().items()):
        if isinstance(tensor, torch.Tensor):
            total.update(f"{name}\0{tensor.dtype}\0{list(tensor.shape)}\0".encode())
            plain = tensor.detach().cpu().contiguous()
            total.update(plain.view(torch.uint8).numpy().tobytes() if plain.ndim else plain.numpy().tobytes())
    return f"sha256:{total.hexdigest()}"
