"""Transfer of images and clips to a worker: as paths if it sees the same files, else as bytes.

A place is a path with the file's size and time of change. A worker that finds just that there reads the file by itself;
one that does not says so, and is sent bytes from then on.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from functools import lru_cache
from io import BytesIO
from pathlib import Path, PurePath
from typing import Any, cast

from msgspec import Struct, structs

from snellen.errors import DataError
from snellen.media.decode import MaskedImage
from snellen.media.video import Frame
from snellen.sources import FileBlob, Tree, open_tree
from snellen.sources.blobs import Base64Blob, BytesBlob, Drawn, Unreadable, UrlBlob
from snellen.sources.tree import ArchiveLimits, MemberBlob
from snellen.types import Blob, Image, Part, Prompt, Turn, Video

# These hold all that they need.
WHOLE = (BytesBlob, Base64Blob, UrlBlob, Unreadable, Frame)
OPEN_ARCHIVES = 16


class FilePlace(Struct, frozen=True):
    """A file, or a member of an archive, with what tells it from another file of the same name."""

    path: str
    size: int
    changed_ns: int
    member: str | None = None
    limits: ArchiveLimits | None = None

    def here(self) -> bool:
        """Return True if this process sees that very file."""
        try:
            status = Path(self.path).stat()
        except OSError:
            return False
        return (status.st_size, status.st_mtime_ns) == (self.size, self.changed_ns)

    def blob(self) -> Blob:
        if self.member is None:
            return FileBlob(Path(self.path))
        return _archive(self.path, self.size, self.changed_ns, self.limits).blob(self.member)


def packed(blob: Blob, by_value: bool) -> Any:
    """Pack a blob for a worker. A blob that cannot be read is packed too, and fails when it is read there."""
    if isinstance(blob, WHOLE):
        return blob
    if isinstance(blob, MaskedImage):
        return MaskedImage(packed(blob.image, by_value), packed(blob.mask, by_value))
    if not by_value:
        if (place := _place(blob)) is not None:
            return place
        if isinstance(blob, Drawn) and (drawing := _drawing(blob)) is not None:
            return drawing
    try:
        return BytesBlob(blob.key, blob.read())
    except DataError as error:
        return Unreadable(blob.key, error.message, error.hint)


def packed_prompt(prompt: Prompt, by_value: bool) -> Prompt:
    """Return a prompt whose blobs are packed."""
    return _changed(prompt, lambda blob: packed(blob, by_value))


def unpacked(packed: Any) -> Blob | None:
    """Return the blob of what `packed` made; None if this process does not see the file."""
    if isinstance(packed, _Drawing):
        return cast(Drawn, pickle.loads(packed.data))  # noqa: S301 - whoever may hand a worker this may run code in it
    if isinstance(packed, MaskedImage):
        image, mask = unpacked(packed.image), unpacked(packed.mask)
        return None if image is None or mask is None else MaskedImage(image, mask)
    if not isinstance(packed, FilePlace):
        return cast(Blob, packed)
    return packed.blob() if packed.here() else None


def unpacked_prompt(prompt: Prompt) -> Prompt | None:
    """Return the prompt of what `packed_prompt` made; None if one of its files is not seen here."""
    unseen = False

    def change(packed: Any) -> Any:
        nonlocal unseen
        blob = unpacked(packed)
        unseen = unseen or blob is None
        return blob

    opened = _changed(prompt, change)
    return None if unseen else opened


def _changed(prompt: Prompt, change: Callable[[Any], Any]) -> Prompt:
    history = tuple(Turn(turn.role, _changed_parts(turn.parts, change)) for turn in prompt.history)
    return structs.replace(prompt, parts=_changed_parts(prompt.parts, change), history=history)


def _changed_parts(before: tuple[Part, ...], change: Callable[[Any], Any]) -> tuple[Part, ...]:
    parts: list[Part] = []
    for part in before:
        if isinstance(part, Image):
            parts.append(Image(change(part.blob)))
        elif isinstance(part, Video):
            blob = None if part.blob is None else change(part.blob)
            frames = tuple(Image(change(frame.blob)) for frame in part.frames)
            parts.append(structs.replace(part, blob=blob, frames=frames))
        else:
            parts.append(part)
    return tuple(parts)


def _place(blob: Blob) -> FilePlace | None:
    """Return the place of a blob's file; None if it is no file, or missing."""
    located = getattr(blob, "located", None)
    if located is not None:  # an image of a benchmark, looked for when it is asked for
        try:
            return _place(located())
        except DataError:
            return None
    if isinstance(blob, FileBlob):
        path, member, limits = blob.path, None, None
    elif isinstance(blob, MemberBlob):
        path, member, limits = blob.tree.path, blob.name, blob.tree.limits
    else:
        return None
    try:
        status = path.stat()
    except OSError:
        return None
    return FilePlace(str(path.absolute()), status.st_size, status.st_mtime_ns, member, limits)


@lru_cache(maxsize=OPEN_ARCHIVES)
def _archive(path: str, size: int, changed_ns: int, limits: ArchiveLimits | None) -> Tree:
    # What the archive may hold was decided where the question was made; this member was accepted there.
    return open_tree(path, limits, leave_out=True)


class _Drawing(Struct, frozen=True):
    """A pickled image that the worker draws."""

    data: bytes


class _WithoutFiles(pickle.Pickler):
    """Pickler that refuses objects that read files: a worker's files may be others."""

    def persistent_id(self, value: Any) -> None:
        if isinstance(value, PurePath | Tree):
            raise pickle.PicklingError("it reads a file")


def _drawing(blob: Drawn) -> _Drawing | None:
    into = BytesIO()
    try:
        _WithoutFiles(into).dump(blob)
    except (pickle.PicklingError, AttributeError, TypeError):  # what pickle raises for closures and open files
        return None
    return _Drawing(into.getvalue())
