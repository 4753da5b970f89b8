"""Answers as files of other programs: formats that fit any benchmark, and those of harnesses.

Export formats that fit any benchmark.

A benchmark adds its own formats (`Benchmark.exports`), with writers of the same kind.

Exports in the forms of lmms-eval and VLMEvalKit that fit any benchmark: samples, and a table of predictions.

Rows have the samples' own ids (`sample_id`) and the status of the answer beside what the harness writes, so that
`snellen import` gives the run's figures again. Both have the gold answers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import msgspec
from msgspec import Struct

from snellen.formats.base import FAILED_REQUESTS
from snellen.formats.readers import write_workbook
from snellen.redaction import redact_bytes
from snellen.types import Record, Sample, Text


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


FAILED = f"{FAILED_REQUESTS[-1]}."
FIRST_COLUMNS = ("index", "sample_id", "question")
LAST_COLUMNS = ("answer", "category", "status", "prediction")


def vlmevalkit(
    answers: Iterator[tuple[Sample, Record]], folder: Path, model: str, stamp: str, *, benchmark: str = "benchmark"
) -> Exported:
    """A table of predictions in VLMEvalKit's form, one row a sample: index, question, options, answer, prediction."""
    rows: list[dict[str, Any]] = []
    letters: dict[str, None] = {}
    counted = Counter[str]()
    for sample, record in answers:
        if record.repeat:
            counted["repeats"] += 1
            continue
        letters.update(dict.fromkeys(sample.options))
        reply = None if record.response is None else record.response.text
        lost = reply is None and record.status != "refused"
        counted["lost"] += lost
        rows.append(
            {
                "index": sample.meta.get("index", sample.id),
                "sample_id": sample.id,
                "question": prompt_text(sample),
                **sample.options,
                "answer": gold_text(sample),
                "category": _text_or_none(sample.meta.get("category")),
                "status": record.status,
                "prediction": FAILED if lost else reply,
            }
        )
    path = folder / f"{model}_{benchmark}.xlsx"
    cells = write_workbook(path, [*FIRST_COLUMNS, *letters, *LAST_COLUMNS], rows)
    counted["cut"], counted["stripped"] = cells.cut, cells.stripped
    notes = {
        "lost": f"answers are missing; the table says {FAILED!r} there, as the kit does",
        "repeats": "repeated answers are left out: the kit knows one answer a question",
        "cut": "texts were cut to the 32,767 characters that a cell holds; --format jsonl has them whole",
        "stripped": "texts lost characters that no sheet may hold",
    }
    return Exported((path,), tuple(f"{counted[name]:,} {text}" for name, text in notes.items() if counted[name]))


def lmms_eval(
    answers: Iterator[tuple[Sample, Record]],
    folder: Path,
    model: str,
    stamp: str,
    *,
    benchmark: str = "benchmark",
    score_of: Callable[[str], float | None] | None = None,
) -> Exported:
    """Samples in lmms-eval's form, one JSON line a sample: doc_id, doc, input, target, resps.

    `score_of` gives the score of a sample that `answers` has yielded, by its id. lmms-eval's `--baseline` reads it from the
    field `score`; without one it compares replies with the target, letter by letter.
    """
    path = folder / f"{stamp}_samples_{benchmark}.jsonl"
    encode = msgspec.json.Encoder(enc_hook=str).encode
    lost = number = 0
    with path.open("wb") as file:
        for number, (sample, records) in enumerate(_together(answers)):
            replies = [None if record.response is None else record.response.text for record in records]
            lost += replies.count(None)
            row = {
                "doc_id": number,
                "sample_id": sample.id,
                "doc": {"id": sample.id, "question": prompt_text(sample), **sample.options},
                "input": prompt_text(sample),
                "target": gold_text(sample),
                "resps": [replies],
                "filtered_resps": replies,
                "repeats": [record.repeat for record in records],
                "status": [record.status for record in records],
            }
            score = None if score_of is None else score_of(sample.id)
            file.write(redact_bytes(encode(row if score is None else {**row, "score": score})) + b"\n")
    note = f"{lost:,} answers are missing: their resps are null"
    return Exported((path,), (note,) if lost else ())


def _together(answers: Iterator[tuple[Sample, Record]]) -> Iterator[tuple[Sample, list[Record]]]:
    """Yield each sample with the records of its repeats, which are neighbours."""
    last: Sample | None = None
    records: list[Record] = []
    for sample, record in answers:
        if last is not None and sample.id != last.id:
            yield last, records
            records = []
        last = sample
        records.append(record)
    if last is not None:
        yield last, records


def prompt_text(sample: Sample) -> str:
    """Return the words of a prompt, one part a line."""
    return "\n".join(part.text for part in sample.prompt.parts if isinstance(part, Text) and part.text)


def gold_text(sample: Sample) -> str | None:
    """Return the gold answer as these tables have it: a letter, Yes or No, a number, or a text."""
    return gold_as_text(sample.target)


def gold_as_text(target: Any) -> str | None:
    """Return a gold answer as text: a letter, Yes or No, a number, or a text; several as a list in JSON."""
    if target is None or isinstance(target, str):
        return target
    if isinstance(target, bool):
        return "Yes" if target else "No"
    if isinstance(target, (list, tuple)):
        return msgspec.json.encode(target, enc_hook=str).decode()
    return str(target)


def _text_or_none(value: Any) -> str | None:
    return None if value is None else str(value)
