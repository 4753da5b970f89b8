"""The check: one pass over the rows, in which every finding, example and total is collected."""

from __future__ import annotations

import random
import re
from array import array
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, Generic, TypeAlias, TypeVar

import numpy as np
from msgspec import Struct, structs

from snellen.benchmarks.base import Benchmark, Data
from snellen.benchmarks.table.benchmark import PromptWriter, Table, prompts_of
from snellen.benchmarks.table.question import OmittedRow, Question, shown_answer
from snellen.benchmarks.table.survey import OnRow
from snellen.models.api.prices import Price
from snellen.runs.check.finding import LEVELS, CheckedRow, Findings, row_of_question, row_of_sample
from snellen.runs.check.gold_answers import GoldAnswers
from snellen.runs.check.images import ImageFacts, ImageReader, file_name, image_findings
from snellen.runs.check.options import RowOptions, option_findings, row_options
from snellen.runs.check.result import CheckResult, KindShare, LeftOutRow, TextLengths, example_of
from snellen.runs.costs import PromptTotals
from snellen.text import shorten
from snellen.types import Blob, Generation, Image, MediaSettings, Text, Video

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
            contents += [hash(_shown_of(part)) for part in parts if isinstance(part, Video)]
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


def _shown_of(video: Video) -> tuple[object, ...]:
    """Return what tells the parts of clips apart: the file or the frames, and the times between which they are shown."""
    files = (video.blob,) if video.blob is not None else (frame.blob for frame in video.frames)
    return (*(blob.key for blob in files), video.start, video.end, video.times)


class Duplicates:
    """Hashes of the rows so far: of each row a few numbers and its name as bytes, never a text of its question.

    Args:
        findings: where duplicates are added.
        restricted: gold answers are not compared.
        ids: ids are compared; a survey has done so for the rows of a table.
    """

    def __init__(self, findings: Findings, *, restricted: bool = False, ids: bool = True) -> None:
        self._findings = findings
        self._restricted, self._compares_ids = restricted, ids
        self._questions, self._golds, self._ids = array("q"), array("q"), array("q")
        self._names, self._ends = bytearray(), array("Q")
        self._images: dict[int, str] = {}
        self._image_names: set[int] = set()

    def add(self, row: CheckedRow, images: Sequence[int], about: RowOptions) -> None:
        """Remember a row.

        Args:
            images: a code for the content of each of its images and clips.
            about: what its options say.
        """
        question = " ".join(row.question.casefold().split())
        self._questions.append(hash((question, *about.folded, *row.options, *images)))
        self._golds.append(0 if self._restricted else hash((row.kind, str(row.answer))))
        if self._compares_ids:
            self._ids.append(hash(row.id))
        self._names += f"{row.place}\0{row.id}".encode("utf-8", "surrogatepass")
        self._ends.append(len(self._names))

    def report(self) -> None:
        """Add the findings about rows that repeat an earlier one, after all rows."""
        for at, first in _repeated(self._ids):
            self._add("duplicate-id", at, first)
        for at, first in _repeated(self._questions):
            contradicts = self._golds[at] != self._golds[first]
            self._add("contradicting-answers" if contradicts else "duplicate-question", at, first)

    def _add(self, code: str, at: int, first: int) -> None:
        self._findings.add(code, *self.name(at), f"as {self.name(first)[0]}")

    def name(self, at: int) -> tuple[str, str]:
        """Return place and id of a row by its number."""
        name = self._names[self._ends[at - 1] if at else 0 : self._ends[at]].decode(errors="surrogatepass")
        place, _, sample_id = name.partition("\0")
        return place, sample_id

    def add_image(self, name: str, content: int) -> None:
        """Compare a named image with those before it; an image with a name that was added before is skipped."""
        code = hash(name)
        if code in self._image_names:
            return
        self._image_names.add(code)
        before = self._images.setdefault(content, name)
        if before is not name:
            self._findings.add("duplicate-image", name, "", f"as {before}")


def _repeated(codes: array[int]) -> Iterator[tuple[int, int]]:
    """Yield the places of values that were there before, in order, with the place of the first one."""
    if not codes:
        return
    values = np.frombuffer(codes, np.int64)
    _, first, inverse = np.unique(values, return_index=True, return_inverse=True)
    firsts = first[inverse]
    for at in np.flatnonzero(firsts != np.arange(len(values))).tolist():
        yield at, int(firsts[at])


