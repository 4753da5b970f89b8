"""Prompts of EASI's further benchmarks and of ReVSI: words (`more_words`), order of texts and images, frames of a video.

The functions are those of `prompts`, which has the twelve of the payload. A form is whose prompt it is: that of VLMEvalKit's
class that EASI runs, its variant with reasoning, that of the class of the same name in VLMEvalKit's main, or lmms-eval's.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from hashlib import sha256
from pathlib import Path
from typing import TypeAlias

import msgspec
from msgspec import Struct

from snellen.benchmarks.base import Data
from snellen.benchmarks.spatial.prompts import MAX_FRAMES, ShownMedia, frames, interleaved, sample_frames
from snellen.benchmarks.spatial.prompts.more_words import FormWords, forms, words_of
from snellen.benchmarks.spatial.prompts.wordings import fill
from snellen.benchmarks.spatial.question import SpatialQuestion
from snellen.benchmarks.spatial.sources.subsets import OPTION as SUBSET
from snellen.benchmarks.spatial.sources.subsets import chosen_subsets
from snellen.benchmarks.spatial.tasks import Task
from snellen.errors import DataError, MediaError, MissingExtraError, UsageError
from snellen.sources import Unreadable
from snellen.types import Blob, Generation, Image, Part, Pick, Prompt, Text, Video

FRAMES: Mapping[str, int] = {"vsi-super-recall": 128, "vsi-super-count": 128, "sti-bench": 30, "osi-bench": 32}
"""Frames of a video where the user does not say; ReVSI's are those of its subset, DSR-Bench's one a second."""
ALL_FRAMES = 128
OSI_KIT = frozenset(
    {"relative_distance", "relative_direction_categorical_ordinal", "trajectory_description", "object_3d_localization"}
    | {"absolute_distance", "depth_aware_counting", "absolute_displacement", "absolute_speed", "trajectory_length"}
)
NEW_LINE_AFTER = ("absolute_distance", "trajectory_length")
LEVELS = {
    "L1_single": ", each on its own",
    "L2_objects": ", several at a time",
    "L3_2d_spatial": " and how they lie to each other in the picture",
    "L4_occ": " and which one hides another",
    "L4_pose": " and which way each one faces in space",
    "L5_6d_spatial": " and how they lie to each other in space, as seen from each one's own direction",
    "L5_collision": " and which would run into another if it moved",
}
_TUPLES = re.compile(r"\s*Your answer should.*", re.DOTALL)
_NUMBERED = re.compile(r"<image (\d)>")


class MorePrompting(Struct, frozen=True):
    """The prompt settings of one benchmark.

    Attributes:
        form: one of its forms.
        words: ours, or those of the user's file.
        count: frames of a video; 0 leaves it to the model's settings.
        rate: frames a second of a video in place of a number, 0 for a number.
    """

    form: str
    words: FormWords
    count: int = 0
    rate: float = 0.0

    @property
    def kit(self) -> bool:
        """Whether it is VLMEvalKit's."""
        return self.form.startswith("vlmevalkit")


def options(task: Task) -> Mapping[str, str]:
    """Return the options of a benchmark, name to help text."""
    known = forms(task)
    texts = {
        "prompting": f"whose prompt it is: {', '.join(known)} (default: {known[0]})",
        "prompts": "a file of words to use in place of ours (.toml); docs/spatial-more.md",
    }
    if task.name in FRAMES or task.name in ("dsr-bench", "revsi"):
        usual = {"dsr-bench": "1fps", "revsi": "as many as the subset says"}.get(task.name) or FRAMES[task.name]
        texts["sample-frames"] = (
            f"how many frames of a video are shown, or with vlmevalkit how many a second, as 2fps (default: {usual})"
        )
    if task.subsets:
        first = f" (default: {task.subsets[0]})" if task.name in ("lego-puzzles", "revsi") else ""
        texts[SUBSET] = f"the parts to run, by comma: {', '.join(task.subsets)}{first}"
    return texts


def prompt_settings(data: Data, task: Task) -> MorePrompting:
    """Return the settings that the user's options ask for.

    Raises:
        UsageError: a form that the benchmark does not have, a number of frames that is none, a rate where there is no
            formula for it.
        DataError: the user's file of words cannot be used.
    """
    file = data.options.get("prompts")
    form, words = words_of(task, data.options.get("prompting"), None if file is None else Path(file).expanduser())
    count, rate = sample_frames(data.options.get("sample-frames", ""))
    if rate and not form.startswith("vlmevalkit"):
        raise UsageError(
            f"sample-frames={data.options['sample-frames']!r}: frames are not taken by time here (not by {form})",
            "Give a number.",
        )
    if not count and not rate:
        count, rate = _usual_frames(task, form, data)
    return MorePrompting(form, words, count, rate)


