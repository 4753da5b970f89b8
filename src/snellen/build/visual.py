"""Which classes look alike: the nearest ones in a feature space."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from snellen.build.negatives import NONE
from snellen.build.taxonomy import Taxonomy
from snellen.errors import DataError

BLOCK = 512


def read_features(path: Path, taxonomy: Taxonomy) -> NDArray[np.float32]:
    """[classes, d] unit vectors of the finest level's classes; zeros for a class that has none.

    Args:
        path: .npz with `vectors` [classes, d] and `classes` [classes] names; or with `features` [images, d] and
            `labels` [images] names, of which the mean by class is taken.
        taxonomy: whose classes are meant.

    Raises:
        DataError: other arrays, lengths that differ, a name that the taxonomy does not have.
    """
    try:
        with np.load(path, allow_pickle=False) as found:
            arrays: dict[str, NDArray[Any]] = {name: found[name] for name in found.files}
    except (OSError, ValueError, EOFError) as error:
        raise DataError(f"cannot read {path} as .npz: {error}", "Save it with numpy.savez.") from error
    pair = next((one for one in (("vectors", "classes"), ("features", "labels")) if set(one) <= set(arrays)), None)
    if pair is None:
        raise DataError(
            f"{path}: arrays {', '.join(arrays) or 'none'} were found",
            "`vectors` and `classes`, or `features` and `labels`, were expected.",
        )
    vectors, labels = arrays[pair[0]], arrays[pair[1]]
    if vectors.ndim != 2 or len(labels) != len(vectors) or not np.issubdtype(vectors.dtype, np.number):
        raise DataError(f"{path}: {pair[0]} {vectors.shape} and {pair[1]} {labels.shape} do not fit: [n, d] and [n]")
    if not np.isfinite(vectors).all():
        raise DataError(f"{path}: {pair[0]} holds NaN or infinity", "Make the features again.")
    total = np.zeros((len(taxonomy.names[-1]), vectors.shape[1]), dtype=np.float64)
    index = {}
    for row, label in enumerate(labels.tolist(), 1):
        name = label if isinstance(label, str) else str(label)
        if name not in index:
            at = taxonomy.find(name)
            if at is None:
                raise taxonomy.unknown(name, f"{path}, {pair[1]}, row {row:,}")
            index[name] = at
    np.add.at(total, [index[str(label)] for label in labels.tolist()], _unit(vectors.astype(np.float64)))
    if len(np.flatnonzero(np.abs(total).sum(axis=1))) < 2:
        raise DataError(f"{path}: features of two classes or more are needed")
    return _unit(total).astype(np.float32)


def nearest(vectors: NDArray[np.float32], taxonomy: Taxonomy, depth: int, count: int) -> NDArray[np.int32]:
    """[classes, count] for each class of a level those with the largest cosine, the largest first.

    A coarser class is the mean of its finest ones. NONE where a class, or all the others, have no features. Ties go to
    the class that stands first.
    """
    finest = len(taxonomy.levels) - 1
    total = np.zeros((len(taxonomy.names[depth]), vectors.shape[1]), dtype=np.float64)
    np.add.at(total, taxonomy.ancestors(finest, depth), vectors.astype(np.float64))
    means = _unit(total)
    known = np.abs(means).sum(axis=1) > 0
    count = min(count, max(len(means) - 1, 1))
    found = np.full((len(means), count), NONE, dtype=np.int32)
    for start in range(0, len(means), BLOCK):
        rows = np.arange(start, min(start + BLOCK, len(means)))
        cosine = np.round(means[rows] @ means.T, 9)
        cosine[:, ~known] = -np.inf
        cosine[np.arange(len(rows)), rows] = -np.inf
        order = np.argsort(-cosine, axis=1, kind="stable")[:, :count]
        best = np.where(np.isfinite(np.take_along_axis(cosine, order, axis=1)), order, NONE)
        found[rows] = np.where(known[rows, None], best, NONE)
    return found


def _unit(vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    length = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit: NDArray[np.float64] = np.divide(vectors, length, out=np.zeros_like(vectors), where=length > 0)
    return unit
