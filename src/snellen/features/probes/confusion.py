"""Confusion matrix of a probe: how often each class was taken for which."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from snellen.atomic_write import replacing
from snellen.errors import StorageError
from snellen.features.store.labels import Labels, find_columns
from snellen.text import spreadsheet_cell


class Mistake(Struct, frozen=True):
    """Test rows of class `true` that were taken for `predicted`; `share` of the class's test rows."""

    true: str
    predicted: str
    n: int
    share: float


class Confusion(Struct, frozen=True, eq=False):
    """Counts of test rows.

    Attributes:
        classes: [c] names, in the order of ids.
        counts: [c, c] rows of the true class (row) by predicted class (column); with several labels a row [c, 2, 2]:
            of each class absent or present (row) by not predicted or predicted (column).
    """

    classes: tuple[str, ...]
    counts: NDArray[np.int64]

    def mistakes(self) -> list[Mistake]:
        """Return all pairs of classes that were confused, the most frequent first; empty for several labels."""
        if self.counts.ndim != 2:
            return []
        rows, columns = np.nonzero(self.counts * (1 - np.eye(len(self.counts), dtype=np.int64)))
        tested = self.counts.sum(axis=1)
        counted = [
            Mistake(
                self.classes[i],
                self.classes[j],
                int(self.counts[i, j]),
                float(self.counts[i, j] / tested[i]),
            )
            for i, j in zip(rows, columns, strict=True)
        ]
        return sorted(counted, key=lambda one: (-one.n, -one.share, one.true, one.predicted))

    def table(self) -> list[list[Any]]:
        """Return header and rows: the matrix, or for several labels the four counts of each class."""
        if self.counts.ndim == 3:
            head = ["class", "true positive", "false positive", "false negative", "true negative"]
            return [head] + [
                [name, *(int(counts[at]) for at in ((1, 1), (0, 1), (1, 0), (0, 0)))]
                for name, counts in zip(self.classes, self.counts, strict=True)
            ]
        return [["true \\ predicted", *self.classes]] + [
            [name, *counts] for name, counts in zip(self.classes, self.counts.tolist(), strict=True)
        ]

    def save(self, path: Path) -> Path:
        """Write the table as CSV, whole or not at all. Raises StorageError."""
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows(
            [spreadsheet_cell(cell) for cell in row] for row in self.table()
        )
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with replacing(path) as part:
                part.write_text(text.getvalue(), encoding="utf-8", newline="\n")
        except OSError as error:
            raise StorageError(f"cannot write {path}: {error.strerror}", "Choose another file.") from error
        return path


def count_confusions(labels: Labels, targets: NDArray[Any], predicted: NDArray[Any]) -> Confusion:
    """Count predictions.

    Args:
        labels: classes of all rows.
        targets, predicted: [m] class ids, or [m, c] bool.
    """
    names = [labels.name(column) for column in range(len(labels.classes))]
    # Two classes of one name are two classes.
    apart = [
        name if names.count(name) == 1 else f"{name} ({class_id})"
        for name, class_id in zip(names, labels.classes.tolist(), strict=True)
    ]
    if targets.ndim == 2:
        cells = [[(a & b).sum(axis=0) for b in (~predicted, predicted)] for a in (~targets, targets)]
        return Confusion(tuple(apart), np.moveaxis(np.array(cells, dtype=np.int64), 2, 0))
    size = len(apart)
    place = find_columns(labels.classes, targets) * size + find_columns(labels.classes, predicted)
    return Confusion(tuple(apart), np.bincount(place, minlength=size * size).reshape(size, size).astype(np.int64))
