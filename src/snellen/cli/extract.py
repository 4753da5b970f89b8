"""snellen extract"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, BinaryIO

import msgspec
import typer

from snellen.errors import DataError, StorageError
from snellen.scoring.extract.batch import RowCounter, Tally, extract_lines


def extract(
    file: Annotated[
        Path,
        typer.Argument(
            help="JSONL rows {kind, reply}, optionally with question, options, gold, aliases, form and unit; "
            "- reads standard input."
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", help="Write the rows to this file, with extracted, reason and, for rows with gold, correct."
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as one JSON object.")] = False,
) -> None:
    """Extract the answers from replies, with a reason for each unparseable one.

    Without --out, rows go to standard output and the summary to standard error.
    """
    from snellen.engine.output_file import JSON_LINES, require_output_file

    counter = RowCounter()
    if out is not None:
        require_output_file(out, "--out", JSON_LINES, [file])
    if out is None:
        _write(_rows(file, counter), sys.stdout.buffer)
    else:
        _write_file(_rows(file, counter), out)
    tallies = counter.tallies()
    if as_json:
        print(msgspec.json.encode({"kinds": tallies}).decode(), file=sys.stdout if out else sys.stderr)
    else:
        _print_table(tallies, to_stderr=out is None)


def _rows(file: Path, counter: RowCounter) -> Iterator[dict[str, Any]]:
    if str(file) == "-":
        yield from _counted(extract_lines(sys.stdin.buffer, "standard input"), counter)
        return
    try:
        with file.open("rb") as lines:
            yield from _counted(extract_lines(lines, str(file)), counter)
    except OSError as error:
        raise DataError(
            f"cannot read {file}: {error.strerror}.", "Pass a JSONL file, or - for standard input."
        ) from error


def _counted(rows: Iterator[dict[str, Any]], counter: RowCounter) -> Iterator[dict[str, Any]]:
    for row in rows:
        counter.add(row)
        yield row


def _write(rows: Iterator[dict[str, Any]], to: BinaryIO) -> None:
    encode = msgspec.json.Encoder().encode
    for row in rows:
        to.write(encode(row) + b"\n")
    to.flush()


def _write_file(rows: Iterator[dict[str, Any]], out: Path) -> None:
    """Write beside the target and move over it when all is well: a faulty row leaves no half file behind."""
    part = out.with_name(out.name + ".part")
    try:
        with part.open("wb") as to:
            _write(rows, to)
        part.replace(out)
    except OSError as error:
        raise StorageError(f"cannot write {out}: {error.strerror}.", "Name another file with --out.") from error
    finally:
        with contextlib.suppress(OSError):  # where nothing can be written, nothing can be removed either
            part.unlink(missing_ok=True)


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
