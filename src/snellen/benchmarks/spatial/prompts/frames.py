"""Frames of a video to show: the index formulas of both harnesses.

Source: `video-as-images` tasks of lmms-eval, the `nframe` mode and the MMSI-Video set of VLMEvalKit.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import numpy as np

from snellen.benchmarks.spatial.tasks import CONSTANTS
from snellen.errors import DataError

VIDEO: int = CONSTANTS["frames"]["video"]
MMSI_VIDEO: int = CONSTANTS["frames"]["mmsi_video"]


def lmms_eval(total: int, count: int = VIDEO) -> list[int]:
    """Even steps from the first frame to the last, cut off to whole numbers; no more indices than there are frames."""
    return _even(total, min(count, _frames(total)))


def uniform(total: int, count: int = VIDEO) -> list[int]:
    """VLMEvalKit's plain form (SITE): as in lmms-eval, but a short video repeats frames until there are `count`."""
    return _even(total, count)


def uniform_tail(total: int, count: int = VIDEO) -> list[int]:
    """VLMEvalKit's form for VSI-Bench: as `uniform`, and the last frame once more where it is not the last already."""
    chosen = _even(total, count)
    return chosen if chosen[-1] == total - 1 else [*chosen, total - 1]


def by_rate(total: int, video_fps: float, fps: float, *, tail: bool = False) -> list[int]:
    """VLMEvalKit's form by rate: int(total / video_fps * fps) frames, the i-th being int(i * video_fps / fps).

    Args:
        total: frames of the video.
        video_fps: its frames a second.
        fps: frames a second to show.
        tail: add the last frame where it is not the last already, as for VSI-Bench.
    """
    chosen = [int(place * video_fps / fps) for place in range(int(_frames(total) / video_fps * fps))]
    return [*chosen, total - 1] if tail and (not chosen or chosen[-1] != total - 1) else chosen


def inner(total: int, count: int) -> list[int]:
    """VLMEvalKit's form for ReVSI: `count` frames at even steps inside of the clip, neither end among them."""
    step = _frames(total) / (count + 1)
    return [int(place * step) for place in range(1, count + 1)]


def revsi_by_rate(total: int, video_fps: float, fps: float) -> list[int]:
    """VLMEvalKit's form by rate for ReVSI: as `by_rate`, but a clip too short for one frame shows its first."""
    return by_rate(total, video_fps, fps) or [0]


def mmsi_video_lmms_eval(lengths: Sequence[int], count: int = MMSI_VIDEO) -> list[list[int]]:
    """Frames of each segment in lmms-eval: all of them up to `count` in total, else even steps over all segments together.

    A segment that gets none shows its first frame, so that there may be more than `count`; the last frame may be missed,
    for the step is multiplied in floating point and cut off.
    """
    total = sum(lengths)
    if total <= count:
        return [list(range(length)) for length in lengths]
    step = (total - 1) / max(count - 1, 1)
    chosen = [int(place * step) for place in range(count)]
    return [part or [0][:length] for part, length in zip(_split(chosen, lengths), lengths, strict=True)]


def mmsi_video_vlmevalkit(lengths: Sequence[int], count: int = MMSI_VIDEO) -> list[list[int]]:
    """Frames of each segment in VLMEvalKit: even steps over all segments together; a segment may get none."""
    total = sum(lengths)
    if total <= count:
        return [list(range(length)) for length in lengths]
    return _split(sorted(set(_even(total, count))), lengths)


def mmsi_video_by_rate(lengths: Sequence[int], video_fps: float, fps: float) -> list[list[int]]:
    """Frames of each segment in VLMEvalKit by rate: int(total / video_fps * fps) over all segments together, at least one.

    Args:
        lengths: frames of each segment.
        video_fps: frames a second of the list that the row gives.
        fps: frames a second to show.
    """
    total = sum(lengths)
    step, count = video_fps / fps, max(int(total / video_fps * fps), 1)
    return _split(sorted({min(int(place * step), total - 1) for place in range(count)}), lengths)


def _even(total: int, count: int) -> list[int]:
    return [int(place) for place in np.linspace(0, _frames(total) - 1, count, dtype=int)]


def _frames(total: int) -> int:
    if total < 1:
        raise DataError(
            f"A video of {total} frames has none to show; at least 1 was expected. Check that the file is complete."
        )
    return total


def _split(chosen: Sequence[int], lengths: Sequence[int]) -> list[list[int]]:
    ends = list(accumulate(lengths))
    starts = [end - length for end, length in zip(ends, lengths, strict=True)]
    return [
        [index - start for index in chosen if start <= index < end] for start, end in zip(starts, ends, strict=True)
    ]
