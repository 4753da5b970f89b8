"""Prompts of the spatial benchmarks: words (`words`), order of words and media (`layouts`), and frames of a video (`frames`).

A form is whose prompt it is: of the twelve benchmarks of EASI's payload VLMEvalKit's, lmms-eval's, or the latter with labelled
images; of the others that of VLMEvalKit's class that EASI runs, its variant with reasoning, that of the class of the same name
in VLMEvalKit's main, or lmms-eval's. The wording is our own, the place of images the harness's.

Source: the tasks of lmms-eval and the data sets of VLMEvalKit, as docs/spatial-prompts.md and docs/spatial-more.md say.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache, partial
from hashlib import sha256
from pathlib import Path

import msgspec
from msgspec import Struct

from snellen.benchmarks.base import Data
from snellen.benchmarks.spatial.prompts import frames
from snellen.benchmarks.spatial.prompts.layouts import LAYOUTS, Given, labelled
from snellen.benchmarks.spatial.prompts.words import (
    FORMS,
    LABELLED,
    FormWords,
    PromptWords,
    fill,
    fill_template,
    format_options,
    forms,
    words_for,
)
from snellen.benchmarks.spatial.question import ShownMedia, SpatialQuestion, options_in
from snellen.benchmarks.spatial.sources.subsets import OPTION as SUBSET
from snellen.benchmarks.spatial.sources.subsets import chosen_subsets
from snellen.benchmarks.spatial.tasks import TASKS, Task
from snellen.errors import DataError, MediaError, MissingExtraError, UsageError
from snellen.sources import Unreadable
from snellen.types import Blob, Generation, Image, Part, Pick, Prompt, Video

OPTIONS: Mapping[str, str] = {
    "prompting": f"whose order of words and pictures, and whose frames: {' or '.join(FORMS)} (default: {FORMS[0]}, or that of the words)",
    "prompts": "a file of words to use in place of ours, as `snellen prompts import` writes it (.toml)",
    "sample-frames": (
        "how many frames of a video are shown, or with vlmevalkit how many a second, as 2fps "
        f"(default: {frames.VIDEO}; MMSI-Video {frames.MMSI_VIDEO})"
    ),
}
BOXED = ("position_matching", "camera_motion_infer")
STRIPPED = ("mmsi-bench", "site")  # both harnesses take white space off these questions
LAYOUT_OF = {"mindcube-tiny": "mindcube", "site": "site", "mmsi-video-bench": "clips"}
MAX_FRAMES = 4096
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
_RATE = re.compile(r"(\d{1,3}(?:\.\d{1,3})?)fps")
_TUPLES = re.compile(r"\s*Your answer should.*", re.DOTALL)


class SpatialPrompting(Struct, frozen=True):
    """The prompt settings of one benchmark.

    Attributes:
        form: one of its forms.
        words: ours, or those of the user's file.
        count: frames of a video; 0 for the benchmark's own number, or where there is none for the model's settings.
        rate: frames a second of a video in place of a number, 0 for a number.
    """

    form: str
    words: PromptWords | FormWords
    count: int = 0
    rate: float = 0.0

    @property
    def kit(self) -> bool:
        """Whether it is VLMEvalKit's."""
        return self.form.startswith("vlmevalkit")


class LabelledPrompting(SpatialPrompting, frozen=True, kw_only=True):
    """The settings of a prompt whose images are labelled; {k} is an image's number from 1."""

    image_label: str = "Image-{k}: "
    frame_label: str = "Frame-{k}: "


def options(task: Task) -> Mapping[str, str]:
    """Return the options of a benchmark, name to help text."""
    if task.name in TASKS:
        return OPTIONS
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


