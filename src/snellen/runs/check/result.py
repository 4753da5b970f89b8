"""Result of a check, as `snellen check --json` prints it. Field names are stable."""

from __future__ import annotations

import heapq
from array import array
from collections.abc import Mapping
from typing import Any, Literal

from msgspec import Struct

from snellen.media.decode import fitted
from snellen.runs.check.finding import CheckedRow, Finding
from snellen.runs.check.gold_answers import AnswerShare
from snellen.runs.check.images import ImageFacts
from snellen.text import shorten
from snellen.types import Image, MediaSettings, Text, Video

EXCERPT = 120


class ExamplePart(Struct, frozen=True, omit_defaults=True):
    """A part of a prompt: a text, or where an image or a video stands and what is sent of it.

    Attributes:
        type: `text`, `image` or `video`.
        text: of a text.
        name: of an image or a video.
        format, width, height, bytes: of the image's file.
        sent: how it is changed before it is sent; empty: sent as it is.
        problem: why it cannot be sent.
    """

    type: Literal["text", "image", "video"]
    text: str = ""
    name: str = ""
    format: str = ""
    width: int = 0
    height: int = 0
    bytes: int = 0
    sent: str = ""
    problem: str = ""


class Example(Struct, frozen=True):
    """A sample as it would be sent: its prompt in order, its options, and the gold answer, None where that is hidden."""

    row: str
    id: str
    kind: str
    system: str
    prompt: list[ExamplePart]
    options: Mapping[str, str]
    gold: Any


class LeftOutRow(Struct, frozen=True):
    """A row that cannot be asked: its place, its id if it has one, and why."""

    row: str
    id: str
    reason: str


class KindShare(Struct, frozen=True):
    """How many questions have a kind of answer, and the first gold answer of it."""

    count: int
    example: str


class CheckResult(Struct, frozen=True):
    """Everything that a check says.

    Attributes:
        data: what was checked, as the user named it.
        benchmark: the benchmark's name.
        reading: how the file was read, in the words of a run.
        rows: rows of the data, those included that are left out.
        samples: samples that can be asked.
        images, videos: images with different content, clips in all prompts.
        kinds: by kind of answer, how many questions have it, and an example; the example is empty where answers are hidden.
        levels: number of findings by level.
        findings: the gravest first.
        omitted: rows that are left out, all or the first ones; `rows - samples` is their number.
        answers: how often each letter, and yes and no, is the gold answer.
        chance: what guessing reaches, over the samples where that is known; None without any.
        characters: median length of a prompt's text.
        longest: the longest prompts.
        examples: samples as they would be sent, evenly over the data.
        input_tokens, output_tokens: estimated; output at most, None where replies are not limited.
        cost: in US dollars; None without a price.
        parts: by subtask, data set, category or level, how many questions have each kind of answer; empty text: none.
    """

    data: str
    benchmark: str
    reading: str
    rows: int
    samples: int
    images: int
    videos: int
    kinds: Mapping[str, KindShare]
    levels: Mapping[str, int]
    findings: list[Finding]
    omitted: list[LeftOutRow]
    answers: list[AnswerShare]
    chance: float | None
    characters: int
    longest: list[LongText]
    examples: list[Example]
    input_tokens: int
    output_tokens: int | None
    cost: float | None
    parts: Mapping[str, Mapping[str, int]] = {}


def example_of(
    row: CheckedRow, image_facts: Mapping[str, ImageFacts], settings: MediaSettings, *, restricted: bool
) -> Example:
    """Return a sample as it would be sent.

    Args:
        image_facts: facts of its images by their keys.
        settings: how images are sent.
        restricted: the gold answer is hidden.
    """
    parts: list[ExamplePart] = []
    for part in row.prompt.parts:
        if isinstance(part, Text):
            parts.append(ExamplePart("text", text=part.text))
        elif isinstance(part, Video):
            name = f"{len(part.frames)} frames" if part.blob is None else part.blob.key
            if part.start is not None or part.end is not None:
                name += f", from {part.start or 0:g} s to {'its end' if part.end is None else f'{part.end:g} s'}"
            name += f", frames at {', '.join(f'{time:g}' for time in part.times)} s" if part.times else ""
            name += f", subtitles ({part.subtitles.show})" if part.subtitles is not None else ""
            parts.append(ExamplePart("video", name=name))
        elif isinstance(part, Image):
            parts.append(_image_part(part.blob.key, image_facts[part.blob.key], settings))
    gold = None if restricted else row.answer
    return Example(row.place, row.id, row.kind, row.prompt.system, parts, dict(row.options), gold)


def _image_part(name: str, facts: ImageFacts, settings: MediaSettings) -> ExamplePart:
    sent = ""
    if facts.changed:
        width, height = fitted(facts.width, facts.height, settings)
        sent = f"{width:,} x {height:,} ({facts.changed})"
    return ExamplePart(
        "image",
        name=name,
        format=facts.format,
        width=facts.width,
        height=facts.height,
        bytes=facts.bytes,
        sent=sent,
        problem=facts.problem,
    )


class LongText(Struct, frozen=True):
    """A long prompt: its place, id, characters, and how it begins."""

    row: str
    id: str
    characters: int
    text: str


class TextLengths:
    """Lengths of all prompts, and the longest ones.

    Args:
        longest: how many of the longest are held.
    """

    def __init__(self, longest: int) -> None:
        self._most = longest
        self._lengths = array("I")
        self._heap: list[tuple[int, int, LongText]] = []

    def add(self, row: str, sample_id: str, text: str) -> None:
        """Add the text of one prompt."""
        length = min(len(text), 0xFFFFFFFF)
        number = len(self._lengths)
        self._lengths.append(length)
        entry = (length, -number)
        if len(self._heap) < self._most:
            heapq.heappush(self._heap, (*entry, _long_text(row, sample_id, text)))
        elif self._heap and entry > self._heap[0][:2]:
            heapq.heapreplace(self._heap, (*entry, _long_text(row, sample_id, text)))

    @property
    def median(self) -> int:
        """Return the median number of characters; 0 without rows."""
        return sorted(self._lengths)[len(self._lengths) // 2] if self._lengths else 0

    def longest(self) -> list[LongText]:
        """Return the longest prompts, the longest first."""
        return [text for _, _, text in sorted(self._heap, key=lambda entry: entry[:2], reverse=True)]


def _long_text(row: str, sample_id: str, text: str) -> LongText:
    return LongText(row, sample_id, len(text), shorten(" ".join(text[: 2 * EXCERPT].split()), EXCERPT))
