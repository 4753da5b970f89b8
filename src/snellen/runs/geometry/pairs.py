"""Size and colour of the region in which the two pictures of an item differ, for pairs such as those of VLM2-Bench."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from snellen.benchmarks.acuity.colour_space import difference, lab_of
from snellen.runs.geometry.cub import GAPS
from snellen.runs.geometry.items import ItemLevel

CHANGED = 24
"""Code values by which a channel must differ: less is what JPEG does to equal regions."""
TRIM = 1.0
"""Per cent of the changed pixels that lie outside the region's box on each side, as scattered noise."""
LEAST_PIXELS = 9
SAMPLED = 300
"""Changed pixels whose colours are compared."""
AXES = (("L-", "L+"), ("a-", "a+"), ("b-", "b+"))


def differing_region(
    sample_id: str, first: NDArray[np.uint8], second: NDArray[np.uint8]
) -> tuple[Sequence[ItemLevel], str]:
    """Return the levels of a pair, and why there are none; one of both is empty.

    `gap` is the longer side of the region / 5. `colour@DIRECTION` is the median CIEDE2000 of its pixels; the direction is the
    axis of CIELAB along which the mean colours differ most.

    Args:
        sample_id: of the item.
        first, second: [height, width, 3] code values.
    """
    if first.shape != second.shape:
        return (), "pictures of two sizes"
    changed = np.abs(first.astype(np.int16) - second.astype(np.int16)).max(axis=2) >= CHANGED
    rows, columns = np.nonzero(changed)
    if len(rows) < LEAST_PIXELS:
        return (), "pictures that hardly differ"
    ends = [np.percentile(places, [TRIM, 100 - TRIM]) for places in (rows, columns)]
    side = max(float(high - low) + 1.0 for low, high in ends)
    chosen = np.linspace(0, len(rows) - 1, min(SAMPLED, len(rows))).astype(int)
    labs = [
        [lab_of((float(r), float(g), float(b))) for r, g, b in picture[rows[chosen], columns[chosen]]]
        for picture in (first, second)
    ]
    shift = np.asarray(labs[1]).mean(axis=0) - np.asarray(labs[0]).mean(axis=0)
    axis = int(np.abs(shift).argmax())
    size = float(np.median([difference(a, b) for a, b in zip(*labs, strict=True)]))
    height, width = changed.shape
    levels = [ItemLevel(sample_id, "gap", side / GAPS, width, height)]
    if size > 0:
        levels.append(ItemLevel(sample_id, f"colour@{AXES[axis][int(shift[axis] > 0)]}", size, width, height))
    return levels, ""
