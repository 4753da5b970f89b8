"""Pointers that Git LFS leaves in place of files that were not fetched."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from msgspec import Struct

from snellen.sources.blobs import stream
from snellen.text import GIT_LFS_START
from snellen.types import Blob

POINTER_BYTES = 1024
_SIZE = re.compile(rb"^size (\d{1,18})\s*$", re.MULTILINE)


class LfsPointer(Struct, frozen=True):
    """A pointer; `size` is that of the file in bytes, 0 where it is not stated."""

    size: int

    @property
    def size_text(self) -> str:
        return f"{self.size:,} bytes" if self.size else "its contents"


def pointer_of(data: bytes) -> LfsPointer | None:
    """Return the pointer that the first bytes of a file are; None for other contents.

    >>> pointer_of(b"version https://git-lfs.github.com/spec/v1\\noid sha256:ab\\nsize 352552282\\n").size
    352552282
    """
    if not data.startswith(GIT_LFS_START):
        return None
    size = _SIZE.search(data[:POINTER_BYTES])
    return LfsPointer(int(size[1]) if size else 0)


def pointer_in(blob: Blob) -> LfsPointer | None:
    """Return the pointer in a file's place. Raises DataError where the file cannot be read."""
    with stream(blob) as start:
        return pointer_of(start.read(POINTER_BYTES))


def fetch_hint(path: Path | None) -> str:
    """Return the command that fetches a file: for its own repository, where it lies in one."""
    if path is not None:
        full = path.absolute()
        root = next((folder for folder in full.parents if (folder / ".git").exists()), None)
        if root is not None:
            inner = shlex.quote(full.relative_to(root).as_posix())
            return f"Fetch it: git -C {shlex.quote(str(root))} lfs pull --include {inner}"
        return f"Fetch it in its repository: git lfs pull --include {shlex.quote('**/' + full.name)}"
    return "Fetch it in its repository: git lfs pull"