def prompt_settings(data: Data, task: Task) -> SpatialPrompting:
    """Return the settings that the user's options ask for.

    Raises:
        UsageError: a form that the benchmark does not have, a number of frames that is none, a rate where there is no
            formula for it.
        DataError: the user's file of words cannot be used.
    """
    file = data.options.get("prompts")
    form, words = words_for(task, data.options.get("prompting"), None if file is None else Path(file).expanduser())
    count, rate = sample_frames(asked := data.options.get("sample-frames", ""))
    if rate and (not form.startswith("vlmevalkit") or task.name == "mmsi-video-bench"):
        why = f"not by {form}" if task.name != "mmsi-video-bench" else "MMSI-Video's clips are frames already"
        raise UsageError(f"sample-frames={asked!r}: frames are not taken by time here ({why})", "Give a number.")
    if form == LABELLED:
        return LabelledPrompting("lmms-eval", words, count, rate)
    if task.name not in TASKS and not count and not rate:
        count, rate = _usual_frames(task, form, data)
    return SpatialPrompting(form, words, count, rate)


def sample_frames(asked: str) -> tuple[int, float]:
    """Return the number of frames or the frames a second that `-o sample-frames` asks for; 0 where it does not.

    Raises:
        UsageError: it is neither.
    """
    rate = _RATE.fullmatch(asked)
    if rate is not None:
        if not float(rate[1]):
            raise UsageError(
                f"sample-frames={asked!r}: frames are not taken by time here (not by 0 a second)", "Give a number."
            )
        return 0, float(rate[1])
    if asked and not (asked.isascii() and asked.isdecimal() and 1 <= int(asked[:9]) <= MAX_FRAMES):
        raise UsageError(
            f"sample-frames={asked!r}: a number from 1 to {MAX_FRAMES:,}, or a rate such as 2fps, was expected"
        )
    return int(asked or 0), 0.0


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
    settings = prompt_settings(data, task)
    return sha256(
        msgspec.json.encode(settings if task.name in TASKS else (settings, chosen_subsets(task, data)))
    ).hexdigest()


def compose(how: SpatialPrompting, task: Task, question: SpatialQuestion, media: ShownMedia) -> Prompt:
    """Return the prompt of a question: what is shown and the text, in the form's order.

    A row whose images are there while no mark says where, or whose marks VLMEvalKit would stop at, and a question that the form
    has no prompt for, get an `Unreadable` in place of the images: the sample fails with the reason, for asked without images it
    would be another question.
    """
    words, shown = how.words, [Image(blob) for blob in media.images]
    parts: list[Part] = [*shown]
    if media.video is not None:
        parts = [Video(media.video, pick=_pick(how, task))]
    if isinstance(words, PromptWords):
        values: dict[str, str] = _values(words, task, question)
        text = fill_template(words, _template(words, task, question, media), values)
        layout, most = LAYOUT_OF.get(task.name, "front"), words.max_tokens
    else:
        values = _further_values(how, words, task, question, media)
        text = fill(_further_template(words, task, question), values)
        layout = words.layout
        most = words.max_tokens_open if question.kind == "open" and words.max_tokens_open else words.max_tokens
    if task.name == "osi-bench" and how.kit and question.groups.get("category") not in OSI_KIT:
        why = f"question {question.id}: VLMEvalKit has no prompt for {question.groups.get('category')!r}"
        parts = [Image(Unreadable(question.id, why, "Omit the row, or use -o prompting=lmms-eval."))]
    unreadable = any(isinstance(part, Image) and isinstance(part.blob, Unreadable) for part in parts)
    if unreadable or (media.video is not None and isinstance(words, PromptWords)):
        layout = "front"  # no image is dropped, so that the sample fails
    given = Given(how.form, words, values, question, media.segments, how.count)
    parts = LAYOUTS[layout](given, text, parts)
    if not parts:
        why = f"question {question.id}: it has neither text nor an image that is shown"
        parts = [Image(Unreadable(question.id, why, "Fix or remove the row."))]
    if isinstance(how, LabelledPrompting):
        clips = {blob.key for clip in media.segments for blob in clip}
        parts = labelled(how.image_label, how.frame_label, parts, clips)
    generation = None
    if words.max_tokens or words.temperature is not None:
        generation = Generation(max_tokens=most or None, temperature=words.temperature)
    return Prompt(tuple(parts), generation=generation)


