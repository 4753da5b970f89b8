"""Patch tokens of a store, read a few rows at a time: a file of them is often larger than the memory."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from msgspec import Struct, UnsetType

from snellen.errors import DataError
from snellen.features.store.format import DAMAGED_HINT, read_meta


class PatchTokens(Struct, frozen=True, eq=False):
    """Patch tokens of the n rows of a store.

    Attributes:
        values: [n and gaps, tokens, width], memory-mapped, as stored.
        rows: [n] row of `values` of each row.
        path: the store's folder.
    """

    values: np.ndarray
    rows: np.ndarray
    path: Path

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def shape(self) -> tuple[int, int, int]:
        """Return (n, tokens, width)."""
        return len(self.rows), int(self.values.shape[1]), int(self.values.shape[2])

    def read(self, rows: np.ndarray) -> np.ndarray:
        """Read some rows, in their order: float32 [m, tokens, width]."""
        return np.asarray(self.stored(rows), dtype=np.float32)

    def stored(self, rows: np.ndarray) -> np.ndarray:
        """Read some rows as they are stored."""
        return np.asarray(self.values[self.rows[rows]])

    def take(self, rows: np.ndarray) -> PatchTokens:
        """Take some rows, in their order, without reading them."""
        return PatchTokens(self.values, self.rows[rows], self.path)


def open_tokens(path: Path | str) -> PatchTokens:
    """Open the patch tokens of a store without reading them.

    Raises:
        DataError: no store there, an unfinished or damaged one, or one without patch tokens.
    """
    folder = Path(path)
    meta = read_meta(folder)
    if not meta.complete:
        raise DataError(
            f"{folder}: its extraction is incomplete, so rows are missing",
            "Repeat the command that began it; it resumes.",
        )
    tokens = meta.patch_tokens
    if isinstance(tokens, UnsetType):
        raise DataError(
            f"{folder} holds no patch tokens; it has: {', '.join(meta.outputs)}",
            "Extract them into a new store: snellen features extract … --tokens --out NEW.",
        )
    file = folder / tokens.file
    try:
        values: np.ndarray = np.load(file, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise DataError(f"{file} cannot be read: {error}", DAMAGED_HINT) from error
    expected = [meta.rows + len(tokens.gaps), tokens.tokens, tokens.width]
    if list(values.shape) != expected or str(values.dtype) != tokens.dtype:
        raise DataError(
            f"{file} holds {list(values.shape)} {values.dtype}; store.json says {expected} {tokens.dtype}", DAMAGED_HINT
        )
    rows = np.setdiff1d(np.arange(expected[0]), np.array(tokens.gaps, dtype=np.int64))
    if len(rows) != meta.rows:
        raise DataError(f"{folder}: the gaps of its patch tokens are not rows of {file.name}", DAMAGED_HINT)
    return PatchTokens(values, rows, folder)
