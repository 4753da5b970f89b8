"""Outcome of a benchmark from a harness's files: completeness, and its score compared with Snellen's.

Errors in a harness's log, by benchmark.

Neither harness tells by its exit status: lmms-eval logs `Error during evaluation` and ends with 0, VLMEvalKit goes on with the
next data set. A traceback is folded into its last line.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct, structs

from snellen.benchmarks.spatial.interop.harness_metrics import HarnessMetrics
from snellen.easi.external import compare, import_run, lmms_eval, vlmevalkit
from snellen.easi.external.import_run import HarnessAnswers, ImportCounts
from snellen.easi.external.settings import BenchmarkJob, HarnessOutcome, HarnessSettings
from snellen.engine import fingerprint
from snellen.engine.run_folder import RunFolder
from snellen.errors import DataError, RunError
from snellen.formats.base import Problems
from snellen.runs.run import Run, load_run

MOST = 3
LONGEST = 300
TAIL_BYTES = 8 << 20
KINDS: Mapping[str, str] = {
    "out of memory": r"out of memory|OutOfMemoryError|Unable to allocate .* for an array|DefaultCPUAllocator",
    "killed": r"(?:^|\s)Killed(?:\s|$)|SIGKILL|[Ss]ignal 9\b|exitcode *[:=] *-9",
    "between the GPUs": r"\bNCCL (?:error|failure)|ncclUnhandled|ncclSystemError|ncclInternalError|Watchdog caught collective",
    "no space on the disk": r"No space left on device|Disk quota exceeded",
    "port taken": r"EADDRINUSE|[Aa]ddress already in use",
    "task or data not found": (
        r"[Tt]asks? .*not found|DatasetNotFoundError|Couldn't (?:find|reach) (?:a |the )?(?:dataset|cache|file)"
        r"|BuilderConfig '.*' not found|Unknown split|not a valid dataset|Dataset .* is not (?:supported|valid)"
    ),
    "model not loaded": (
        r"not a valid model identifier|does not appear to have a file named|Can't load (?:tokenizer|the |config|feature|image)"
        r"|Error\(s\) in loading state_dict|Unrecognized (?:model|configuration)|no model for this name|Model .* not found"
        r"|SafetensorError|trust_remote_code"
    ),
    "not allowed": r"40[13] Client Error|AuthenticationError|PermissionDenied|[Ii]nvalid API [Kk]ey|gated repo",
    "network": r"Max retries exceeded|Connection refused|ConnectionError|LocalEntryNotFoundError|Temporary failure in name",
    "failed": r"Error during evaluation:|combination failed|AssertionError",
}
"""Kind of fault to the pattern of a line, the most telling first."""
_KINDS = tuple((kind, re.compile(pattern)) for kind, pattern in KINDS.items())
_COLOURS = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_PREFIX = re.compile(r"^\s*\[?rank\s*\d+\]?:\s?", re.IGNORECASE)
_RAISED = re.compile(r"^[\w.]*(?:Error|Exception|Interrupt|Exit|Warning|Timeout\w*)\b")
_QUIET = re.compile(
    r"\|\s*WARNING\b|\bWARNING\b.*(?:deprecat|futurewarning)|FutureWarning|DeprecationWarning|UserWarning"
)
TRACEBACK = "Traceback (most recent call last):"
BETWEEN = ("During handling of", "The above exception")


class LoggedError(Struct, frozen=True):
    """One error: its kind, and the log line."""

    kind: str
    text: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.text}"


def lines_of(log: Path, start: int = 0) -> list[str]:
    """Read the lines of a log from a byte offset, at most the last 8 MB; empty if unreadable."""
    try:
        with log.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(start, size - TAIL_BYTES))
            text = file.read().decode("utf-8", "replace")
    except OSError:
        return []
    return re.split(r"[\r\n]+", text)


def faults(lines: Iterable[str], names: Sequence[str] = ()) -> dict[str, list[LoggedError]]:
    """Return errors by benchmark, the first three distinct ones each; unassigned ones under the empty name.

    Args:
        names: what the harness calls the benchmarks; a line is of the longest name in it.
    """
    by_name: dict[str, list[LoggedError]] = {}
    seen_lines: set[tuple[str, str]] = set()
    longest = sorted(names, key=len, reverse=True)
    for line in _folded(lines):
        kind = kind_of(line)
        if kind is None:
            continue
        name = next((candidate for candidate in longest if candidate in line), "")
        alike = re.sub(r"\d+", "0", line)
        if (name, alike) in seen_lines:
            continue
        seen_lines.add((name, alike))
        by_name.setdefault(name, []).append(LoggedError(kind, line[:LONGEST]))
    # The summing-up of a failure comes after what says why; what says why goes first.
    return {name: sorted(errors, key=lambda error: error.kind == "failed")[:MOST] for name, errors in by_name.items()}


def kind_of(line: str) -> str | None:
    """Return the kind of error of a line, `failed` for the last line of any traceback, None for no error."""
    if _QUIET.search(line):
        return None
    hit = next((kind for kind, pattern in _KINDS if pattern.search(line)), None)
    return hit if hit is not None else "failed" if _RAISED.match(line) else None


def _folded(lines: Iterable[str]) -> Iterator[str]:
    """Yield lines without colours and ranks; of a traceback only the last line."""
    inside = False
    for raw in lines:
        bare = _PREFIX.sub("", _COLOURS.sub("", raw)).rstrip()
        line = "".join(mark if mark.isprintable() else " " for mark in bare).strip()
        if TRACEBACK in line:
            inside = True
        elif not line or (inside and (bare[0].isspace() or line.startswith(BETWEEN))):
            continue
        else:
            inside = False
            yield line


class DrivenHarness(Struct, frozen=True):
    """A harness in its environment: name, version, scoring profile, settings, run folder and log."""

    name: str
    version: str
    profile: str
    settings: HarnessSettings
    root: Path
    log: Path

    @property
    def model(self) -> str:
        """The model's name for display."""
        model = (
            lmms_eval.model_folder(self.settings).replace("__", "/")
            if self.name == lmms_eval.NAME
            else self.settings.model
        )
        return f"{self.name}:{model}"


