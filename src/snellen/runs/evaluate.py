"""Evaluation from Python: run a benchmark with a model, or repeat a run. `snellen run` and `rerun` call this."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Unpack

from msgspec import structs

from snellen.benchmarks import registry as benchmarks
from snellen.benchmarks.base import Benchmark
from snellen.engine.data_paths import holds_built_set, located
from snellen.engine.endpoints import check_rerun, with_endpoint, without_model
from snellen.engine.folder_checks import is_own
from snellen.engine.progress import Display, LiveScores, Progress, ProgressCallback
from snellen.engine.retry import Backoff
from snellen.engine.run import require_written, run
from snellen.engine.run_folder import JUDGE_RUNS, JUDGED, RunFolder, RunMeta, RunSpec
from snellen.engine.stopping import UNPRICED
from snellen.engine.study import studied
from snellen.errors import DataError, RunError, UsageError
from snellen.event_loop import in_loop
from snellen.models import registry as models
from snellen.models.base import Model, ModelOptions, as_model
from snellen.redaction.arguments import key_among
from snellen.runs.predictions import PredictionRows
from snellen.runs.run import Run
from snellen.runs.scoring import SummaryBuilder, live_builder
from snellen.runs.settings import RerunSettings, RunSettings, find_benchmark, run_spec, takes
from snellen.runs.trust import guarded, require_table
from snellen.text import slug

OMITTED_NAMED = 20
"""Rows that cannot be asked that --strict-data names."""


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
        data, images: where the benchmark's files are.
        benchmark_options: the options that `-o key=value` sets.
        settings: fields of RunSpec and ModelOptions, described below.

    Raises:
        TypeError: there is no such setting.
        SnellenError: see snellen.errors; answers received before it are on disk.
    """
    from snellen.runs.judge.ask import NO_MODEL, AskedModels, leaves_to_judge  # it asks by means of this module

    subject = benchmarks.find(benchmark) if isinstance(benchmark, str) else benchmark
    asked = AskedModels(judge, reader, rubric, reader_for).declared_by(subject)
    asked.require(subject)
    with _answering(model, processor, settings) as (model_name, opened):
        spec = run_spec(benchmark if isinstance(benchmark, str) else benchmark.name, model_name, settings)
        if judge not in (None, NO_MODEL) and not leaves_to_judge(subject, spec.data):
            raise UsageError(
                f"{subject.name} is scored by rules, and no reply of it is for a judge",
                "Omit judge. To have all replies judged as well: snellen.judge(run, model, rubric='match').",
            )
        folder = Path(out) if out is not None else default_folder(spec)
        if spec.shard:
            from snellen.engine.sharding import shard_folder

            folder = shard_folder(folder, spec.shard)
        done = perform(
            spec,
            RunFolder(folder),
            benchmark=benchmark if isinstance(benchmark, Benchmark) else None,
            model=opened,
            display=display or (ProgressCallback(on_progress) if on_progress is not None else None),
            trust=True,  # the caller names the benchmark
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
        yield (model if opened is None else opened.name), opened
        return
    with memory.lent(model, processor, run_spec("", "", settings).options) as lent:
        yield lent.name, lent


def perform(
    spec: RunSpec,
    folder: RunFolder,
    *,
    benchmark: Benchmark | None = None,
    model: Model | None = None,
    display: Display | None = None,
    backoff: Backoff | None = None,
    trust: bool = False,
) -> Run:
    """Execute a RunSpec in a folder, write summary.json, and return the run.

    `trust`: the spec is the user's own, so that it may name code (`module:ATTRIBUTE`) as its benchmark.

    Raises:
        SnellenError: see snellen.errors; whatever was answered before it is on disk.
    """
    spec, subject = checked(spec, folder, benchmark, trust=trust)
    if model is not None and (spec.ray is not None or spec.nproc not in (None, 1)):
        raise UsageError(
            "nproc and ray start copies of a model by its name, and this one is an object.",
            "Name it KIND:NAME; a kind of your own is an entry point of the group snellen.models.",
        )
    answering = open_model(spec, folder) if model is None else as_model(model)
    remarks = met_replay(spec, subject, answering)
    prompted = studied(subject, spec) if spec.system or spec.few_shot else subject
    builder = live_builder(subject, None if spec.benchmark in JUDGE_RUNS else PredictionRows(subject))
    scores = LiveScores(builder)

    async def whole() -> RunMeta:
        try:
            return await run(spec, prompted, answering, folder, display=display, backoff=backoff, scores=scores)
        finally:
            await answering.close()

    return recorded(folder, in_loop(whole()), subject, builder, scores, trust=trust, remarks=remarks)


def checked(spec: RunSpec, folder: RunFolder, benchmark: Benchmark | None, *, trust: bool) -> tuple[RunSpec, Benchmark]:
    """Return a run's spec under lasting names, and its benchmark, after all checks that need no model.

    Raises:
        UsageError: settings that exclude each other, or that the benchmark does not have.
    """
    if spec.repeats < 1 or (spec.limit is not None and spec.limit < 1):
        raise UsageError(f"--repeats {spec.repeats}, --limit {spec.limit}: both must be at least 1")
    require_no_keys(spec)
    if benchmark is None:
        spec = structs.replace(spec, benchmark=benchmarks.lasting_name(spec.benchmark))
    if spec.few_shot_from is not None and Path(spec.few_shot_from).expanduser().exists():
        spec = structs.replace(spec, few_shot_from=str(Path(spec.few_shot_from).expanduser().absolute()))
    subject = benchmark or find_benchmark(spec, folder, trust=trust)
    spec.data.require_known(subject.name, subject.options)
    if subject.with_media is not None:
        spec = structs.replace(spec, data=subject.with_media(spec.data, spec.options.media))
    require_whole_data(subject, spec)
    return spec, subject


def met_replay(spec: RunSpec, benchmark: Benchmark, model: Model) -> list[str]:
    """Match a replayed file with the samples; return one line for each caveat, and nothing for another model.

    Raises:
        DataError: no sample has an answer in the file.
    """
    if not spec.model.startswith("replay:"):
        return []
    from snellen.models.replay import ReplayModel
    from snellen.runs.external_answers import meet_replay  # few runs replay answers

    replayed = getattr(model, "model", model)  # a judge's stands behind Asking
    return meet_replay(replayed, benchmark, spec.data, spec.limit) if isinstance(replayed, ReplayModel) else []


def recorded(
    folder: RunFolder,
    meta: RunMeta,
    subject: Benchmark,
    builder: SummaryBuilder,
    scores: LiveScores,
    *,
    trust: bool,
    remarks: Sequence[str] = (),
) -> Run:
    """Write the summary of a run that has ended, and return it.

    Raises:
        RunChangedError: files of the run were deleted or changed meanwhile.
    """
    done = Run(folder, meta, subject, trust=trust, remarks=tuple(remarks))
    if meta.spec.benchmark == JUDGED:
        done.write_verdicts()
    elif not done.summary_is_current():
        done.save_collected(builder, scores.unread)
    require_written(folder, meta)
    return done


def require_whole_data(benchmark: Benchmark, spec: RunSpec) -> None:
    """Read the user's data before a model is opened; with `strict_data` refuse rows that cannot be asked.

    Raises:
        DataError: the data cannot be read, or a row of it cannot be asked and `strict_data` is set.
        UsageError: the data could be read in several ways.
    """
    reading = benchmark.reading(spec.data)
    if reading is not None and reading.omitted and spec.strict_data:
        lines = "\n".join(f"  {row}" for row in reading.omitted[:OMITTED_NAMED])
        more = len(reading.omitted) - OMITTED_NAMED
        rest = f"\n  and {more:,} more" if more > 0 else ""
        raise DataError(
            f"{benchmark.name}: {len(reading.omitted):,} of {reading.rows:,} rows cannot be asked:\n{lines}{rest}",
            "Correct them, or omit --strict-data to leave them out. No request was sent.",
        )


def require_no_keys(spec: RunSpec) -> None:
    """Raise UsageError if a setting holds a key: all settings are written into run_meta.json."""
    options = spec.options
    if options.key_env is not None:
        from snellen.models.api.keys import require_variable  # it brings the API model

        require_variable(options.key_env)
    settings: dict[str, Any] = {
        "--model": spec.model,
        "--base-url": options.base_url,
        "--extra-body": options.extra_body,
        "--engine-args": options.engine_args,
        "Generation.extra": options.generation.extra,
        "--stop": options.generation.stop,
        "--option": spec.data.options,
        "--agent-model": options.agent_model,
        "--revision": options.revision,
        "--ray": spec.ray,
        "--system": spec.system,
        "--few-shot-from": spec.few_shot_from,
    }
    for name, value in settings.items():
        if (key := key_among(value)) is not None:
            raise UsageError(
                f"{name} holds {key}: a key, by its name or its shape. Settings are written into the run's record.",
                "Put the key into an environment variable and name it with --key-env.",
            )


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
    prices = chosen.pop("prices", None)
    if prices is not None and spec.model.partition(":")[0] not in UNPRICED:
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


def open_model(spec: RunSpec, folder: RunFolder) -> Model:
    """Open the model that a spec names; a judge's is asked again where its verdict cannot be read."""
    model = open_scattered(spec.model, spec.options, spec.nproc, spec.ray)
    if spec.benchmark in JUDGE_RUNS:
        from snellen.runs.judge.benchmark import JudgeModel

        return JudgeModel(model, folder.path)
    return model


def open_scattered(spec: str, options: ModelOptions, nproc: int | None, address: str | None) -> Model:
    """Open the model that `spec` names, in this process or in workers. Raise as `RayModel`."""
    if address is None and nproc in (None, 1):
        return models.open_model(spec, options)
    from snellen.engine.ray.model import RayModel  # a run in this process has no use for it

    return RayModel(spec, structs.replace(options), nproc, address)


def default_folder(spec: RunSpec, root: Path = Path("results")) -> Path:
    """Return results/<benchmark>-<model>, without `./`, and with hyphens for characters that a file name cannot hold.

    Version 0.1 kept the point of `./`; a run that lies in such a folder is resumed there.
    """
    model = spec.model.removeprefix("api:").removeprefix("local:")
    benchmark = benchmarks.short_name(spec.benchmark)
    path, earlier = (root / slug(f"{benchmark}-{name}") for name in (model.removeprefix("./"), model))
    return earlier if earlier.exists() and not path.exists() else path
