"""The questions of a spatial benchmark as samples: from the official files, or from VLMEvalKit's table.

What cannot be read costs its own sample and no other: the sample is there, holds an `Unreadable` that names file and line,
and fails when it is asked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import PurePath

from msgspec import structs

from snellen.benchmarks.base import Data
from snellen.benchmarks.spatial import prompts
from snellen.benchmarks.spatial.metrics import MADE_OF
from snellen.benchmarks.spatial.question import SpatialQuestion, sample
from snellen.benchmarks.spatial.reference import gold_revisions as revisions
from snellen.benchmarks.spatial.sources import carried, locate
from snellen.benchmarks.spatial.tasks import Task
from snellen.errors import DataError
from snellen.sources import Unreadable
from snellen.types import Blob, Image, Prompt, Sample

MOST_LINES = 8
MISSING = "questions show pictures or videos that are not there"


def samples(task: Task, part: str = "") -> Callable[[Data], Iterator[Sample]]:
    """Return the benchmark's `samples`: one a row, in the order of the file.

    `part` is image or video for the halves of SITE, empty elsewhere. The returned function raises UsageError (no data given)
    and DataError (no questions there, or none that can be read).
    """

    def made(data: Data) -> Iterator[Sample]:
        how = prompts.prompt_settings(data, task)
        source = locate.source(task, part, data)
        counts: dict[str, int] = {}
        for place, question in source.questions():
            if isinstance(question, DataError):
                yield _lost(source.file, place, question)
                continue
            count = counts[question.id] = counts.get(question.id, 0) + 1
            named = question if count == 1 else structs.replace(question, id=f"{question.id}#{count}")
            yield sample(named, prompts.compose(how, task, question, source.shown(question)))

    return made


def _lost(file: str, place: str, error: DataError) -> Sample:
    blob = Unreadable(f"{file}, {place}", error.message, error.hint)
    return Sample(
        id=f"{PurePath(file).name}:{place}",
        prompt=Prompt((Image(blob),)),
        target=None,
        kind="open",
        meta={"unreadable": "yes", "gold": ""},
    )


def size(task: Task, part: str = "") -> Callable[[Data], int | None]:
    """Return the benchmark's `size`: how many rows there are; None where no data is given."""

    def count(data: Data) -> int | None:
        return None if data.path is None else sum(1 for _ in locate.source(task, part, data).questions())

    return count


def digest(task: Task, part: str = "") -> Callable[[Data], str]:
    """Return the benchmark's `digest`: over the questions' bytes and over how they are put."""
    return lambda data: locate.source(task, part, data).content() + prompts.digest(data, task)


def gold(task: Task, part: str = "") -> Callable[[Data, str], str]:
    """The benchmark's `gold`: the revision of its gold answers by the recorded digest, else by the answers in the data."""

    def revision_name(data: Data, recorded: str) -> str:
        correction = revisions.corrections().get(task.name)
        if correction is None:
            return ""
        revision = correction.by_digest(recorded)
        if revision is None and data.path is not None:
            with suppress(DataError):  # the data may have moved since the run
                source = locate.source(task, part, data)
                if source.content() in recorded:
                    revision = correction.by_rows(
                        question for _, question in source.questions() if isinstance(question, SpatialQuestion)
                    )
        return "" if revision is None else correction.name(revision)

    return revision_name


def notices(task: Task, part: str = "") -> Callable[[Data], list[str]]:
    """The benchmark's `notices`: a count that differs from the whole set's, rows and media that are not there, categories
    that nobody knows, and what the source says of itself. The whole set is gone through once, and no picture is read.
    """

    def data_notices(data: Data) -> list[str]:
        source = locate.source(task, part, data)
        if isinstance(source, carried.CarriedQuestions):
            return source.remarks()  # what it lacks it lacks by nature
        readable, forms, faults = 0, 0, _RowFaults()
        corrected = revisions.corrections().get(task.name)
        group_rows: list[SpatialQuestion] = []
        for place, question in source.questions():
            if isinstance(question, DataError):
                faults.add("rows cannot be read", place)
                continue
            readable += 1
            forms += "-" in question.groups.get("qid", "")
            group = question.groups.get(task.by, "")
            if not _known(task, group):
                faults.add(f"questions are of {task.by} {group[:60]!r}, which is not known", place)
            if corrected is not None and group == corrected.group:
                group_rows.append(question)
            if any(isinstance(blob, Unreadable) for blob in _blobs(source.shown(question))):
                faults.add(MISSING, place)
        lines = [*source.remarks(), *faults.lines(source.file)]
        if MISSING in faults:
            among = f" ({', '.join(task.media)})" if task.media else ""
            lines.append(f"{task.hub} has what is shown{among}; give --images where it lies elsewhere")
        if corrected is not None and revisions.revision_of_data(task.name, source.content(), group_rows) == "before":
            lines.append(
                f"{source.file}: these are {corrected.name('before')}. {corrected.sentence()}. Fetch the data again: figures "
                "over these answers are comparable only with figures over the same ones"
            )
        if task.name == "3dsrbench" and readable and not forms:
            lines.append(f"{source.file}: no question is there in a rotated or flipped form; 3dsr_circular has them")
        return lines if part else [*lines, *short(task, source.file, readable)]

    return data_notices


def short(task: Task, file: str, readable: int) -> list[str]:
    """Return the notice about a number of questions that differs from the whole set's."""
    if not task.rows or readable in task.rows:
        return []
    whole = " or ".join(f"{count:,}" for count in task.rows)
    return [f"{file}: {readable:,} questions can be read; the whole set has {whole}"]


def size_notices(task: Task, parts: tuple[str, ...]) -> Callable[[Data], list[str]]:
    """`notices` of a set in halves: their questions together against the whole set's."""

    def size_notice(data: Data) -> list[str]:
        sources = [locate.source(task, part, data) for part in parts]
        if any(isinstance(source, carried.CarriedQuestions) for source in sources):
            return []
        readable = sum(
            1 for source in sources for _, question in source.questions() if isinstance(question, SpatialQuestion)
        )
        return short(task, str(data.path), readable)

    return size_notice


class _RowFaults:
    """Things that are amiss with several rows: how many, and the place of the first."""

    def __init__(self) -> None:
        self._found: dict[str, tuple[int, str]] = {}

    def __contains__(self, fault: str) -> bool:
        return fault in self._found

    def add(self, fault: str, place: str) -> None:
        """One more row."""
        count, first = self._found.get(fault, (0, place))
        self._found[fault] = (count + 1, first)

    def lines(self, file: str) -> list[str]:
        """Return one line per remark; of many, the first few."""
        lines = [f"{file}: {count:,} {fault} ({first} the first)" for fault, (count, first) in self._found.items()]
        return [*lines[:MOST_LINES], *([f"{file}: {len(lines) - MOST_LINES} more"] if len(lines) > MOST_LINES else [])]


def _known(task: Task, group: str) -> bool:
    """Return True if metrics include a group: a type of VSI-Bench counts by itself or in its mean of three."""
    return group in task.groups or any(group in made for made in MADE_OF.values())


def _blobs(media: prompts.ShownMedia) -> Iterator[Blob]:
    yield from media.images
    yield from (frame for clip in media.segments for frame in clip)
    if media.video is not None:
        yield media.video
