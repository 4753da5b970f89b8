"""Pictures as the rows of packed patches that the towers of Qwen's vision-language models take."""

from __future__ import annotations

from typing import Any

import torch

PACKED = ("qwen2_vl", "qwen2_5_vl", "qwen3_vl", "qwen3_vl_moe")


def packed(pixels: torch.Tensor, config: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """Rows of patches and the grid of each picture; differentiable.

    A still picture is shown as `temporal_patch_size` equal frames. Patches stand in groups of `spatial_merge_size`
    squared, the groups row by row, as the tower's merger expects them (transformers' image processor of Qwen2-VL).

    Args:
        pixels: [B, 3, H, W], sides divisible by patch size times merge size.

    Returns:
        [B * grid, 3 * frames * patch * patch] and int64 [B, 3] of (1, rows, columns).
    """
    side, merge, frames = config.patch_size, config.spatial_merge_size, config.temporal_patch_size
    count, channels, height, width = pixels.shape
    rows, columns = height // side, width // side
    groups = pixels.reshape(count, channels, rows // merge, merge, side, columns // merge, merge, side).permute(
        0, 2, 5, 3, 6, 1, 4, 7
    )
    patches = groups.reshape(count * rows * columns, channels, 1, side, side).expand(-1, -1, frames, -1, -1)
    grid = torch.tensor([[1, rows, columns]], device=pixels.device).expand(count, -1)
    return patches.reshape(len(patches), -1), grid
