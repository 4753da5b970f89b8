"""Evaluation from Python: run a benchmark with a model, or repeat a run. `snellen run` and `rerun` call this."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from msgspec import structs

from snellen.benchmarks import registry as benchmarks
from snellen.benchmarks.base import Benchmark
from snellen.engine.data_paths import holds_built_set, located
from snellen.engine.endpoints import check_rerun, with_endpoint, without_model
from snellen.engine.folder_checks import is_own
from snellen.engine.progress import Display, Progress, ProgressCallback
from snellen.engine.run_folder import RunFolder, RunMeta
from snellen.errors import RunError, UsageError
from snellen.models.base import NONE, Model, as_model
from snellen.models.registry import CHECKPOINT_KINDS, runtime_of
from snellen.runs.judge.ask import NO_MODEL, AskedModels, leaves_to_judge
from snellen.runs.perform import default_folder, perform
from snellen.runs.run import Run
from snellen.runs.settings import RerunSettings, RunSettings, as_published, find_benchmark, run_spec, takes
from snellen.runs.trust import guarded, require_table

if TYPE_CHECKING:
    from snellen.models.local.model import SharedWeights


@takes(RunSettings)
def evaluate(
    benchmark: str | Benchmark,
    model: str | Model | Any,
    *,
    processor: Any = None,
    out: str | Path | None = None,
    on_progress: Callable[[Progress], None] | None = None,
    display: Display | None = None,
    judge: str | Model | None = None,
    rubric: str | None = None,
    reader: str | Model | None = None,
    reader_for: str = "unread",
    weights: SharedWeights | None = None,
    **settings: Unpack[RunSettings],
) -> Run:
    """Run a benchmark with a model, or resume an unfinished run, and score it.

    Takes every setting of `snellen run`. It works inside a running event loop, as in a notebook.

        >>> run = snellen.evaluate("chart/digits", "embedded", limit=3, out="results/three")
        >>> run.meta.totals.ok
        3

    Args:
        benchmark: a name (`snellen list`), or a Benchmark.
        model: KIND:NAME as on the command line, any object with the Model protocol, or a transformers model in memory.
        processor: the processor of a transformers model in memory (docs/training.md).
        out: the run's folder; by default results/<benchmark>-<model>. A run that is there is resumed.
        on_progress: called a few times a second with a Progress, from the event loop, and once at the end.
        display: shows progress; takes precedence over `on_progress`.
        judge, rubric: the model that judges what the benchmark leaves to one, as `snellen.judge` does, and a rubric in place
            of the benchmark's own; `none` asks no judge that a declaration names.
        reader, reader_for: the model that quotes the answers of replies which the rules leave `unread` (or of `all`), as
            `snellen.read` does.
        weights: a `SharedWeights`, in which the checkpoint of `local:NAME` stays loaded for the next call with it, also with
            another adapter. The calls are of one name, revision, device and dtype.
        data, images: where the benchmark's files are.
        benchmark_options: the options that `-o key=value` sets.
        settings: fields of RunSpec and ModelOptions, described below.

    Raises:
        TypeError: there is no such setting.
        SnellenError: see snellen.errors; answers received before it are on disk.
    """
    name = benchmarks.lasting_name(benchmark) if isinstance(benchmark, str) else benchmark.name
    subject = benchmarks.find(name) if isinstance(benchmark, str) else benchmark
    asked = AskedModels(judge, reader, rubric, reader_for).declared_by(subject)
    asked.require(subject)
    with _answering(model, processor, settings) as (model_name, opened):
        spec = as_published(run_spec(name, model_name, settings), subject.settings)
        if judge not in (None, NO_MODEL) and not leaves_to_judge(subject, spec.data):
            raise UsageError(
                f"{subject.name} is scored by rules, and no reply of it is for a judge",
                "Omit judge. To have all replies judged as well: snellen.judge(run, model, rubric='match').",
            )
        typed = benchmark if isinstance(benchmark, str) else name
        folder = Path(out) if out is not None else default_folder(structs.replace(spec, benchmark=typed))
        if spec.shard:
            from snellen.engine.sharding import shard_folder

            folder = shard_folder(folder, spec.shard)
        done = perform(
            spec,
            RunFolder(folder),
            benchmark=subject,
            model=opened,
            display=display or (ProgressCallback(on_progress) if on_progress is not None else None),
            trust=True,  # the caller names the benchmark
            weights=weights,
        )
    asked.about(done, display)
    return done


@contextmanager
def _answering(model: Any, processor: Any, settings: RunSettings) -> Iterator[tuple[str, Model | None]]:
    """Yield the model's name in records and the object to ask; None for a model that is opened by its name."""
    in_memory = False
    if not isinstance(model, str):
        from snellen.models.local import in_memory as memory  # it imports no torch

        in_memory = memory.is_torch_model(model)
    if processor is not None and not in_memory:
        named = repr(model) if isinstance(model, str) else type(model).__name__
        raise UsageError(
            f"processor is for a transformers model in memory, and model is {named}.",
            "Omit processor, or pass the loaded model as model.",
        )
    if not in_memory:
        opened = None if isinstance(model, str) else as_model(model)
        if opened is not None and settings.get("sampling") not in (None, getattr(opened, "sampling", None)):
            raise UsageError(
                "sampling is for a model that is named, or of transformers in memory, and model is an object of its own.",
                "Omit sampling, and let the object sample.",
            )
        yield (model if opened is None else opened.name), opened
        return
    from snellen.runs.recipes import with_recipe

    with memory.lent(model, processor, with_recipe(run_spec("", "", settings)).options) as lent:
        yield lent.name, lent


