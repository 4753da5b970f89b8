"""Detection of an answer file's format, by its content."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from snellen.errors import DataError
from snellen.formats.base import Answer, AnswerFile, Problems
from snellen.formats.columns import plain
from snellen.formats.readers import JSON_LINES, json_rows
from snellen.sources.safe_paths import regular_file
from snellen.text import json_with_constants

JSON_BYTES = 1 << 31
READ = ".jsonl, .json, .csv, .tsv, .parquet, .xlsx, .eval, or a run's folder"


def open_answers(path: Path | str, *, id_field: str | None = None, reply_field: str | None = None) -> AnswerFile:
    """Open the answers in a file of any known harness, or in a run's folder.

    Args:
        path: .jsonl (plain rows, Snellen's results.jsonl, lmms-eval's samples), .csv, .tsv, .parquet, .xlsx (plain or
            VLMEvalKit's), .json (a list of rows, or an Inspect log), .eval (Inspect), or a run's folder.
        id_field: the field with the sample's id; None: found by name (columns.toml).
        reply_field: the same for the reply.

    Raises:
        DataError: nothing there, no answer file, or ambiguous fields. Damaged rows are reported while reading and stop
            nothing.
    """
    path = Path(path)
    if path.is_dir():
        return open_answers(_inside(path), id_field=id_field, reply_field=reply_field)
    regular_file(path)
    suffix = path.suffix.lower()
    if suffix == ".eval":
        from snellen.formats.inspect_ai import inspect_zip

        return inspect_zip(path)
    named = id_field is not None or reply_field is not None
    if suffix in JSON_LINES and not named:
        from snellen.formats.jsonl import lmms, own, people

        _, row = next(itertools.islice(json_rows(path, Problems()), 1), (0, {}))
        if "sample_id" in row and "status" in row and ("response" in row or "error" in row):
            return own(path)
        if isinstance(row.get("person"), str) and {"sample_id", "reply"} <= row.keys():
            return people(path, row["person"])
        if "doc_id" in row and ("resps" in row or "filtered_resps" in row):
            return lmms(path, "sample_id" if isinstance(row.get("sample_id"), str) else "doc_id")
    if suffix == ".json" and isinstance(log := _json(path), dict):
        from snellen.formats.inspect_ai import inspect_json

        if isinstance(log.get("samples"), list) and isinstance(log.get("eval"), dict):
            return inspect_json(path, log)
        beside = (
            "samples_*.jsonl, which lies beside it"
            if "results" in log and "n-samples" in log
            else "that holds the replies"
        )
        raise DataError(
            f"{path}: an object with {', '.join(sorted(map(str, log))[:10])} was found; "
            "a list of rows or an Inspect log with its samples was expected",
            f"Pass the file {beside}.",
        )
    if suffix not in (".jsonl", ".ndjson", ".json", ".csv", ".tsv", ".parquet", ".xlsx"):
        raise DataError(f"{path}: answers are read from {READ}", "Rename the file, or convert it.")
    return plain(path, id_field, reply_field)


def read_answers(path: Path | str, *, id_field: str | None = None, reply_field: str | None = None) -> Iterator[Answer]:
    """Yield the rows of `open_answers`, in the order of the file; unusable rows are omitted."""
    return open_answers(path, id_field=id_field, reply_field=reply_field).read(Problems())


def _inside(folder: Path) -> Path:
    if (folder / "results.jsonl").is_file():
        return folder / "results.jsonl"
    names = sorted(p.name for p in folder.iterdir() if p.suffix.lower() in (".jsonl", ".eval", ".xlsx", ".csv", ".tsv"))
    raise DataError(
        f"{folder}: no results.jsonl in this folder",
        f"Pass one of its files: {', '.join(names[:10])}." if names else "Pass a run's folder, or a file of answers.",
    )


def _json(path: Path) -> Any:
    if path.stat().st_size > JSON_BYTES:
        raise DataError(f"{path}: larger than {JSON_BYTES:,} bytes", "Convert it to JSON lines, which are streamed.")
    try:
        return json_with_constants(path.read_bytes())
    except (ValueError, RecursionError):
        return None  # the reader of rows says what is wrong, with the line
