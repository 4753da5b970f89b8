"""Prompts of the spatial benchmarks: words (`words`), order of words and media (`layouts`), and frames of a video (`frames`).

A form is whose prompt it is: of the twelve benchmarks of EASI's payload VLMEvalKit's, lmms-eval's, or the latter with labelled
images; of the others that of VLMEvalKit's class that EASI runs, its variant with reasoning, that of the class of the same name
in VLMEvalKit's main, or lmms-eval's. The wording is our own, the place of images the harness's.

Source: the tasks of lmms-eval and the data sets of VLMEvalKit, as docs/spatial-prompts.md and docs/spatial-more.md say.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache, partial
from hashlib import sha256
from pathlib import Path

import msgspec
from msgspec import Struct, structs

from snellen.benchmarks.base import Data
from snellen.benchmarks.spatial.prompts import frames
from snellen.benchmarks.spatial.prompts.layouts import LAYOUTS, Given, labelled
from snellen.benchmarks.spatial.prompts.words import (
    FORMS,
    NO_WORDS,
    OTHER_KEYS,
    fill,
    fill_template,
    format_options,
    forms,
    words_for,
)
from snellen.benchmarks.spatial.question import VIDEOS, ShownMedia, SpatialQuestion, options_in
from snellen.benchmarks.spatial.sources.subsets import OPTION as SUBSET
from snellen.benchmarks.spatial.sources.subsets import chosen_subsets
from snellen.benchmarks.spatial.tasks import EVERY, Task
from snellen.benchmarks.table.set_sections import Form
from snellen.errors import DataError, MediaError, MissingExtraError, UsageError
from snellen.sources import Unreadable
from snellen.types import EASI_PAPER, Blob, Generation, Image, Part, Pick, Prompt, Video

OPTIONS: Mapping[str, str] = {
    "prompting": f"whose order of words and pictures, and whose frames: {' or '.join(FORMS)} (default: {FORMS[0]}, or that of the words)",
    "prompts": "a file of words to use in place of ours, as `snellen prompts import` writes it (.toml)",
    "sample-frames": (
        "how many frames of a video are shown, or with vlmevalkit how many a second, as 2fps "
        f"(default: {frames.VIDEO}; MMSI-Video {frames.MMSI_VIDEO})"
    ),
}
PROTOCOL = {
    "protocol": (
        f"{EASI_PAPER}: that of EASI's paper, one system text for all sets (--system) that asks for a chain of thought, "
        "and wrong where a reply was cut off"
    )
}
ORDERS_OF_IMAGES = ("mindcube", "site", "clips")
"""Orders that say nothing of a clip, which stands in front."""
MAX_FRAMES = 4096
OF_PAYLOAD = "choice number short video boxes options between pre post post_number post_video max_tokens temperature"
OF_OTHERS = (
    "text number open short layout before after_image opening time unknown_time option "
    "max_tokens max_tokens_open temperature"
)
"""What a fingerprint calls the words of a form, of the twelve of EASI's payload and of others, in this order."""
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
    words: Form
    count: int = 0
    rate: float = 0.0

    @property
    def kit(self) -> bool:
        """Whether it is VLMEvalKit's."""
        return self.form.startswith("vlmevalkit")


def options(task: Task) -> Mapping[str, str]:
    """Return the options of a benchmark, name to help text."""
    if task.in_payload:
        return {**OPTIONS, **PROTOCOL}
    known, rule = forms(task), task.declared.frames
    texts = {
        "prompting": f"whose prompt it is: {', '.join(known)} (default: {known[0]})",
        "prompts": "a file of words to use in place of ours (.toml); `snellen --help spatial-more`",
    }
    if rule.count or rule.rate:
        usual = "as many as the subset says" if rule.by_subset else rule.count or f"{rule.rate:g}fps"
        texts["sample-frames"] = (
            f"how many frames of a video are shown, or with vlmevalkit how many a second, as 2fps (default: {usual})"
        )
    if task.subsets:
        first = f" (default: {task.subsets[0]})" if task.declared.subset.one else ""
        texts[SUBSET] = f"the parts to run, by comma: {', '.join(task.subsets)}{first}"
    return {**texts, **PROTOCOL}


