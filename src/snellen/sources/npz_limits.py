"""Bounds for .npz files: the size in an array's header is compared with the bytes in the archive."""

from __future__ import annotations

import math
import zipfile
from pathlib import Path
from tokenize import TokenError
from typing import IO, Any

from snellen.errors import DataError
from snellen.sources.tree import ArchiveLimits, check_unpacked

LIMITS = ArchiveLimits()


def check_npz(path: Path, kind: str = ".npz") -> None:
    """Raise for an archive of arrays that claims more bytes than it holds, or an implausible compression ratio.

    Args:
        kind: what messages say that the archive should be: files of torch are zip archives too.

    Raises:
        DataError: it is no zip file, or an array's header is damaged or claims too much.
        UnsafeArchiveError: a member unpacks to more than `zip_archive.Limits` allow.
    """
    size = path.stat().st_size
    try:
        with zipfile.ZipFile(path) as archive:
            total = 0
            for member in archive.infolist():
                packed = min(member.compress_size, size)
                total += member.file_size
                check_unpacked(path, member.filename, member.file_size, packed, LIMITS.stream_bytes, LIMITS)
                check_unpacked(path, member.filename, total, total, LIMITS.total_bytes, LIMITS)
                if member.filename.endswith(".npy"):
                    with archive.open(member) as stream:
                        check_header(stream, member.file_size, f"{path}: {member.filename}")
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError, OSError) as error:
        raise DataError(f"{path} cannot be read as {kind}: {error}", "The file is damaged; save it again.") from error


def check_header(stream: IO[bytes], size: int, where: str) -> None:
    """Raise DataError if an .npy stream of `size` bytes has a damaged header, or one that claims more than it holds."""
    import numpy as np

    forms: dict[tuple[int, int], Any] = {
        (1, 0): np.lib.format.read_array_header_1_0,
        (2, 0): np.lib.format.read_array_header_2_0,
    }
    try:
        version = np.lib.format.read_magic(stream)
        if version not in forms:
            raise ValueError(f"version {version}")  # 3.0 is for field names, which no array here has
        shape, _, dtype = forms[version](stream)
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError, TokenError) as error:
        raise DataError(f"{where}: its header is damaged: {error}", "Save it again with numpy.") from error
    size -= stream.tell()
    claimed = math.prod(shape) * dtype.itemsize
    if not dtype.hasobject and (claimed > size or min(shape, default=0) < 0):
        raise DataError(
            f"{where}: claims an array of shape {list(shape)}, {claimed:,} bytes, and holds {size:,}",
            "The file is damaged; save it again with numpy.",
        )
