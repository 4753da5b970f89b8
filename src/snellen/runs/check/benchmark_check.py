"""The check of a benchmark's data: a table row by row with the reasons of rows left out, or the samples of any other."""

from __future__ import annotations

from msgspec import structs

from snellen.benchmarks.base import Benchmark, Data
from snellen.benchmarks.table.benchmark import PromptWriter, Table, prompts_of
from snellen.benchmarks.table.question import OmittedRow, Question
from snellen.benchmarks.table.survey import OnRow
from snellen.runs.check.check import Check, CheckSettings, OnProgress, Origin
from snellen.runs.check.images import ImageReader
from snellen.runs.check.result import CheckResult
from snellen.runs.check.row import row_of_question, row_of_sample
from snellen.types import Blob


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
        benchmark: whose samples are checked.
        data: the user's settings of the data.
        settings: what is collected.
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
