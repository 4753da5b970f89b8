"""Layers of an encoder in a store: the blocks of `cls_lastN` and `patch_mean_lastN`, each as an output of its own."""

from __future__ import annotations

from typing import Any

from msgspec import Struct, structs
from numpy.typing import NDArray

from snellen.errors import DataError
from snellen.features.store import Features


class LayerView(Struct, frozen=True, eq=False):
    """One block's columns of an output.

    Attributes:
        name: `block-1` for the last block, `block-2` for the one before it; "" for an output of one block.
        depth: 1 for the last block.
        values: [n, d], a view.
    """

    name: str
    depth: int
    values: NDArray[Any]


def layer_views(features: Features) -> list[LayerView]:
    """Return the blocks of an output, from the earliest to the last; the output itself where it has one block.

    A store holds the blocks of `NAME_lastN` side by side, in their order.

    Raises:
        DataError: the width is no multiple of N.
    """
    stem, mark, number = features.name.rpartition("_last")
    depth = int(number) if mark and stem and number.isdecimal() and int(number) > 0 else 1
    width, rest = divmod(features.values.shape[1], depth)
    if rest:
        raise DataError(
            f"{features.path}: {features.name} has {features.values.shape[1]} columns, which {depth} blocks cannot share",
            "The store is not one of `snellen features extract`; name another output.",
        )
    if depth == 1:
        return [LayerView("", 1, features.values)]
    return [
        LayerView(f"block-{depth - i}", depth - i, features.values[:, i * width : (i + 1) * width])
        for i in range(depth)
    ]


def with_values(features: Features, values: NDArray[Any]) -> Features:
    """Return the same rows with other values."""
    return structs.replace(features, values=values)
