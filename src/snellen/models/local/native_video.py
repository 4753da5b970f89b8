"""Clips by the processor's own video path: its rule picks the frames, and its prompt says when they are shown.

Frames are decoded by `snellen.media`, without loss, and handed over with the metadata that transformers' own decoders give, so
that a prompt has the tokens of a direct call with the file. Sound is not sent.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from msgspec import structs

from snellen.errors import MediaError
from snellen.media import open_image
from snellen.media.clip_parts import refuse_part
from snellen.media.sampling import TIMES
from snellen.media.video import frames_and_rate
from snellen.types import Image, MediaSettings, Pick, Video

LOSSLESS = MediaSettings(format="png")
"""How frames are kept: a processor sees the decoder's own pixels."""


class NativeClip(NamedTuple):
    """Frames of a clip [frames, height, width, 3], of 8 bits, and transformers' metadata of them."""

    frames: np.ndarray[Any, np.dtype[np.uint8]]
    metadata: Any


def native_clip(
    video: Video, processor: Any, frames: Callable[[Video], Sequence[Image]], rate: float | None = None
) -> NativeClip:
    """Return a clip as the video part of a processor takes it.

    Args:
        video: the clip.
        processor: of transformers, with a `video_processor`.
        frames: decodes the frames of a clip under `LOSSLESS`.
        rate: frames a second by which the processor samples, in place of its own settings.

    Raises:
        MediaError: the clip cannot be read, a part of it is asked for, the processor cannot sample it at `rate`, or it takes
            more than 768 frames.
    """
    from transformers.video_utils import VideoMetadata

    key = "of drawn frames" if video.blob is None else video.blob.key
    if video.pick is None:
        refuse_part(video)
    known = (len(video.frames), video.fps) if video.blob is None else frames_and_rate(video.blob)
    if known is None or not known[1] > 0:
        raise MediaError(f"video {key}: its number of frames or its rate is not known", "Pass --video frames.")
    total, of_file = known
    metadata = VideoMetadata(total_num_frames=total, fps=of_file, duration=total / of_file, video_backend="pyav")
    try:
        indices = (
            _picked(video.pick, total, of_file) if video.pick else _sampled(processor.video_processor, metadata, rate)
        )
    except ValueError as error:
        raise MediaError(
            f"video {key}: this model's processor cannot sample it: {error}", "Pass another --fps, or --video frames."
        ) from error
    if len(indices) > TIMES:
        raise MediaError(
            f"video {key}: this model's processor takes {len(indices):,} of its {total:,} frames; at most {TIMES} are sent",
            "Pass a lower --fps, or --video frames.",
        )
    chosen = Pick(f"processor: {indices}", partial(_given, tuple(indices)), len(indices))
    images = [open_image(image, LOSSLESS) for image in frames(structs.replace(video, pick=chosen, subtitles=None))]
    metadata.width, metadata.height = images[0].size
    metadata.frames_indices = indices
    return NativeClip(np.stack([np.asarray(image.convert("RGB")) for image in images]), metadata)


def _sampled(video_processor: Any, metadata: Any, rate: float | None) -> list[int]:
    """Return the frames that a video processor would take of a file: by its own rule, at a rate or its own settings, or all.

    Raises:
        ValueError: its rule takes no rate, or not this one.
    """
    if rate is None and not video_processor.do_sample_frames:
        return list(range(metadata.total_num_frames))
    taken = inspect.signature(video_processor.sample_frames).parameters
    settings = {name: getattr(video_processor, name, None) for name in video_processor.valid_kwargs.__annotations__}
    if rate is not None:
        if "fps" not in taken:
            raise ValueError("its rule takes no rate")
        # SmolVLM samples by a rate, up to a number; other rules take either.
        number = settings.get("num_frames") if settings.get("fps") is not None else None
        settings |= {"fps": rate, "num_frames": number}
    indices = video_processor.sample_frames(
        metadata=metadata, **{name: value for name, value in settings.items() if name in taken and name != "metadata"}
    )
    return [int(index) for index in indices]


def _picked(pick: Pick, total: int, rate: float) -> list[int]:
    return [int(number) for number in (pick.numbers(total, rate) if pick.by_rate else pick.numbers(total))]


def _given(indices: tuple[int, ...], total: int) -> tuple[int, ...]:
    return indices
