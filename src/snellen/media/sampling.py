"""Frames of a clip that are sent: rules that choose numbers of frames, given when each frame is shown.

Settings of the user come first, then those of the benchmark (`Video.usual`), else 8 frames by number.

By number (`MediaSettings.frames`): of T frames at most N are sent. T <= N: all of them. Otherwise, by `frame_places` (`ends`), with k
from 0 to N - 1:

- `ends`: frame k * (T - 1) // (N - 1), so the first and the last are among them; N = 1 takes (T - 1) // 2.
- `middle`: floor(s / 2 + round(s * k)) with s = (T - 1) / N, the middle of each of N segments (the script of MVBench's
  authors).
- `inside`: floor((k + 1) * T / (N + 1)), never the first nor the last (VLMEvalKit's `video_base.py`).

By time (`MediaSettings.fps`): the frame shown at time k / fps for k = 0, 1, 2 ... while k / fps lies before the end; at
least k = 0. More times than `max_frames` (768) are thinned to that number by the rule of `ends`, applied to k. Fewer than
`min_frames`: that many frames by number instead. A frame that is shown at several of the times is sent as often.

By the clip itself: `Video.times` names seconds, `Video.pick` is a rule of the benchmark, given T (and the average rate, if
it requests that). `Video.start` and `Video.end` limit all but `times` to the frames shown between them.

A frame is shown from its presentation time stamp until that of the next. Time runs from the first frame that decodes.
Containers round stamps (Matroska: to milliseconds), so a frame counts as shown, and the end as reached, 1 ms early. A drawn
clip of T frames at r a second shows number floor(r * t) at t and ends at T / r, exactly. A rate is the decimal number that
was written: 0.1 is a tenth.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from fractions import Fraction
from math import ceil, floor
from typing import NamedTuple

from msgspec import Struct, structs

from snellen.errors import MediaError
from snellen.types import MediaSettings, Pick, Video

TIMES = 768
"""Frames that are sent by time at most, where `max_frames` does not say."""
FRAMES = 8
"""Frames that are sent where neither the user nor the benchmark says."""
EARLY = Fraction(1, 1000)  # seconds


class Timeline(Struct, frozen=True):
    """When the frames of a clip are shown, in ticks from the first one.

    Attributes:
        stamps: the tick from which each frame is shown, rising from 0.
        end: the tick at which the last one ends.
        tick: seconds of a tick; 0 where the clip has neither time stamps nor a rate.
        rate: average frames a second; 0 if it is not known.
        early: seconds by which a frame counts as shown before its stamp.
    """

    stamps: Sequence[int]
    end: int
    tick: Fraction
    rate: float
    early: Fraction = EARLY

    @property
    def length(self) -> Fraction:
        """Seconds from the first frame to the end."""
        return self.end * self.tick

    def seconds(self, number: int) -> float:
        """Return the second at which a frame is first shown."""
        return float(self.stamps[number] * self.tick)

    def shown_at(self, time: Fraction) -> int:
        """Return the number of the frame that is shown at a time."""
        return max(bisect_right(self.stamps, floor((time + self.early) / self.tick)) - 1, 0)

    def shown_before(self, time: Fraction) -> int:
        """Return the number of the last frame that is shown before a time."""
        return max(bisect_left(self.stamps, ceil((time - self.early) / self.tick)) - 1, 0)


def frame_numbers(total: int, wanted: int, places: str | None = None) -> list[int]:
    """Return the numbers of the frames that are sent, rising, from 0; the rules are at the top of this file.

    Raises:
        ValueError: `wanted` is below 1.
    """
    if wanted < 1:
        raise ValueError(f"{wanted} frames were asked for; at least 1 is needed")
    if total <= wanted:
        return list(range(total))
    if places == "middle":
        segment = Fraction(total - 1, wanted)
        return [floor(segment / 2 + round(segment * k)) for k in range(wanted)]
    if places == "inside":
        return [(k + 1) * total // (wanted + 1) for k in range(wanted)]
    if wanted == 1:
        return [(total - 1) // 2]
    return [k * (total - 1) // (wanted - 1) for k in range(wanted)]


def frame_times(end: Fraction, fps: float, most: int = TIMES) -> list[Fraction]:
    """Return the times, in seconds from the first frame, at which a clip that ends at `end` is sampled; see the top of
    the file.

    Raises:
        ValueError: `fps` is not above 0.
    """
    if not fps > 0:
        raise ValueError(f"{fps} frames a second were asked for; more than 0 are needed")
    rate = decimal(fps)
    return [k / rate for k in frame_numbers(max(1, ceil(end * rate)), most)]


def effective(video: Video, settings: MediaSettings) -> MediaSettings:
    """Return the settings by which frames of a clip are chosen: the user's, and the benchmark's where there are none.

    Raises:
        MediaError: the user bounds a rate, and neither user nor benchmark gives one; or places a number of frames where the
            benchmark declares a rate.
    """
    usual = video.usual or MediaSettings()
    rule = settings if settings.frames is not None or settings.fps is not None else usual
    if rule.fps is None and (settings.min_frames or settings.max_frames) and not (video.pick or video.times):
        raise MediaError(
            "--min-frames and --max-frames bound the frames of a rate, and no rate is given",
            "Add --fps, or use --frames.",
        )
    if rule.fps is not None and settings.frame_places is not None:
        raise MediaError(
            f"--frame-places {settings.frame_places} places a number of frames, and {rule.fps:g} a second are declared",
            "Add --frames, or omit --frame-places.",
        )
    return structs.replace(
        settings,
        frames=rule.frames,
        fps=rule.fps,
        min_frames=settings.min_frames or rule.min_frames,
        max_frames=settings.max_frames or rule.max_frames,
        frame_places=settings.frame_places or usual.frame_places if rule.fps is None else None,
        timestamps=usual.timestamps if settings.timestamps is None else settings.timestamps,
    )


def frames_rule(settings: MediaSettings) -> str:
    """Return in words how many frames of a clip are sent, and which."""
    times = ", with their times" if settings.timestamps else ""
    if settings.fps is not None:
        least = f"at least {settings.min_frames}, " if settings.min_frames else ""
        return f"{settings.fps:g} frames a second, {least}at most {settings.max_frames or TIMES}{times}"
    return f"{settings.frames or FRAMES} frames, {_PLACES[settings.frame_places or 'ends']}{times}"


_PLACES = {
    "ends": "uniform, first and last included",
    "middle": "the middle of equal segments",
    "inside": "uniform, at i x length / (N + 1)",
}


class ShownFrame(NamedTuple):
    """The number of a frame that is sent, and the second at which it is on the screen: of a rate the one that is asked for."""

    number: int
    seconds: float


def chosen(timeline: Timeline, video: Video, settings: MediaSettings, key: str) -> list[ShownFrame]:
    """Return a clip's frames that are sent, in their order and with repeats.

    Raises:
        MediaError: a span or a time lies outside of the clip; a rule needs a rate, names a frame that is not there, or
            is combined with settings that select frames too.
    """
    settings = effective(video, settings)
    if not timeline.tick and (
        settings.fps is not None or video.times or video.start is not None or video.end is not None
    ):
        raise MediaError(f"video {key}: it has neither time stamps nor a frame rate", "Use --frames instead of --fps.")
    if video.times:
        check_own_frames("the times in the data", settings)
        late = [time for time in video.times if not 0 <= time < timeline.length]
        if late:
            raise MediaError(
                f"video {key}: it is {float(timeline.length):g} seconds long, and a frame at {late[0]:g} seconds is asked for",
                "Check that this is the file of these questions, and that the times are seconds.",
            )
        return [ShownFrame(timeline.shown_at(decimal(time)), time) for time in video.times]
    start, end, first, last = _span(timeline, video, key)
    total = last - first + 1
    if video.pick is not None:
        check_own_frames(video.pick.name, settings)
        return _by_number(timeline, first, _picked(video.pick, total, timeline.rate, key))
    if settings.fps is None:
        return _by_number(timeline, first, frame_numbers(total, settings.frames or FRAMES, settings.frame_places))
    times = frame_times(end - start - timeline.early, settings.fps, settings.max_frames or TIMES)
    least = settings.min_frames or 1
    if len(times) < least:
        return _by_number(timeline, first, frame_numbers(total, least))
    return [ShownFrame(timeline.shown_at(start + time), float(start + time)) for time in times]


def _by_number(timeline: Timeline, first: int, numbers: list[int]) -> list[ShownFrame]:
    return [ShownFrame(first + number, timeline.seconds(first + number)) for number in numbers]


def _span(timeline: Timeline, video: Video, key: str) -> tuple[Fraction, Fraction, int, int]:
    """Return start and end of what is shown, in seconds, and the numbers of its first and last frame."""
    if video.start is None and video.end is None:
        return Fraction(0), timeline.length, 0, len(timeline.stamps) - 1
    start = decimal(video.start or 0.0)
    end = timeline.length if video.end is None else min(decimal(video.end), timeline.length)
    if not 0 <= start < end:
        until = "its end" if video.end is None else f"{video.end:g}"
        raise MediaError(
            f"video {key}: it is {float(timeline.length):g} seconds long, and has no part from {float(start):g} to {until} seconds",
            "Check that this is the file of these questions, and that start and end are seconds.",
        )
    first = timeline.shown_at(start)
    return start, end, first, max(first, timeline.shown_before(end))


def _picked(pick: Pick, total: int, rate: float, key: str) -> list[int]:
    if pick.by_rate and not rate > 0:
        raise MediaError(
            f"video {key}: it has no frame rate, and {pick.name!r} takes frames by it",
            "Convert it to MP4, or ask for a number of frames.",
        )
    wanted = [int(number) for number in (pick.numbers(total, rate) if pick.by_rate else pick.numbers(total))]
    if len(wanted) > pick.most:
        raise MediaError(
            f"video {key}: of its {total:,} frames, {pick.name!r} picks {len(wanted):,}; {pick.most:,} may be sent at most",
            "Ask for fewer frames.",
        )
    outside = [number for number in wanted if not 0 <= number < total]
    if outside or not wanted:
        raise MediaError(
            f"video {key}: of its {total:,} frames, {pick.name!r} picks {f'number {outside[0]}' if outside else 'none'}",
            "Check that this is the file of these questions.",
        )
    return wanted


def check_own_frames(rule: str, settings: MediaSettings) -> None:
    """Raise MediaError if the settings select frames although the question does so itself, by `rule`."""
    if settings.fps is not None or settings.frames is not None:
        option = f"--fps {settings.fps:g}" if settings.fps is not None else f"--frames {settings.frames}"
        raise MediaError(
            f"the benchmark selects the frames of each video ({rule}), which {option} contradicts",
            f"Omit {option}; their number is an option of the benchmark: `snellen run NAME --help`.",
        )


def shown_at_most(video: Video, settings: MediaSettings) -> int:
    """Return the maximum number of frames that are sent of a clip, without reading anything."""
    if video.pick is not None:
        return video.pick.most
    if video.times:
        return len(video.times)
    settings = effective(video, settings)
    if video.blob is None and (settings.fps is None or video.fps > 0):
        return len(drawn_shown(video, settings))
    return settings.frames or FRAMES if settings.fps is None else settings.max_frames or TIMES


def drawn_shown(video: Video, settings: MediaSettings) -> list[ShownFrame]:
    """Return the frames of a drawn clip (`Video.frames`) that are sent. Raises MediaError as `chosen`."""
    settings = effective(video, settings)
    total, timed = len(video.frames), settings.fps is not None or video.times or video.start is not None
    if (timed or settings.timestamps) and not video.fps > 0:
        raise MediaError(
            f"a clip of {total} frames has no frame rate ({video.fps:g} a second), and times of it are asked for",
            "Use --frames in place of --fps, and --no-timestamps.",
        )
    tick = 1 / decimal(video.fps) if video.fps > 0 else Fraction(0)
    return chosen(
        Timeline(range(total), total, tick, video.fps, Fraction(0)), video, settings, f"of {total} drawn frames"
    )


def decimal(number: float) -> Fraction:
    """Return a number as the decimal that was written: 29.97 is 2997/100, not the nearest binary fraction."""
    return Fraction(repr(float(number)))
