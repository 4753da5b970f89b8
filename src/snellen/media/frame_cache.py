"""Extracted frames on disk, shared by all processes of a host: each video is decoded by one of them.

An entry is named by its inputs: SHA-256 over the video's bytes, the media settings, the picking rule, the pixel limit,
and the versions of decoder and encoders. It holds the frames as they are sent, so a model gets the same bytes with and
without the store. A SHA-256 over the entry itself is verified.

The process that makes an entry holds an operating-system lock, which ends with the process; the others wait for it and
read. If the store cannot be locked, written or waited for, every process decodes for itself.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import TypeAlias

import filelock
import msgspec
from msgspec import Struct

from snellen.atomic_write import replacing
from snellen.media.sampling import effective
from snellen.media.video import EncodedFrame
from snellen.media.video_file import VideoData, digest_of
from snellen.types import MediaSettings, Video

FORM = 5  # to be raised whenever frames of the same video come out otherwise
BUDGET_BYTES = 4 << 30
WAIT_S = 600.0
MADE_WITH = ("snellen", "av", "simplejpeg", "pillow", "numpy")
_MAGIC = b"SNELLEN FRAMES\n"
_DIGEST_BYTES = 32

Frames: TypeAlias = Sequence[EncodedFrame]


class _CachedFrames(Struct, frozen=True):
    """Numbers of the frames in sending order, with the second of each; each frame once, by its number."""

    sent: tuple[tuple[int, float], ...]
    frames: dict[int, bytes]


def entry_name(data: VideoData, video: Video, settings: MediaSettings, limit: int) -> str:
    """Return the entry's name for these inputs of `snellen.media.video.extract`: 64 hex digits."""
    made_with = [FORM, *(f"{name} {version(name)}" for name in MADE_WITH)]
    choice = [video.pick and video.pick.name, video.start, video.end, video.times]
    parts = [digest_of(data).hex(), choice, effective(video, settings), limit, made_with]
    return sha256(msgspec.json.encode(parts, order="deterministic")).hexdigest()


class FrameStore:
    """A folder of entries, for any number of threads and processes at once."""

    def __init__(self, folder: Path, budget_bytes: int = BUDGET_BYTES, *, wait_s: float = WAIT_S) -> None:
        """Prepare the store; nothing is written yet.

        Args:
            folder: created on demand, for this user only.
            budget_bytes: of all entries; the least recently used go first. A larger entry is not kept.
            wait_s: seconds to wait for another process that makes the same entry, before making it here as well.
        """
        self.folder = folder
        self.budget = budget_bytes
        self._wait = wait_s

    def get(self, name: str, make: Callable[[], Frames]) -> Frames:
        """Return the entry of this name, made once; raises what `make` raises, and stores nothing then."""
        frames = self._read(name)
        if frames is not None:
            return frames
        with self._alone(name):
            frames = self._read(name)  # the one who was waited for has made it
            if frames is None:
                frames = make()
                with suppress(OSError):
                    self._write(name, frames)
        return frames

    @contextmanager
    def _alone(self, name: str) -> Iterator[None]:
        # A fixed number of locks, so that their files do not pile up. Nobody waits for a second one while holding one.
        path = self.folder / "locks" / f"{name[:3]}.lock"
        lock = filelock.FileLock(path, timeout=self._wait, thread_local=False)
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            lock.acquire()
        except (OSError, NotImplementedError):  # a timeout of filelock is an OSError too
            yield
            return
        try:
            yield
        finally:
            lock.release()

    def _read(self, name: str) -> Frames | None:
        path = self.folder / name
        try:
            entry = path.read_bytes()
        except OSError:
            return None
        frames = _unpacked(entry)
        with suppress(OSError):
            if frames is None:
                path.unlink()
            else:
                os.utime(path)
        return frames

    def _write(self, name: str, frames: Frames) -> None:
        entry = _packed(frames)
        if len(entry) > self.budget:
            return
        with replacing(self.folder / name) as part:
            part.write_bytes(entry)
        self._trim(name)

    def _trim(self, newest: str) -> None:
        """Remove the least recently used files, down to nine tenths of the budget, and leftovers of killed
        processes.
        """
        files = []
        with os.scandir(self.folder) as listed:
            for entry in listed:
                with suppress(OSError):  # gone meanwhile
                    if entry.name != newest and entry.is_file(follow_symlinks=False):
                        status = entry.stat(follow_symlinks=False)
                        files.append((status.st_mtime_ns, status.st_size, entry.path))
        total = sum(size for _, size, _ in files) + (self.folder / newest).stat().st_size
        if total <= self.budget:
            return
        for _, size, path in sorted(files):
            with suppress(OSError):
                Path(path).unlink()
            total -= size
            if total <= self.budget * 9 // 10:
                return


def _packed(frames: Frames) -> bytes:
    cached = _CachedFrames(
        tuple((number, seconds) for number, seconds, _ in frames), {number: data for number, _, data in frames}
    )
    body = msgspec.msgpack.encode(cached)
    return _MAGIC + sha256(body).digest() + body


def _unpacked(entry: bytes) -> Frames | None:
    """Return the frames of an entry; None if it was modified."""
    start = len(_MAGIC) + _DIGEST_BYTES
    body = memoryview(entry)[start:]
    if not entry.startswith(_MAGIC) or sha256(body).digest() != entry[len(_MAGIC) : start]:
        return None
    try:
        unpacked = msgspec.msgpack.decode(body, type=_CachedFrames)
        return [EncodedFrame(number, seconds, unpacked.frames[number]) for number, seconds in unpacked.sent]
    except (msgspec.MsgspecError, KeyError, RecursionError):
        return None
