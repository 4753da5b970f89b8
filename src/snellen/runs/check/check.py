"""The check: one pass over the rows, in which every finding, example and total is collected."""

from __future__ import annotations

import re
from array import array
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

from msgspec import Struct

from snellen.benchmarks.table.question import OmittedRow, shown_answer
from snellen.models.api.prices import Price
from snellen.runs.check.duplicates import Duplicates
from snellen.runs.check.even_sample import EvenSample
from snellen.runs.check.finding import LEVELS, Findings
from snellen.runs.check.gold_answers import GoldAnswers
from snellen.runs.check.images import ImageFacts, ImageReader, file_name, image_findings
from snellen.runs.check.options import option_findings, row_options
from snellen.runs.check.result import CheckResult, KindShare, LeftOutRow, example_of
from snellen.runs.check.row import CheckedRow
from snellen.runs.check.texts import TextLengths
from snellen.runs.costs import PromptTotals
from snellen.text import shorten
from snellen.types import Generation, Image, MediaSettings, Text, Video

LONGEST, LONG_TEXT = 5, 50_000
"""How many of the longest prompts are listed; characters above which a prompt is a finding."""
LONGEST_EXAMPLE = 80
"""Characters of a gold answer that is shown as an example of its kind."""
FIRST_ROWS = 20
"""Rows of a finding that are listed unless all are wanted."""
_MARK = re.compile(r"<(?:image|img|video)(?:[ _-]?\d{1,3})?>|<ImageHere>|\[image[ _-]?\d{1,3}\]", re.IGNORECASE)
OnProgress: TypeAlias = Callable[[str, int], None]
"""Receives what is read, `images` or `rows`, and how many so far."""
GOLD_CODES = frozenset({"answer-in-question", "gold-not-an-option", "sentence-answers"})


class CheckSettings(Struct, frozen=True):
    """Settings of a check.

    Attributes:
        examples: how many samples are shown.
        seed: decides which.
        all_rows: every row of a finding is listed.
        generation, media: settings of the model, for the estimate.
        price: for the cost; None: unknown.
        restricted: gold answers are neither shown nor examined.
        shuffled: options were shuffled, since the file's first option is always right.
        surveyed: the rows are those of a table, whose survey leaves out what has the id of an earlier row.
    """

    examples: int = 10
    seed: int = 0
    all_rows: bool = False
    generation: Generation = Generation()
    media: MediaSettings = MediaSettings()
    price: Price | None = None
    restricted: bool = False
    shuffled: bool = False
    surveyed: bool = False


class Origin(Struct, frozen=True):
    """What was checked: as the user named it, the benchmark's name, and how the file was read."""

    data: str
    benchmark: str
    reading: str


MOST_PARTS = 200
"""Parts that are counted; a column of more values is no division of the questions."""


