"""Images and videos for a model: read lazily, decoded safely, encoded once."""

from snellen.media.cache import MediaCache
from snellen.media.clip_parts import clip_parts
from snellen.media.decode import Header, fitted, open_image, pixel_limit, read_header
from snellen.media.encode import Encoded, encode
from snellen.media.sampling import FRAMES, check_own_frames, effective, frame_numbers, frames_rule, shown_at_most
from snellen.media.settings import (
    both_frames_and_fps,
    check_settings,
    describe,
    images_unchanged,
    original_pixels,
    other_pixels,
    unfitted,
)
from snellen.media.video import frames

__all__ = [
    "FRAMES",
    "Encoded",
    "Header",
    "MediaCache",
    "both_frames_and_fps",
    "check_own_frames",
    "check_settings",
    "clip_parts",
    "describe",
    "effective",
    "encode",
    "fitted",
    "frame_numbers",
    "frames",
    "frames_rule",
    "images_unchanged",
    "open_image",
    "original_pixels",
    "other_pixels",
    "pixel_limit",
    "read_header",
    "shown_at_most",
    "unfitted",
]
