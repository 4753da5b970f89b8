"""Import of answers that another program recorded: a file becomes a run folder like any other.

Records are written in the order of the samples. A question without an answer has no record, so that the coverage says it.
An answer without text is a failed sample, worth 0. What asked the model, and how, is unknown and recorded as such.
"""

from __future__ import annotations

import os
import tempfile
import time
from array import array
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import msgspec
from msgspec import Struct, structs

from snellen import __version__
from snellen.benchmarks import registry
from snellen.benchmarks.base import Benchmark, Data, checked_data
from snellen.engine import fingerprint, journal
from snellen.engine.data_paths import absolute_places
from snellen.engine.run_folder import HUMAN, IMPORTED, Coverage, RunFolder, RunMeta, RunSpec, Totals
from snellen.errors import DataError, RunError, UsageError
from snellen.formats import Answer, AnswerFile, AnswerSurvey, Problems, final, open_answers, survey
from snellen.formats.base import FAILED_REQUESTS, NO_ANSWER, PEOPLE
from snellen.formats.columns import answer_as_reply
from snellen.formats.readers import first_columns
from snellen.formats.writers import gold_text
from snellen.redaction import redact_bytes
from snellen.runs.external_answers import keyed, to_record
from snellen.runs.id_reading import IdReading, choose_reading
from snellen.runs.perform import default_folder
from snellen.runs.run import Run, load_run
from snellen.sources.digests import digest
from snellen.sources.journal_lines import sealed
from snellen.text import one_line
from snellen.types import Failure, Record

AUTHORS = "authors"
TABLES = (".jsonl", ".ndjson", ".json", ".csv", ".tsv", ".parquet", ".xlsx")
FEWEST_GOLD = 10
"""Replies that must all be gold answers before a file is suspected to hold these in place of a model's."""
MOST_REPEATS = 1000
"""Answers to one question that are imported; a file may claim any number."""
LABEL_CHARACTERS = 200
FILES_NAMED = 8


@dataclass
class ImportTally:
    """Counts of an import, and the rows that a reader of the scores must know.

    Attributes:
        questions: samples of the benchmark.
        limit: how many of them, from the first, were to be answered; None: all.
        repeats: answers per question, by the highest repeat in the file.
        rows: usable rows of the file.
        answered: questions, times repeats, with a reply.
        failed: rows that count and hold no reply.
        empty: replies without any text.
        unknown: rows whose id is no sample's.
        seconds: how long the answers took, as far as the file says.
        without_reply: the failed and empty rows.
        surplus: rows beyond the greatest number of repeats.
        gold: replies that are the gold answer as a table has it.
    """

    questions: int = 0
    limit: int | None = None
    repeats: int = 1
    rows: int = 0
    answered: int = 0
    failed: int = 0
    empty: int = 0
    gold: int = 0
    seconds: float = 0.0
    unknown: Problems = field(default_factory=Problems)
    without_reply: Problems = field(default_factory=Problems)
    surplus: Problems = field(default_factory=Problems)
    duplicates: Problems = field(default_factory=Problems)
    unusable: Problems = field(default_factory=Problems)
    unusable_are: str = "that could not be used"

    @property
    def recorded(self) -> int:
        """Number of records."""
        return self.answered + self.failed

    @property
    def expected(self) -> int:
        """Number of records of a complete run."""
        questions = self.questions if self.limit is None else min(self.limit, self.questions)
        return questions * self.repeats

    def notes(self) -> list[str]:
        """List what a reader of the scores must know, one line each; empty if nothing is odd."""
        lines = []
        if self.gold == self.recorded >= FEWEST_GOLD:
            lines.append(
                "every reply is the gold answer, letter by letter: check that the file has a model's replies, or name their "
                "column with --reply-field"
            )
        if self.recorded < self.expected:
            limited = self.expected < self.questions * self.repeats  # the table has the coverage, of all questions
            cover = "" if limited else f": the scores cover {self.recorded / self.expected:.1%}"
            lost = self.expected - self.recorded
            lines.append(f"{lost:,} of {self.expected:,} questions have no answer in the file{cover}")
        if self.rows > self.expected:
            lines.append(f"the file has {self.rows:,} rows for {self.expected:,} questions")
        return [
            *lines,
            *self.unknown.lines("without a sample: the id is none of the benchmark's"),
            *self.duplicates.lines("left out, because the question has an answer already"),
            *self.without_reply.lines("without a text: no answer, scored 0"),
            *self.surplus.lines(f"left out, because at most {MOST_REPEATS:,} answers to a question are imported"),
            *self.unusable.lines(self.unusable_are),
        ]

    def counts(self) -> dict[str, int]:
        """Return the counts by name, for the record."""
        return {
            "questions": self.questions,
            "repeats": self.repeats,
            "rows": self.rows,
            "answered": self.answered,
            "without_reply": self.failed,
            "empty": self.empty,
            "unmatched": self.unknown.count,
            "duplicates": self.duplicates.count,
            "unusable": self.unusable.count + self.surplus.count,
        }


