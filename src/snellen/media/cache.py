"""Cache of encoded images and videos: each is encoded once, not once per question."""

from __future__ import annotations

import asyncio
import os
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Generic, TypeVar, cast

from snellen.media.decode import pixel_limit
from snellen.media.encode import Encoded, encode, encode_bytes, untouched
from snellen.media.settings import check_settings
from snellen.media.video import EncodedFrame, Frame, as_images, check_pyav, drawn_frames, extract
from snellen.media.video_file import encode_video, video_data
from snellen.types import Blob, Image, MediaSettings, Video

if TYPE_CHECKING:
    from snellen.media.frame_cache import Frames

# A small overhead per entry is counted too, so that a million tiny images cannot outgrow the budget.
ENTRY_BYTES = 1024

T = TypeVar("T")


class MediaCache:
    """The encoded images and videos and the extracted frames of one run, within a memory budget.

    Images and videos are keyed by their blob's key. Callers may be threads or one event loop. An image is made once,
    and all waiting callers get the same `Encoded` or the same error. The least recently used go first when the budget
    is full; one that is larger than the whole budget is returned and not kept.
    """

    def __init__(
        self,
        settings: MediaSettings,
        budget_bytes: int = 256 << 20,
        *,
        limit: int | None = None,
        threads: int = 0,
        shared: Path | None = None,
    ) -> None:
        """Peak memory is the budget plus the images being decoded.

        Args:
            settings: what is done to images.
            budget_bytes: for encoded images and videos; a quarter as much again for frames of videos.
            limit: pixels decoded at most, `pixel_limit()` by default.
            threads: images decoded at once; 0: one a core, at most 8.
            shared: folder of extracted frames that processes of this host share (`FrameStore`); None: this run's alone.

        Raises:
            UsageError: settings that exclude each other.
        """
        self.settings = check_settings(settings)
        self.limit = pixel_limit() if limit is None else limit
        self._images: _Once[Encoded] = _Once(budget_bytes, lambda image: len(image.data_uri))
        self._clips: _Once[tuple[Image, ...]] = _Once(budget_bytes // 4, _clip_bytes)
        self._threads = threads or min(8, os.cpu_count() or 1)
        self._pool: ThreadPoolExecutor | None = None
        self._shared = shared

    @property
    def held_bytes(self) -> int:
        """Bytes in memory, as counted against the budget."""
        return self._images.held + self._clips.held

    @property
    def made(self) -> int:
        """Number of images, and videos as files, encoded so far."""
        return self._images.made

    def get(self, image: Image) -> Encoded:
        """Return the image as it is sent; blocks while it is made. Raises MediaError, DataError."""
        return self._images.get(image.blob.key, lambda: encode(image.blob, self.settings, self.limit))

    async def fetch(self, image: Image) -> Encoded:
        """Return the image as `get`, from an event loop: decoding, drawing and slow reads run in a thread.

        A cached image, or one that needs no decoding and is in memory or in a small local file, is returned without a
        thread.
        """
        blob = image.blob
        key = blob.key
        cached = self._images.held_now(key)
        if cached is not None:
            return cached
        if not getattr(blob, "quick", False) or self._images.under_way(key):
            return await self._in_thread(self._images, key, lambda: encode(blob, self.settings, self.limit))
        data = blob.read()
        ready = untouched(data, blob, self.settings, self.limit)
        if ready is not None:
            self._images.put(key, ready)
            return ready
        return await self._in_thread(self._images, key, lambda: encode_bytes(data, blob, self.settings, self.limit))

    def frames(self, video: Video) -> tuple[Image, ...]:
        """Return the frames of a video that are sent (see `snellen.media.video`); decoded once. Raises MediaError."""
        blob = video.blob
        if blob is None:
            return drawn_frames(video, self.settings)
        return self._clips.get(_clip_key(video), lambda: self._extracted(video, blob))

    async def fetch_frames(self, video: Video) -> tuple[Image, ...]:
        """Return frames as `frames`, from an event loop; decoding runs in a thread."""
        blob = video.blob
        if blob is None:
            return drawn_frames(video, self.settings)
        return await self._in_thread(self._clips, _clip_key(video), lambda: self._extracted(video, blob))

    async def fetch_video(self, video: Video) -> Encoded:
        """Return the file of a video as it is sent; read and encoded once, in a thread. Raises MediaError,
        DataError.
        """
        if video.blob is None:
            return encode_video(video)  # raises: a drawn clip has no file
        # The prefix keeps an image of the same blob apart.
        return await self._in_thread(self._images, f"video:{video.blob.key}", lambda: encode_video(video))

    def _extracted(self, video: Video, blob: Blob) -> tuple[Image, ...]:
        key = blob.key
        check_pyav(key)
        with video_data(blob) as data:

            def make() -> list[EncodedFrame]:
                return extract(data, key, video, self.settings, self.limit)

            if self._shared is None:
                frames: Frames = make()
            else:
                from snellen.media.frame_cache import FrameStore, entry_name  # a run without videos does not need it

                frames = FrameStore(self._shared).get(entry_name(data, video, self.settings, self.limit), make)
        return tuple(as_images(key, self.settings, frames))

    def close(self) -> None:
        """Stop the threads. Running jobs are finished, waiting ones are dropped."""
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)
            self._pool = None

    async def _in_thread(self, store: _Once[T], key: str, make: Callable[[], T]) -> T:
        cached = store.held_now(key)
        if cached is not None:
            return cached
        future, is_maker = store.claim(key)
        if is_maker:
            if self._pool is None:
                self._pool = ThreadPoolExecutor(self._threads, thread_name_prefix="media")
            self._pool.submit(store.fulfil, key, future, make)
        # Shielded: one caller that is cancelled must not cancel the image for the others.
        return await asyncio.shield(asyncio.wrap_future(future))