class HarnessFiles(Struct, frozen=True):
    """The files that a harness wrote about a benchmark.

    Attributes:
        answers: files with questions and replies.
        scored: files with what the harness gave each row; may be the same.
        expected: how many questions the harness's data has, by part; None: nobody says.
        figured: reads the harness's own figures.
    """

    answers: Sequence[HarnessAnswers]
    scored: Sequence[HarnessAnswers]
    expected: Mapping[str, int | None]
    figured: Callable[[], HarnessMetrics | None]


def asked(harness: DrivenHarness, job: BenchmarkJob) -> dict[str, Any]:
    """Return the identity for a benchmark's fingerprint; the number of processes is not part of it."""
    settings = harness.settings
    configuration = {"model": settings.model, "model_args": settings.model_args, "extra": list(settings.extra)}
    return import_run.identity(job, harness.name, harness.version, configuration)


def folder_of(harness: DrivenHarness, job: BenchmarkJob) -> RunFolder:
    """Return the run folder of a benchmark."""
    return RunFolder(harness.root / job.name.replace("/", "-"))


def before(harness: DrivenHarness, job: BenchmarkJob) -> HarnessOutcome | None:
    """Return the outcome of a benchmark already complete under the same fingerprint, else None.

    Raises:
        RunError: what was written of it cannot be read.
    """
    folder = folder_of(harness, job)
    if not folder.exists():
        return None
    meta = folder.meta()
    if meta.fingerprint != fingerprint.digest(asked(harness, job)) or meta.state != "complete":
        return None
    recorded = sum(record.status == "ok" for record in folder.records())
    saved = meta.environment.get("outcome")
    if recorded != meta.totals.ok or not isinstance(saved, dict):
        return None
    try:
        outcome = msgspec.convert({**saved, "folder": str(folder.path), "reused": True}, HarnessOutcome, dec_hook=_path)
    except msgspec.ValidationError as error:
        raise RunError(f"{folder.meta_path}: {error}", "Start again with --rerun.") from error
    if outcome.judge and not outcome.verdicts:  # recorded by a version that did not look for a judge's files
        notes = tuple(note for note in outcome.notes if ": judged by " not in note)
        outcome = structs.replace(outcome, judge="", judged=None, notes=notes)
    return structs.replace(outcome, exit_status=None, seconds=0.0)