class ImportedFrom(Struct, frozen=True):
    """The origin of imported answers, as run_meta.json has it in `environment`.

    Attributes:
        file: name of the file, without its folder.
        digest: `sha256:` and the digest of its bytes.
        form: how the file is written: plain, vlmevalkit, lmms-eval, inspect, snellen, or the benchmark's authors' form.
        reading: which columns have the ids and the replies.
        id_is: what the ids are.
        imported_at: seconds since the epoch.
        model_settings: `unknown`, always.
    """

    file: str
    digest: str
    form: str
    reading: str
    id_is: str
    imported_at: float
    counts: Mapping[str, int]
    model_settings: str = "unknown"


def import_run(
    answers: str | Path,
    benchmark: str | Benchmark,
    *,
    out: str | Path | None = None,
    data: str | Path | None = None,
    images: str | Path | None = None,
    benchmark_options: Mapping[str, str] | None = None,
    seed: int = 0,
    id_is: str | None = None,
    id_field: str | None = None,
    reply_field: str | None = None,
    model: str | None = None,
    replace: bool = False,
    limit: int | None = None,
) -> Run:
    """Make a run folder of answers that another program recorded; no request is sent.

    Args:
        answers: a file in any form that `snellen score` reads, or a run's folder.
        benchmark, data, images, benchmark_options, seed: whose questions they answer, as for `evaluate`.
        out: the run's folder; by default results/<benchmark>-<model>.
        id_is: what the file's ids are: `id`, `position` (from 0), `ordinal` (from 1), `index`, or a meta field of the
            samples; None: the reading that fits.
        id_field, reply_field: the fields of the file, where they cannot be told by their names.
        model: who answered; None: the name in the file, else the file's own name.
        replace: an imported run of another file in `out` is replaced.
        limit: only the first `limit` questions were to be answered; answers to others are left out.

    Returns:
        The run. Its `remarks` name rows without a sample, duplicates, and answers without a text.

    Raises:
        UsageError: the ids can be read in two ways.
        DataError: no row belongs to a sample, or the file cannot be read.
        RunError: `out` holds another run.
        SnellenError: see snellen.errors.
    """
    path = Path(answers)
    subject = registry.find(benchmark) if isinstance(benchmark, str) else benchmark
    where = checked_data(subject, data, images, benchmark_options, seed)
    named = id_field is not None or reply_field is not None or id_is is not None
    file = None if named else _with_sample_ids(path) or _authors_form(path, subject, where)
    if file is None:
        file = open_answers(path, id_field=id_field, reply_field=reply_field or _answer_column(path))
    contents = survey(file)
    reading = choose_reading(file, contents, subject, where, id_is)
    label = one_line(_label(path, file) if model is None else model)[:LABEL_CHARACTERS].strip()
    if not label:
        raise UsageError("--model is empty; the name of the model that answered was expected", "Omit --model.")
    name = registry.lasting_name(benchmark) if isinstance(benchmark, str) else subject.name
    kind = HUMAN if file.form == PEOPLE else IMPORTED
    spec = RunSpec(benchmark=name, model=f"{kind}:{label}", data=where, limit=limit)
    folder = RunFolder(out if out is not None else default_folder(spec))
    identity = _identity(spec, subject, path, file, reading)
    with folder.locked():
        _require_free(folder, identity, replace=replace)
        tally = _write(folder, spec, subject, file, contents, reading, identity)
    run = load_run(folder.path, benchmark=None if isinstance(benchmark, str) else benchmark, trust=True)
    run.remarks = (*((reading.why,) if reading.why else ()), *tally.notes())
    run.summarize("all")
    return run


def _answer_column(path: Path) -> str | None:
    """Return the column `answer`, where a table has no other one for replies; None: the replies are found by name."""
    try:
        return answer_as_reply(list(first_columns(path, TABLES)))
    except DataError:  # no table: its form says where the replies are
        return None


def _authors_form(path: Path, benchmark: Benchmark, data: Data) -> AnswerFile | None:
    """Open a file in the form of the benchmark's authors, if its rows are of the samples in the data; else None."""
    read_results = benchmark.results
    if read_results is None or read_results(path, data, Problems()) is None:
        return None

    def read(problems: Problems) -> Iterator[Answer]:
        seen: set[int] = set()
        for number, (sample, record) in enumerate(read_results(path, data, problems) or (), 1):
            text = None if record.response is None else record.response.text
            name, mark, again = sample.id.rpartition("#")  # a reader that scores every row gives a second one a name
            second = bool(mark) and again.isdigit() and hash(name) in seen
            seen.add(hash(sample.id))
            sample_id = name if second else sample.id
            yield Answer(sample_id, text, f"answer {number}", record.repeat, record.status, record.error)

    file = AnswerFile(path, AUTHORS, read, "rows with their questions", "sample_id")
    ids = {hash(answer.sample_id) for answer in read(Problems())}
    return file if any(hash(sample.id) in ids for sample in benchmark.samples(data)) else None


