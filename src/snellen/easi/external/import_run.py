"""Import a harness's answers as a run folder: questions, records and run_meta.json."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct, field, structs

from snellen import __version__
from snellen.benchmarks import registry
from snellen.benchmarks.base import Data
from snellen.benchmarks.spatial.interop import results
from snellen.benchmarks.spatial.question import sample
from snellen.benchmarks.spatial.sources import carried
from snellen.benchmarks.spatial.sources.carried import CarriedQuestion
from snellen.easi.external.settings import BenchmarkJob
from snellen.engine import fingerprint
from snellen.engine.data_paths import absolute_places
from snellen.engine.journal import storage_error
from snellen.engine.run_folder import Coverage, RunFolder, RunMeta, RunSpec, Totals
from snellen.formats.base import Problems
from snellen.redaction import redact_bytes
from snellen.runs.import_answers import without_failed_request
from snellen.sources.journal_lines import sealed
from snellen.types import Record


class HarnessAnswers(Struct, frozen=True):
    """A file of answers to one part of a benchmark.

    Attributes:
        part: `image`, `video`, or empty.
        path: a file of the harness's.
        form: `lmms` or `kit`, as `results.kind_of` calls it.
    """

    part: str
    path: Path
    form: str


class ImportCounts(Struct):
    """Counts of the imported answers of a benchmark.

    Attributes:
        rows: rows, by part.
        empty: replies without any text.
        ok: replies.
        lost: rows that hold none; `why` is the first one's message.
    """

    rows: dict[str, int] = field(default_factory=dict)
    empty: int = 0
    ok: int = 0
    lost: int = 0
    why: str = ""

    @property
    def total(self) -> int:
        return sum(self.rows.values())


def identity(job: BenchmarkJob, harness: str, version: str, configuration: Mapping[str, Any]) -> dict[str, Any]:
    """Return the identity of a harness run: benchmark, harness and its configuration."""
    return {
        "benchmark": job.name,
        "benchmark_version": registry.find(job.name).version,
        "harness": {"name": harness, "version": version, "tasks": [name for _, name in job.parts], **configuration},
    }


def keep(
    folder: RunFolder,
    job: BenchmarkJob,
    answers: Iterable[HarnessAnswers],
    identity_: Mapping[str, Any],
    *,
    expected: Mapping[str, int | None],
    model: str,
    about: Mapping[str, Any],
    ended_well: bool,
    problems: Problems,
) -> ImportCounts:
    """Write a run of the answers; an earlier run is replaced completely, unless it has more replies.

    Args:
        answers: its files; questions and replies are read once each.
        expected: how many questions each part has; None: nobody says.
        model: who answered, for people.
        about: what else is recorded: the command, its end, the harness's own figures.
        ended_well: whether the command did.
        problems: what is odd about the files.

    Returns:
        What was read. Nothing is written where there is no reply at all, or fewer than the folder already holds.

    Raises:
        DataError: a file cannot be read. StorageError: the folder cannot be written.
    """
    read = ImportCounts(rows=dict.fromkeys((part for part, _ in job.parts), 0))
    folder.path.mkdir(parents=True, exist_ok=True)
    part_files = folder.path / f"{carried.NAME}.part", folder.path / "results.jsonl.part"
    listed = list(answers)
    written = 0
    try:
        with part_files[0].open("wb") as questions_file, part_files[1].open("wb") as records_file:
            # How many are missing is known when all were read, and stands in the first line: room is left for it.
            questions_file.write(b" " * 511 + b"\n")
            for source in listed:
                for question, records in _rows(job, source, problems):
                    questions_file.write(msgspec.json.encode(question) + b"\n")
                    read.rows[source.part] += 1
                    for record in records:
                        read.ok += record.status == "ok"
                        if record.status != "ok":
                            read.lost += 1
                            read.why = read.why or ("" if record.error is None else record.error.message)
                        read.empty += record.response is not None and not record.response.text.strip()
                        written += 1
                        records_file.write(sealed(redact_bytes(msgspec.json.encode(record)), written))
            short = {part: max(0, (expected.get(part) or 0) - count) for part, count in read.rows.items()}
            if None in expected.values() and job.task.rows and not job.is_half:
                short[job.parts[-1][0]] += max(0, job.task.rows[0] - read.total - sum(short.values()))
            head = carried.CarriedHead(
                job.task.name, str(identity_["harness"]["name"]), {p: n for p, n in short.items() if n}
            )
            questions_file.seek(0)
            questions_file.write(msgspec.json.encode(head))
            for file in (questions_file, records_file):
                file.flush()
                os.fsync(file.fileno())
        before = folder.meta().totals.ok if folder.exists() else -1
        if not read.ok or read.ok < before:
            if read.ok:
                problems.add(str(folder.path), f"keeps the {before:,} replies that it has; now there are {read.ok:,}")
            return read
        folder.meta_path.unlink(missing_ok=True)  # half of the old and half of the new is never a run
        for part, target in zip(part_files, (folder.path / carried.NAME, folder.results), strict=True):
            part.replace(target)
    except OSError as error:
        raise storage_error(folder.path, error) from error
    finally:
        for part in part_files:
            part.unlink(missing_ok=True)
    folder.summary.unlink(missing_ok=True)
    complete = ended_well and not read.lost and all(read.rows.values()) and not any(short.values())
    meta = _meta(folder, job, identity_, read, model, about, "complete" if complete else "partial", short)
    folder.write_meta(structs.replace(meta, records=written))
    return read


def aside(folder: Path) -> Path | None:
    """Move an earlier run out of the way; return its new path."""
    if not folder.exists():
        return None
    number = 1
    while (target := folder.with_name(f"{folder.name}.before-{number}")).exists():
        number += 1
    shutil.move(folder, target)
    return target


def _rows(
    job: BenchmarkJob, source: HarnessAnswers, problems: Problems
) -> Iterable[tuple[CarriedQuestion, list[Record]]]:
    suite = job.name == "site"
    inner = results.InFile(problems, source.path.name)
    for where, question, replies in results.question_rows(job.task, source.path, source.form, inner):
        question_sample = sample(question)
        named = structs.replace(question_sample, id=f"{source.part}/{question_sample.id}") if suite else question_sample
        records = [results.record_of(named, reply, repeat, where, inner) for repeat, reply in enumerate(replies)]
        yield CarriedQuestion(question, source.part), [without_failed_request(record, where) for record in records]


def _meta(
    folder: RunFolder,
    job: BenchmarkJob,
    identity_: Mapping[str, Any],
    read: ImportCounts,
    model: str,
    about: Mapping[str, Any],
    state: str,
    short: Mapping[str, int],
) -> RunMeta:
    data = Data(path=(folder.path / carried.NAME).absolute())
    benchmark = registry.find(job.name)
    full_identity = {**identity_, "data": benchmark.digest(data)}
    of = read.total + sum(short.values())
    spec = RunSpec(benchmark=job.name, model=model, data=data)
    return RunMeta(
        fingerprint=fingerprint.digest(identity_),
        identity=full_identity,
        coverage=Coverage(read.total if of > read.total else None, of),
        spec=spec,
        places=absolute_places(spec),
        environment={"versions": {"snellen": __version__}, **about},
        totals=Totals(ok=read.ok, error=read.lost, seconds=float(about.get("seconds") or 0.0)),
        state=state,
    )
