"""Masks of the shown objects (`--mask`): a folder of pictures, light where the object is.

A mask bears the path of its image, or the end of it: `segmentations/017.Cardinal/Cardinal_1.png` belongs to
`CUB_200_2011/images/017.Cardinal/Cardinal_1.jpg` under `--mask segmentations`, as CUB-200-2011's own masks do. The longest end
that is there counts. Pixels of 128 and more are the object: CUB's masks count the annotators who marked a pixel.
"""

from __future__ import annotations

import re
from hashlib import blake2b
from pathlib import Path

from snellen.errors import DataError

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


def masks_digest(folder: Path) -> str:
    """Return a digest of all masks of a folder, by path and content, for a run's identity.

    Raises:
        DataError: there is no such folder, no picture in it, or one cannot be read.
    """
    total = blake2b(digest_size=16)
    try:
        files = sorted(path for path in folder.rglob("*") if path.suffix.lower() in ENDINGS)
        for path in files:
            content = blake2b(path.read_bytes(), digest_size=16).hexdigest()
            total.update(f"{path.relative_to(folder).as_posix()}\0{content}\n".encode("utf-8", "surrogateescape"))
    except OSError as error:
        raise DataError(f"--mask {folder}: {error.strerror or error}", "Give the folder of the masks.") from error
    if not files:
        raise DataError(f"--mask {folder}: there are no pictures in this folder", "Give the folder of the masks.")
    return total.hexdigest()