def prompt_settings(data: Data, task: Task) -> SpatialPrompting:
    """Return the settings that the user's options ask for.

    Raises:
        UsageError: a form or a protocol that the benchmark does not have, a number of frames that is none, a rate where there
            is no formula for it.
        DataError: the user's file of words cannot be used.
    """
    protocol = data.options.get("protocol", EASI_PAPER)
    if protocol != EASI_PAPER:
        raise UsageError(f"protocol={protocol!r} is not known", f"The one with a name is {EASI_PAPER}.")
    file = data.options.get("prompts")
    form, words = words_for(task, data.options.get("prompting"), None if file is None else Path(file).expanduser())
    count, rate = sample_frames(asked := data.options.get("sample-frames", ""))
    if rate and not form.startswith("vlmevalkit"):
        raise UsageError(
            f"sample-frames={asked!r}: frames are not taken by time here (not by {form})", "Give a number."
        )
    if words.image_label:
        return SpatialPrompting("lmms-eval", words, count, rate)
    if not task.in_payload and not count and not rate:  # a fingerprint of the payload's has 0 for the usual number
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
    rule = task.declared.frames
    if rule.rate:
        return 0, rule.rate
    if form.startswith("lmms-eval") and not rule.lmms:
        return 0, 0.0
    budget = chosen_subsets(task, data)[0].partition("_")[0] if rule.by_subset else ""
    return int(budget) if budget.isdecimal() else rule.count, 0.0


def digest(data: Data, task: Task) -> str:
    """Return the digest of the words, their order, the frames and the subsets, for a run's fingerprint."""
    how = prompt_settings(data, task)
    called, usual = OF_PAYLOAD if task.in_payload else OF_OTHERS, Form()
    names = {name: OTHER_KEYS.get(name, name) for name in called.split()}
    words = {name: getattr(how.words, key) for name, key in names.items()}
    for name in usual.__struct_fields__:
        value = getattr(how.words, name)
        if name not in (*names.values(), *NO_WORDS) and value != getattr(usual, name):
            words[name] = value
    settings = {**structs.asdict(how), "words": words}
    if how.words.image_label:
        settings |= {"image_label": how.words.image_label, "frame_label": how.words.frame_label}
    told: list[object] = [settings] if task.in_payload else [settings, chosen_subsets(task, data)]
    if EVERY.get(task.name) is not task:
        told.append(task.declared)  # a user's own declaration may change as it likes
    return sha256(msgspec.json.encode(told[0] if len(told) == 1 else told)).hexdigest()


def compose(how: SpatialPrompting, task: Task, question: SpatialQuestion, media: ShownMedia) -> Prompt:
    """Return the prompt of a question: what is shown and the text, in the form's order.

    A row whose images are there while no mark says where, or whose marks VLMEvalKit would stop at, and a question that the form
    has no prompt for, get an `Unreadable` in place of the images: the sample fails with the reason, for asked without images it
    would be another question.
    """
    words, pick = how.words, _pick(how, task)
    parts: list[Part] = [
        Video(blob, pick=pick) if blob.key.lower().endswith(VIDEOS) else Image(blob) for blob in media.images
    ]
    if media.video is not None:
        parts = [Video(media.video, pick=pick)]
    values = _values(how, task, question, media)
    text = fill_template(words, _template(words, task, question, media), values)
    order = words.order
    most = words.max_tokens_open if question.kind == "open" and words.max_tokens_open else words.max_tokens
    if words.only and (group := question.groups.get(task.by)) not in words.only:
        why = f"question {question.id}: VLMEvalKit has no prompt for {group!r}"
        parts = [Image(Unreadable(question.id, why, "Omit the row, or use -o prompting=lmms-eval."))]
    unreadable = any(isinstance(part, Image) and isinstance(part.blob, Unreadable) for part in parts)
    if unreadable or (media.video is not None and order in ORDERS_OF_IMAGES):
        order = "front"  # no image is dropped, so that the sample fails
    count = how.count or task.declared.frames.count
    given = Given(how.form, words, values, question, media.segments, count, how.rate)
    parts = LAYOUTS[order](given, text, parts)
    if not parts:
        why = f"question {question.id}: it has neither text nor an image that is shown"
        parts = [Image(Unreadable(question.id, why, "Fix or remove the row."))]
    if words.image_label:
        clips = {blob.key for clip in media.segments for blob in clip}
        parts = labelled(words.image_label, words.frame_label, parts, clips)
    generation = None
    if words.max_tokens or words.temperature is not None:
        generation = Generation(max_tokens=most or None, temperature=words.temperature)
    return Prompt(tuple(parts), generation=generation)


