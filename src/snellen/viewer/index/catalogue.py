"""Catalogue of runs: one entry for each run folder, from run_meta.json and summary.json alone, joined with the index."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from snellen.benchmarks import registry
from snellen.engine.folder_checks import check_files, is_own
from snellen.engine.request_errors import one_line
from snellen.engine.run_folder import JUDGED, READ, RunFolder, RunMeta, Totals
from snellen.errors import RedactedCopyError, RunError, SnellenError
from snellen.reports.tables import THRESHOLD
from snellen.runs.run import SavedSummary
from snellen.runs.status import distinguishing, ended_groups, is_locked, state_of
from snellen.types import Metric
from snellen.viewer.index.database import RunIndexState
from snellen.viewer.index.entries import Origin, RunEntry, RunState, SampleState

SUMMARY_BYTES = 64 << 20
LINE_BYTES = 1 << 20
WATCHED = ("run_meta.json", "results.jsonl", "summary.json", ".writer")


STATE_REMARKS = {"open": "not finished", "budget": "interval wider than requested"}
"""Words on states of a threshold that has a value."""


class _Asked(Struct):
    judge: Any = None
    reader: Any = None


class _Times(Struct):
    started_at: float = 0.0
    finished_at: float = 0.0


@dataclass(frozen=True)
class RunFiles:
    """What the files of a run folder say, without its records.

    Attributes:
        key, path: of the run.
        meta: of the run; None where it cannot be read, for the reason in `problems`.
        origin: whose folder it is.
        locked: a live process writes it.
        metrics: by profile, as in summary.json.
        remarks: metric to words on it, as in summary.json.
        verified: this user's Snellen made them from all records.
        torn: bytes behind the last line end of the journal; 0 for a whole one.
        size: bytes of the journal; None where there is none.
        started, ended: times of the first and the last record.
        problems: what is wrong, one line each.
        redacted: the folder is a redacted copy of a run.
    """

    key: str
    path: Path
    meta: RunMeta | None
    origin: Origin
    locked: bool
    metrics: Mapping[str, Sequence[Metric]]
    remarks: Mapping[str, str]
    verified: bool
    torn: bool
    size: int | None
    started: float | None
    ended: float | None
    problems: tuple[str, ...]
    redacted: bool = False


def stamp(path: Path) -> tuple[Any, ...]:
    """Return sizes and times of the files that an entry is made of; equal stamps, equal entries."""
    return tuple(_status(path / name) for name in WATCHED)


def _status(path: Path) -> tuple[int, ...]:
    try:
        status = path.lstat()
    except OSError:
        return ()
    return (status.st_mode, status.st_size, status.st_mtime_ns, status.st_ino, status.st_dev)


def read_files(key: str, path: Path) -> RunFiles:
    """Read a run folder. Nothing in it raises: what cannot be read is named in `problems`."""
    folder, problems = RunFolder(path), []
    meta: RunMeta | None = None
    try:
        meta = folder.meta()
    except RedactedCopyError as error:
        return _redacted_copy(key, path, one_line(error.message))
    except RunError as error:
        problems.append(one_line(error.message))
    except (OSError, ValueError, OverflowError) as error:
        problems.append(f"run_meta.json cannot be read: {one_line(str(error))}")
    size = _journal_size(folder.results, problems)
    locked = is_locked(path)
    origin: Origin = "foreign" if meta is None or not is_own(meta) else "own" if meta.imported is None else "imported"
    torn = size is not None and size > 0 and not locked and _is_torn(folder.results)
    if torn:
        problems.append("results.jsonl ends within a line; what is behind its last line end does not count")
    metrics, remarks, verified = _summary(path, folder, problems) if meta is not None else ({}, {}, False)
    started, ended = _times(folder.results) if size else (None, None)
    return RunFiles(
        key,
        path,
        meta,
        origin,
        locked,
        metrics,
        remarks,
        verified and origin != "foreign",
        torn,
        size,
        started,
        ended,
        tuple(problems),
    )


def _redacted_copy(key: str, path: Path, remark: str) -> RunFiles:
    return RunFiles(
        key, path, meta=None, origin="foreign", locked=False, metrics={}, remarks={}, verified=False, torn=False, size=None,
        started=None, ended=None, problems=(remark,), redacted=True,
    )  # fmt: skip


def _journal_size(path: Path, problems: list[str]) -> int | None:
    try:
        status = path.lstat()
    except OSError:
        return None
    if not stat.S_ISREG(status.st_mode):
        problems.append("results.jsonl is no regular file; it is not read")
        return None
    return status.st_size


def _is_torn(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            file.seek(-1, os.SEEK_END)
            return file.read(1) != b"\n"
    except OSError:
        return False


def threshold_remarks(summary: bytes) -> dict[str, str]:
    """Return words on the thresholds that are not settled, by metric, from the first profile of a summary.json.

    The file may be anybody's: what has another form is left out.
    """
    profiles = msgspec.json.decode(summary).get("profiles")
    first = profiles[0] if isinstance(profiles, list) and profiles else {}
    conditions = first.get("conditions") if isinstance(first, dict) else None
    remarks = {}
    for row in conditions if isinstance(conditions, list) else ():
        if not isinstance(row, dict) or not isinstance(row.get("name"), str):
            continue
        words = row.get("words") if row.get("value") is None else STATE_REMARKS.get(str(row.get("state")))
        if isinstance(words, str) and words:
            remarks[f"{THRESHOLD}{row['name']}"] = one_line(words)
    return remarks


def _summary(
    path: Path, folder: RunFolder, problems: list[str]
) -> tuple[dict[str, list[Metric]], dict[str, str], bool]:
    """Read the metrics in summary.json, with remarks; tell whether they are newer than all answers and verdicts."""
    try:
        check_files(path)
        status = folder.summary.lstat()
        if status.st_size > SUMMARY_BYTES:
            problems.append(f"summary.json is larger than {SUMMARY_BYTES:,} bytes; it is not read")
            return {}, {}, False
        content = folder.summary.read_bytes()
        saved = msgspec.json.decode(content, type=SavedSummary)
        asked = msgspec.json.decode(content, type=_Asked)
        written = status.st_mtime_ns
        current = folder.results.exists() and folder.results.stat().st_mtime_ns <= written
        for model, name in ((asked.judge, JUDGED), (asked.reader, READ)):
            beside = path.with_name(f"{path.name}_{name}") / "results.jsonl"
            if model is not None and beside.is_file():
                current = current and beside.stat().st_mtime_ns <= written
        metrics = {profile.profile: profile.metrics for profile in saved.profiles}
        remarks = threshold_remarks(content) if THRESHOLD.encode() in content else {}
        return metrics, remarks, current
    except FileNotFoundError:
        return {}, {}, False
    except RunError as error:
        problems.append(one_line(error.message))
    except (OSError, ValueError, RecursionError) as error:  # msgspec's errors are ValueErrors
        problems.append(f"summary.json cannot be read: {one_line(str(error))}")
    return {}, {}, False


def _times(path: Path) -> tuple[float | None, float | None]:
    try:
        with path.open("rb") as file:
            first = file.readline(LINE_BYTES)
            file.seek(0, os.SEEK_END)
            file.seek(max(0, file.tell() - LINE_BYTES))
            lines = file.read().splitlines(keepends=True)
    except OSError:
        return None, None
    last = next((line for line in reversed(lines) if line.endswith(b"\n")), b"")
    return _time(first, "started_at"), _time(last, "finished_at")


def _time(line: bytes, name: str) -> float | None:
    try:
        value = float(getattr(msgspec.json.decode(line, type=_Times), name))
    except (ValueError, RecursionError):
        return None
    return value if 0 < value < 1e11 else None


def make_entries(files: Sequence[RunFiles], states: Mapping[str, RunIndexState]) -> list[RunEntry]:
    """Make the entries of all runs: settings that tell runs apart and links to judges need them all."""
    metas = [run.meta for run in files if run.meta is not None]
    settings = iter(distinguishing(metas))
    texts = ["" if run.meta is None else next(settings) for run in files]
    keys = {os.path.realpath(run.path): run.key for run in files}
    entries = [_entry(run, text, states.get(run.key), keys) for run, text in zip(files, texts, strict=True)]
    judged, read = (
        {entry.judges: entry.key for entry in entries if entry.judges and entry.benchmark == name}
        for name in (JUDGED, READ)
    )
    return [replace(entry, judged=judged.get(entry.key, ""), read=read.get(entry.key, "")) for entry in entries]


def _entry(run: RunFiles, settings: str, state: RunIndexState | None, keys: Mapping[str, str]) -> RunEntry:
    meta = run.meta
    problems = list(run.problems)
    current = state is not None and state.results[0] == (run.size or 0)
    if state is not None:
        if faults := state.tail.faults():
            problems.append(f"results.jsonl has {faults}")
        if state.why_unknown:
            problems.append(f"verdicts are unknown: {state.why_unknown}")
    samples = _sample_state(run, state)
    if meta is None:
        return RunEntry(
            run.key, run.path, state="redacted" if run.redacted else "torn", origin=run.origin, problems=tuple(problems), samples=samples,
            totals=Totals() if state is None else state.totals, started=run.started, ended=run.ended,
            indexed=0 if state is None else state.recorded, failures=() if state is None else tuple(state.failures),
        )  # fmt: skip
    damaged = False
    trusted = run.origin != "foreign" and meta.state != "running"
    totals = meta.totals if trusted or state is None else state.totals
    metrics, verified = run.metrics, run.verified
    if not verified and state is not None and state.metrics and state.metrics_rows:
        metrics, verified = state.metrics, current and state.metrics_rows >= min(state.recorded, state.scored)
    spec, coverage = meta.spec, meta.coverage
    of = coverage.of if coverage.of is not None or state is None else None
    expected = None if of is None else of * spec.repeats
    known = [count for count in (coverage.limit, of) if count is not None]
    recorded = totals.recorded
    covered = _ended_groups(meta, metrics) if of is None else None
    if covered is None and expected:
        covered = 0.0 if not totals.done else min(1.0, recorded / expected)
    if state is not None and current and trusted and not run.locked and _count(state.totals) < recorded:
        problems.append(f"results.jsonl has {_count(state.totals):,} records; run_meta.json counted {recorded:,}")
        damaged = True
    requested = min(known) * spec.repeats if known else None
    run_state: RunState = "torn" if damaged else _run_state(run, meta, state, totals, requested)
    identity = meta.identity
    return RunEntry(
        key=run.key,
        path=run.path,
        benchmark=spec.benchmark,
        model=spec.model_with_adapter,
        settings=settings,
        state=run_state,
        origin=run.origin,
        totals=totals,
        expected=expected,
        requested=requested,
        coverage=covered,
        full=coverage.full,
        headline=next((rows[0] for rows in metrics.values() if rows), None),
        metrics=metrics,
        remarks=run.remarks,
        verified=verified,
        failures=() if state is None else tuple(state.failures),
        repeats=spec.repeats,
        started=run.started if state is None or state.started is None else state.started,
        ended=run.ended if state is None or state.ended is None else state.ended,
        version=str(identity.get("benchmark_version", "")),
        data=str(identity.get("data", "")),
        options=_options(identity),
        seed=spec.data.seed,
        fingerprint=meta.fingerprint,
        judges=_judges(run, meta, keys),
        restricted=meta.restricted or _is_restricted(spec.benchmark),
        samples=samples,
        indexed=0 if state is None else state.recorded,
        problems=tuple(problems),
        environment=meta.environment,
        degraded=spec.options.media.blank or bool(spec.options.media.corrupt),
    )


def _count(totals: Totals) -> int:
    return totals.recorded


def _options(identity: Mapping[str, Any]) -> str:
    options = identity.get("data_options") or {}
    return msgspec.json.encode([options, identity.get("seed")], order="deterministic", enc_hook=str).decode()


def _ended_groups(meta: RunMeta, metrics: Mapping[str, Sequence[Metric]]) -> float | None:
    """Return the share of groups of questions that have ended, for a benchmark of Snellen whose questions follow from answers."""
    name = meta.spec.benchmark
    if name not in registry.BUILT_IN or (benchmark := registry.find(name)).groups is None:
        return None
    try:
        progress = ended_groups(benchmark, meta.spec.data, next(iter(metrics.values()), ()))
    except SnellenError:  # options that this version does not know
        return None
    return None if progress is None else progress.ended / progress.known


def _is_restricted(benchmark: str) -> bool:
    """Return True if a benchmark of Snellen itself withholds its gold answers, whatever a run's meta says."""
    return benchmark == "fika" or benchmark.startswith("fika/")


