"""snellen extract"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import msgspec
import typer

from snellen.atomic_write import replacing
from snellen.cli.option_parsing import REQUIRED, argument, option
from snellen.errors import DataError, StorageError
from snellen.scoring.extract.batch import RowCounter, Tally, converted, extract_row

NAMED_FAULTS = 5
"""Rows that cannot be read and are named."""


def extract(
    file: Path = argument(
        "JSONL rows {kind, reply}, optionally with question, options, gold, aliases, form and unit; "
        "- reads standard input. With --rule, rows with the fields that the rule reads.",
        REQUIRED,
    ),
    rule: str | None = option(
        "Apply another harness's rule by its name, such as vlmevalkit/mcq_exact; an unknown name lists all."
    ),
    out: Path | None = option("Write the rows to this file, with extracted, reason and, for rows with gold, correct."),
    as_json: bool = option("Print the summary as one JSON object.", False, names=("--json",)),
) -> None:
    """Extract the answers from replies, with a reason for each unparseable one.

    Without --out, rows go to standard output and the summary to standard error. A row that cannot be read is kept with its
    `error`, and the others are read; the exit status is then 9.
    """
    from snellen.engine.output_file import JSON_LINES, require_output_file

    if out is not None:
        require_output_file(out, "--out", JSON_LINES, [file])
    if rule is not None:
        _apply_rule(rule, file, out, as_json=as_json)
        return
    counter = RowCounter()
    _write_rows(_rows(file, counter), out)
    tallies = counter.tallies()
    if as_json:
        print(msgspec.json.encode({"kinds": tallies}).decode(), file=sys.stdout if out else sys.stderr)
    else:
        _print_table(tallies, to_stderr=out is None)
    _report(counter.faults)


def _report(faults: list[str]) -> None:
    """Name the rows that could not be read, and end with the status of an incomplete result."""
    if not faults:
        return
    named = "".join(f"\n  {fault}" for fault in faults[:NAMED_FAULTS])
    more = f"\n  and {len(faults) - NAMED_FAULTS:,} more" if len(faults) > NAMED_FAULTS else ""
    rows = "1 row was" if len(faults) == 1 else f"{len(faults):,} rows were"
    print(f"{rows} not read; their field 'error' says why:{named}{more}", file=sys.stderr)
    raise typer.Exit(9)


def _apply_rule(name: str, file: Path, out: Path | None, *, as_json: bool) -> None:
    from snellen.benchmarks.table.end_to_end import end_to_end
    from snellen.scoring.rules import registry

    chosen = registry.rule(name, {f"{registry.HARNESS}/end_to_end": end_to_end})
    faults: list[str] = []
    counts = {"rows": 0, "raises": 0, "compared": 0, "agree": 0}

    def results() -> Iterator[dict[str, Any]]:
        with _lines(file) as (lines, source):
            for result in converted(lines, source, partial(registry.with_result, chosen)):
                counts["rows"] += 1
                if "error" in result:
                    faults.append(result["error"])
                counts["raises"] += "raises" in result
                counts["compared"] += "agrees" in result
                counts["agree"] += result.get("agrees", False)
                yield result

    _write_rows(results(), out)
    to = sys.stdout if out else sys.stderr
    if as_json:
        print(msgspec.json.encode({"rule": name, **counts}).decode(), file=to)
        return _report(faults)
    agreement = f", {counts['agree']:,} of {counts['compared']:,} as expected" if counts["compared"] else ""
    stops = f", {counts['raises']:,} on which the reference stops with an error" if counts["raises"] else ""
    print(f"{name}: {counts['rows']:,} rows{stops}{agreement}", file=to)
    return _report(faults)


@contextlib.contextmanager
def _lines(file: Path) -> Iterator[tuple[Iterable[bytes], str]]:
    """Open the rows of a file, or of standard input, with their source's name for errors."""
    if str(file) == "-":
        yield sys.stdin.buffer, "standard input"
        return
    try:
        with file.open("rb") as lines:
            yield lines, str(file)
    except OSError as error:
        raise DataError(
            f"cannot read {file}: {error.strerror}.", "Pass a JSONL file, or - for standard input."
        ) from error


def _rows(file: Path, counter: RowCounter) -> Iterator[dict[str, Any]]:
    with _lines(file) as (lines, source):
        yield from _counted(converted(lines, source, extract_row), counter)


def _counted(rows: Iterator[dict[str, Any]], counter: RowCounter) -> Iterator[dict[str, Any]]:
    for row in rows:
        counter.add(row)
        yield row


def _write(rows: Iterator[dict[str, Any]], to: BinaryIO) -> None:
    encode = msgspec.json.Encoder().encode
    for row in rows:
        to.write(encode(row) + b"\n")
    to.flush()


def _write_rows(rows: Iterator[dict[str, Any]], out: Path | None) -> None:
    """Write to standard output, or to a file that is replaced when all of them are written."""
    if out is None:
        _write(rows, sys.stdout.buffer)
        return
    try:
        with replacing(out) as part, part.open("wb") as to:
            _write(rows, to)
    except OSError as error:
        raise StorageError(f"cannot write {out}: {error.strerror}.", "Name another file with --out.") from error


def _print_table(tallies: list[Tally], *, to_stderr: bool) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table("kind", "rows", "parsed", "unparsed", "graded", "correct", title="Extraction")
    for column in table.columns[1:]:
        column.justify = "right"
    for t in tallies:
        share = f"{t.correct} ({t.correct / t.graded:.1%})" if t.graded else "-"
        table.add_row(t.kind, str(t.n), str(t.read), str(t.n - t.read), str(t.graded), share)
    Console(stderr=to_stderr).print(table)