class _Once(Generic[T]):
    """Values made once per key and kept, least recently used out first, within `budget` bytes. Thread-safe."""

    def __init__(self, budget: int, size: Callable[[T], int]) -> None:
        self.budget = budget
        self.held = 0
        self.made = 0
        self._size = size
        self._kept: OrderedDict[str, T] = OrderedDict()
        self._waiting: dict[str, Future[T]] = {}
        self._lock = Lock()

    def held_now(self, key: str) -> T | None:
        with self._lock:
            value = self._kept.get(key)
            if value is not None:
                self._kept.move_to_end(key)
            return value

    def under_way(self, key: str) -> bool:
        return key in self._waiting

    def put(self, key: str, value: T) -> None:
        with self._lock:
            self._keep(key, value)

    def get(self, key: str, make: Callable[[], T]) -> T:
        cached = self.held_now(key)
        if cached is not None:
            return cached
        future, is_maker = self.claim(key)
        if is_maker:
            self.fulfil(key, future, make)
        return future.result()

    def claim(self, key: str) -> tuple[Future[T], bool]:
        """Return the future of a value, and True if the caller has to make it."""
        with self._lock:
            waiting = self._waiting.get(key)
            if waiting is not None:
                return waiting, False
            future: Future[T] = Future()
            if key in self._kept:  # made between the caller's look and its claim
                future.set_result(self._kept[key])
                return future, False
            self._waiting[key] = future
            return future, True

    def fulfil(self, key: str, future: Future[T], make: Callable[[], T]) -> None:
        try:
            value = make()
        except BaseException as error:
            with self._lock:
                del self._waiting[key]
            future.set_exception(error)
            if not isinstance(error, Exception):
                raise
            return
        with self._lock:
            self._keep(key, value)
            del self._waiting[key]
        future.set_result(value)

    def _keep(self, key: str, value: T) -> None:
        self.made += 1
        size = self._size(value) + ENTRY_BYTES
        if key in self._kept:
            self.held -= self._size(self._kept.pop(key)) + ENTRY_BYTES
        if size > self.budget:
            return
        self._kept[key] = value
        self.held += size
        while self.held > self.budget:
            _, dropped = self._kept.popitem(last=False)
            self.held -= self._size(dropped) + ENTRY_BYTES


def _clip_key(video: Video) -> str:
    key = video.blob.key if video.blob is not None else ""
    choice = (video.pick and video.pick.name, video.start, video.end, video.times, video.usual)
    return key if choice == (None, None, None, (), None) else f"{key}\0{choice}"


def _clip_bytes(clip: tuple[Image, ...]) -> int:
    # A frame that stands for several moments is held once.
    frames = {image.blob.key: len(cast(Frame, image.blob).data) for image in clip}
    return sum(frames.values()) + ENTRY_BYTES * len(clip)
