"""Export of a run in another program's result format; `snellen export` calls this. No request is sent."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

from msgspec import structs

from snellen.atomic_write import part_folder
from snellen.benchmarks.base import Benchmark
from snellen.engine.final_records import final_records
from snellen.engine.folder_checks import check_below
from snellen.engine.journal import storage_error
from snellen.engine.resume import Key, key
from snellen.engine.study import studied
from snellen.errors import PluginError, RunError, UsageError
from snellen.formats import writers
from snellen.formats.writers import FORMATS, Exported, Format
from snellen.runs import scoring
from snellen.runs.caveats import caveats
from snellen.runs.interchange.every_eval_ever import write_every_eval_ever
from snellen.runs.interchange.hub_results import write_hub_results
from snellen.runs.interchange.inspect_export import write_inspect
from snellen.runs.interchange.lm_eval import write_lm_eval, write_lmms_eval
from snellen.runs.interchange.source import ExportSettings, ExportSource
from snellen.runs.run import Run, load_run
from snellen.runs.status import present_state
from snellen.runs.trajectories import write_trajectories
from snellen.text import slug
from snellen.types import Record, Sample

ATIF = "atif"
NAME_LENGTH = 100
RUN_WRITERS = {
    "lmms-eval": write_lmms_eval,
    "lm-eval": write_lm_eval,
    "inspect": write_inspect,
    "eee": write_every_eval_ever,
    "hf": write_hub_results,
}
"""Formats whose files hold the run's scores too."""
ALWAYS_GOLD = ("lmms-eval",)
"""Those of them that are not written without gold answers."""
LAST_SECOND = 253_402_300_799.0
"""The end of the year 9999, in seconds since the epoch."""


def formats(benchmark: Benchmark) -> dict[str, Format]:
    """Return the export formats for a benchmark: its own first, then those for any benchmark."""
    own = {name: Format(write) for name, write in benchmark.exports.items()}
    runs = {name: Format(write, withholds=name not in ALWAYS_GOLD) for name, write in RUN_WRITERS.items()}
    tables = {"vlmevalkit": Format(writers.vlmevalkit), ATIF: Format(write_trajectories, gold=False)}
    any_benchmark = {**FORMATS, "lmms-eval": runs["lmms-eval"], **tables, **runs}
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
    no_gold: bool = False,
    settings: ExportSettings | None = None,
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
        no_gold: leave out gold answers, and withhold replies that tell them; always so for a restricted benchmark, if the format
            can be written so and `show_gold` is False.
        settings: further settings of formats that hold scores too; None: the defaults.
        trust: as for `load_run`.

    Returns:
        The files, and what a reader of them must know, one line each.

    Raises:
        UsageError: there is no such format, or its files would hold restricted gold answers.
        RunError: there is no run, nothing was answered, or a link lies where files of the run are written. StorageError: the files cannot be written.
        SnellenError: the questions cannot be read; see snellen.errors.
    """
    opened = run if isinstance(run, Run) else load_run(run, trust=trust)
    known = formats(opened.benchmark)
    if format not in known:
        error = UsageError(f"{opened.benchmark.name} has no export format {format!r}", f"There is: {', '.join(known)}.")
        raise error.near(format, known)
    settings = structs.replace(settings or ExportSettings(), no_gold=no_gold)
    restricted = opened.benchmark.restricted or opened.meta.restricted
    if settings.no_gold and show_gold:
        raise UsageError("--no-gold and --show-gold exclude each other", "Omit one of them.")
    if restricted and not show_gold and known[format].gold and known[format].withholds:
        settings = structs.replace(settings, no_gold=True)
    if settings.no_gold and not known[format].withholds:
        able = ", ".join(name for name, other in known.items() if other.withholds)
        raise UsageError(
            f"files in the format {format!r} hold gold answers, or replies that tell them",
            f"Without gold there is: {able}.",
        )
    if known[format].gold and restricted and not (show_gold or settings.no_gold):
        raise UsageError(
            f"files in the format {format!r} hold the gold answers, and those of {opened.benchmark.name} are restricted",
            "--show-gold writes them anyway; keep such files private.",
        )
    moved = opened.moved(data, images, benchmark_options)
    started = started_at(moved)
    stamp = time.strftime("%Y%m%d_%H%M%S", time.gmtime(started))
    target = Path(out) if out is not None else opened.path / "exports" / format
    if out is None:
        check_below(target)
    run_writer = RUN_WRITERS.get(format) if known[format].write is RUN_WRITERS.get(format) else None
    answers = in_order(moved, None if run_writer is None else _as_asked(moved, no_gold=settings.no_gold))
    if settings.no_gold and run_writer is None:
        source = ExportSource(moved, settings, answers, started)
        answers = ((answer.sample, answer.record) for answer in source.answers())
    try:
        target.mkdir(parents=True, exist_ok=True)
        with part_folder(target) as folder:
            write = known[format].write
            if write is write_trajectories:
                write = partial(write_trajectories, run=moved)
            elif write is writers.vlmevalkit:
                write = partial(write, benchmark=slug(opened.benchmark.name, NAME_LENGTH) or "benchmark")
            name = file_name(moved.meta.spec.model)
            if run_writer is not None:
                written = run_writer(ExportSource(moved, settings, answers, started), folder, name, stamp)
            else:
                written = _written(write(answers, folder, name, stamp), opened.benchmark, format)
            files = tuple(_moved(path, folder, target) for path in written.files)
    except OSError as error:
        raise storage_error(Path(error.filename or target), error) from error
    state = present_state(moved.path, moved.sized_meta)
    # What is without an answer each writer says itself: it alone knows what stands there instead.
    notes = [caveat.text for caveat in caveats(moved.meta, moved.benchmark, state=state) if caveat.about != "lost"]
    return Exported(files, (*filter(None, [moved.changed_data]), *notes, *written.notes))


def _written(result: object, benchmark: Benchmark, format: str) -> Exported:
    """Return what a writer returned. Raises PluginError if that is not an Exported of paths."""
    if not isinstance(result, Exported) or not all(isinstance(path, Path) for path in result.files):
        raise PluginError(
            f"{benchmark.name}: the writer of the format {format!r} returned {result!r}; "
            "an Exported with the paths of its files was expected",
            "Return snellen.formats.writers.Exported((path,), ('a note',)).",
        )
    return result


def _as_asked(run: Run, *, no_gold: bool) -> Benchmark:
    """Return the benchmark with the system text, and the examples, that a run had before its questions."""
    spec = run.meta.spec
    return studied(run.benchmark, structs.replace(spec, few_shot=0) if no_gold else spec)


def _moved(path: Path, folder: Path, target: Path) -> Path:
    with path.open("rb") as file:
        os.fsync(file.fileno())
    place = target / path.relative_to(folder)
    place.parent.mkdir(parents=True, exist_ok=True)
    path.replace(place)
    return place


def in_order(run: Run, benchmark: Benchmark | None = None) -> Iterator[tuple[Sample, Record]]:
    """Yield (sample, record) in the order of the samples, repeats together; samples without a record are omitted.

    Records come nearly in that order, and one that is early waits. So little is held, unless a question near the
    beginning was answered last of all. `benchmark` gives the samples in place of the run's.

    Raises:
        DataError: a record's id is not one of the benchmark's.
    """
    spec = run.meta.spec
    records = final_records(run.folder.results)
    waiting: dict[Key, Record] = {}
    ended = False
    for sample in (benchmark or run.benchmark).samples(spec.data):
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