def _with_sample_ids(path: Path) -> AnswerFile | None:
    """Open a file that names the samples themselves, as Snellen's runs and exports do, or a folder of such files."""
    if not path.is_dir() or (path / "results.jsonl").is_file():
        return _named_by_sample(path)
    paths = [
        entry for entry in sorted(path.iterdir()) if entry.suffix.lower() in (".jsonl", ".xlsx") and entry.is_file()
    ]
    files = [file for entry in paths if (file := _named_by_sample(entry)) is not None]
    if not files:
        return None

    def read(problems: Problems) -> Iterator[Answer]:
        for file in files:
            for answer in file.read(problems):
                yield structs.replace(answer, where=f"{file.path.name}, {answer.where}")

    names = ", ".join(file.path.name for file in files[:FILES_NAMED]) + (" …" if len(files) > FILES_NAMED else "")
    return AnswerFile(path, files[0].form, read, f"{files[0].about}, of {names}", "sample_id")


def _named_by_sample(path: Path) -> AnswerFile | None:
    try:
        file = open_answers(path)
    except DataError:  # a form that the benchmark alone knows, or none: its reader says which
        return None
    return file if file.id_field == "sample_id" else None


def _label(path: Path, file: AnswerFile) -> str:
    if path.is_dir() and RunFolder(path).exists():
        return RunFolder(path).meta().spec.model.removeprefix(f"{IMPORTED}:")
    return file.model or path.stem or path.name


def _identity(spec: RunSpec, benchmark: Benchmark, path: Path, file: AnswerFile, reading: IdReading) -> dict[str, Any]:
    content = file.path if file.path.is_file() else path
    return {
        "benchmark": benchmark.name,
        "benchmark_version": benchmark.version,
        "data": benchmark.digest(spec.data),
        "data_options": dict(spec.data.options),
        "model": {
            "kind": spec.model.partition(":")[0],
            "name": spec.model.partition(":")[2],
            "answers": digest(content),
            "reading": file.about,
            "id_is": reading.name,
        },
        "seed": spec.data.seed,
    }


def _require_free(folder: RunFolder, identity: Mapping[str, Any], *, replace: bool) -> None:
    """Refuse a folder that holds a run of other answers.

    Raises:
        RunError: it is not an imported run, or one of other answers and `replace` is False.
    """
    if not folder.exists():
        if folder.results.exists() and folder.results.stat().st_size:
            raise RunError(f"{folder.results} exists without a run_meta.json", "Choose another folder with --out.")
        return
    meta = folder.meta()
    if meta.imported is None:
        raise RunError(
            f"{folder.path} holds a run of {meta.spec.model}, whose answers were not imported",
            "Choose another folder with --out. Nothing was changed.",
        )
    before = {name: value for name, value in meta.identity.items() if name != "repeats"}
    changed = list(fingerprint.differences(before, identity))
    if changed and not replace:
        lines = "\n".join(f"  {name}  {old}  ->  {new}" for name, old, new in changed)
        raise RunError(
            f"{folder.path} holds other imported answers:\n{lines}",
            "Choose another folder with --out, or replace them with --replace. Nothing was changed.",
        )