T = TypeVar("T")


class EvenSample(Generic[T]):
    """Items spread evenly over a stream, drawn with a seed; at most twice the wanted number is held.

    The stream is cut into stretches of equal length, and each holds one item drawn from it. When the stretches are too
    many, neighbours are joined, and one of their two items stays.

    Args:
        wanted: how many items, at least 0.
        seed: of the draws.
    """

    def __init__(self, wanted: int, seed: int = 0) -> None:
        self._wanted = wanted
        self._random = random.Random(seed)  # noqa: S311  which rows are shown is no secret
        self._items: list[T] = []
        self._length = 1
        self._at = 0
        self._chosen = 0

    def add(self, item: T) -> None:
        """Offer the next item of the stream."""
        if self._wanted < 1:
            return
        if self._at == 0:
            if len(self._items) == 2 * self._wanted:
                self._join()
            self._chosen = self._random.randrange(self._length)
            self._items.append(item)
        elif self._at == self._chosen:
            self._items[-1] = item
        self._at = (self._at + 1) % self._length

    def _join(self) -> None:
        pairs = zip(self._items[::2], self._items[1::2], strict=True)
        self._items = [pair[self._random.randrange(2)] for pair in pairs]
        self._length *= 2

    def items(self) -> list[T]:
        """Draw the items, in the order of the stream: as many as wanted, or all of a shorter stream."""
        count = len(self._items)
        if count <= self._wanted:
            return list(self._items)
        ends = [at * count // self._wanted for at in range(self._wanted + 1)]
        return [self._items[self._random.randrange(*part)] for part in pairwise(ends)]


def check_benchmark(
    benchmark: Benchmark,
    data: Data,
    settings: CheckSettings,
    *,
    name: str = "",
    on_progress: OnProgress | None = None,
) -> CheckResult:
    """Check the data of a benchmark; no request is sent, and each image is read once.

    Args:
        name: what the user named; default: the benchmark's name.
        on_progress: receives how many images, then how many rows were read so far.

    Raises:
        DataError: the data cannot be read.
        UsageError: an option of the data is wrong, or the data could be read in several ways.
    """
    images = ImageReader(settings.media)
    settings = structs.replace(settings, restricted=benchmark.restricted)
    if benchmark.table is None:
        check = Check(settings, images)
        check.run(map(row_of_sample, benchmark.samples(data)), on_progress)
    else:
        benchmark.files(data)  # a benchmark of the catalogue without its data says what is needed
        settings = structs.replace(settings, surveyed=True)
        check = _checked_table(benchmark.table, data, settings, images, on_progress)
    reading = benchmark.reading(data)
    return check.result(Origin(name or benchmark.name, benchmark.name, reading.text if reading is not None else ""))


def _checked_table(
    table: Table, data: Data, settings: CheckSettings, images: ImageReader, on_progress: OnProgress | None
) -> Check:
    """Check the rows of a table as its survey reads them; in a pass of their own where the survey changed its rules.

    That is the case for a table that was surveyed before, and for one whose options are shuffled.
    """

    def on_read(blob: Blob, content: bytes) -> None:
        images.saw(blob, content)
        if on_progress is not None:
            on_progress("images", images.read)

    check, circular = Check(settings, images), table.circular(data)

    def begin(write: PromptWriter) -> OnRow:
        nonlocal check
        check = begun = Check(settings, images)

        def add(row: Question | OmittedRow) -> None:
            if isinstance(row, Question):
                requests = max(1, len(row.options)) if circular else 1
                begun.add_row(row_of_question(row, write(row), requests), on_progress)
            else:
                begun.add_row(row, on_progress)

        return add

    surveyed = table.survey(data, on_read, begin)
    if not check.rows or surveyed.rules.shuffle is not None:
        settings = structs.replace(settings, shuffled=surveyed.rules.shuffle is not None)
        add = begin(prompts_of(surveyed.rules))
        for row in table.opened(data).questions():
            add(row)
    if surveyed.kit_differs:
        check.add_whole("as-kit-differs", surveyed.kit_differs, "")
    return check
