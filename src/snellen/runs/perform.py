"""Executing a run by its RunSpec: checks that need no model, the model opened, the summary written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import structs

from snellen.benchmarks import registry as benchmarks
from snellen.benchmarks.base import Benchmark
from snellen.engine.progress import Display, LiveScores
from snellen.engine.questions import Observer
from snellen.engine.retry import Backoff
from snellen.engine.run import run
from snellen.engine.run_folder import JUDGE_RUNS, JUDGED, RunFolder, RunMeta, RunSpec
from snellen.engine.session import require_written
from snellen.engine.study import studied
from snellen.engine.subset import require_subset, with_subset
from snellen.errors import DataError, UsageError
from snellen.event_loop import in_loop
from snellen.models import registry as models
from snellen.models.base import Model, ModelOptions, as_model
from snellen.redaction.arguments import key_among
from snellen.runs.coordinates import with_coordinates
from snellen.runs.run import Run
from snellen.runs.scoring import PredictionRows, SummaryBuilder, live_builder
from snellen.runs.settings import find_benchmark, settled
from snellen.runs.trust import as_asked
from snellen.text import slug
from snellen.types import EASI_PAPER

if TYPE_CHECKING:
    from snellen.models.local.model import SharedWeights

OMITTED_NAMED = 20
"""Rows that cannot be asked that --strict-data names."""


def perform(
    spec: RunSpec,
    folder: RunFolder,
    *,
    benchmark: Benchmark | None = None,
    model: Model | None = None,
    display: Display | None = None,
    backoff: Backoff | None = None,
    trust: bool = False,
    weights: SharedWeights | None = None,
    observer: Observer | None = None,
) -> Run:
    """Execute a RunSpec in a folder, write summary.json, and return the run.

    `benchmark`: that of the spec, which names it by a lasting name; None: it is found by its name.
    `trust`: the spec is the user's own, so that it may name code (`module:ATTRIBUTE`) as its benchmark.
    `weights`: the checkpoint of a local model that runs share; see `LocalModel.share`.
    `observer`: is told of each request and record, see `snellen.engine.questions.Observer`.

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
    if weights is not None:
        from snellen.models.local.model import LocalModel

        if isinstance(answering, LocalModel):  # workers have weights of their own
            answering.share(weights)
    remarks = met_replay(spec, subject, answering)
    prompted = studied(subject, spec) if spec.system or spec.few_shot else subject
    builder = live_builder(subject, None if spec.benchmark in JUDGE_RUNS else PredictionRows(subject))
    scores = LiveScores(builder)

    async def whole() -> RunMeta:
        try:
            return await run(
                spec, prompted, answering, folder, display=display, backoff=backoff, scores=scores, observer=observer
            )
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
    spec = settled(spec, folder, trust=trust)
    require_no_keys(spec)
    if benchmark is None:
        spec = structs.replace(spec, benchmark=benchmarks.lasting_name(spec.benchmark))
    if spec.few_shot_from is not None and Path(spec.few_shot_from).expanduser().exists():
        spec = structs.replace(spec, few_shot_from=str(Path(spec.few_shot_from).expanduser().absolute()))
    if benchmark is None:
        subject = find_benchmark(spec, folder, trust=trust)
    else:
        subject = as_asked(with_subset(benchmark, spec), spec)
    spec.data.require_known(subject.name, subject.options)
    require_protocol(spec.data.options, spec.system)
    if subject.with_media is not None:
        spec = structs.replace(spec, data=subject.with_media(spec.data, spec.options.media))
    spec = with_coordinates(spec, subject, folder)
    require_whole_data(subject, spec)
    if spec.subset is not None:
        require_subset(subject, spec.subset, spec.data)
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


def require_protocol(options: Mapping[str, str], system: str) -> None:
    """Raise UsageError for the protocol of EASI's paper without its system text."""
    if options.get("protocol") == EASI_PAPER and not system:
        raise UsageError(
            f"protocol={EASI_PAPER} asks every set with one system text, and none was given.",
            "Give the paper's text for a zero-shot chain of thought: --system TEXT.",
        )


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
        from snellen.models.api.services import require_variable  # it brings the API model

        require_variable(options.key_env)
    settings: dict[str, Any] = {
        "--model": spec.model,
        "--base-url": options.base_url,
        "--extra-body": options.extra_body,
        "--engine-args": options.engine_args,
        "Generation.extra": options.generation.extra,
        "--stop": options.generation.stop,
        "--chat-template-kwargs": options.generation.chat_template_kwargs,
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
    model += f"-{Path(spec.options.adapter).name}" if spec.options.adapter else ""
    benchmark = benchmarks.short_name(spec.benchmark)
    path, earlier = (root / slug(f"{benchmark}-{name}") for name in (model.removeprefix("./"), model))
    return earlier if earlier.exists() and not path.exists() else path
