"""Sizes of images after a checkpoint's own image processor: what the model gets of the pixels that were sent."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from PIL import Image as pillow

from snellen.types import ProcessedImage

MOST_SIZES = 16
"""Sizes that a run records, the most frequent ones."""
MOST_PIXELS = 4096 * 4096
"""Larger images are not put through the processor a second time only for their size."""


def processed_images(processor: Any, model: Any, sizes: Iterable[tuple[int, int]]) -> list[ProcessedImage]:
    """Return what the image processor makes of blank images of these sizes (width, height).

    Args:
        processor: a processor of transformers, or its image processor.
        model: its configuration tells the patch size where the processor does not; may be None.
        sizes: in the order of the result; images of more than MOST_PIXELS are left out.
    """
    images = getattr(processor, "image_processor", processor)
    results = []
    for width, height in sizes:
        if width * height > MOST_PIXELS:
            continue
        output = images(images=[pillow.new("RGB", (width, height), (119, 119, 119))], return_tensors="pt")
        results.append(_measured(images, model, (width, height), output))
    return results


def _measured(images: Any, model: Any, sent: tuple[int, int], output: Mapping[str, Any]) -> ProcessedImage:
    width, height = sent
    grid = output.get("image_grid_thw")
    if grid is not None:  # patches in rows: [frames, rows, columns]
        patch = int(images.patch_size)
        _, rows, columns = (int(count) for count in grid[0])
        merged = patch * int(getattr(images, "merge_size", 1))
        return ProcessedImage(width, height, columns * patch, rows * patch, merged)
    shape = tuple(output["pixel_values"].shape) if "pixel_values" in output else ()
    tiles = shape[1] if len(shape) == 5 else shape[0] if len(shape) == 4 else 0
    if tiles != 1:  # cut into tiles beside an overview: no single scale holds
        return ProcessedImage(width, height, tiles=int(tiles))
    after_height, after_width = (int(length) for length in shape[-2:])
    if "image_sizes" in output and len(shape) == 4:  # without the padding of a batch
        after_height, after_width = (int(length) for length in output["image_sizes"][0])
    return ProcessedImage(width, height, after_width, after_height, _patch(images, model))


def _patch(images: Any, model: Any) -> int | None:
    """Return the side of a patch in pixels; None where neither processor nor configuration says one number."""
    vision = getattr(getattr(model, "config", None), "vision_config", None)
    for source in (images, vision):
        patch = getattr(source, "patch_size", None)
        if isinstance(patch, int):
            return patch
    return None
