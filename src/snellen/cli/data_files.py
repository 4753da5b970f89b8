"""The files of the user's data, as `snellen list` and the start of a run show them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from msgspec import structs

from snellen.cli.console import note

if TYPE_CHECKING:
    from snellen.benchmarks.base import Benchmark, Data, DataFile, DataReading

SHOWN_UNUSED = 12
"""Lines of files that are not used, at the start of a run; `snellen list` shows all."""


def show_reading(benchmark: Benchmark, reading: DataReading) -> None:
    """Write to stderr how the user's own table was read."""
    note(f"{benchmark.name}: {reading.text}")


def show_data_files(benchmark: Benchmark, data: Data) -> None:
    """Write one line per file of a run's data to stderr: its use and questions, or why it is not used."""
    files = benchmark.files(data)
    unused = [file for file in files if not file.used]
    for file in files:
        if file.used:
            note(f"uses {line_of(file)}")
    for file in unused[:SHOWN_UNUSED]:
        note(f"does not use {line_of(file)}")
    if len(unused) > SHOWN_UNUSED:
        rest = len(unused) - SHOWN_UNUSED
        note(f"does not use {rest:,} more files: snellen list {benchmark.name} --data {data.path} shows why")


def print_data_files(files: Sequence[DataFile], notices: Sequence[str]) -> None:
    """Print the files of some data, those that are used first, and what is odd about it."""
    used = [file for file in files if file.used]
    counted = sum(file.questions or 0 for file in used)
    summary = f"{len(used):,} of {len(files):,} files, {counted:,} questions" if files else "not listed"
    print(f"    {'files':<20} {summary}")
    for file in (*used, *(file for file in files if not file.used)):
        print(f"      {'used' if file.used else 'not used':<10} {line_of(file)}")
    for line in notices:
        print(f"      note: {line}")


def line_of(file: DataFile) -> str:
    """Return a file's name, its questions and its use in one line."""
    count = "" if file.questions is None else f", {file.questions:,} questions"
    return f"{file.name}: {file.note}{count}"


def data_facts(files: Sequence[DataFile], notices: Sequence[str]) -> dict[str, Any]:
    """Return the files and notices for a JSON object."""
    return {"files": [structs.asdict(file) for file in files], "notes": list(notices)}
