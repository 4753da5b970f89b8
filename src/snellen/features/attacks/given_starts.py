"""Given starts of an attack on a split: read from a file, and matched with images by id."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from snellen.errors import DataError
from snellen.features.attacks.pgd import GivenStarts
from snellen.sources.npz_limits import check_npz


def read_starts(path: Path) -> dict[str, np.ndarray]:
    """Read starts of an attack from .npz: `ids` [n] and `images`, [n, 3, H, W] or [n, r, 3, H, W] of r starts.

    Integers are divided by 255. Raises DataError.
    """
    try:
        check_npz(path)
        with np.load(path, allow_pickle=False) as saved:
            ids, images = saved["ids"], saved["images"]
    except (KeyError, ValueError, OSError, EOFError, zipfile.BadZipFile) as error:
        raise DataError(
            f"{path} holds no starts: {error}", "Save `ids` and `images` [n, 3, H, W] with numpy.savez."
        ) from error
    names = [str(name) for name in ids.reshape(-1)]
    numeric = images.dtype.kind in "iuf"
    if not numeric or images.ndim not in (4, 5) or len(images) != len(names) or len(set(names)) < len(names):
        raise DataError(
            f"{path}: {len(names):,} ids ({len(set(names)):,} different) for images of shape {list(images.shape)} and type "
            f"{images.dtype}",
            "Give one id and one image [3, H, W] (or several, [r, 3, H, W]) of each.",
        )
    points = images.astype(np.float32) / (255 if images.dtype.kind in "iu" else 1)
    return dict(zip(names, points, strict=True))


def select_starts(ids: Sequence[str], points: Mapping[str, np.ndarray], shape: tuple[int, ...]) -> GivenStarts:
    """Return the starts of some images of this shape, in their order. Raises DataError."""
    if missing := next((name for name in ids if name not in points), None):
        raise DataError(f"the starts have no image {missing!r}", "Give a start for every image of the split.")
    several = [points[name] if points[name].ndim == 4 else points[name][None] for name in ids]
    wrong = next((array for array in several if array.shape[1:] != shape or len(array) != len(several[0])), None)
    if wrong is not None:
        raise DataError(
            f"a start has the shape {list(wrong.shape[1:])}; the encoder takes {list(shape)}",
            "Save starts at the encoder's own input size, after resize and crop.",
        )
    return GivenStarts(np.stack(several, axis=1))
