"""Frames of a row's DICOM files that hold several: those that a cell names, else all of them as a clip."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

from snellen.benchmarks.table.images import IMAGE_SUFFIXES
from snellen.benchmarks.table.operations import CellError
from snellen.benchmarks.table.pages import page_numbers
from snellen.errors import MediaError
from snellen.media.dicom_frames import DicomFrame, DicomStack, read_stack
from snellen.sources.blobs import BytesBlob, FileBlob
from snellen.sources.tree import MemberBlob
from snellen.types import Blob, Image, Video

_OTHER = tuple(suffix for suffix in IMAGE_SUFFIXES if suffix != ".dcm")
"""Endings of images that are no DICOM. Files of DICOM often have none, or the end of a number."""


def stack_of(blob: Blob) -> DicomStack | None:
    """Return the frames of a DICOM file, known while it stays as it is; None for any other, and for one that cannot be read.

    Raises:
        CellError: it claims frames that it cannot hold.
    """
    if not isinstance(blob, FileBlob | MemberBlob | BytesBlob) or blob.key.lower().endswith(_OTHER):
        return None
    container = blob.tree if isinstance(blob, MemberBlob) else blob
    path = getattr(container, "path", None)
    status = path.stat() if isinstance(path, Path) and path.is_file() else None
    try:
        return read_stack(blob) if status is None else _known(blob, status.st_mtime_ns, status.st_size)
    except MediaError as error:
        raise CellError(f"image unreadable: {error.message}", error.hint) from error
    except ValueError:  # what is wrong with it is said where it is decoded
        return None


@lru_cache(maxsize=1024)
def _known(blob: Blob, changed: int, size: int) -> DicomStack | None:
    return read_stack(blob)


def frames_named(blob: Blob, stack: DicomStack, cell: Any) -> list[Blob]:
    """Return the frames that a cell names, from 1: `3`, `2-5`, `1,4,7` or a list. Raises CellError for any other."""
    return [DicomFrame(blob, number) for number in page_numbers(cell, stack.frames, nouns=("frames", "file"))]


def clip_of(blob: Blob, stack: DicomStack) -> Video:
    """Return all frames as a clip, of which none is decoded yet."""
    return Video(frames=tuple(Image(DicomFrame(blob, at + 1)) for at in range(stack.frames)), fps=stack.rate)