def _template(words: Form, task: Task, question: SpatialQuestion, media: ShownMedia) -> str:
    """Return the name of a question's template."""
    if words.video and media.video is not None:
        return "video"
    named = words.templates.get(question.groups.get(task.by, ""), words.templates.get("*", ""))
    kind = named or (question.kind if question.kind in ("number", "short", "open") else "text")
    return kind if getattr(words, kind) else "text"


def _values(how: SpatialPrompting, task: Task, question: SpatialQuestion, media: ShownMedia) -> dict[str, str]:
    """Return the values of a template's places; question and options replace columns that a row lacks."""
    words = how.words
    text = question.text.strip() if words.strip else question.text
    options = format_options(words, question.options)
    listed = words.options_once and options_in(question.text) == dict(question.options)
    pieces = {name: piece for name, piece in question.pieces.items() if piece}
    if not pieces.keys() & {"task_prompt", "user_prompt", "format_prompt"}:
        pieces["user_prompt"] = text
    values = {
        "options": "" if listed else options,
        "input_prompt": text,
        "prompt": f"{text}\n{options}" if task.in_payload else text,
        "choices": "\n".join(f"{letter}. {option}" for letter, option in question.options.items()),
        **pieces,
        "question": text,
        "stripped": text.strip(),
        "marked": text if "<image>" in text else f"{text}\n<image>",
        "letters": ", ".join(question.options) or "A, B, C, D",
        "opening": words.opening,
    }
    if "{asked}" in f"{words.text}{words.open}":
        asked = text if how.kit else text.replace("Answer yes or no.", "")
        values["asked"] = _TUPLES.sub("", asked).strip()
    for place, texts in task.declared.places.items():
        values[place] = texts.get(question.groups.get(task.by, ""), values.get(place, ""))
    values["time"] = _time(how, question, media)
    if words.before:
        values["before"] = fill(words.before, values)
    return values


def _time(how: SpatialPrompting, question: SpatialQuestion, media: ShownMedia) -> str:
    """Return the text about a clip's time: the rate of its frames, as for STI-Bench, or its length, as for OSI-Bench."""
    words = how.words
    if "{rate}" in words.time:
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
    return None if isinstance(video, Unreadable) else _probed(_KeyedVideo(video.key, video))


@dataclass(frozen=True)
class _KeyedVideo:
    """A video that equals another of the same key, so that each is looked at once."""

    key: str
    blob: Blob = field(compare=False)


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
    rule = task.declared.frames.rule
    count = how.count or (task.declared.frames.count if task.in_payload else 0)
    if rule == "inner" and how.kit:
        if how.rate:
            by_rate = partial(frames.revsi_by_rate, fps=how.rate)
            return Pick(f"revsi-rate:{how.rate:g}fps", by_rate, MAX_FRAMES, by_rate=True)
        return Pick(f"revsi:{count}", partial(frames.inner, count=count), count)
    tail = rule == "tail"
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
