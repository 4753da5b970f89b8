"""Convolutional and hierarchical encoders: features pooled over the positions of the last stage.

Their stages have maps of different sizes and widths, so there is no CLS token and there are no blocks of one width.
Each gives `embedding`, what the model itself pools, and `patch_mean`, the mean over the last stage's positions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import isqrt
from typing import Any, Literal

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from snellen.features.encoders.base import EncoderParts
from snellen.features.store.format import PATCH_TOKENS

Layout = Literal["NCHW", "NHWC"]
OUTPUTS = frozenset({"embedding", "patch_mean", PATCH_TOKENS})


def average_map(features: torch.Tensor, layout: Layout = "NCHW") -> torch.Tensor:
    """Average a map [B, C, H, W] (or [B, H, W, C]) or tokens [B, T, C] over positions: [B, C]."""
    if features.ndim == 4:
        return features.mean((2, 3) if layout == "NCHW" else (1, 2))
    return map_tokens(features).mean(1)


def map_tokens(features: torch.Tensor, layout: Layout = "NCHW") -> torch.Tensor:
    """Return the positions of a map, or of tokens [B, T, C], row by row: [B, T, C].

    Of tokens, one more than a square is a pooled token before the positions, as in DINOv3's ConvNeXt; it is left out.
    """
    if features.ndim == 4:
        return features.flatten(2).transpose(1, 2) if layout == "NCHW" else features.flatten(1, 2)
    count = features.shape[1]
    first = 1 if isqrt(count) ** 2 != count and isqrt(count - 1) ** 2 == count - 1 else 0
    return features[:, first:]


def build_map_parts(
    call: Callable[[torch.Tensor], Mapping[str, torch.Tensor]], trial: torch.Tensor, outputs: frozenset[str] = OUTPUTS
) -> EncoderParts:
    """Build the parts of an encoder without blocks.

    Args:
        call: pixels to the outputs.
        trial: one image, to count its operations with.
    """
    with torch.inference_mode(), FlopCounterMode(display=False) as counter:
        call(trial)
    return EncoderParts(call, (), nn.Identity(), 0, False, outputs, work=counter.get_total_flops() / 2)


def pool_model(model: Any) -> Callable[[torch.Tensor], Mapping[str, torch.Tensor]]:
    """Return the call of a model of transformers whose last hidden state is a map, or tokens of one."""

    def call(pixels: torch.Tensor) -> Mapping[str, torch.Tensor]:
        output = model(pixel_values=pixels)
        mean = average_map(output.last_hidden_state)
        pooled = getattr(output, "pooler_output", None)
        embedding = mean if pooled is None else pooled.reshape(len(pixels), -1)
        return {"embedding": embedding, "patch_mean": mean, PATCH_TOKENS: map_tokens(output.last_hidden_state)}

    return call


def is_hierarchical(model: Any, trial: torch.Tensor, patch_size: int | None) -> bool:
    """Return True if the model gives a map, or fewer tokens than there are patches of `patch_size` pixels."""
    with torch.inference_mode():
        last = getattr(model(pixel_values=trial), "last_hidden_state", None)
    if not isinstance(last, torch.Tensor) or last.ndim not in (3, 4):
        return False
    if last.ndim == 4 or patch_size is None:
        return True
    return int(last.shape[1]) < (trial.shape[-2] // patch_size) * (trial.shape[-1] // patch_size)
