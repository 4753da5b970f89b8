"""Disk space of a feature store: what it takes, told before the first image is encoded."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from snellen.errors import StorageError
from snellen.features.store.format import PATCH_TOKENS, StoreOutput, TokenOutput

UNITS = (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3))


def size_text(count: float) -> str:
    """Return a number of bytes in the largest decimal unit that it reaches.

    >>> size_text(3_140_000_000), size_text(512)
    ('3.1 GB', '512 bytes')
    """
    for unit, size in UNITS:
        if count >= size:
            return f"{count / size:,.1f} {unit}"
    return f"{count:.0f} bytes"


def describe_space(path: Path | str, tokens: TokenOutput, rows: int) -> str:
    """Describe in one sentence what the patch tokens of these rows take, and what is free."""
    return (
        f"{PATCH_TOKENS}: {rows:,} images x {tokens.tokens:,} tokens x {tokens.width:,} values of {tokens.dtype} take "
        f"{size_text(rows * tokens.row_bytes)} of the disk; {size_text(free_bytes(Path(path)))} are free."
    )


def require_space(path: Path, outputs: Iterable[StoreOutput], tokens: TokenOutput | None, rows: int) -> None:
    """Raise StorageError if the arrays of a new store do not fit on its disk."""
    needed = rows * sum(array.width * np.dtype(array.dtype).itemsize for array in outputs)
    needed += rows * tokens.row_bytes if tokens is not None else 0
    free = free_bytes(path)
    if needed > free:
        hint = "Write to another disk with --out"
        hint += ", or omit --tokens." if tokens is not None else ", or store float16 with --dtype."
        raise StorageError(f"{path}: the store needs {size_text(needed)}; {size_text(free)} are free.", hint)


def free_bytes(path: Path) -> int:
    """Return the free bytes of the disk that a folder lies on, or will lie on."""
    place = path.absolute()
    while not place.exists() and place != place.parent:
        place = place.parent
    return shutil.disk_usage(place).free
