"""Masks of the shown objects (`--mask`): a folder of pictures, light where the object is.

A mask bears the path of its image, or the end of it: `segmentations/017.Cardinal/Cardinal_1.png` belongs to
`CUB_200_2011/images/017.Cardinal/Cardinal_1.jpg` under `--mask segmentations`, as CUB-200-2011's own masks do. The longest end
that is there counts. Pixels of 128 and more are the object: CUB's masks count the annotators who marked a pixel.
"""

from __future__ import annotations

import re
from pathlib import Path

ENDINGS = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff")
OBJECT_FROM = 128
_SEPARATORS = re.compile(r"[/\\!]+")
_LONGEST_NAME = 200


def mask_file(folder: Path, key: str) -> Path | None:
    """Return the mask of the image with this key; None where there is none."""
    parts = [part for part in _SEPARATORS.split(key) if part not in ("", ".", "..")]
    if not parts or max(map(len, parts)) > _LONGEST_NAME:
        return None
    for start in range(len(parts)):
        place = folder.joinpath(*parts[start:])
        for ending in ENDINGS:
            if (path := place.with_suffix(ending)).is_file():
                return path
    return None