def _usual_frames(task: Task, form: str, data: Data) -> tuple[int, float]:
    if task.name == "dsr-bench":
        return 0, 1.0
    if form.startswith("lmms-eval") and task.name != "osi-bench":
        return 0, 0.0  # lmms-eval hands the file over: how many frames are shown is the model's business
    if task.name == "revsi":
        budget = chosen_subsets(task, data)[0].partition("_")[0]
        return int(budget) if budget.isdecimal() else ALL_FRAMES, 0.0
    return FRAMES.get(task.name, 0), 0.0


def digest(data: Data, task: Task) -> str:
    """Return the digest of the words, their order, the frames and the subsets, for a run's fingerprint."""
    parts = (prompt_settings(data, task), chosen_subsets(task, data))
    return sha256(msgspec.json.encode(parts)).hexdigest()


def compose(how: MorePrompting, task: Task, question: SpatialQuestion, media: ShownMedia) -> Prompt:
    """Return the prompt of a question: what is shown and the text, in the form's order.

    A question that the form has no prompt for gets an `Unreadable` that says so: its sample fails with the reason.
    """
    words = how.words
    streamed = question.kind == "open" and words.max_tokens_open
    generation = None
    if words.max_tokens or words.temperature is not None:
        most = words.max_tokens_open if streamed else words.max_tokens
        generation = Generation(max_tokens=most or None, temperature=words.temperature)
    pick = None if media.video is None else _pick(how, task)
    values = _values(how, task, question, media)
    kind = question.kind
    if task.name == "robospatial-home":
        kind = "open" if question.groups.get("category") == "context" else "truth"
    template = {"number": words.number, "open": words.open, "short": words.short}.get(kind, "") or words.text
    text = fill(template, values)
    media_parts: list[Part] = [Image(blob) for blob in media.images]
    if media.video is not None:
        media_parts = [Video(media.video, pick=pick)]
    if task.name == "osi-bench" and how.kit and question.groups.get("category") not in OSI_KIT:
        why = f"question {question.id}: VLMEvalKit has no prompt for {question.groups.get('category')!r}"
        media_parts = [Image(Unreadable(question.id, why, "Omit the row, or use -o prompting=lmms-eval."))]
    readable = not any(isinstance(part, Image) and isinstance(part.blob, Unreadable) for part in media_parts)
    arranged = _LAYOUTS[words.layout if readable else "front"]
    parts = arranged(how, values, question, text, media_parts)
    if not parts:
        why = f"question {question.id}: it has neither text nor an image that is shown"
        parts = [Image(Unreadable(question.id, why, "Fix or remove the row."))]
    return Prompt(tuple(parts), generation=generation)


def _values(how: MorePrompting, task: Task, question: SpatialQuestion, media: ShownMedia) -> dict[str, str]:
    """Return the values of a template's places."""
    words, text = how.words, question.text
    written = "\n".join(fill(words.option, {"letter": x, "text": y}) for x, y in question.options.items())
    category = question.groups.get("category", "")
    question_text = _TUPLES.sub("", text) if how.kit else _TUPLES.sub("", text.replace("Answer yes or no.", ""))
    values = {
        "options": written,
        "prompt": text,
        **{name: piece for name, piece in question.pieces.items() if piece},
        "question": text,
        "stripped": text.strip(),
        "marked": text if "<image>" in text else f"{text}\n<image>",
        "asked": question_text.strip(),
        "letters": ", ".join(question.options) or "A, B, C, D",
        "level": LEVELS.get(category, ""),
        "line": "\n" if category in NEW_LINE_AFTER else "",
        "opening": "" if category == "trajectory_description" else words.opening,
    }
    values["time"] = _time(how, task, question, media)
    if words.before:
        values["before"] = fill(words.before, values)
    return values


def _time(how: MorePrompting, task: Task, question: SpatialQuestion, media: ShownMedia) -> str:
    """Return the text about a clip's time: the rate of STI-Bench's frames, the length of OSI-Bench's clip."""
    if task.name == "sti-bench":
        rate = how.rate or _rate_of_frames(media.video, how.count)
        return fill(how.words.time, {"rate": f"{rate:.2f}"}) if rate else how.words.unknown_time
    if not how.words.time:
        return ""
    try:
        length = float(question.pieces.get("video_length", "") or 0)
    except ValueError:
        length = 0.0
    count = how.count
    if how.rate and media.video is not None and (facts := _clip(media.video)):
        count = len(frames.by_rate(*facts, how.rate))
    return fill(how.words.time, {"length": f"{length:.2f}", "count": str(count)}) if length > 0 and count else ""


def _rate_of_frames(video: Blob | None, count: int) -> float:
    """Return how many of `count` frames come on a second of a clip; 0 where that cannot be told."""
    facts = None if video is None else _clip(video)
    return count / (facts[0] / facts[1]) if facts else 0.0


def _clip(video: Blob) -> tuple[int, float] | None:
    return None if isinstance(video, Unreadable) else _probed(_KeyedVideo(video))


