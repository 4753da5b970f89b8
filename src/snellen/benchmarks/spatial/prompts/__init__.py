"""Prompts of the spatial benchmarks: words, order of words and media, and frames of a video, as each harness has them.

The wording lies in this package, one file a harness, and is our own: see `wordings`. The place of images is
the harness's: at the front, or at the `<image>` and `<video>` marks of the question (MindCube, SITE, MMSI-Video).

Source: the tasks of lmms-eval and the data sets of VLMEvalKit, as docs/spatial-prompts.md says for each benchmark.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import partial
from hashlib import sha256
from pathlib import Path

import msgspec
from msgspec import Struct, structs

from snellen.benchmarks.base import Data
from snellen.benchmarks.spatial.prompts import frames
from snellen.benchmarks.spatial.prompts.wordings import (
    FORMS,
    LABELLED,
    PromptWords,
    fill_template,
    format_options,
    words_for,
)
from snellen.benchmarks.spatial.question import SpatialQuestion, options_in
from snellen.benchmarks.spatial.tasks import Task
from snellen.errors import UsageError
from snellen.sources import Unreadable
from snellen.types import Blob, Generation, Image, Part, Pick, Prompt, Text, Video

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
MAX_FRAMES = 4096
_RATE = re.compile(r"(\d{1,3}(?:\.\d{1,3})?)fps")
_MARK = re.compile(r"(<video>|<image>)")


class SpatialPrompting(Struct, frozen=True):
    """The prompt settings of one benchmark.

    Attributes:
        form: one of FORMS.
        words: ours, or those of the user's file.
        count: frames of a video, 0 for the benchmark's own number.
        rate: frames a second of a video in place of a number, 0 for a number.
    """

    form: str
    words: PromptWords
    count: int = 0
    rate: float = 0.0


class LabelledPrompting(SpatialPrompting, frozen=True, kw_only=True):
    """The settings of a prompt whose images are labelled; {k} is an image's number from 1."""

    image_label: str = "Image-{k}: "
    frame_label: str = "Frame-{k}: "


class ShownMedia(Struct, frozen=True):
    """The media of a question, not read yet: images in order, or a video, or clips that are given as frames."""

    images: tuple[Blob, ...] = ()
    video: Blob | None = None
    segments: tuple[tuple[Blob, ...], ...] = ()


def prompt_settings(data: Data, task: Task) -> SpatialPrompting:
    """Return the settings that the user's options ask for.

    Raises:
        UsageError: a form that nobody knows, a number of frames that is none, a rate where there is no formula for it.
        DataError: the user's file of words cannot be used.
    """
    prompting = data.options.get("prompting")
    if prompting not in (None, *FORMS):
        raise UsageError(f"prompting={prompting!r} is not known", f"One of these: {', '.join(FORMS)}.")
    file = data.options.get("prompts")
    form, words = words_for(task, prompting, None if file is None else Path(file).expanduser())
    count, rate = sample_frames(value := data.options.get("sample-frames", ""))
    if rate and (form != "vlmevalkit" or task.name == "mmsi-video-bench"):
        why = "MMSI-Video's clips are frames already" if form == "vlmevalkit" else f"not by {form}"
        raise UsageError(f"sample-frames={value!r}: frames are not taken by time here ({why})", "Give a number.")
    if form == LABELLED:
        return LabelledPrompting("lmms-eval", words, count, rate)
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


def digest(data: Data, task: Task) -> str:
    """Return the digest of the words, their order and the frames, for a run's fingerprint."""
    return sha256(msgspec.json.encode(prompt_settings(data, task))).hexdigest()


def compose(how: SpatialPrompting, task: Task, question: SpatialQuestion, media: ShownMedia) -> Prompt:
    """Return the prompt of a question: what is shown and the text, in the harness's order.

    A row whose images are there while no mark says where, or whose marks VLMEvalKit would stop at, gets an `Unreadable`
    in place of them: its sample fails with the reason, for asked without images it would be another question.
    """
    words = how.words
    text = fill_template(words, _template(words, task, question, media), _values(words, task, question))
    generation = None
    if words.max_tokens or words.temperature is not None:
        generation = Generation(max_tokens=words.max_tokens or None, temperature=words.temperature)
    parts = _arranged(how, task, question, text, media)
    if isinstance(how, LabelledPrompting):
        clips = {blob.key for clip in media.segments for blob in clip}
        parts = _labelled(how, parts, clips)
    return Prompt(tuple(parts), generation=generation)


