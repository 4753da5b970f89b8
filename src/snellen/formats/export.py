"""Export formats that fit any benchmark.

A benchmark adds its own formats (`Benchmark.exports`), with writers of the same kind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TypeAlias

import msgspec
from msgspec import Struct

from snellen.types import Record, Sample


class Exported(Struct, frozen=True):
    """The files that a writer wrote.

    Attributes:
        files: in the order in which they are listed.
        notes: remarks for readers of the files, one line each: omitted samples, cut replies.
    """

    files: tuple[Path, ...]
    notes: tuple[str, ...] = ()


Writer: TypeAlias = Callable[..., Exported]
"""A writer: (answers, folder, model, time stamp) to the files that it wrote.

`answers` are in the order of the questions, each final: a failure that was later answered is not among them. `folder`
exists and is empty. It is moved to its place when the writer returns, so that no partial file is visible. `model` and
the time stamp (start of the run, YYYYmmdd_HHMMSS, UTC) are safe in file names.
"""


class Format(Struct, frozen=True):
    """An export format.

    Attributes:
        write: the writer.
        gold: True if its files contain gold answers.
        withholds: True if the format can also be written without gold answers.
    """

    write: Writer
    gold: bool = True
    withholds: bool = False

    @property
    def about(self) -> str:
        """The first line of the writer's docstring."""
        return (self.write.__doc__ or "").strip().partition("\n")[0]


def write_lines(path: Path, rows: list[object]) -> Path:
    """Write one JSON line per row; missing parent folders are created."""
    path.parent.mkdir(parents=True, exist_ok=True)
    encode = msgspec.json.Encoder().encode
    with path.open("wb") as file:
        for row in rows:
            file.write(encode(row) + b"\n")
    return path


def jsonl(answers: Iterator[tuple[Sample, Record]], folder: Path, model: str, stamp: str) -> Exported:
    """Plain JSON lines: sample_id, repeat, status, reply and failure, without gold answers."""
    path = folder / f"{model}_{stamp}.jsonl"
    encode = msgspec.json.Encoder().encode
    lost = 0
    with path.open("wb") as file:
        for sample, record in answers:
            reply = record.response.text if record.response is not None else None
            lost += reply is None
            # Not `error`, by which our own records are told from the rows of others.
            row = {
                "sample_id": sample.id,
                "repeat": record.repeat,
                "status": record.status,
                "reply": reply,
                "failure": record.error,
            }
            file.write(encode(row) + b"\n")
    note = f"{lost:,} samples have no reply; it is null" if lost else ""
    return Exported((path,), (note,) if note else ())


FORMATS: Mapping[str, Format] = {"jsonl": Format(jsonl, gold=False, withholds=True)}
