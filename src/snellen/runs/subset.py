"""Making a subset from stored runs of a benchmark: scores of each model on each item, the fit, and its error."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from snellen.atomic_write import replacing
from snellen.benchmarks import registry
from snellen.benchmarks.base import Benchmark, Data
from snellen.engine.run_folder import RunFolder, runs_in
from snellen.engine.subset import Subset, SubsetError, SubsetItem, data_options
from snellen.errors import DataError, StorageError, UsageError
from snellen.runs.compared_runs import ComparedRun
from snellen.runs.run import Run, load_run
from snellen.runs.scoring import profiles_of
from snellen.scoring.statistics.item_response import (
    Floats,
    counted_as,
    fit_folds,
    item_scores,
    leave_one_out,
    rest_of,
    select_items,
    variance_outside,
)
from snellen.text import pretty_json

LEAST_MODELS = 10
"""ATLAS and tinyBenchmarks fit hundreds of models; with fewer than ten, one left out says next to nothing of the next."""
LEAST_ANSWERED = 0.95
"""Share of the items that a run must have answered, since its whole score is compared with the estimate."""


def make_subset(
    benchmark: str | Benchmark,
    runs: Sequence[str | Path | Run],
    *,
    size: int = 100,
    seed: int = 0,
    profile: str | None = None,
    trust: bool = False,
) -> Subset:
    """Choose items of a benchmark by item response theory, from stored runs of at least ten models.

    Args:
        benchmark: its name or file, or the benchmark itself.
        runs: stored runs over all of it, or folders of such runs. Several runs of one model are averaged.
        size: items to choose.
        seed: of whatever is drawn.
        profile: scoring profile; None: the benchmark's first.
        trust: as for `load_run`.

    Raises:
        UsageError: too few models, another benchmark, a run of a part, or as many items as there are.
        DataError: the runs are of different data, or have scores outside of 0 to 1.
    """
    subject = registry.find(benchmark) if isinstance(benchmark, str) else benchmark
    if subject.grow is not None:
        raise UsageError(
            f"{subject.name} chooses each question by the answers before it, so that it has no fixed items",
            "Name a benchmark with a fixed list of samples.",
        )
    (name,) = profiles_of(subject, profile)
    opened = _opened(subject, runs, trust=trust)
    _require_models(len({run.meta.spec.model_with_adapter for run in opened}), "")
    data = _same_data(opened)
    ids = [sample.id for sample in subject.samples(data)]
    if not 2 <= size < len(ids):
        raise UsageError(
            f"--size {size}: {subject.name} has {len(ids):,} items",
            f"Choose a size from 2 to {len(ids) - 1:,}; for all items omit --subset-file.",
        )
    models, scores, copies = _distinct(*_scores(opened, name, ids))
    _require_models(len(models), ", where those whose scores hardly differ count as one")
    fit, folds = fit_folds(scores, seed)
    left = leave_one_out(scores, size, seed, folds)
    selected = np.sort(select_items(fit, size))
    return Subset(
        benchmark=subject.name,
        version=subject.version,
        data=str(opened[0].meta.identity.get("data", "")),
        options=data_options(data.options),
        profile=name,
        seed=seed,
        data_seed=data.seed,
        total=len(ids),
        items=tuple(SubsetItem(ids[at], round(float(fit.a[at]), 5), round(float(fit.d[at]), 5)) for at in selected),
        rest=tuple(round(float(share), 6) for share in rest_of(fit, selected)),
        outside=tuple(round(float(each), 8) for each in variance_outside(fit, folds, selected)),
        factor=round(left.factor, 4),
        models=tuple(models),
        copies=copies,
        error=SubsetError(round(left.mean_absolute, 5), round(left.random, 5), left.covered),
    )


def _require_models(found: int, counted: str) -> None:
    """Raise UsageError for fewer models than LEAST_MODELS."""
    if found < LEAST_MODELS:
        raise UsageError(
            f"the runs are of {found} models{counted}; at least {LEAST_MODELS} are needed to fit items and to measure the "
            "error",
            "Pass more runs: --from RUN, or --from FOLDER for all runs in it.",
        )


def _opened(benchmark: Benchmark, runs: Sequence[str | Path | Run], *, trust: bool) -> list[Run]:
    """Open the runs, and those in folders of runs; each once, sorted by model and place. Raise as `make_subset`."""
    opened: dict[Path, Run] = {}
    for named in runs:
        if isinstance(named, Run):
            opened[named.path.resolve()] = named
            continue
        inside = runs_in(Path(named)) or [Path(named)]  # load_run says what is wrong with the folder
        for path in inside:
            if len(inside) > 1 and RunFolder(path).meta().identity.get("benchmark") != benchmark.name:
                continue  # of a folder of runs only those of this benchmark are taken
            opened[path.resolve()] = load_run(path, benchmark=benchmark, trust=trust)
    for run in opened.values():
        if run.meta.identity.get("benchmark") != benchmark.name:
            raise UsageError(
                f"{run.path} is a run of {run.meta.identity.get('benchmark')}, not of {benchmark.name}", "Omit it."
            )
        if run.meta.spec.subset is not None:
            raise UsageError(f"{run.path} asked a subset alone", "Pass runs over all of the benchmark.")
    return sorted(opened.values(), key=lambda run: (run.meta.spec.model, str(run.path)))


def _same_data(runs: Sequence[Run]) -> Data:
    """Return the data of the runs, which must be the same for all. Raises DataError."""

    def said(run: Run) -> tuple[object, ...]:
        identity, data = run.meta.identity, run.meta.spec.data
        digest = identity.get("data")
        seed = "" if digest else data.seed  # without data the benchmark draws by its seed
        return identity.get("benchmark_version"), digest, data_options(data.options), seed

    first = runs[0]
    for run in runs[1:]:
        if said(run) != said(first):
            raise DataError(
                f"{run.path} and {first.path} are of other data: version, digest, options and seed are "
                f"{said(run)} and {said(first)}",
                "Pass runs that asked the same questions.",
            )
    return first.meta.spec.data


def _scores(runs: Sequence[Run], profile: str, ids: Sequence[str]) -> tuple[list[str], Floats]:
    """Return the models' names, and their scores on the items, [models, items], NaN where there is no answer.

    Raises:
        UsageError: a run lacks more than 5 % of the items. DataError: a score is outside of 0 to 1.
    """
    rows: dict[str, list[Floats]] = {}
    for run in runs:
        row = item_scores(ComparedRun(run).scores(profile), ids)
        answered = ~np.isnan(row)
        if answered.mean() < LEAST_ANSWERED:
            raise UsageError(
                f"{run.path} has scored answers to {answered.sum():,} of {len(ids):,} items; 95 % are needed",
                f"Complete it (snellen rerun {run.path}), or omit it.",
            )
        if row[answered].min() < 0.0 or row[answered].max() > 1.0:
            raise DataError(
                f"{run.path} has scores outside of 0 to 1 under the profile {profile}",
                "Name another one with --profile.",
            )
        rows.setdefault(run.meta.spec.model_with_adapter, []).append(row)
    return list(rows), np.stack([_mean(np.stack(own)) for own in rows.values()])


def _mean(rows: Floats) -> Floats:
    """Return the mean of [rows, items] over the rows that have an answer; NaN where none has."""
    answered = ~np.isnan(rows)
    count, total = answered.sum(axis=0), np.where(answered, rows, 0.0).sum(axis=0)
    mean: Floats = np.divide(total, count, out=np.full(len(total), np.nan), where=count > 0)
    return mean


def _distinct(models: Sequence[str], scores: Floats) -> tuple[list[str], Floats, dict[str, str]]:
    """Return models and scores with near-copies of a model averaged into it, and the name that each of them counts under.

    A model left out while its copy stays in the fit would make the measured error too small.
    """
    counted = np.array(counted_as(scores))
    first = np.unique(counted).tolist()
    averaged = np.stack([_mean(scores[counted == one]) for one in first])
    copies = {models[at]: models[one] for at, one in enumerate(counted.tolist()) if at != one}
    return [models[one] for one in first], averaged, copies


def write_subset(subset: Subset, path: Path) -> None:
    """Write a subset's file by rename; the same subset gives the same bytes. Raises StorageError."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as part:
            part.write_bytes(pretty_json(subset))
    except OSError as error:
        raise StorageError(f"{path} cannot be written: {error.strerror}", "Free space, or choose --out.") from error
