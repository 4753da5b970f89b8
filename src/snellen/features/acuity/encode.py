"""Encode drawings that are in memory, by an encoder of the features package."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from snellen.benchmarks.acuity.attribute import Pixels
from snellen.features.extract.loop import torch_threads
from snellen.features.extract.preprocess import Transform, normalise, resize_and_crop, resized_size

if TYPE_CHECKING:
    from snellen.features.encoders.base import Encoder


def encode_pictures(encoder: Encoder, pictures: Sequence[Pixels], batch_size: int = 64) -> NDArray[np.float32]:
    """Return the first output [n, d] of pictures in memory, by the encoder's own transform.

    Grey pictures become three equal channels, as PNG files of them do when they are decoded.
    """
    import torch

    rows = []
    with torch_threads(encoder, batch_size), torch.inference_mode():
        for start in range(0, len(pictures), batch_size):
            images = [
                resize_and_crop(_three_channels(pixels), encoder.transform)
                for pixels in pictures[start : start + batch_size]
            ]
            stacked = torch.stack(images).to(encoder.device)
            values = encoder.encode(normalise(stacked, encoder.transform))[encoder.outputs[0]]
            rows.append(values.float().cpu().numpy())
    return np.concatenate(rows)


def _three_channels(pixels: Pixels) -> Pixels:
    return np.ascontiguousarray(np.repeat(pixels[:, :, None], 3, axis=2) if pixels.ndim == 2 else pixels)


def seen_share(transform: Transform, side: int) -> float:
    """Return the share of a square picture's side that is left after the transform's crop: 1 where nothing is cut off."""
    if transform.crop is None:
        return 1.0
    height, width = resized_size(side, side, transform)
    return min(1.0, transform.crop[0] / height, transform.crop[1] / width)