class Check:
    """A check in progress.

    Args:
        settings: what is collected.
        images: reads images; one that has read some already reads these no more.
    """

    def __init__(self, settings: CheckSettings, images: ImageReader | None = None) -> None:
        self._settings = settings
        self._images = images or ImageReader(settings.media)
        self._limit = None if settings.all_rows else FIRST_ROWS
        self._findings = Findings(self._limit)
        self._duplicates = Duplicates(self._findings, restricted=settings.restricted, ids=not settings.surveyed)
        self._gold = GoldAnswers(shuffled=settings.shuffled)
        self._lengths = TextLengths(LONGEST)
        self._totals = PromptTotals(settings.generation, settings.media, self._size, price=settings.price)
        self._examples: EvenSample[CheckedRow] = EvenSample(settings.examples, settings.seed)
        self._without_image = array("q")
        self._omitted: list[LeftOutRow] = []
        self._kinds: Counter[str] = Counter()
        self._kind_examples: dict[str, str] = {}
        self._parts: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self._left_out = self._samples = self._bare = self._with_media = self._chances = 0
        self._chance = 0.0

    def run(self, rows: Iterable[CheckedRow | OmittedRow], on_progress: OnProgress | None = None) -> None:
        """Examine rows, in order."""
        for row in rows:
            self.add_row(row, on_progress)

    def add_row(self, row: CheckedRow | OmittedRow, on_progress: OnProgress | None = None) -> None:
        """Examine the next row."""
        if isinstance(row, OmittedRow):
            self._omit(row)
        else:
            self._examine(row)
        if on_progress is not None:
            on_progress("rows", self.rows)

    @property
    def rows(self) -> int:
        """Return how many rows were examined."""
        return self._samples + self._left_out

    def add_whole(self, code: str, count: int, detail: str) -> None:
        """Add a finding about the data as a whole that was made elsewhere."""
        self._findings.add_whole(code, count, detail)

    def _omit(self, row: OmittedRow) -> None:
        self._left_out += 1
        if self._limit is None or len(self._omitted) < self._limit:
            self._omitted.append(LeftOutRow(row.place, row.id, row.reason))
        self._findings.add("row-omitted", row.place, row.id, row.reason)

    def _examine(self, row: CheckedRow) -> None:
        self._samples += 1
        self._examples.add(row)
        self._kinds[row.kind] += 1
        if row.part in self._parts or len(self._parts) <= MOST_PARTS:
            self._parts[row.part][row.kind] += 1
        if row.kind not in self._kind_examples:
            self._kind_examples[row.kind] = shorten(shown_answer(row.answer), LONGEST_EXAMPLE)
        parts = row.prompt.parts
        texts = [part.text for part in parts if isinstance(part, Text)]
        contents = self._images_of(row) if row.images else []
        if len(texts) < len(parts):
            contents += [hash(tuple(_video_name(part))) for part in parts if isinstance(part, Video)]
        about = row_options(row.options)
        self._duplicates.add(row, contents, about)
        if contents:
            self._with_media += 1
        else:
            self._bare += 1
            if self._limit is None or len(self._without_image) < self._limit:
                self._without_image.append(self._samples - 1)
        self._examine_text(row, "\n".join(texts))
        moved = self._settings.shuffled or row.requests > 1
        for code, detail in option_findings(row, about):
            if not (self._settings.restricted and code in GOLD_CODES) and (moved or code != "catch-all-option"):
                self._findings.add(code, row.place, row.id, detail)
        if not self._settings.restricted:
            self._gold.add(row, about)
        if row.kind == "truth" or len(row.options) > 1:
            self._chances += 1
            self._chance += 0.5 if row.kind == "truth" else 1.0 / _guesses(row.kind, len(row.options))
        self._totals.add(row.prompt, row.requests)

    def _images_of(self, row: CheckedRow) -> list[int]:
        """Examine the images of a row, each finding once; return a code for the content of each."""
        contents: list[int] = []
        details: dict[str, str] = {}
        for blob in row.images:
            facts = self._images.facts(blob)
            name = file_name(blob)
            for code, detail in image_findings(facts, name or blob.key):
                details.setdefault(code, detail)
            if name and not facts.problem:
                self._duplicates.add_image(name, facts.content)
            contents.append(facts.content)
        for code, detail in details.items():
            self._findings.add(code, row.place, row.id, detail)
        return contents

    def _examine_text(self, row: CheckedRow, whole: str) -> None:
        self._lengths.add(row.place, row.id, whole)
        if len(whole) > LONG_TEXT:
            self._findings.add("long-text", row.place, row.id, f"{len(whole):,} characters")
        if ("<" in whole or "[" in whole) and (mark := _MARK.search(whole)) is not None:
            self._findings.add("mark-without-image", row.place, row.id, mark[0])

    def _size(self, image: Image) -> tuple[tuple[int, int] | None, bool]:
        facts = self._images.facts(image.blob)
        return ((facts.width, facts.height) if facts.width else None), not facts.problem

    def result(self, origin: Origin) -> CheckResult:
        """Return the result, after all rows."""
        self._gold.report(self._findings)
        self._duplicates.report()
        if self._with_media:
            for number in self._without_image:
                self._findings.add("without-image", *self._duplicates.name(number))
            if self._bare:
                self._findings.add_whole("without-image", self._bare, "")
        findings = list(self._findings)
        levels = Counter(finding.level for finding in findings)
        return CheckResult(
            data=origin.data,
            benchmark=origin.benchmark,
            reading=origin.reading,
            rows=self.rows,
            samples=self._samples,
            images=self._images.images,
            videos=self._totals.videos,
            kinds={
                kind: KindShare(count, "" if self._settings.restricted else self._kind_examples[kind])
                for kind, count in self._kinds.most_common()
            },
            levels={level: levels[level] for level in LEVELS},
            findings=findings,
            omitted=self._omitted,
            answers=self._gold.shares(),
            chance=self._chance / self._chances if self._chances else None,
            characters=self._lengths.median,
            longest=self._lengths.longest(),
            examples=[
                example_of(row, self._facts_of(row), self._settings.media, restricted=self._settings.restricted)
                for row in self._examples.items()
            ],
            input_tokens=self._totals.input_tokens,
            output_tokens=self._totals.output_tokens,
            cost=self._totals.cost,
            parts=self._parts if len(self._parts) <= MOST_PARTS else {},
        )

    def _facts_of(self, row: CheckedRow) -> Mapping[str, ImageFacts]:
        parts: list[Any] = [part for part in row.prompt.parts if isinstance(part, Image)]
        return {part.blob.key: self._images.facts(part.blob) for part in parts}


def _guesses(kind: str, options: int) -> int:
    """Return how many answers a question with options has."""
    return 2**options - 1 if kind == "multi-choice" else options


def _video_name(video: Video) -> list[str]:
    return [video.blob.key] if video.blob is not None else [frame.blob.key for frame in video.frames]