def made(
    harness: DrivenHarness, job: BenchmarkJob, base: HarnessOutcome, files: HarnessFiles, problems: Problems
) -> HarnessOutcome:
    """Import what a command wrote, and return the outcome.

    Args:
        harness, job: who was to ask what.
        base: how the command ended, and what its log says.
        problems: what is odd about them.

    Raises:
        StorageError: the run cannot be written.
    """
    folder, identity = folder_of(harness, job), asked(harness, job)
    notes: tuple[str, ...] = ()
    was = folder.meta().fingerprint if folder.exists() else None
    if was is not None and (harness.settings.rerun or was != fingerprint.digest(identity)):
        notes = (f"an earlier run of it now lies in {import_run.aside(folder.path)}",)
    expected = _expected(job, files.expected)
    try:
        read = import_run.keep(
            folder,
            job,
            files.answers,
            identity,
            expected=expected,
            model=harness.model,
            about={
                "seconds": base.seconds,
                "harness": {"name": harness.name, "version": harness.version, "log": str(harness.log)},
            },
            ended_well=base.exit_status == 0 and not base.timed_out,
            problems=problems,
        )
    except DataError as error:
        return structs.replace(base, errors=(*base.errors, f"results: {error.message}"), notes=notes)
    if not read.ok or not folder.exists():
        lost = () if base.errors else ("no answers were written, and the log gives no reason",)
        if read.lost:
            lost = (f"none of {read.lost:,} requests was answered; the first: {read.why}",)
        return structs.replace(base, errors=(*base.errors, *lost), notes=(*notes, *problems.lines("with problems")))
    theirs = None
    try:
        theirs = files.figured()
    except DataError as error:
        problems.add("its figures", error.message)
    run = load_run(folder.path)
    own_score, lines = compare.differences(run, job, theirs, files.scored, harness.profile)
    outcome = structs.replace(
        base,
        state="complete" if _is_whole(harness, job, read, expected, run.meta.state) else "partial",
        folder=folder.path,
        rows=read.total,
        expected=None if None in expected.values() else sum(count or 0 for count in expected.values()),
        lost=read.lost,
        empty=read.empty,
        theirs=None if theirs is None else theirs.overall,
        ours=own_score,
        differences=tuple(lines),
        notes=(*notes, *_notes(harness, job, read, expected), *problems.lines("of its files with problems")),
    )
    if outcome.complete:
        outcome = structs.replace(outcome, errors=())  # what was tried again and went well is in the log
    elif run.meta.state == "complete":
        run.meta = structs.replace(run.meta, state="partial")
    remember(run, outcome)
    return outcome


def remember(run: Run, outcome: HarnessOutcome) -> None:
    """Write an outcome into run_meta.json, where the next call reads it."""
    environment = {**run.meta.environment, "outcome": msgspec.to_builtins(outcome, enc_hook=str)}
    run.folder.write_meta(structs.replace(run.meta, environment=environment), own=run.own)


def line(outcome: HarnessOutcome) -> str:
    """Format an outcome in one line."""
    of = "" if outcome.expected is None else f" of {outcome.expected:,}"
    parts = [f"{outcome.benchmark}: {outcome.state}", f"{outcome.rows:,}{of} replies"]
    if outcome.theirs is not None and outcome.ours is not None:
        parts.append(f"theirs {outcome.theirs:.4f}, ours {outcome.ours:.4f}, difference {outcome.difference:+.4f}")
    if outcome.judging:
        parts.append(outcome.judging + ("" if outcome.judged is None else f", {outcome.judged:.4f}"))
    return ", ".join([*parts, *outcome.errors[:1]])


def _expected(job: BenchmarkJob, counts: Mapping[str, int | None]) -> dict[str, int | None]:
    """Return the number of questions of each part: by the harness's data, else the known size."""
    by_part = {part: counts.get(part) for part, _ in job.parts}
    silent = [part for part, count in by_part.items() if count is None]
    if job.task.rows and len(silent) == 1 and not job.is_half:
        by_part[silent[0]] = max(1, job.task.rows[0] - sum(count or 0 for count in by_part.values()))
    return by_part


def _is_whole(
    harness: DrivenHarness, job: BenchmarkJob, read: ImportCounts, expected: Mapping[str, int | None], state: str
) -> bool:
    if state != "complete" or not all(read.rows.values()):
        return False
    if None in expected.values() and job.task.rows and not job.is_half and read.total not in job.task.rows:
        return False
    return harness.name != vlmevalkit.NAME or not read.empty


def _notes(
    harness: DrivenHarness, job: BenchmarkJob, read: ImportCounts, expected: Mapping[str, int | None]
) -> list[str]:
    notes = []
    for part, name in job.parts:
        count, of = read.rows.get(part, 0), expected.get(part)
        if of is None:
            notes.append(f"{name}: {count:,} replies; the total number of questions is unknown")
        elif count != of:
            notes.append(f"{name}: {count:,} replies to {of:,} questions")
    if job.task.rows and not job.is_half and None not in expected.values():
        of = sum(count or 0 for count in expected.values())
        if of not in job.task.rows:
            sizes = " or ".join(f"{count:,}" for count in job.task.rows)
            notes.append(f"its data has {of:,} questions; the whole set has {sizes}")
    if read.lost:
        notes.append(f"{read.lost:,} rows hold no reply and count as wrong; the first: {read.why}")
    if read.empty and harness.name == vlmevalkit.NAME:
        notes.append(f"{read.empty:,} predictions are empty: no answer, or a reply without text; its files do not say")
    elif read.empty:
        notes.append(f"{read.empty:,} replies are empty; lmms-eval writes such for requests that failed too")
    return notes


def _path(kind: type, value: object) -> Path:
    """Convert a path in run_meta.json, stored as text."""
    if issubclass(kind, Path):
        return Path(str(value))
    raise TypeError(f"{kind.__name__} cannot be read from run_meta.json")
