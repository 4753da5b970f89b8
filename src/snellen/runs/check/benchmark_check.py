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
from snellen.benchmarks.table.question import OmittedRow, Question
from snellen.benchmarks.table.survey import Survey
from snellen.errors import DataError
from snellen.runs.check.check import Check, CheckSettings, OnProgress, Origin
from snellen.runs.check.images import ImageReader
from snellen.runs.check.result import CheckResult
from snellen.runs.check.row import row_of_question, row_of_sample
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

        settings = structs.replace(settings, surveyed=True)
        benchmark.files(data)  # a benchmark of the catalogue without its data says what is needed
        rows = _TableRows(benchmark.table, data, Check(settings, images), on_progress)
        surveyed = benchmark.table.survey(data, on_read, rows.examine)
        shuffled = surveyed.rules.shuffle is not None
        if shuffled or not rows.count:  # options stand in another order than before, or the survey was made before
            settings = structs.replace(settings, shuffled=shuffled)
            rows = _TableRows(benchmark.table, data, Check(settings, images), on_progress)
            for row, question in benchmark.table.rows(data):
                rows.examine(row, question, surveyed)
        check = rows.checked()
    reading = benchmark.reading(data)
    return check.result(Origin(name or benchmark.name, benchmark.name, reading.text if reading is not None else ""))


class _TableRows:
    """Rows of a table under check, while they are surveyed; also counts in how many pandas reads a cell otherwise.

    Attributes:
        count: how many there were so far.
    """

    def __init__(self, table: Table, data: Data, check: Check, on_progress: OnProgress | None) -> None:
        self._table, self._data, self._check, self._on_progress = table, data, check, on_progress
        self._circular = table.circular(data)
        self._columns: tuple[str, ...] = ()
        self._forms: ColumnForms | None = None
        self.count = 0

    def examine(self, row: Mapping[str, Any] | DataError, question: Question | OmittedRow, surveyed: Survey) -> None:
        """Examine the next row."""
        if not self.count:
            specs = surveyed.rules.declaration.rows.values()
            self._columns = tuple(dict.fromkeys(column for spec in specs for column in _columns_of(spec)))
            if surveyed.form in KIT_FORMS and not is_kit_reading(self._table.declaration.source, self._data):
                self._forms = ColumnForms()
        self.count += 1
        if self._on_progress is not None:
            self._on_progress("rows", self.count)
        if self._forms is not None and not isinstance(row, DataError):
            cells = {name: row[name] for name in self._columns if name in row}
            self._forms.add(cells)
            missing = [name for name, cell in cells.items() if isinstance(cell, str) and cell in MISSING]
            if missing and isinstance(question, Question):
                detail = f"{missing[0]!r} is {cells[missing[0]]!r}"
                self._check.add("as-kit-differs", question.place, question.id, detail)
        if isinstance(question, OmittedRow):
            self._check.examine(question)
            return
        requests = max(1, len(question.options)) if self._circular else 1
        self._check.examine(row_of_question(question, self._table.sample(question, surveyed), requests))

    def checked(self) -> Check:
        """Return the check, with what pandas reads otherwise."""
        if self._forms is not None and (differing := self._forms.differing_rows(self._columns)):
            self._check.add_whole("as-kit-differs", differing, "")
        return self._check


def _columns_of(spec: CellSpec) -> Iterator[str]:
    yield from LETTERS if spec == ALL_LETTERS else columns_of(spec)
