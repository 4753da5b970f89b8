"""How a question is put: which words, in which order with what is shown, and which frames of a video, as each harness has it.

The words lie in words/, one file a harness, and are our own. Where pictures stand is the harness's: at the front, or at the
`<image>` and `<video>` marks of the question (MindCube, SITE, MMSI-Video).

Source: the tasks of lmms-eval and the data sets of VLMEvalKit, as docs/spatial-prompts.md says for each benchmark.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from functools import cache, partial
from hashlib import sha256
from importlib.resources import files
from itertools import zip_longest
from pathlib import Path

import msgspec
from msgspec import Struct

from snellen.benchmarks.base import Data
from snellen.benchmarks.spatial import frames
from snellen.benchmarks.spatial.question import Question
from snellen.benchmarks.spatial.tasks import TASKS, Task
from snellen.errors import UsageError
from snellen.types import Blob, Generation, Image, Part, Pick, Prompt, Text, Video

FORMS = ("vlmevalkit", "lmms-eval")
OPTIONS: Mapping[str, str] = {
    "prompting": f"whose order of words and pictures, and whose frames: {' or '.join(FORMS)} (default: {FORMS[0]})",
    "prompts": "a file of words to use in place of ours, as `snellen prompts import` writes it (.toml)",
    "sample-frames": "how many frames of a video are shown (default: 32; MMSI-Video 50)",
}
BOXED = ("position_matching", "camera_motion_infer")
_PLACE = re.compile(r"\{(\w+)\}")
_MARK = re.compile(r"<(image|video)>")
MOST_FRAMES = 4096


class Words(Struct, frozen=True, forbid_unknown_fields=True):
    """How one benchmark's questions are worded.

    Attributes:
        choice, number, short: the text for each kind of question, with places such as {question}; `video` is that of
            SITE's videos, `boxes` that of SPAR-Bench's questions about boxes.
        options: how one option is written, with {letter} and {text}; `between` stands between two.
        max_tokens: new tokens that a reply may have; 0 leaves it to the model.
    """

    choice: str
    number: str = ""
    short: str = ""
    video: str = ""
    boxes: str = ""
    options: str = "{letter}. {text}"
    between: str = "\n"
    max_tokens: int = 0


class Prompting(Struct, frozen=True):
    """How questions are put.

    Attributes:
        form: one of FORMS.
        file: the user's own words, None for ours.
        count: frames of a video, 0 for the benchmark's own number.
    """

    form: str = FORMS[0]
    file: Path | None = None
    count: int = 0


class Shown(Struct, frozen=True):
    """What a question shows, nothing of it read yet: pictures in order, or a video, or clips that are given as frames."""

    images: tuple[Blob, ...] = ()
    video: Blob | None = None
    segments: tuple[tuple[Blob, ...], ...] = ()


def of(data: Data, task: Task) -> Prompting:
    """The settings that the user's options ask for.

    Raises:
        UsageError: a form that nobody knows, a number of frames that is none.
        DataError: the user's file of words cannot be used.
    """
    form = data.options.get("prompting", FORMS[0])
    if form not in FORMS:
        raise UsageError(f"prompting={form!r} is not known", f"One of these: {', '.join(FORMS)}.")
    given = data.options.get("prompts")
    said = data.options.get("sample-frames", "")
    if said and not (said.isdecimal() and 1 <= int(said) <= MOST_FRAMES):
        raise UsageError(f"sample-frames={said!r}: a number from 1 to {MOST_FRAMES:,} was expected")
    found = Prompting(form, None if given is None else Path(given), int(said or 0))
    words(found, task)  # a file that cannot be used is said before anything is read
    return found


def words(how: Prompting, task: Task) -> Words:
    """The words for a benchmark."""
    table = _ours(how.form) if how.file is None else _theirs(how.file)
    name = "vsi-bench" if task.name == "vsi-debiased" and task.name not in table else task.name
    if name not in table:
        raise UsageError(
            f"{how.file}: it has no words for {task.name}; it has {', '.join(table)}", "Import them again."
        )
    return table[name]


@cache
def _ours(form: str) -> dict[str, Words]:
    text = files(__package__).joinpath("words", f"{form}.toml").read_text("utf-8")
    return read_words(text, f"words/{form}.toml")


@cache
def _theirs(path: Path) -> dict[str, Words]:
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            f"prompts={path}: cannot be read: {error}", "Give the file that `snellen prompts import` wrote."
        ) from error
    return read_words(text, str(path))


def read_words(text: str, place: str) -> dict[str, Words]:
    """Words by benchmark from the text of a file.

    Raises:
        UsageError: no TOML, an unknown benchmark or field, an option's line without its letter.
    """
    try:
        table = msgspec.convert(tomllib.loads(text), dict[str, Words])
    except (tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        raise UsageError(f"{place}: {error}", "See docs/spatial-prompts.md for what such a file holds.") from error
    strange = [name for name in table if name not in TASKS]
    if strange:
        raise UsageError(f"{place}: {', '.join(strange)} is no benchmark of this room; they are {', '.join(TASKS)}")
    return table


def digest(data: Data, task: Task) -> str:
    """What a run's fingerprint holds of the words and of how frames are taken."""
    how = of(data, task)
    told = msgspec.json.encode([how.form, how.count, words(how, task)])
    return sha256(told).hexdigest()


