"""Layouts: the order of texts and images in a prompt, as each harness has it.

A layout takes what it is given beside the text and the images: the form, the words, the question. Images at marks go by the
`<image>` and `<video>` marks of the question.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, TypeAlias

from msgspec import Struct, structs

from snellen.benchmarks.spatial.prompts import frames
from snellen.benchmarks.spatial.prompts.words import fill
from snellen.benchmarks.spatial.question import SpatialQuestion
from snellen.errors import DataError
from snellen.sources import Unreadable
from snellen.types import Blob, Image, Part, Text, Video

_MARK = re.compile(r"(<video>|<image>)")
_NUMBERED = re.compile(r"<image (\d)>")


class Given(Struct, frozen=True):
    """What a layout may go by: the form and its words, the places' values, the question, clips of frames.

    Of frames it says how many are shown or, in place of a number, how many a second.
    """

    form: str
    words: Any
    values: Mapping[str, str]
    question: SpatialQuestion
    segments: tuple[tuple[Blob, ...], ...] = ()
    count: int = 0
    rate: float = 0.0


Layout: TypeAlias = Callable[[Given, str, list[Part]], list[Part]]


def _front(given: Given, text: str, shown: list[Part]) -> list[Part]:
    return [*shown, Text(text)]


def _mindcube(given: Given, text: str, shown: list[Part]) -> list[Part]:
    """MindCube: at the marks of its own prompt; a question without either has its images in front."""
    if given.question.pieces.get("input_prompt") or "<image>" in text:
        return _none_lost(given, interleaved(text, shown), shown)
    return [*shown, Text(text)]


def _site(given: Given, text: str, shown: list[Part]) -> list[Part]:
    if "<image>" not in text:
        return [*shown, Text(text.strip())]
    arranged = _interleaved_lmms_eval if given.form == "lmms-eval" else interleaved
    return _none_lost(given, arranged(text, shown), shown)


def _none_lost(given: Given, parts: list[Part], shown: Sequence[Part]) -> list[Part]:
    """Return the parts; where images are there and no mark says where, with an `Unreadable` that says so in front."""
    if not all(isinstance(part, Text) for part in parts) or not (shown or any(given.segments)):
        return parts
    fault = f"question {given.question.id}: it has pictures, and no mark in its text says where they belong"
    return [Image(Unreadable(given.question.id, fault, "Fix or remove the row.")), *parts]


def interleaved(text: str, images: Sequence[Part]) -> list[Part]:
    """Text and images in turn at the `<image>` marks; a mark without an image goes, and images beyond the marks do."""
    parts: list[Part] = []
    pieces = text.split("<image>")
    for at, piece in enumerate(pieces):
        if piece.strip():
            parts.append(Text(piece.strip()))
        if at < len(pieces) - 1 and at < len(images):
            parts.append(images[at])
    return parts


def _interleaved_lmms_eval(text: str, images: Sequence[Part]) -> list[Part]:
    """SITE in lmms-eval goes by the images: each has the text before its mark in front of it, and the text behind the
    last mark stands at the end. So images beyond the marks stand before that, and of marks beyond the images the text
    between them is lost.
    """
    *before, last = text.split("<image>")
    parts: list[Part] = []
    for at, image in enumerate(images):
        if at < len(before) and before[at].strip():
            parts.append(Text(before[at].strip()))
        parts.append(image)
    return [*parts, Text(last.strip())] if last.strip() else parts


def _clips(given: Given, text: str, shown: list[Part]) -> list[Part]:
    """MMSI-Video: the row's system text where the words have no place for it, then its prompts, in which each `<video>` is the frames of the next clip and each
    `<image>` the next reference image. Where marks and images differ in number VLMEvalKit stops, and lmms-eval leaves
    out whichever are too many.
    """
    lengths = [len(clip) for clip in given.segments]
    try:
        chosen = _chosen(given, lengths) if sum(lengths) else [[] for _ in lengths]
    except DataError as error:
        return [Image(Unreadable(given.question.id, error.message, error.hint)), Text(text)]
    clips = [[Image(clip[at]) for at in places] for clip, places in zip(given.segments, chosen, strict=True)]
    references = list(shown)
    whole = "{system_prompt}" in given.words.text  # as the kit: one text, of which it sends blank pieces too
    system = "" if whole else given.question.pieces.get("system_prompt", "")
    parts: list[Part] = [Text(system)] if system.strip() else []
    pieces = _MARK.split(text)
    marks = (pieces.count("<video>"), pieces.count("<image>"))
    if given.form == "vlmevalkit" and marks != (len(clips), len(references)):
        fault = (
            f"question {given.question.id}: its text marks {marks[0]} clips and {marks[1]} pictures, and it has {len(clips)} and "
            f"{len(references)}; VLMEvalKit would stop here"
        )
        hint = "Fix the row, or use --prompting lmms-eval, which drops the surplus."
        return [*parts, Image(Unreadable(given.question.id, fault, hint)), Text(text)]
    for piece in pieces:
        if piece == "<video>":
            parts += clips.pop(0) if clips else []
        elif piece == "<image>":
            parts += [references.pop(0)] if references else []
        elif piece.strip() or (whole and piece):
            parts.append(Text(piece))
    return _none_lost(given, parts, shown)


def _chosen(given: Given, lengths: Sequence[int]) -> list[list[int]]:
    """Return the frames of each clip that are shown. Raises DataError where they go by a rate that the row does not have."""
    if not given.rate:
        rule = frames.mmsi_video_lmms_eval if given.form == "lmms-eval" else frames.mmsi_video_vlmevalkit
        return rule(lengths, given.count)
    try:  # a number, or a list with that of each clip
        (rate,) = {float(each) for each in given.question.pieces.get("video_fps", "").strip("[] ").split(",")}
    except ValueError:
        rate = 0.0
    if not 0 < rate < math.inf:
        raise DataError(
            f"question {given.question.id}: its row has no single video_fps, by which frames are taken by time",
            "Give VLMEvalKit's table, or a number of frames: --sample-frames 50.",
        )
    return frames.mmsi_video_by_rate(lengths, rate, given.rate)


def _marks(given: Given, text: str, shown: list[Part]) -> list[Part]:
    """STARE: an image behind each piece of text as long as there are images, behind the last piece too."""
    parts: list[Part] = []
    for at, piece in enumerate(text.split("<image>")):
        if piece.strip():
            parts.append(Text(piece.strip()))
        parts += shown[at : at + 1]
    return parts


def _between(given: Given, text: str, shown: list[Part]) -> list[Part]:
    """ERIQ: images only between pieces of text; surplus images go, and without a mark all of them.

    In ERQA's class of the same shape, which tables without marks were not made for, they are then in front.
    """
    if "<image>" not in text and given.form == "vlmevalkit-upstream":
        return [*shown, Text(text)]
    return interleaved(text, shown)


def _positions(given: Given, text: str, shown: list[Part]) -> list[Part]:
    """ERQA: each image at its position in characters; all in front where the positions say nothing."""
    places = parsed_positions(given.question.pieces.get("visual_indices", ""))
    if len(places) != len(shown):
        places = [0] * len(shown)
    if not any(places):
        return [*shown, Text(text)]
    parts: list[Part] = []
    done = 0
    for place, image in sorted(zip(places, shown, strict=True), key=lambda pair: pair[0]):
        if 0 < place <= len(text):
            if text[done:place]:
                parts.append(Text(text[done:place]))
            done = max(done, place)
        parts.append(image)
    return [*parts, *([Text(text[done:])] if text[done:] else [])]


def parsed_positions(value: str) -> list[int]:
    """Return positions in text: as JSON, else numbers by comma; none where it is neither."""
    try:
        numbers = json.loads(value)
    except (ValueError, RecursionError):
        numbers = re.sub(r"[\[\]()\s]", "", value).split(",")
    try:
        return [int(number) for number in (numbers if isinstance(numbers, list) else [numbers])]
    except (TypeError, ValueError, OverflowError):
        return []


def _numbered(given: Given, text: str, shown: list[Part]) -> list[Part]:
    """LEGO-Puzzles: image N in place of `<image N>`, N of one digit from 1; without a mark images are in front."""
    pieces = _NUMBERED.split(text)
    if len(pieces) == 1:
        return [*shown, Text(text)]
    wrong = [number for number in pieces[1::2] if not 1 <= int(number) <= len(shown)]
    if wrong:
        why = f"question {given.question.id}: its text shows image {wrong[0]}, and it has {len(shown)}"
        return [Image(Unreadable(given.question.id, why, "Fix or remove the row.")), Text(text)]
    parts: list[Part] = []
    for at, piece in enumerate(pieces):
        if at % 2:
            parts.append(shown[int(piece) - 1])
        elif piece.strip():
            parts.append(Text(piece))
    return parts


def _around(given: Given, text: str, shown: list[Part]) -> list[Part]:
    """A text, the images, perhaps the question, and a text."""
    behind = fill(given.words.after_image, given.values)
    return [Text(given.values["before"]), *shown, *([Text(behind)] if behind else []), Text(text)]


def _text_first(given: Given, text: str, shown: list[Part]) -> list[Part]:
    return [Text(text), *_time_line(given.values), *shown]


def _time_first(given: Given, text: str, shown: list[Part]) -> list[Part]:
    return [*_time_line(given.values), *shown, Text(text)]


def _time_line(values: Mapping[str, str]) -> Sequence[Part]:
    return [Text(values["time"])] if values["time"] else []


LAYOUTS: Mapping[str, Layout] = {
    "front": _front,
    "mindcube": _mindcube,
    "site": _site,
    "clips": _clips,
    "marks": _marks,
    "between": _between,
    "positions": _positions,
    "numbered": _numbered,
    "around": _around,
    "text-first": _text_first,
    "time-first": _time_first,
}


def labelled(image_label: str, frame_label: str, parts: Sequence[Part], clips: AbstractSet[str]) -> list[Part]:
    """Put a label before each image and each frame; frames of all clips are numbered together, and images apart from them.

    Args:
        image_label, frame_label: {k} is the number.
        parts: the prompt without them.
        clips: keys of the blobs that are frames of a clip.
    """
    result: list[Part] = []
    counts = Counter[str]()
    for part in parts:
        if isinstance(part, Image):
            label = frame_label if part.blob.key in clips else image_label
            counts[label] += 1
            result.append(Text(label.replace("{k}", str(counts[label]))))
        elif isinstance(part, Video) and part.pick is not None:
            pick = structs.replace(part.pick, name=f"{part.pick.name}+labels", label=frame_label)
            part = structs.replace(part, pick=pick)
        result.append(part)
    return result
