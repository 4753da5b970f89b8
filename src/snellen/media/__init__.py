"""Pictures and clips on their way to a model: read lazily, decoded safely, encoded once."""

from snellen.media.cache import MediaCache
from snellen.media.decode import fitted, open_image, pixel_limit
from snellen.media.encode import Encoded, describe, encode
from snellen.media.headers import Header, read_header
from snellen.media.video import frame_numbers, frames

__all__ = [
    "Encoded",
    "Header",
    "MediaCache",
    "describe",
    "encode",
    "fitted",
    "frame_numbers",
    "frames",
    "open_image",
    "pixel_limit",
    "read_header",
]
