"""What a model reads of a clip: its frames, with labels, times and subtitles as text beside them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import TYPE_CHECKING

from snellen.errors import MediaError
from snellen.media.sampling import drawn_shown, effective
from snellen.types import Image, MediaSettings, Subtitles, Text, Video

if TYPE_CHECKING:
    from snellen.media.subtitles import Line as SubtitleLine

MOST_SAID = 100_000
"""Sentences that stand behind the frames of a clip."""


def clip_parts(video: Video, frames: Sequence[Image], settings: MediaSettings) -> list[Text | Image]:
    """Return the parts of a prompt that a clip becomes.

    Labels of a pick and times stand before their frames. Subtitles stand behind all frames, a line each, or joined by
    blanks where each is a word; or, in `intervals`, behind the frame from which on they are spoken; or `between` the frames: a line comes before the first frame behind its middle, and counts as
    a second long at least, as LongVideoBench's authors have it.

    Args:
        video: the clip.
        frames: those that are sent, as `MediaCache.frames` returns them.
        settings: the run's.

    Raises:
        DataError, MissingExtraError: the subtitles cannot be read.
    """
    shown = effective(video, settings)
    times = _seconds(video, frames, shown) if shown.timestamps or video.subtitles is not None else []
    between, behind = _subtitles(video, times)
    parts: list[Text | Image] = []
    for number, frame in enumerate(frames):
        while between and between[0][0] < times[number]:
            parts.append(Text(between.pop(0)[1]))
        if video.pick is not None and (label := video.pick.text_before(number)) is not None:
            parts.append(label)
        if shown.timestamps:
            parts.append(Text(f"<{times[number]:.1f} seconds>"))
        parts.append(frame)
    return [*parts, *(Text(text) for _, text in between), *([Text(behind)] if behind else [])]


def file_text(video: Video) -> str:
    """Return the subtitles of a clip that is sent as a file; empty without any.

    Raises:
        MediaError: a part of the file is asked for, or the frames decide which subtitles are shown.
        DataError, MissingExtraError: they cannot be read.
    """
    refuse_part(video)
    return spoken_text(video)


def spoken_text(video: Video) -> str:
    """Return the subtitles of a clip whose frames somebody else picks. Raises as `file_text`, but for parts."""
    if video.subtitles is None:
        return ""
    if video.subtitles.show != "full":
        raise MediaError(
            f"the subtitles of a video are those at its frames ({video.subtitles.show}), and the frames of a file are picked "
            "by the model's server: pass --video frames, or -o subtitles=full",
        )
    return _subtitles(video, [])[1]


def refuse_part(video: Video) -> None:
    """Raise MediaError if a part of a clip is asked for, where all of it is sent."""
    if video.start is not None or video.end is not None or video.times:
        raise MediaError(
            "a part of the video is asked for, by its start, its end or the times of its frames, and --video native sends "
            "the whole file: pass --video frames",
        )


def _seconds(video: Video, frames: Sequence[Image], settings: MediaSettings) -> list[float]:
    """Return the second at which each frame is on the screen."""
    if video.blob is None:
        return [shown.seconds for shown in drawn_shown(video, settings)]
    return [getattr(frame.blob, "seconds", 0.0) for frame in frames]


def _subtitles(video: Video, times: Sequence[float]) -> tuple[list[tuple[float, str]], str]:
    """Return the lines between frames, each with its middle, and the text behind all frames."""
    subtitles = video.subtitles
    if subtitles is None:
        return [], ""
    lines = _lines(video, subtitles, times)
    if subtitles.show == "intervals":
        return in_intervals(lines, times), ""
    if subtitles.show == "between":
        return [((line.start + line.end) / 2, line.text) for line in lines], ""
    are_words = all(" " not in line.text for line in lines)
    listed = (" " if are_words else "\n").join(line.text for line in lines) or subtitles.absent
    return [], f"{subtitles.before}{listed}{subtitles.after}" if listed else ""


def in_intervals(lines: Sequence[SubtitleLine], times: Sequence[float]) -> list[tuple[float, str]]:
    """Return what is spoken from each frame until the next, with the second of the frame behind which it stands.

    Words are joined to sentences; one that reaches over a frame stands behind both its neighbours. Source:
    MME-Benchmarks/Video-MME-v2 at 013b6c9, `evaluation/test_video_mme_v2.py`.

    Raises:
        MediaError: there are too many, as of lines that last for all of the clip.
    """
    from snellen.media.subtitles import sentences

    ordered, found = sorted(times), list[tuple[float, str]]()
    for line in sentences(lines):
        said = f"[Subtitle {line.start:.2f}s - {line.end:.2f}s]: {line.text}"
        frames = range(max(bisect_right(ordered, line.start) - 1, 0), bisect_right(ordered, line.end))
        found += [(ordered[at], said) for at in frames]
        if len(found) > MOST_SAID:
            raise MediaError(
                f"subtitles: more than {MOST_SAID:,} stand behind the frames", "Check that their times are right."
            )
    return sorted(found, key=lambda item: item[0])


def _lines(video: Video, subtitles: Subtitles, times: Sequence[float]) -> list[SubtitleLine]:
    from snellen.media.subtitles import Line, at_frames, in_span, read_subtitles

    if subtitles.blob is None:
        return []
    begins = subtitles.begins
    lines = [Line(line.start - begins, line.end - begins, line.text) for line in read_subtitles(subtitles.blob)]
    if subtitles.show in ("full", "intervals"):
        return in_span(lines, video.start, video.end)
    return at_frames(lines, times, least=1.0 if subtitles.show == "between" else 0.0)
