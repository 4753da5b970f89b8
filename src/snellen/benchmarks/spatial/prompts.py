"""How a question is put: which words, and which frames of a video, as each harness has it."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from snellen.benchmarks.base import Data
from snellen.benchmarks.spatial.question import Question
from snellen.benchmarks.spatial.tasks import Task
from snellen.types import Blob, Image, Part, Prompt, Text, Video

OPTIONS: Mapping[str, str] = {"prompting": "whose words and frames: vlmevalkit (the default) or lmms-eval"}


class Prompting(Struct, frozen=True):
    """Settings of how a question is put: `form` is vlmevalkit or lmms-eval."""

    form: str = "vlmevalkit"


class Shown(Struct, frozen=True):
    """What a question shows, nothing of it read yet: pictures in order, or a video, or clips that are given as frames."""

    images: tuple[Blob, ...] = ()
    video: Blob | None = None
    segments: tuple[tuple[Blob, ...], ...] = ()


def of(data: Data) -> Prompting:
    """The settings that the user's options ask for."""
    return Prompting(form=data.options.get("prompting", "vlmevalkit"))


def compose(how: Prompting, task: Task, question: Question, shown: Shown) -> Prompt:
    """The prompt of a question."""
    parts: list[Part] = [Image(blob) for blob in shown.images]
    if shown.video is not None:
        parts.insert(0, Video(shown.video))
    return Prompt((*parts, Text(question.text)))
