"""Media settings: validation of those that exclude each other, and their part of a run's record."""

from __future__ import annotations

import re
from importlib.metadata import version
from math import isfinite
from typing import Any

from msgspec import structs

from snellen.errors import UsageError
from snellen.media import corruptions
from snellen.media.decode import pixel_limit
from snellen.media.encode import PNG_LEVEL
from snellen.media.sample_range import chosen_bands, window_range
from snellen.media.sampling import TIMES, frames_rule
from snellen.types import MediaSettings

_DEFAULTS = MediaSettings()
# Each of them changes pixels or picks frames, which nobody does to a video that is sent as its file. Of these --fps alone
# reaches whoever picks its frames.
_CHANGES = {
    "max_long_side": "--max-long-side",
    "max_pixels": "--max-pixels",
    "min_pixels": "--min-pixels",
    "resize": "--resize",
    "format": "--image-format",
    "quality": "--quality",
    "frames": "--frames",
    "fps": "--fps",
    "min_frames": "--min-frames",
    "max_frames": "--max-frames",
    "frame_places": "--frame-places",
    "timestamps": "--timestamps",
    "blank": "--blank-images",
    "corrupt": "--corrupt",
    "mask": "--mask",
    "window": "--window",
    "bands": "--bands",
}

OF_VIDEOS = ("frames", "fps", "min_frames", "max_frames", "frame_places", "timestamps", "video")
"""Settings that concern videos alone."""


def check_settings(settings: MediaSettings) -> MediaSettings:
    """Return valid settings, with `corrupt` in its canonical spelling.

    Raises:
        UsageError: `fps` is no rate, or is combined with a `frames` other than the default; `video` is `native`
            together with a setting that changes images; `corrupt` is invalid, or combined with `blank`; `min_pixels` is more
            than `max_pixels`; `resize` is no size, or is combined with a limit; `window` or `bands` is none.
    """
    _check_size(settings)
    window_range(settings.window)
    chosen_bands(settings.bands)
    rate = settings.fps
    if rate is not None and not (isfinite(rate) and rate > 0):
        raise UsageError(f"--fps {rate}: a number of frames a second above 0 was expected", "Example: --fps 1.")
    if rate is not None and settings.frames is not None:
        raise both_frames_and_fps(settings.frames, rate)
    _check_frames(settings)
    if settings.video == "native":
        given = {name: getattr(settings, name) not in (getattr(_DEFAULTS, name), False) for name in _CHANGES}
        changed = [flag for name, flag in _CHANGES.items() if given[name] and name != "fps"]
        if changed:
            raise UsageError(
                f"--video native sends a video's file unchanged; {', '.join(changed)} would change it.",
                f"Omit {' and '.join(changed)}, or pass --video frames.",
            )
    spelling = corruptions.canonical(settings.corrupt) if settings.corrupt else ""
    if spelling and settings.blank:
        raise UsageError(
            f"--corrupt {spelling} and --blank-images exclude each other: a blank image cannot be corrupted.",
            "Pass one of them.",
        )
    if bool(settings.mask) != (bool(spelling) and corruptions.masked(spelling)):
        raise UsageError(
            "--mask and an operation with @object or @background in --corrupt need each other.",
            "Example: --corrupt grey@background --mask masks/.",
        )
    return settings if spelling == settings.corrupt else structs.replace(settings, corrupt=spelling)


def _check_frames(settings: MediaSettings) -> None:
    """Raise UsageError for settings of frames that contradict each other, or that have no effect."""
    least, most = settings.min_frames, settings.max_frames
    if settings.frames is not None and (least or most):
        option = f"--min-frames {least}" if least else f"--max-frames {most}"
        raise UsageError(
            f"{option} bounds the frames of --fps, and --frames {settings.frames} is given.", "Omit one of them."
        )
    if least and least > (most or TIMES):
        raise UsageError(f"--min-frames {least} is more than --max-frames {most or TIMES}.", "Give a smaller minimum.")
    if settings.fps is not None and settings.frame_places is not None:
        raise UsageError(
            f"--frame-places {settings.frame_places} places the frames of --frames, and has no effect on --fps.",
            "Omit one of them.",
        )