def _sample_state(run: RunFiles, state: RunIndexState | None) -> SampleState:
    if state is None or not state.key:
        return "unreadable" if run.size is None and run.meta is None else "waiting"
    if state.results[0] != (run.size or 0) or state.covered < state.recorded:
        return "behind"
    return "unscored" if state.why_unknown else "ready"


def _run_state(
    run: RunFiles, meta: RunMeta, state: RunIndexState | None, totals: Totals, requested: int | None
) -> RunState:
    known = state_of(meta, totals, locked=run.locked)
    if known == "running":
        return known
    damaged = state is not None and (state.tail.damaged or state.tail.repeated or state.tail.missing)
    if run.torn or damaged or (run.problems and run.size is None and totals.done):
        return "torn"
    recorded = totals.recorded
    short = requested is not None and recorded < requested and run.origin == "foreign"
    if known == "complete" or known == "limited":
        return "partial" if short else "complete"
    return known


def _judges(run: RunFiles, meta: RunMeta, keys: Mapping[str, str]) -> str:
    """Return the key of the run that a judge's run is about, if it lies below the root too."""
    if not meta.judges or meta.spec.data.path is None:
        return ""
    about = meta.spec.data.path
    for place in (about, run.path.parent / about.name):
        key = keys.get(os.path.realpath(place))
        if key is not None:
            return key
    return ""
