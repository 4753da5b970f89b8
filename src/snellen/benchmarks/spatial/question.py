"""One question of a spatial benchmark as its row has it, whichever layout the row is of, before a prompt is made of it.

`sources.rows` makes a `SpatialQuestion` of a row of any layout; prompts, scorers and metrics do not depend on layouts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import zip_longest
from typing import Any, Protocol

from msgspec import Struct

from snellen.errors import DataError
from snellen.scoring.rubric import ROW_QUESTION
from snellen.types import Blob, Kind, Prompt, Sample

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
VIDEOS = (".mp4", ".mov", ".mkv", ".webm", ".avi")
UNKNOWN_OPTIONS = dict.fromkeys("ABCD", "")
_LETTERED = re.compile(r"^\s*\(?([A-Z])\s*[.):：]\s*", re.DOTALL)
_HEAD = re.compile(r"(?:^|(?<=[\s,;]))\(?([A-J])\s*[.:)：]\s+")


class SpatialQuestion(Struct, frozen=True):
    """The question of a row.

    Attributes:
        id: unique in its benchmark as far as the data is; a reader adds `#2` to a second row of one id.
        text: the question, with `<image>` or `<video>` where the data has them.
        gold: the gold answer as both harnesses' rules take it: a letter, for ViewSpatial the whole option (`A. left`),
            a number in text, moves in text.
        kind: choice, number, or short (SPAR-Bench's view change).
        options: letter to text without its letter, in order; empty where the row does not list them apart (MMSI-Bench,
            MindCube and MMSI-Video have them in the text).
        groups: what figures are broken down by; `tasks.Task.by` is always one of them.
        cluster: what its row shares with others, for statistics: the scene, the video, the base of rotated forms.
        pieces: further texts that prompts are made of, by the name of their column: input_prompt, system_prompt ...
        media: what is shown in order, as paths relative to the media's root; images in cells are not among them.
        segments: MMSI-Video's clips, each the paths of its frames; reference images are in `media`.
        row: its place in its file, from 0, by which lmms-eval numbers its answers.
        index: VLMEvalKit's index, where the row is of a table of the kit's.
        count: how many options it has, where that is known otherwise than from `options`; 0 where it is not.
        masks: paths of masks that answers are scored by, relative to the media's root.
        scoring: what the sample's meta holds beside texts, such as a mask that is read when a reply is scored.
    """

    id: str
    text: str
    gold: str
    kind: Kind
    options: Mapping[str, str] = {}
    groups: Mapping[str, str] = {}
    cluster: str = ""
    pieces: Mapping[str, str] = {}
    media: tuple[str, ...] = ()
    segments: tuple[tuple[str, ...], ...] = ()
    row: int = -1
    index: str = ""
    count: int = 0
    masks: tuple[str, ...] = ()
    scoring: Mapping[str, Any] = {}


class ShownMedia(Struct, frozen=True):
    """The media of a question, not read yet: images (and clips) in order, or a video, or clips that are given as frames."""

    images: tuple[Blob, ...] = ()
    video: Blob | None = None
    segments: tuple[tuple[Blob, ...], ...] = ()


class QuestionSource(Protocol):
    """The questions of one benchmark in one layout.

    `file` is what messages call it; `questions` starts a new pass over (place such as `row 7`, question or why there is
    none); `shown` is what a question shows, asked at most once and before the next question; `content` the digest of the
    questions' bytes; `remarks` what is odd about the source, one line each, whole only after a pass.
    """

    @property
    def file(self) -> str: ...

    def questions(self) -> Iterator[tuple[str, SpatialQuestion | DataError]]: ...

    def shown(self, question: SpatialQuestion) -> ShownMedia: ...

    def content(self) -> str: ...

    def remarks(self) -> list[str]: ...


def sample(question: SpatialQuestion, prompt: Prompt = Prompt(())) -> Sample:
    """The sample of a question. Its meta has `gold`, the groups, `n` (options, 0 where unknown), `chance`, `row`, `index`,
    and the row's question for judges.

    The target is what people compare an answer with: a letter, a float, or the gold text.
    """
    n = len(question.options) or question.count
    meta: dict[str, Any] = {**question.groups, **question.scoring, "gold": question.gold}
    if question.kind == "choice":
        meta["n"] = n
        if n:
            meta["chance"] = 1 / n
    if question.text:
        meta[ROW_QUESTION] = (question.text,)
    if question.row >= 0:
        meta["row"] = question.row
    if question.index:
        meta["index"] = question.index
    return Sample(
        id=question.id,
        prompt=prompt,
        target=target(question),
        kind=question.kind,
        options=question.options,
        group=question.cluster,
        meta=meta,
    )


def target(question: SpatialQuestion) -> str | float | bool | None:
    """Return the gold answer in the type of the sample's kind; None where it is no number though one is asked for, and
    of an open question.
    """
    if question.kind == "truth":
        return question.gold.strip().lower() == "yes"
    if question.kind == "open":
        return None
    if question.kind == "number":
        try:
            return float(question.gold)
        except ValueError:
            return None
    if question.kind == "choice":
        bare = question.gold.strip().strip("()")
        match = _LETTERED.match(bare)
        return match[1] if match else bare.upper() if len(bare) == 1 else question.gold
    return question.gold


def lettered(options: list[str]) -> dict[str, str]:
    """Return the options, letter to text, of options in order.

    A letter that a text brings along (`A. left`) is taken off where all do.
    """
    matches = [_LETTERED.match(option) for option in options]
    own = all(match is not None and match[1] == LETTERS[at] for at, match in enumerate(matches) if at < len(LETTERS))
    texts = [option[match.end() :] if own and match else option for option, match in zip(options, matches, strict=True)]
    return {LETTERS[at]: text.strip() for at, text in enumerate(texts[: len(LETTERS)])}


def options_in(text: str) -> dict[str, str]:
    """Return the options that a question's own text lists as `A. left`, `A: left,` or `(A) left`.

    Empty where they are not A, B ...
    """
    options = _listed(text)
    for start in range(max(0, len(options) - len(LETTERS)), len(options)):
        run = options[start:]
        if [letter for letter, _ in run] == list(LETTERS[: len(run)]) and len(run) > 1:
            return {letter: option.strip().rstrip(",;") for letter, option in run}
    return {}


def _listed(text: str) -> list[tuple[str, str]]:
    """(letter, what stands behind it up to the next) in order; read in one pass, whatever the text is made of.

    A letter right behind another's mark begins no option: something has to stand between the two.
    """
    heads: list[re.Match[str]] = []
    for head in _HEAD.finditer(text):
        if not heads or head.start() > heads[-1].end():
            heads.append(head)
    options: list[tuple[str, str]] = []
    for head, after in zip_longest(heads, heads[1:]):
        end = len(text) if after is None else after.start()
        while after is not None and end > head.end() and (text[end - 1] in ",;" or text[end - 1].isspace()):
            end -= 1
        options.append((head[1], text[head.end() : end]))
    return options
