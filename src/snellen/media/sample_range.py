"""Samples of more than 8 bits to 8 bits: which range of values becomes 0 to 255 (`--window`).

One rule for greyscale images, DICOM and bands of TIFF: value v becomes ⌊(v - low) / (high - low) × 255 + 1/2⌋, cut to 0 to 255.
`low` and `high` are those of the window that is asked for, else of the one that the file names (DICOM), else the lowest and
highest value of the shown bands together; values that the file declares as no data do not count there. A window of width
w and centre c is linear as in DICOM PS3.3 C.11.2.1.2.1: from c - 1/2 - (w - 1) / 2 to c - 1/2 + (w - 1) / 2.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from snellen.errors import UsageError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_WINDOW = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)/(-?\d{1,9}(?:\.\d{1,9})?)")
_BLOCK = 1 << 22
"""Values that are converted at once: an image of the pixel limit needs no second copy in floats."""


def window_range(window: str) -> tuple[float, float] | None:
    """Return lowest and highest value of a window `WIDTH/CENTRE`; None for `file` and `full`. Raises UsageError."""
    if window in ("file", "full"):
        return None
    found = _WINDOW.fullmatch(window)
    if found is None or float(found[1]) < 1:
        raise UsageError(
            f"--window {window}: WIDTH/CENTRE with a width of 1 or more, `file` or `full` was expected.",
            "Example: --window 400/40.",
        )
    return linear(float(found[1]), float(found[2]))


def linear(width: float, centre: float) -> tuple[float, float]:
    """Return lowest and highest value of a linear window."""
    return centre - 0.5 - (width - 1) / 2, centre - 0.5 + (width - 1) / 2


def chosen_bands(bands: str) -> tuple[int, ...]:
    """Return the numbers of bands, from 1, of `4,3,2` or `5`; none for an empty text. Raises UsageError."""
    numbers = tuple(int(part) for part in bands.split(",") if re.fullmatch("[1-9][0-9]{0,4}", part))
    if bands and (len(numbers) not in (1, 3) or len(numbers) != bands.count(",") + 1):
        raise UsageError(
            f"--bands {bands}: one number, or three for red, green and blue, from 1, was expected.",
            "Example: --bands 4,3,2.",
        )
    return numbers


def described(window: str, named: str) -> str:
    """Return in words which range of values is shown as 0 to 255; `named` is the window of the file."""
    if window == "file" and named:
        return f"window {named} of the file"
    return "shown from its lowest to its highest value" if window in ("file", "full") else f"window {window}"


def to_8_bits(
    values: NDArray[Any],
    limits: tuple[float, float] | None = None,
    absent: float | None = None,
    *,
    inverted: bool = False,
) -> NDArray[np.uint8]:
    """Return values as 8 bits, by the rule at the top of this file.

    Args:
        values: integers or floats of any shape.
        limits: the values that become 0 and 255; None: the lowest and highest that are there.
        absent: the value that stands for no data, which becomes 0.
        inverted: the lowest value becomes 255, and the highest 0.

    Raises:
        ValueError: a float is infinite, or is no number and does not stand for no data.
    """
    import numpy as np

    no_data = None if absent is None else np.isnan(values) if np.isnan(absent) else values == absent
    kept = values if no_data is None else values[~no_data]
    if not kept.size:
        return np.zeros(values.shape, np.uint8)
    low, high = float(kept.min()), float(kept.max())
    if not np.isfinite((low, high)).all():
        raise ValueError("its float pixels are not all finite")
    if limits is not None:
        low, high = limits
    elif low == high and values.dtype == np.uint16:
        low, high = 0.0, 65_535.0  # one value has no range of its own; that of its type shows how light it is
    of_black, of_white = (high, low) if inverted else (low, high)
    flat = values.reshape(-1)
    shown = np.empty(flat.size, np.uint8)
    for start in range(0, flat.size, _BLOCK):
        block = flat[start : start + _BLOCK].astype(np.float64)
        if high > low:
            block = np.floor((block - of_black) / (of_white - of_black) * 255.0 + 0.5)
        else:
            block = np.where((block > low) != inverted, 255.0, 0.0)
        shown[start : start + _BLOCK] = np.clip(np.nan_to_num(block), 0, 255)
    if no_data is not None:
        shown[no_data.reshape(-1)] = 0
    return shown.reshape(values.shape)
