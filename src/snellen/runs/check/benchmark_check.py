"""The check of a benchmark's data: a table row by row with the reasons of rows left out, or the samples of any other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import structs

from snellen.benchmarks.base import Benchmark, Data
from snellen.benchmarks.table.benchmark import Table
from snellen.benchmarks.table.declaration import CellSpec
from snellen.benchmarks.table.kit_reading import FORMS as KIT_FORMS
from snellen.benchmarks.table.kit_reading import is_kit_reading
from snellen.benchmarks.table.operations import ALL_LETTERS, LETTERS, columns_of
from snellen.benchmarks.table.question import OmittedRow
from snellen.benchmarks.table.survey import Survey
from snellen.runs.check.check import Check, CheckSettings, OnProgress, Origin
from snellen.runs.check.images import ImageReader
from snellen.runs.check.result import CheckResult
from snellen.runs.check.row import CheckedRow, row_of_question, row_of_sample
from snellen.sources.pandas_cells import MISSING, ColumnForms
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

        def on_read(blob: Blob, content: bytes) -> None:
            images.saw(blob, content)
            if on_progress is not None:
                on_progress("images", images.read)

        benchmark.files(data)  # a benchmark of the catalogue without its data says what is needed
        surveyed = benchmark.table.survey(data, on_read)
        check = Check(structs.replace(settings, shuffled=surveyed.rules.shuffle is not None), images)
        check.run(_table_rows(benchmark.table, data, surveyed, check), on_progress)
    reading = benchmark.reading(data)
    return check.result(Origin(name or benchmark.name, benchmark.name, reading.text if reading is not None else ""))


def _table_rows(table: Table, data: Data, surveyed: Survey, check: Check) -> Iterator[CheckedRow | OmittedRow]:
    """Yield the rows of a table; at its end add in how many pandas reads a cell otherwise."""
    columns = {column for spec in surveyed.rules.declaration.rows.values() for column in _columns_of(spec)}
    circular = table.circular(data)
    compared = surveyed.form in KIT_FORMS and not is_kit_reading(table.declaration.source, data)
    forms = ColumnForms() if compared else None

    def on_row(cells: Mapping[str, Any]) -> None:
        if forms is not None:
            forms.add({name: cells[name] for name in columns if name in cells})

    for row in table.rows(data, on_row):
        if isinstance(row, OmittedRow):
            yield row
            continue
        question, sample = row
        words = [name for name in question.cells if name in columns and question.cells[name] in MISSING]
        if compared and words:
            detail = f"{words[0]!r} is {question.cells[words[0]]!r}"
            check.add("as-kit-differs", question.place, question.id, detail)
        yield row_of_question(question, sample, max(1, len(question.options)) if circular else 1)
    if forms is not None and (differing := forms.differing_rows(columns)):
        check.add_whole("as-kit-differs", differing, "")


def _columns_of(spec: CellSpec) -> Iterator[str]:
    yield from LETTERS if spec == ALL_LETTERS else columns_of(spec)