def _template(words: PromptWords, task: Task, question: SpatialQuestion, media: ShownMedia) -> str:
    if task.name == "site" and media.video is not None:
        return "video"
    if words.boxes and question.groups.get("question_type") in BOXED:
        return "boxes"
    return question.kind if question.kind in ("number", "short") else "choice"


def _values(words: PromptWords, task: Task, question: SpatialQuestion) -> dict[str, str]:
    """Return the values of a template's places; question and options replace columns that a row lacks."""
    question_text = question.text.strip() if task.name in STRIPPED else question.text
    options = format_options(words, question.options)
    in_text = task.name == "mmsi-bench" and options_in(question.text) == dict(question.options)
    pieces = {name: text for name, text in question.pieces.items() if text}
    if not pieces.keys() & {"task_prompt", "user_prompt", "format_prompt"}:
        pieces["user_prompt"] = question_text
    return {
        "question": question_text,
        "options": "" if in_text else options,
        "letters": ", ".join(question.options) or "A, B, C, D",
        "input_prompt": question_text,
        "prompt": f"{question_text}\n{options}",
        "choices": "\n".join(f"{letter}. {text}" for letter, text in question.options.items()),
        **pieces,
    }


def _further_template(words: FormWords, task: Task, question: SpatialQuestion) -> str:
    kind: str = question.kind
    if task.name == "robospatial-home":
        kind = "open" if question.groups.get("category") == "context" else "truth"
    return {"number": words.number, "open": words.open, "short": words.short}.get(kind, "") or words.text


def _further_values(
    how: SpatialPrompting, words: FormWords, task: Task, question: SpatialQuestion, media: ShownMedia
) -> dict[str, str]:
    """Return the values of a template's places."""
    text = question.text
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
    values["time"] = _time(how, words, task, question, media)
    if words.before:
        values["before"] = fill(words.before, values)
    return values


def _time(how: SpatialPrompting, words: FormWords, task: Task, question: SpatialQuestion, media: ShownMedia) -> str:
    """Return the text about a clip's time: the rate of STI-Bench's frames, the length of OSI-Bench's clip."""
    if task.name == "sti-bench":
        rate = how.rate or _rate_of_frames(media.video, how.count)
        return fill(words.time, {"rate": f"{rate:.2f}"}) if rate else words.unknown_time
    if not words.time:
        return ""
    try:
        length = float(question.pieces.get("video_length", "") or 0)
    except ValueError:
        length = 0.0
    count = how.count
    if how.rate and media.video is not None and (facts := _clip(media.video)):
        count = len(frames.by_rate(*facts, how.rate))
    return fill(words.time, {"length": f"{length:.2f}", "count": str(count)}) if length > 0 and count else ""


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


def _pick(how: SpatialPrompting, task: Task) -> Pick | None:
    """Return the frames of a video by the form's formula; None leaves them to the model's settings."""
    of_payload = task.name in TASKS
    count = how.count or (frames.VIDEO if of_payload else 0)
    tail = of_payload and task.name != "site"
    if task.name == "revsi" and how.kit:
        if how.rate:
            rule = partial(frames.revsi_by_rate, fps=how.rate)
            return Pick(f"revsi-rate:{how.rate:g}fps", rule, MAX_FRAMES, by_rate=True)
        return Pick(f"revsi:{count}", partial(frames.inner, count=count), count)
    if how.rate:
        name = f"vlmevalkit-{'rate-tail' if tail else 'rate'}:{how.rate:g}fps"
        return Pick(name, partial(frames.by_rate, fps=how.rate, tail=tail), MAX_FRAMES, by_rate=True)
    if not count:
        return None
    if not how.kit:
        return Pick(f"lmms-eval:{count}", partial(frames.lmms_eval, count=count), count)
    if tail:
        return Pick(f"vlmevalkit-tail:{count}", partial(frames.uniform_tail, count=count), count + 1)
    return Pick(f"vlmevalkit-uniform:{count}", partial(frames.uniform, count=count), count)
