"""Videos of one or two people, joined of own clips: AB is one person and then another, ABA the first one again.

`ACTIVITY/PERSON.mp4`, or `ACTIVITY/PERSON/` with pictures in the order of their names, is what one person does. Two people of
one activity make an AB and an ABA. All clips of a video have one length, and the third one follows on the first in its source.

Source: Zhang et al. 2025 (arXiv 2502.12084), section 3 and appendix C (10 activities, 10 pairs each, both forms).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from snellen.errors import DataError, MissingExtraError
from snellen.installation import install_hint
from snellen.questions.linking import Row, safe_name
from snellen.questions.rng import permutation
from snellen.types import DECODED_SUFFIXES

if TYPE_CHECKING:
    from PIL.Image import Image as PillowImage

VIDEOS = (".mp4", ".mov", ".avi", ".mkv", ".webm")
REQUEST = (
    "Describe in full what happens in this video, and above all who is seen: what each person looks like and does."
)


def join_clips(folder: Path, seconds: float, rate: int, seed: int) -> tuple[list[Row], dict[str, bytes]]:
    """Return the questions, and the videos by name (MP4), of all pairs; the last of an odd number of people is left out.

    Args:
        folder: the activities.
        seconds: the length of a clip, at most; shorter where half of the first source, or the second one, is.
        rate: frames a second; pictures of a folder are one frame each.
        seed: who is paired with whom.

    Raises:
        DataError: no activity has two people, or a source is too short or cannot be decoded.
        MissingExtraError: PyAV is not installed.
    """
    rows, videos = [], {}
    for activity, sources in _people(folder).items():
        order = [sources[at] for at in permutation(len(sources), seed, activity)]
        for number, (first, second) in enumerate(zip(order[::2], order[1::2], strict=False), 1):
            wanted = max(1, round(seconds * rate))
            one, two = list(_frames(first, rate, 2 * wanted)), list(_frames(second, rate, wanted))
            length = min(wanted, len(one) // 2, len(two))
            if length < 1:
                raise DataError(
                    f"{first}: {len(one)} frames at {rate} a second; two or more are needed", "Give a longer one."
                )
            clips = {"AB": one[:length] + two[:length]}
            clips["ABA"] = clips["AB"] + one[length : 2 * length]
            for form, frames in clips.items():
                vid = f"{safe_name(activity)}_{number}_{form}"
                videos[f"{vid}.mp4"] = _encoded(frames, rate)
                rows.append(
                    {"vid": vid, "question": REQUEST, "gt_answer": "", "first": first.name, "second": second.name}
                )
    return rows, videos


def _people(folder: Path) -> dict[str, list[Path]]:
    """Return the sources of each activity with two people or more."""
    people: defaultdict[str, list[Path]] = defaultdict(list)
    if folder.is_dir():
        for activity in sorted(path for path in folder.iterdir() if path.is_dir() and path.name[0] != "."):
            people[activity.name] = sorted(
                path
                for path in activity.iterdir()
                if path.name[0] != "." and (path.is_dir() or path.suffix.lower() in VIDEOS)
            )
    several = {name: sources for name, sources in people.items() if len(sources) > 1}
    if not several:
        raise DataError(
            f"{folder}: no activity has two people",
            "ACTIVITY/PERSON.mp4 is expected, or ACTIVITY/PERSON/ with pictures.",
        )
    return several


def _frames(source: Path, rate: int, count: int) -> Iterator[PillowImage]:
    """Yield up to `count` frames of a video, those shown at 0, 1 / rate, 2 / rate ... seconds, or pictures of a folder."""
    from PIL import Image as pillow

    if source.is_dir():
        names = sorted(path for path in source.iterdir() if path.suffix.lower() in DECODED_SUFFIXES)
        try:
            yield from (pillow.open(path).convert("RGB") for path in names[:count])
        except (OSError, ValueError) as error:
            raise DataError(f"{source}: a picture cannot be decoded: {error}", "Replace or remove it.") from error
        return
    av = _pyav()
    try:
        with av.open(str(source)) as container:
            taken = 0
            for frame in container.decode(video=0):
                while taken < count and (frame.time or 0.0) >= taken / rate - 1e-6:
                    yield frame.to_image()
                    taken += 1
                if taken == count:
                    return
    except (av.FFmpegError, IndexError) as error:
        raise DataError(f"{source} cannot be decoded: {error}", "Convert it to MP4, or remove it.") from error


def _encoded(frames: list[PillowImage], rate: int) -> bytes:
    """Return an MP4 of frames, each fitted into the size of the first one, with black around it."""
    from PIL import ImageOps

    av, out = _pyav(), BytesIO()
    size = (max(2, frames[0].width // 2 * 2), max(2, frames[0].height // 2 * 2))
    with av.open(out, "w", format="mp4") as container:
        stream = container.add_stream("libx264" if "libx264" in av.codecs_available else "mpeg4", rate=rate)
        stream.width, stream.height = size
        stream.pix_fmt, stream.codec_context.thread_count = "yuv420p", 1
        for frame in frames:
            container.mux(stream.encode(av.VideoFrame.from_image(ImageOps.pad(frame, size))))
        container.mux(stream.encode())
    return out.getvalue()


def _pyav() -> Any:
    try:
        import av
    except ImportError as error:
        raise MissingExtraError("videos need PyAV, which is not installed", install_hint("video")) from error
    return av
