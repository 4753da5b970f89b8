"""Features to measure: memory-mapped values with ids, splits and labels.

`open_store` opens what `snellen features extract` or `import` wrote. Every measure takes the arrays alone, so that
features from anywhere can be measured without a store.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from msgspec import Struct

from snellen.errors import DataError, UsageError
from snellen.features.store.format import PatchTokens, StoreMeta, open_tokens, read_meta, read_table
from snellen.features.store.importers import import_file
from snellen.features.store.labels import Labels

__all__ = ["Features", "Labels", "PatchTokens", "import_file", "open_store", "open_tokens", "store_outputs"]

TRAIN, TEST = "train", "test"


class Features(Struct, frozen=True, eq=False):
    """Features of n rows.

    Attributes:
        values: [n, d], as stored: float32, or float16 or float64 where the store holds these. Memory-mapped and read
            only: convert a block at a time.
        labels: classes of the rows.
        ids: [n] str (object array): what a row is called, an image's path where there is one. An id may come twice.
        split: [n] str (object array): "train", "test", "val", another name, or "".
        name: which output of the encoder this is (`cls`, `patch_mean`, …).
        path: the store's folder; None for arrays from elsewhere.
        meta: what store.json says; None for arrays from elsewhere.
        rows: [n] row numbers in the store; None for all of them in their order.
    """

    values: np.ndarray
    labels: Labels
    ids: np.ndarray
    split: np.ndarray
    name: str = "features"
    path: Path | None = None
    meta: StoreMeta | None = None
    rows: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.values)

    @property
    def splits(self) -> dict[str, int]:
        """Count the rows of each split, in the order in which they first come."""
        names, first, counts = np.unique(self.split.astype(str), return_index=True, return_counts=True)
        return {str(names[i]): int(counts[i]) for i in np.argsort(first)}

    @property
    def halves(self) -> tuple[str, str] | None:
        """Return ("train", "test") if there are rows of both, the default of every measure; else None."""
        return (TRAIN, TEST) if {TRAIN, TEST} <= self.splits.keys() else None

    def take(self, rows: np.ndarray | slice) -> Features:
        """Take some rows, in their order. A slice stays memory-mapped; an array of row numbers or of bools copies."""
        return Features(
            self.values[rows],
            self.labels.take(rows),
            self.ids[rows],
            self.split[rows],
            self.name,
            self.path,
            self.meta,
            (np.arange(len(self)) if self.rows is None else self.rows)[rows],
        )

    def only(self, split: str) -> Features:
        """Take the rows of one split; memory-mapped if they are consecutive, as those of an extraction are.

        Raises:
            DataError: there is no such split; the message lists those there are.
        """
        rows = np.flatnonzero(self.split == split)
        if not len(rows):
            known = ", ".join(f"{name or '(no name)'} ({count:,})" for name, count in self.splits.items())
            raise DataError(
                f"{self.path or 'these features'}: there is no split {split!r}; there are: {known}",
                "Name one of these.",
            )
        if rows[-1] - rows[0] + 1 == len(rows):
            return self.take(slice(int(rows[0]), int(rows[-1]) + 1))
        return self.take(rows)


def open_store(path: Path | str, output: str | None = None) -> Features:
    """Open a store without reading its values.

    Args:
        path: the folder.
        output: which array; None takes the first, in the order that the extraction was asked for.

    Raises:
        DataError: no store there, an unfinished one, or a damaged one.
        UsageError: no such output; the message lists those there are.
    """
    folder = Path(path)
    meta = read_meta(folder)
    if not meta.complete:
        raise DataError(
            f"{folder}: its extraction is incomplete, so rows are missing",
            "Repeat the command that began it; it resumes.",
        )
    name = next(iter(meta.outputs)) if output is None else output
    if name not in meta.outputs:
        raise UsageError(
            f"{folder} has no output {name!r}; it has: {', '.join(meta.outputs)}", "Name one of these with --output."
        )
    ids, split, labels = read_table(folder, meta)
    return Features(_mapped(folder, meta, name), labels, ids, split, name, folder, meta)


def store_outputs(path: Path | str) -> Mapping[str, int]:
    """Return the outputs of a store with their widths. Raises DataError."""
    return {name: array.width for name, array in read_meta(Path(path)).outputs.items()}


def _mapped(folder: Path, meta: StoreMeta, name: str) -> np.ndarray:
    array = meta.outputs[name]
    file = folder / array.file
    try:
        values: np.ndarray = np.load(file, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError) as error:
        raise DataError(f"{file} cannot be read: {error}", "The store is damaged; create it again.") from error
    if values.shape != (meta.rows, array.width) or str(values.dtype) != array.dtype:
        raise DataError(
            f"{file} holds {list(values.shape)} {values.dtype}; store.json says {[meta.rows, array.width]} {array.dtype}",
            "The store is damaged; create it again.",
        )
    return values