class _KeyedVideo:
    """A video that equals another of the same key, so that each is looked at once."""

    def __init__(self, blob: Blob) -> None:
        self.blob = blob

    def __hash__(self) -> int:
        return hash(self.blob.key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _KeyedVideo) and other.blob.key == self.blob.key


@lru_cache(maxsize=4096)
def _probed(video: _KeyedVideo) -> tuple[int, float] | None:
    """Return (frames, frames a second) of a clip; None where it cannot be read, which its sample's error will say."""
    from snellen.media.video import frames_and_rate

    try:
        return frames_and_rate(video.blob)
    except (DataError, MediaError, MissingExtraError):
        return None


def _pick(how: MorePrompting, task: Task) -> Pick | None:
    """Return the frames of a video by the form's formula; None leaves them to the model's settings."""
    if task.name == "revsi" and how.kit:
        if how.rate:
            return Pick(
                f"revsi-rate:{how.rate:g}fps", partial(frames.revsi_by_rate, fps=how.rate), MAX_FRAMES, by_rate=True
            )
        return Pick(f"revsi:{how.count}", partial(frames.inner, count=how.count), how.count)
    if how.rate:
        rule = partial(frames.by_rate, fps=how.rate)
        return Pick(f"vlmevalkit-rate:{how.rate:g}fps", rule, MAX_FRAMES, by_rate=True)
    if not how.count:
        return None
    if how.kit:
        return Pick(f"vlmevalkit-uniform:{how.count}", partial(frames.uniform, count=how.count), how.count)
    return Pick(f"lmms-eval:{how.count}", partial(frames.lmms_eval, count=how.count), how.count)


Values: TypeAlias = Mapping[str, str]
Layout: TypeAlias = Callable[[MorePrompting, Values, SpatialQuestion, str, list[Part]], list[Part]]


def _front(how: MorePrompting, values: Values, question: SpatialQuestion, text: str, shown: list[Part]) -> list[Part]:
    return [*shown, Text(text)]


def _marks(how: MorePrompting, values: Values, question: SpatialQuestion, text: str, shown: list[Part]) -> list[Part]:
    """STARE: an image behind each piece of text as long as there are images, behind the last piece too."""
    parts: list[Part] = []
    for at, piece in enumerate(text.split("<image>")):
        if piece.strip():
            parts.append(Text(piece.strip()))
        parts += shown[at : at + 1]
    return parts


def _between(how: MorePrompting, values: Values, question: SpatialQuestion, text: str, shown: list[Part]) -> list[Part]:
    """ERIQ: images only between pieces of text; surplus images go, and without a mark all of them.

    In ERQA's class of the same shape, which tables without marks were not made for, they are then in front.
    """
    if "<image>" not in text and how.form == "vlmevalkit-upstream":
        return [*shown, Text(text)]
    return interleaved(text, shown)


def _positions(
    how: MorePrompting, values: Values, question: SpatialQuestion, text: str, shown: list[Part]
) -> list[Part]:
    """ERQA: each image at its position in characters; all in front where the positions say nothing."""
    places = parsed_positions(question.pieces.get("visual_indices", ""))
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


def _numbered(
    how: MorePrompting, values: Values, question: SpatialQuestion, text: str, shown: list[Part]
) -> list[Part]:
    """LEGO-Puzzles: image N in place of `<image N>`, N of one digit from 1; without a mark images are in front."""
    pieces = _NUMBERED.split(text)
    if len(pieces) == 1:
        return [*shown, Text(text)]
    wrong = [number for number in pieces[1::2] if not 1 <= int(number) <= len(shown)]
    if wrong:
        why = f"question {question.id}: its text shows image {wrong[0]}, and it has {len(shown)}"
        return [Image(Unreadable(question.id, why, "Fix or remove the row.")), Text(text)]
    parts: list[Part] = []
    for at, piece in enumerate(pieces):
        if at % 2:
            parts.append(shown[int(piece) - 1])
        elif piece.strip():
            parts.append(Text(piece))
    return parts


def _around(how: MorePrompting, values: Values, question: SpatialQuestion, text: str, shown: list[Part]) -> list[Part]:
    """A text, the images, perhaps the question, and a text."""
    behind = fill(how.words.after_image, values)
    return [Text(values["before"]), *shown, *([Text(behind)] if behind else []), Text(text)]


def _text_first(
    how: MorePrompting, values: Values, question: SpatialQuestion, text: str, shown: list[Part]
) -> list[Part]:
    return [Text(text), *_time_line(values), *shown]


def _time_first(
    how: MorePrompting, values: Values, question: SpatialQuestion, text: str, shown: list[Part]
) -> list[Part]:
    return [*_time_line(values), *shown, Text(text)]


def _time_line(values: Values) -> Sequence[Part]:
    return [Text(values["time"])] if values["time"] else []


_LAYOUTS: Mapping[str, Layout] = {
    "front": _front,
    "marks": _marks,
    "between": _between,
    "positions": _positions,
    "numbered": _numbered,
    "around": _around,
    "text-first": _text_first,
    "time-first": _time_first,
}