MAX_SIDE = 16_384
"""The most pixels a side to which an image is enlarged."""


def _check_size(settings: MediaSettings) -> None:
    """Raise UsageError for sizes that are none, or that contradict each other."""
    least, most = settings.min_pixels, settings.max_pixels
    if least is not None and most is not None and least > most:
        raise UsageError(f"--min-pixels {least} is more than --max-pixels {most}.", "Give a smaller minimum.")
    if least is not None and least > MAX_SIDE**2:
        raise UsageError(f"--min-pixels {least} is more than {MAX_SIDE**2:,}.", "Example: --min-pixels 1003520.")
    if not settings.resize:
        return
    size = re.fullmatch(r"([1-9]\d{0,4})x([1-9]\d{0,4})", settings.resize)
    if size is None or max(map(int, size.groups())) > MAX_SIDE:
        raise UsageError(
            f"--resize {settings.resize}: width and height in pixels were expected, at most {MAX_SIDE:,} each.",
            "Example: --resize 448x448.",
        )
    if limits := [_CHANGES[name] for name in ("max_long_side", "max_pixels", "min_pixels") if getattr(settings, name)]:
        raise UsageError(
            f"--resize {settings.resize} gives the size of every image, and {', '.join(limits)} would have no effect.",
            f"Omit {' and '.join(limits)}, or --resize.",
        )


def both_frames_and_fps(frames: int, fps: float) -> UsageError:
    """Return the error for a run with both a number of frames and a rate."""
    return UsageError(
        f"--frames {frames} and --fps {fps:g} exclude each other: one sets a number of frames, the other a rate.",
        "Pass one of them.",
    )


def original_pixels(settings: MediaSettings) -> MediaSettings:
    """Return the settings without changes to images: the same frames of the same videos, unmodified."""
    return structs.replace(unfitted(settings), blank=False, corrupt="", mask="")


def unfitted(settings: MediaSettings) -> MediaSettings:
    """Return the settings under which images keep their own size and format."""
    return structs.replace(settings, max_long_side=None, max_pixels=None, min_pixels=None, resize="", format="original")


def other_pixels(settings: MediaSettings) -> bool:
    """Return True if images may have other pixels than their files: another size, a control, a degradation."""
    return structs.replace(original_pixels(settings), format=settings.format) != settings


def images_unchanged(settings: MediaSettings) -> bool:
    """Return True if still images are not changed, whatever is done to videos."""
    return structs.replace(settings, **{name: getattr(_DEFAULTS, name) for name in OF_VIDEOS}) == _DEFAULTS


def describe(settings: MediaSettings) -> dict[str, Any]:
    """Return the media part of a run's record: settings, decoders, resampler, rules and library versions."""
    simplejpeg, pillow = version("simplejpeg"), version("pillow")  # each reads a whole file
    return {
        "settings": structs.asdict(settings),
        "jpeg_decoder": f"simplejpeg {simplejpeg}, full decode",
        "jpeg_encoder": f"simplejpeg {simplejpeg}, 4:2:0",
        "other_formats": f"pillow {pillow}",
        "png_level": PNG_LEVEL,
        "resampler": f"pillow {pillow} bicubic, antialiased",
        "transparency": "over white",
        "more_than_8_bits": "the window, else the lowest to the highest value, to 0 to 255",
        "orientation": "exif applied",
        "frames": _frames_rule(settings),
        "corruption": _corruption_rule(settings),
        "pixel_limit": pixel_limit(),
    }


def _frames_rule(settings: MediaSettings) -> str:
    if settings.video != "native":
        return frames_rule(settings)
    rate = "" if settings.fps is None else f", {settings.fps:g} a second"
    return f"none: the endpoint or the processor picks them{rate}"


def _corruption_rule(settings: MediaSettings) -> str:
    if not settings.corrupt:
        return "none"
    return "before fitting, at the picture's own size; drawn by SHA-256 of the picture's file (and number of the frame)"