class _Spool:
    """Records of an answer file on disk, to be read in the order of the samples."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._places, self._starts = array("q"), array("q", [0])

    def add(self, place: int, record: Record) -> None:
        """Append a record that belongs to the `place`-th line of the journal."""
        line = redact_bytes(msgspec.json.encode(record))
        self._file.write(line)
        self._places.append(place)
        self._starts.append(self._starts[-1] + len(line))

    def in_order(self) -> Iterator[bytes]:
        """Yield the records by their places."""
        self._file.flush()
        for row in sorted(range(len(self._places)), key=self._places.__getitem__):
            start = self._starts[row]
            yield os.pread(self._file.fileno(), self._starts[row + 1] - start, start)


def _write(
    folder: RunFolder,
    spec: RunSpec,
    benchmark: Benchmark,
    file: AnswerFile,
    contents: AnswerSurvey,
    reading: IdReading,
    identity: Mapping[str, Any],
) -> ImportTally:
    tally = ImportTally(
        limit=spec.limit, rows=contents.rows, duplicates=contents.duplicates, unusable=contents.unusable
    )
    if file.form == AUTHORS:
        tally.unusable_are = "with remarks by the reader of the authors' form"
    tally.repeats = min(contents.repeats, MOST_REPEATS)
    part = folder.path / f"{folder.results.name}.part"
    try:
        with tempfile.TemporaryFile(prefix="snellen-import-") as scratch:
            spool = _Spool(scratch)
            _collect(spool, spec, benchmark, file, contents, reading, tally)
            _unlink(part)
            with part.open("xb") as records:
                for number, line in enumerate(spool.in_order(), 1):
                    records.write(sealed(line, number))
                records.flush()
                os.fsync(records.fileno())
        for stale in (folder.results, folder.summary, folder.predictions):
            _unlink(stale)  # half of the old and half of the new is never a run
        # Before the records: a folder with records and without meta is no run that the same command may go on with.
        folder.write_meta(_meta(spec, benchmark, file, reading, identity, tally))
        part.replace(folder.results)
    except OSError as error:
        raise journal.storage_error(folder.path, error) from error
    finally:
        _unlink(part)
    return tally


def _meta(
    spec: RunSpec,
    benchmark: Benchmark,
    file: AnswerFile,
    reading: IdReading,
    identity: Mapping[str, Any],
    tally: ImportTally,
) -> RunMeta:
    origin = ImportedFrom(
        file=file.path.name,
        digest=str(identity["model"]["answers"]),
        form=file.form,
        reading=file.about,
        id_is=reading.name,
        imported_at=round(time.time(), 3),
        counts=tally.counts(),
    )
    full_identity = {**identity, "repeats": tally.repeats}
    spec = structs.replace(spec, repeats=tally.repeats)
    return RunMeta(
        fingerprint=fingerprint.digest(full_identity),
        identity=full_identity,
        coverage=Coverage(spec.limit, tally.questions),
        spec=spec,
        environment={"versions": {"snellen": __version__}, IMPORTED: msgspec.to_builtins(origin)},
        totals=Totals(ok=tally.answered, error=tally.failed, seconds=round(tally.seconds, 3)),
        state="complete" if tally.answered == tally.expected else "partial",
        restricted=benchmark.restricted,
        places=absolute_places(spec),
        records=tally.recorded,
        truncated=_truncated(benchmark, spec.data),
    )


def _truncated(benchmark: Benchmark, data: Data) -> tuple[int, int] | None:
    """Return how many rows a declared set has here and how many it is known to have; None for a whole one, or where nobody says."""
    try:
        reading = benchmark.reading(data)
    except DataError:  # its images may be gone: the answers are scored without them
        return None
    return None if reading is None else reading.truncated


def _unlink(path: Path) -> None:
    path.unlink(missing_ok=True)


def _collect(
    spool: _Spool,
    spec: RunSpec,
    benchmark: Benchmark,
    file: AnswerFile,
    contents: AnswerSurvey,
    reading: IdReading,
    tally: ImportTally,
) -> None:
    """Put the answers that count into the spool, each at the place of its sample."""
    places: dict[int, int] = {}
    ids: list[str] = []
    golds: list[str | None] = []
    for position, (key, sample) in enumerate(keyed(benchmark, spec.data, reading.name)):
        tally.questions += 1
        if hash(key) in contents.ids:
            places[hash(key)] = len(ids) << 32 | position
            ids.append(sample.id)
            golds.append(gold_text(sample))
    for answer in final(file, contents):
        place = places.get(hash(answer.sample_id))
        if place is None:
            tally.unknown.add(answer.where, repr(answer.sample_id))
            continue
        if answer.repeat >= MOST_REPEATS:
            tally.surplus.add(answer.where, f"{answer.sample_id!r}, repeat {answer.repeat:,}")
            continue
        row, position = place >> 32, place & 0xFFFFFFFF
        if spec.limit is not None and position >= spec.limit:
            continue
        record = without_failed_request(structs.replace(to_record(answer), sample_id=ids[row]), answer.where)
        text = "" if record.response is None else record.response.text
        tally.seconds += answer.latency_s
        if record.response is None and record.status != "refused":
            tally.failed += 1
        else:
            tally.answered += 1
            tally.empty += not text.strip()
        tally.gold += text.strip() == golds[row]
        if not text.strip():
            why = "an empty text" if record.error is None else record.error.message.removeprefix(f"{answer.where}: ")
            tally.without_reply.add(answer.where, f"{answer.sample_id!r}: {why}")
        spool.add(position * MOST_REPEATS + answer.repeat, record)


def without_failed_request(record: Record, where: str) -> Record:
    """Return a record without its reply if a harness wrote a failed request in its place."""
    text = "" if record.response is None else record.response.text.lstrip()
    if not text.startswith(FAILED_REQUESTS):
        return record
    message = f"{where}: the harness's request failed: {text[:300]!r}"
    return structs.replace(record, status="error", response=None, error=Failure(NO_ANSWER, message))