@takes(RerunSettings, defaults={})
def rerun(
    path: str | Path,
    *,
    out: str | Path | None = None,
    data: str | Path | None = None,
    images: str | Path | None = None,
    benchmark: Benchmark | None = None,
    model: Model | None = None,
    trust: bool = False,
    confirm: Callable[[str], bool] | None = None,
    display: Display | None = None,
    **settings: Unpack[RerunSettings],
) -> Run:
    """Repeat a run from its run_meta.json: resume it in its own folder, or start anew in `out`.

    Args:
        path: the run's folder.
        out: do it all again in this folder.
        data, images: where the benchmark's files lie now, if they were moved.
        benchmark, model: needed only where the run was made with objects that have no registered name.
        trust: run_meta.json may name code to import, and files and programs of this machine (docs/run-folder.md).
        confirm: asks a person whether the run's own endpoint may be used; None: it may not.
        base_url, key_env: the endpoint that is asked and the variable with its key, where the run's own are not those
            of this environment (snellen.engine.endpoints).
        patience_s, rpm, tpm, prices: replace those of the run; None: as recorded.

    Raises:
        UntrustedRunError: run_meta.json names what needs the user's word; nothing was read, started or sent.
        SnellenError: see snellen.errors; whatever was answered before it is on disk.
    """
    source = RunFolder(path)
    meta = located(source, source.meta())
    if model is None:
        require_asked_here(source, meta)
    base_url, key_env = settings.pop("base_url", None), settings.pop("key_env", None)
    spec = with_endpoint(source, meta, base_url=base_url, key_env=key_env, opens_model=model is None, confirm=confirm)
    if data is not None and Path(spec.benchmark).is_absolute() and holds_built_set(data):
        # The run's benchmark is itself a folder: that of a built set.
        spec, data = structs.replace(spec, benchmark=str(Path(data).absolute())), None
    if data is not None or images is not None:
        where = structs.replace(
            spec.data,
            path=spec.data.path if data is None else Path(data),
            images=spec.data.images if images is None else Path(images),
        )
        spec = structs.replace(spec, data=where)
    subject = benchmark
    if subject is None:
        if data is None:
            require_table(source, meta)
        subject = guarded(find_benchmark(spec, source, trust=trust), source, meta, trust=trust)
    check_rerun(source, meta, spec, trust=trust, opens_model=model is None)
    if model is not None and not is_own(source.meta()):
        spec = without_model(spec, model.name)
    chosen: dict[str, Any] = {name: value for name, value in settings.items() if value is not None}
    # The folder of kept answers belongs to whoever made the run.
    spec = structs.replace(spec, options=structs.replace(spec.options, cache=None))
    if out is not None and spec.options.sampling is None and spec.model.partition(":")[0] in CHECKPOINT_KINDS:
        # A run of an earlier version is repeated as it was: greedy, whatever the checkpoint prefers.
        spec = structs.replace(spec, options=structs.replace(spec.options, sampling=NONE))
    prices = chosen.pop("prices", None)
    if prices is not None and runtime_of(spec.model).priced:
        chosen["prices"] = str(prices)
    spec = structs.replace(spec, options=structs.replace(spec.options, **chosen))
    folder = RunFolder(out if out is not None else path)
    return perform(spec, folder, benchmark=subject, model=model, display=display, trust=trust)


def require_asked_here(folder: RunFolder, meta: RunMeta) -> None:
    """Refuse to ask the model of an imported run, since nothing is known of it.

    Raises:
        RunError: the answers were imported.
    """
    if meta.imported is not None:
        raise RunError(
            f"the answers in {folder.path} were imported from {meta.imported.get('file')}: there is no model to ask",
            f"Import the file again: snellen import FILE --benchmark {meta.spec.benchmark} --out {folder.path}     "
            f"To ask a model: snellen run {meta.spec.benchmark} --model KIND:NAME --out ANOTHER_FOLDER",
        )
