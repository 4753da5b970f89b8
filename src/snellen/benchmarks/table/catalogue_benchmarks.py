"""Declared benchmarks, of the catalogue or a user's own: the official table, notices about the data, published figures."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

from msgspec import structs

from snellen.benchmarks.base import Benchmark, Data, DataReading
from snellen.benchmarks.table.benchmark import benchmark_of
from snellen.benchmarks.table.declaration import Declaration, read_declaration
from snellen.benchmarks.table.entries import entry, published
from snellen.benchmarks.table.figures import OF_COCO
from snellen.benchmarks.table.official import address_of, digest_fault, is_here, missing_data
from snellen.benchmarks.table.survey import opened
from snellen.scoring.rules.formula_boxes import INSTALL, missing_of_tex
from snellen.scoring.rules.page_parse import CDM


def find(name: str) -> Benchmark:
    """Return the benchmark of a catalogue entry. Its data is looked for when it is needed."""
    declared = entry(name)

    def require(data: Data) -> None:
        if data.path is None and declared.source.kind != "hub" and not address_of(declared.source):
            raise missing_data(declared)

    return declared_benchmark(declared, Path(), require)


def open_declared(name: str) -> Benchmark:
    """Return the benchmark that a user's TOML file declares. Raises DataError if it cannot be read."""
    path = Path(name).expanduser()
    declared = read_declaration(path)
    if declared.is_set:
        from snellen.benchmarks.spatial import declare  # the harnesses' rules, which few files need
        from snellen.benchmarks.spatial.tasks import task_of

        return declare(task_of(declared))
    return declared_benchmark(declared, path.absolute().parent)


def declared_benchmark(
    declared: Declaration, base: Path, require: Callable[[Data], None] = lambda data: None
) -> Benchmark:
    """Return a declared benchmark with notices about its data and its published figures.

    Args:
        declared: the declaration.
        base: the folder at which relative paths of its source begin.
        require: raises UsageError for data that the user has to name.
    """
    made = benchmark_of(declared, base)
    fetched: set[str] = set()

    def checked(data: Data) -> Data:
        require(data)
        fetched.add(declared.name)
        return data

    def size(data: Data) -> int | None:
        """Return the number of questions; nothing is fetched to count them, so that a list of benchmarks is quick."""
        remote = declared.source.kind == "hub" or address_of(declared.source)
        here = data.path is not None or fetched or not remote or is_here(declared.source)
        return made.size(checked(data)) if here else declared.source.rows

    def reading(data: Data) -> DataReading | None:
        read, known = made.reading(checked(data)), declared.source.rows
        if read is None or known is None:
            return read
        there = _rows(declared, data, base)
        return read if there >= known else structs.replace(read, truncated=(there, known))

    return replace(
        made,
        samples=lambda data: made.samples(checked(data)),
        size=size,
        digest=lambda data: made.digest(checked(data)),
        files=lambda data: made.files(checked(data)),
        reading=reading,
        notices=lambda data: notices(declared, checked(data), base),
        published=published(declared),
    )


def notices(declared: Declaration, data: Data, base: Path = Path()) -> list[str]:
    """Return what is odd: another table than the declared one, another number of rows, or a figure that cannot be computed."""
    lines = []
    source = declared.source
    path = data.path
    if path is None and source.kind != "hub" and not address_of(source):
        path = base / str(getattr(source, source.kind))
    if path is not None and path.is_file() and (fault := digest_fault(path, source)):
        lines.append(f"{path.name} is another table than the declared one: {fault}; published figures may not compare")
    if find_spec("pycocotools") is None and any(set(OF_COCO) & set(report.metrics) for report in declared.report):
        lines.append("COCO's average precision needs pycocotools: pip install 'snellen[grounding]'")
    if any(CDM in report.metrics for report in declared.report) and (missing := missing_of_tex()):
        lines.append(f"{CDM} and what is made of it are left out: {missing}. {INSTALL}")
    there = _rows(declared, data, base)
    if source.rows is not None and there != source.rows:
        lines.append(f"the table has {there:,} rows; {source.rows:,} are known of {declared.name}")
    return lines


def _rows(declared: Declaration, data: Data, base: Path) -> int:
    """Return the number of rows of a table, those without an image included."""
    surveyed = opened(declared, data, base).survey()
    return surveyed.rows + surveyed.dropped
