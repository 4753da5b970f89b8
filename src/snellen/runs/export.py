"""Export of a run in another program's result format; `snellen export` calls this. No request is sent."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

from snellen.atomic_write import part_folder
from snellen.benchmarks.base import Benchmark
from snellen.engine.final_records import final_records
from snellen.engine.journal import storage_error
from snellen.engine.resume import Key, key
from snellen.errors import RunError, UsageError
from snellen.formats import harness_export
from snellen.formats.export import FORMATS, Exported, Format
from snellen.runs import scoring
from snellen.runs.caveats import caveats
from snellen.runs.run import Run, load_run
from snellen.runs.status import present_state
from snellen.runs.trajectories import write_trajectories
from snellen.text import slug
from snellen.types import Record, Sample

ATIF = "atif"
NAME_LENGTH = 100
LAST_SECOND = 253_402_300_799.0
"""The end of the year 9999, in seconds since the epoch."""


def formats(benchmark: Benchmark) -> dict[str, Format]:
    """Return the export formats for a benchmark: its own first, then those for any benchmark."""
    own = {name: Format(write) for name, write in benchmark.exports.items()}
    harnesses = {"lmms-eval": Format(harness_export.lmms_eval), "vlmevalkit": Format(harness_export.vlmevalkit)}
    any_benchmark = {**FORMATS, **harnesses, ATIF: Format(write_trajectories, gold=False)}
    return own | {name: format_ for name, format_ in any_benchmark.items() if name not in own}


def export(
    run: str | Path | Run,
    format: str,
    *,
    out: str | Path | None = None,
    data: str | Path | None = None,
    images: str | Path | None = None,
    benchmark_options: Mapping[str, str] | None = None,
    show_gold: bool = False,
    trust: bool = False,
) -> Exported:
    """Write a run's final answers, in the order of the questions, in another program's format.

    The files depend on the run alone: the same run gives the same names and bytes. They appear whole or not at all,
    and replace those of an earlier export of the run.

    Args:
        run: a run, or its folder.
        format: one of `formats`.
        out: where to write; None: exports/<format> in the run's folder.
        data, images, benchmark_options: what has moved since the run.
        show_gold: write the gold answers of a restricted benchmark too.
        trust: as for `load_run`.

    Returns:
        The files, and what a reader of them must know, one line each.

    Raises:
        UsageError: there is no such format, or its files would hold restricted gold answers.
        RunError: there is no run, or nothing was answered. StorageError: the files cannot be written.
        SnellenError: the questions cannot be read; see snellen.errors.
    """
    opened = run if isinstance(run, Run) else load_run(run, trust=trust)
    known = formats(opened.benchmark)
    if format not in known:
        error = UsageError(f"{opened.benchmark.name} has no export format {format!r}", f"There is: {', '.join(known)}.")
        raise error.near(format, known)
    if known[format].gold and (opened.benchmark.restricted or opened.meta.restricted) and not show_gold:
        raise UsageError(
            f"files in the format {format!r} hold the gold answers, and those of {opened.benchmark.name} are restricted",
            "--show-gold writes them anyway; keep such files private.",
        )
    moved = opened.moved(data, images, benchmark_options)
    stamp = time.strftime("%Y%m%d_%H%M%S", time.gmtime(started_at(moved)))
    target = Path(out) if out is not None else opened.path / "exports" / format
    answers = in_order(moved)
    try:
        target.mkdir(parents=True, exist_ok=True)
        with part_folder(target) as folder:
            write = known[format].write
            if write is write_trajectories:
                write = partial(write_trajectories, run=moved)
            elif write in (harness_export.lmms_eval, harness_export.vlmevalkit):
                write = partial(write, benchmark=slug(opened.benchmark.name, NAME_LENGTH) or "benchmark")
            written = write(answers, folder, file_name(moved.meta.spec.model), stamp)
            files = tuple(_moved(path, folder, target) for path in written.files)
    except OSError as error:
        raise storage_error(Path(error.filename or target), error) from error
    state = present_state(moved.path, moved.meta)
    # What is without an answer each writer says itself: it alone knows what stands there instead.
    notes = [caveat.text for caveat in caveats(moved.meta, moved.benchmark, state=state) if caveat.about != "lost"]
    return Exported(files, (*notes, *written.notes))


def _moved(path: Path, folder: Path, target: Path) -> Path:
    with path.open("rb") as file:
        os.fsync(file.fileno())
    place = target / path.relative_to(folder)
    place.parent.mkdir(parents=True, exist_ok=True)
    path.replace(place)
    return place


def in_order(run: Run) -> Iterator[tuple[Sample, Record]]:
    """Yield (sample, record) in the order of the samples, repeats together; samples without a record are omitted.

    Records come nearly in that order, and one that is early waits. So little is held, unless a question near the
    beginning was answered last of all.

    Raises:
        DataError: a record's id is not one of the benchmark's.
    """
    spec = run.meta.spec
    records = final_records(run.folder.results)
    waiting: dict[Key, Record] = {}
    ended = False
    for sample in run.benchmark.samples(spec.data):
        for repeat in range(spec.repeats):
            place = key(sample.id, repeat)
            while place not in waiting and not ended:
                record = next(records, None)
                if record is None:
                    ended = True
                else:
                    waiting[key(record.sample_id, record.repeat)] = record
            if place in waiting:
                yield sample, waiting.pop(place)
        if ended and not waiting:
            return
    for record in (*waiting.values(), *records):
        raise scoring.unmatched(run.benchmark, spec.data, record.sample_id)


def started_at(run: Run) -> float:
    """Return the start of the run's first request, in seconds since the epoch.

    Raises:
        RunError: none was.
    """
    first = min((record.started_at for record in run.folder.records()), default=None)
    if first is None:
        raise RunError(f"{run.path} holds no answers", f"Resume it first: snellen rerun {run.path}")
    if not first and run.meta.imported is not None and isinstance(when := run.meta.imported.get("imported_at"), float):
        return min(max(when, 0.0), LAST_SECOND)
    return first


def file_name(model: str) -> str:
    """Return a model's name as part of a file name, without its kind."""
    plain = model.removeprefix("api:").removeprefix("local:")
    return slug(plain, NAME_LENGTH) or "model"
