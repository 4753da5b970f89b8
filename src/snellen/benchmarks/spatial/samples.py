"""The questions of a spatial benchmark as samples: from the official files, or from VLMEvalKit's table.

What cannot be read costs its own sample and no other: the sample is there, holds an `Unreadable` that names file and line,
and fails when it is asked.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import PurePath

from msgspec import structs

from snellen.benchmarks.base import Data
from snellen.benchmarks.spatial import prompts
from snellen.benchmarks.spatial.question import ShownMedia, SpatialQuestion, sample
from snellen.benchmarks.spatial.sources import carried, locate
from snellen.benchmarks.spatial.sources.subsets import OPTION as SUBSET
from snellen.benchmarks.spatial.tasks import SITE_HALVES, Task, averaged
from snellen.errors import DataError
from snellen.sources import Unreadable
from snellen.types import Blob, Image, Prompt, Sample

MAX_LINES = 8
UNMARKED = "questions have no mark for their images and are asked without them, as VLMEvalKit asks them"
MISSING = "questions show pictures or videos that are not there"


def samples(task: Task, part: str, data: Data) -> Iterator[Sample]:
    """Yield one sample a row, in the order of the file.

    `part` is image or video for the halves of SITE, empty elsewhere.

    Raises:
        UsageError: no data was given.
        DataError: there are no questions, or none that can be read.
    """
    how = prompts.prompt_settings(data, task)
    source = locate.source(task, part, data)
    counts: dict[str, int] = {}
    for place, question in source.questions():
        if isinstance(question, DataError):
            yield _lost(source.file, place, question)
            continue
        count = counts[question.id] = counts.get(question.id, 0) + 1
        named = question if count == 1 else structs.replace(question, id=f"{question.id}#{count}")
        if "protocol" in data.options:
            named = structs.replace(named, scoring={**named.scoring, "cut_off": "wrong"})
        yield sample(named, prompts.compose(how, task, question, source.shown(question)))


def _lost(file: str, place: str, error: DataError) -> Sample:
    blob = Unreadable(f"{file}, {place}", error.message, error.hint)
    return Sample(
        id=f"{PurePath(file).name}:{place}",
        prompt=Prompt((Image(blob),)),
        target=None,
        kind="open",
        meta={"unreadable": "yes", "gold": ""},
    )


def size(task: Task, part: str, data: Data) -> int | None:
    """Count the rows; None where no data is given."""
    return None if data.path is None else sum(1 for _ in locate.source(task, part, data).questions())


def digest(task: Task, part: str, data: Data) -> str:
    """Return the digest of the questions' bytes and of how they are put."""
    return locate.source(task, part, data).content() + prompts.digest(data, task)


def gold(task: Task, part: str, data: Data, recorded: str) -> str:
    """Name the revision of the gold answers: by the data as it is now, by which replies are scored, else as recorded."""
    correction = task.declared.correction
    if correction is None:
        return ""
    revision = correction.by_digest(recorded)
    if data.path is not None:
        with suppress(DataError):  # the data may have moved since the run
            source = locate.source(task, part, data)
            content = source.content()
            if revision is None or content not in recorded:
                revision = correction.by_digest(content) or correction.by_rows(
                    question for _, question in source.questions() if isinstance(question, SpatialQuestion)
                )
    return "" if revision is None else correction.name(revision)


def notices(task: Task, part: str, data: Data) -> list[str]:
    """Return warnings: a count that differs from the whole set's, rows and media that are not there, categories that
    nobody knows, and what the source says of itself. The whole set is gone through once, and no image is read.
    """
    source = locate.source(task, part, data)
    if isinstance(source, carried.CarriedQuestions):
        return source.remarks()  # what it lacks it lacks by nature
    readable = forms = 0
    faults: dict[str, tuple[int, str]] = {}

    def add_fault(fault: str, place: str) -> None:
        count, first = faults.get(fault, (0, place))
        faults[fault] = count + 1, first

    corrected = task.declared.correction
    group_rows: list[SpatialQuestion] = []
    for place, question in source.questions():
        if isinstance(question, DataError):
            add_fault("rows cannot be read", place)
            continue
        readable += 1
        forms += "-" in question.groups.get("qid", "")
        group = question.groups.get(task.by, "")
        if not _known(task, group):
            add_fault(f"questions are of {task.by} {group[:60]!r}, which is not known", place)
        if corrected is not None and group == corrected.group:
            group_rows.append(question)
        media = source.shown(question)
        if any(isinstance(blob, Unreadable) for blob in _blobs(media)):
            add_fault(MISSING, place)
        if task.name == "eriq" and media.images and "<image>" not in question.text:
            add_fault(UNMARKED, place)
    lines = [*source.remarks(), *_fault_lines(source.file, faults)]
    if MISSING in faults:
        among = f" ({', '.join(task.media)})" if task.media else ""
        lines.append(f"{task.hub} has what is shown{among}; give --images where it lies elsewhere")
    if corrected is not None and corrected.of_data(source.content(), group_rows) == "before":
        lines.append(
            f"{source.file}: these are {corrected.name('before')}. {corrected.sentence()}. Fetch the data again: figures "
            "over these answers are comparable only with figures over the same ones"
        )
    if task.name == "3dsrbench" and readable and not forms:
        lines.append(f"{source.file}: no question is there in a rotated or flipped form; 3dsr_circular has them")
    whole = not part and not data.options.get(SUBSET)
    return [*lines, *short(task, source.file, readable)] if whole else lines


def short(task: Task, file: str, readable: int) -> list[str]:
    """Return the notice about a number of questions that differs from the whole set's."""
    if not task.rows or readable in task.rows:
        return []
    whole = " or ".join(f"{count:,}" for count in task.rows)
    return [f"{file}: {readable:,} questions can be read; the whole set has {whole}"]


def size_notices(task: Task, data: Data) -> list[str]:
    """Return the notice about the questions of a set in halves: both together against the whole set's."""
    sources = [locate.source(task, part, data) for part in SITE_HALVES]
    if any(isinstance(source, carried.CarriedQuestions) for source in sources):
        return []
    readable = sum(
        1 for source in sources for _, question in source.questions() if isinstance(question, SpatialQuestion)
    )
    return short(task, str(data.path), readable)


def _fault_lines(file: str, faults: Mapping[str, tuple[int, str]]) -> list[str]:
    """Return one line per fault with its number of rows and the first place; of many faults, the first few."""
    lines = [f"{file}: {count:,} {fault} ({first} the first)" for fault, (count, first) in faults.items()]
    return [*lines[:MAX_LINES], *([f"{file}: {len(lines) - MAX_LINES} more"] if len(lines) > MAX_LINES else [])]


def _known(task: Task, group: str) -> bool:
    """Return True if metrics include a group: a type of VSI-Bench counts by itself or in its mean of three."""
    return not task.groups or group in task.groups or any(group in parts for parts in averaged(task).values())


def _blobs(media: ShownMedia) -> Iterator[Blob]:
    yield from media.images
    yield from (frame for clip in media.segments for frame in clip)
    if media.video is not None:
        yield media.video