def _labelled(how: LabelledPrompting, parts: Sequence[Part], clips: AbstractSet[str]) -> list[Part]:
    """Put a label before each image and each frame; frames of all clips are numbered together, and images apart from them.

    Args:
        how: the labels.
        parts: the prompt without them.
        clips: keys of the blobs that are frames of a clip.
    """
    labelled: list[Part] = []
    counts = Counter[str]()
    for part in parts:
        if isinstance(part, Image):
            label = how.frame_label if part.blob.key in clips else how.image_label
            counts[label] += 1
            labelled.append(Text(label.replace("{k}", str(counts[label]))))
        elif isinstance(part, Video) and part.pick is not None:
            pick = structs.replace(part.pick, name=f"{part.pick.name}+labels", label=how.frame_label)
            part = structs.replace(part, pick=pick)
        labelled.append(part)
    return labelled


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


def _arranged(how: SpatialPrompting, task: Task, question: SpatialQuestion, text: str, media: ShownMedia) -> list[Part]:
    if media.video is not None:
        return [Video(media.video, pick=_pick(how, task)), Text(text)]
    images: list[Part] = [Image(blob) for blob in media.images]
    if any(isinstance(blob, Unreadable) for blob in media.images):
        return [*images, Text(text)]  # none is dropped, so that the sample fails
    if task.name == "mmsi-video-bench":
        parts = _clips(how, question, text, media)
    elif task.name == "mindcube-tiny" and (question.pieces.get("input_prompt") or "<image>" in text):
        parts = interleaved(text, images)
    elif task.name == "site" and "<image>" in text:
        parts = _interleaved_lmms_eval(text, images) if how.form == "lmms-eval" else interleaved(text, images)
    elif task.name == "site":
        parts = [*images, Text(text.strip())]
    else:
        return [*images, Text(text)]
    if all(isinstance(part, Text) for part in parts) and (images or any(media.segments)):
        fault = f"question {question.id}: it has pictures, and no mark in its text says where they belong"
        return [Image(Unreadable(question.id, fault, "Fix or remove the row.")), *parts]
    return parts


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


def _clips(how: SpatialPrompting, question: SpatialQuestion, text: str, media: ShownMedia) -> list[Part]:
    """MMSI-Video: the row's system text, then its prompts, in which each `<video>` is the frames of the next clip and each
    `<image>` the next reference image. Where marks and images differ in number VLMEvalKit stops, and lmms-eval leaves
    out whichever are too many.
    """
    count = how.count or frames.MMSI_VIDEO
    rule = frames.mmsi_video_lmms_eval if how.form == "lmms-eval" else frames.mmsi_video_vlmevalkit
    lengths = [len(clip) for clip in media.segments]
    chosen = rule(lengths, count) if sum(lengths) else [[] for _ in lengths]
    clips = [[Image(clip[at]) for at in places] for clip, places in zip(media.segments, chosen, strict=True)]
    references = [Image(blob) for blob in media.images]
    system = question.pieces.get("system_prompt", "")
    parts: list[Part] = [Text(system)] if system.strip() else []
    pieces = _MARK.split(text)
    marks = (pieces.count("<video>"), pieces.count("<image>"))
    if how.form == "vlmevalkit" and marks != (len(clips), len(references)):
        fault = (
            f"question {question.id}: its text marks {marks[0]} clips and {marks[1]} pictures, and it has {len(clips)} and "
            f"{len(references)}; VLMEvalKit would stop here"
        )
        hint = "Fix the row, or use --prompting lmms-eval, which drops the surplus."
        return [*parts, Image(Unreadable(question.id, fault, hint)), Text(text)]
    for piece in pieces:
        if piece == "<video>":
            parts += clips.pop(0) if clips else []
        elif piece == "<image>":
            parts += [references.pop(0)] if references else []
        elif piece.strip():
            parts.append(Text(piece))
    return parts


def _pick(how: SpatialPrompting, task: Task) -> Pick:
    """Return the frames of a video by the harness's formula."""
    count = how.count or frames.VIDEO
    if how.form == "lmms-eval":
        return Pick(f"lmms-eval:{count}", partial(frames.lmms_eval, count=count), count)
    tail = task.name != "site"
    if how.rate:
        name = f"vlmevalkit-{'rate-tail' if tail else 'rate'}:{how.rate:g}fps"
        return Pick(name, partial(frames.by_rate, fps=how.rate, tail=tail), MAX_FRAMES, by_rate=True)
    if tail:
        return Pick(f"vlmevalkit-tail:{count}", partial(frames.uniform_tail, count=count), count + 1)
    return Pick(f"vlmevalkit-uniform:{count}", partial(frames.uniform, count=count), count)