def compose(how: Prompting, task: Task, question: Question, shown: Shown) -> Prompt:
    """The prompt of a question: what is shown and the text, in the harness's order."""
    said = words(how, task)
    text = _filled(said, question, task, video=shown.video is not None)
    parts = _arranged(how, task, text, shown)
    tokens = said.max_tokens
    generation = Generation(max_tokens=tokens, temperature=0.0) if tokens else None
    return Prompt(tuple(parts), generation=generation)


def _filled(said: Words, question: Question, task: Task, *, video: bool) -> str:
    """The text with its places filled; a line whose every place is empty is left out."""
    template = {"number": said.number, "short": said.short}.get(question.kind) or said.choice
    if video and said.video:
        template = said.video
    if said.boxes and question.groups.get("question_type") in BOXED:
        template = said.boxes
    listed = said.between.join(
        said.options.replace("{letter}", letter).replace("{text}", text) for letter, text in question.options.items()
    )
    values = {
        "question": question.text,
        "options": "" if _own_options(question, task) else listed,
        "letters": ", ".join(question.options) or "A, B, C, D",
        "hint": "",
        "input_prompt": question.text,
        "prompt": question.text,
        "choices": "\n".join(f"{letter}. {text}" for letter, text in question.options.items()),
        **question.pieces,
    }
    lines = []
    for line in template.removeprefix("\n").split("\n"):
        places = _PLACE.findall(line)
        if places and not any(values.get(place) for place in places):
            continue
        lines.append(_PLACE.sub(lambda place: values.get(place[1], place[0]), line))
    return "\n".join(lines)


def _own_options(question: Question, task: Task) -> bool:
    """Whether the question's own text lists its options."""
    return task.name == "mmsi-bench" and all(f"{text}" in question.text for text in question.options.values())


def _arranged(how: Prompting, task: Task, text: str, shown: Shown) -> list[Part]:
    if shown.video is not None:
        return [Video(shown.video, pick=_pick(how, task)), Text(text)]
    if task.name == "mmsi-video-bench":
        return _clips(how, text, shown)
    images: list[Part] = [Image(blob) for blob in shown.images]
    if task.name == "mindcube-tiny":
        return _interleaved(text, images, surplus=False)
    if task.name == "site":
        if "<image>" not in text:
            return [*images, Text(text)]
        return _interleaved(text, images, surplus=how.form == "lmms-eval")
    return [*images, Text(text)]


def _interleaved(text: str, images: Sequence[Part], *, surplus: bool) -> list[Part]:
    """Text and pictures in turn at the `<image>` marks; pictures beyond the marks stand before the last text, or go."""
    pieces = text.split("<image>")
    parts: list[Part] = []
    for at, piece in enumerate(pieces):
        last = at == len(pieces) - 1
        if last and surplus:
            parts += images[at:]
        if piece.strip():
            parts.append(Text(piece.strip()))
        if not last and at < len(images):
            parts.append(images[at])
    return parts


def _clips(how: Prompting, text: str, shown: Shown) -> list[Part]:
    """MMSI-Video: each `<video>` becomes the frames of the next clip, each `<image>` the next reference picture."""
    count = how.count or frames.MMSI_VIDEO
    rule = frames.mmsi_video_lmms_eval if how.form == "lmms-eval" else frames.mmsi_video_vlmevalkit
    lengths = [len(clip) for clip in shown.segments]
    chosen = rule(lengths, count) if sum(lengths) else [[] for _ in lengths]
    clips = [[Image(clip[at]) for at in places] for clip, places in zip(shown.segments, chosen, strict=True)]
    references = [Image(blob) for blob in shown.images]
    marks = _MARK.findall(text)
    parts: list[Part] = []
    for piece, mark in zip_longest(_MARK.split(text)[::2], marks, fillvalue=""):
        if piece:
            parts.append(Text(piece))
        if mark == "video" and clips:
            parts += clips.pop(0)
        elif mark == "image" and references:
            parts.append(references.pop(0))
    left: list[Part] = [*(image for clip in clips for image in clip), *references]
    return [*left, *parts]


def _pick(how: Prompting, task: Task) -> Pick:
    """The frames of a video by the harness's formula."""
    count = how.count or frames.VIDEO
    if how.form == "lmms-eval":
        return Pick(f"lmms-eval:{count}", partial(frames.lmms_eval, count=count), count)
    if task.name == "site":
        return Pick(f"vlmevalkit-uniform:{count}", partial(frames.uniform, count=count), count)
    return Pick(f"vlmevalkit-tail:{count}", partial(frames.uniform_tail, count=count), count + 1)
