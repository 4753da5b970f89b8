"""Images and videos for a model: read lazily, decoded safely, encoded once."""

from snellen.media.cache import MediaCache
from snellen.media.decode import Header, fitted, open_image, pixel_limit, read_header
from snellen.media.encode import Encoded, encode
from snellen.media.sampling import check_own_frames, frame_numbers, shown_at_most
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
    "Encoded",
    "Header",
    "MediaCache",
    "both_frames_and_fps",
    "check_own_frames",
    "check_settings",
    "describe",
    "encode",
    "fitted",
    "frame_numbers",
    "frames",
    "images_unchanged",
    "open_image",
    "original_pixels",
    "other_pixels",
    "pixel_limit",
    "read_header",
    "shown_at_most",
    "unfitted",
]
