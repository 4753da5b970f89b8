"""Files of tables: the format follows from the file's suffix or is named, and the two must agree."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from snellen.atomic_write import replacing
from snellen.engine.output_file import FORMS, require_output_file
from snellen.errors import StorageError, UsageError
from snellen.redaction import redact
from snellen.runs.tables.collect import ResultTable
from snellen.runs.tables.render import SUFFIXES, TABLE_FORMATS

WRITTEN = ", ".join(f"{suffix} ({format})" for suffix, format in SUFFIXES.items())


def table_format(format: str | None, out: str | Path | None) -> str | None:
    """Return the format of a table, by its name or by the suffix of its file; None if neither names one.

    Raises:
        UsageError: the suffix belongs to another format, or to none that is written.
    """
    suffix = "" if out is None else Path(out).suffix.lower()
    by_suffix = SUFFIXES.get(suffix)
    if format is None:
        if out is not None and by_suffix is None:
            raise UsageError(
                f"--out {out}: no table is written as {suffix or 'a file without a suffix'}",
                f"Tables are written as {WRITTEN}; other formats need --format.",
            )
        return by_suffix
    if format not in TABLE_FORMATS:
        if suffix in FORMS:
            raise UsageError(
                f"--format {format} writes files into a folder, and --out {out} is named like a file",
                f"Name a folder with --out, or write a table: {WRITTEN}.",
            )
        return None
    if suffix and by_suffix is None:
        raise UsageError(f"--out {out}: no table is written as {suffix}", f"Tables are written as {WRITTEN}.")
    if by_suffix is not None and by_suffix != format:
        raise UsageError(
            f"--format {format} and --out {out} contradict each other: {suffix} is {by_suffix}",
            "Omit --format, or change the suffix.",
        )
    return format


def render_table(table: ResultTable, format: str, digits: int = 1) -> str:
    """Return a table as text in one of `TABLE_FORMATS`, free of keys."""
    return redact(TABLE_FORMATS[format](table, digits))


def write_table(
    table: ResultTable, out: str | Path, format: str | None = None, *, digits: int = 1, inputs: Sequence[Path] = ()
) -> Path:
    """Write a table to a file, whole or not at all, and return its path.

    Args:
        table: the table.
        out: the file; its suffix names the format unless `format` does.
        format: one of `TABLE_FORMATS`.
        digits: decimals of percentages and points.
        inputs: files that must not be replaced.

    Raises:
        UsageError: format and suffix disagree, or the file is one of a run.
        StorageError: it cannot be written.
    """
    name = table_format(format, out)
    if name is None:
        raise UsageError(f"there is no table format {format!r}", f"There is: {', '.join(TABLE_FORMATS)}.")
    endings = [suffix for suffix, form in SUFFIXES.items() if form == name]
    path = require_output_file(out, "--out", endings, inputs)
    text = render_table(table, name, digits)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as part:
            part.write_text(text, encoding="utf-8", newline="\n")
    except OSError as error:
        raise StorageError(f"cannot write {path}: {error.strerror}", "Choose another --out.") from error
    return path
