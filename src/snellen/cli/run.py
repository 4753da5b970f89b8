"""snellen run"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import typer
from msgspec import structs

from snellen.cli import options as shared
from snellen.cli.checks import CheckOptions, CheckReport
from snellen.cli.console import note, print_notes, tell
from snellen.cli.judge import (
    AskedAfterRuns,
    InlineJudgeOptions,
    InlineReaderOptions,
    asked_after_runs,
    print_summary,
)
from snellen.cli.option_parsing import argument, option, option_of
from snellen.cli.options import AgentOptions
from snellen.cli.preview import (
    require_models,
    require_profile,
    require_run_folder,
    require_used_data,
    show_data_files,
    show_estimates,
    show_reading,
)
from snellen.cli.results import (
    FailedModel,
    ModelOutcome,
    finish,
    log_live,
    log_runs,
    log_targets,
    tell_failure,
    without_tools,
)
from snellen.engine.run_folder import RunSpec
from snellen.engine.subset import with_subset
from snellen.errors import InterruptedRunError, PluginError, SnellenError, UsageError
from snellen.models.base import ModelOptions
from snellen.plugin_errors import plugin_fault

if TYPE_CHECKING:
    from snellen.benchmarks.base import Benchmark
    from snellen.models.base import ModelSettings


@dataclass(frozen=True)
class RunOptions:
    """Models, folder and samples of a run."""

    model: list[str] | None = option(
        "Model to evaluate, such as embedded, api:NAME or local:NAME; may be repeated.",
        names=("--model", "-m"),
        value="KIND:NAME",
    )
    out: Path | None = option("Folder of the run, or of the runs if there are several.", said="results/BENCHMARK-MODEL")
    limit: int | None = option_of(RunSpec, "limit")
    subset: Path | None = option_of(RunSpec, "subset", panel=shared.DATA)
    adaptive: str | None = option_of(RunSpec, "adaptive", panel=shared.DATA)
    shard: str | None = option_of(RunSpec, "shard", default=None, panel=shared.SCALE)
    repeats: int = option_of(RunSpec, "repeats")
    seed: shared.Seed = 0
    serve: str | None = option(
        "Start this server for the run, as `snellen serve` does, and stop it afterwards.", value="'vllm MODEL …'"
    )
    id_is: shared.IdIs = "id"
    resume: shared.Resume = False
    cache: str | None = option_of(ModelOptions, "cache")
    strict_data: bool = option_of(RunSpec, "strict_data", panel=shared.DATA)
    paired: bool = option(
        "Run each tools:NAME without tools too, as api:NAME, and print the difference, paired by sample.",
        False,
        panel=shared.ENDPOINT,
    )
    batch: bool = option_of(RunSpec, "batch", panel=shared.BATCHES)
    poll: float | None = option_of(RunSpec, "poll_s", panel=shared.BATCHES, env="SNELLEN_BATCH_POLL")
    dry_run: bool = option("Show questions, images, estimated tokens and cost. Sends nothing, needs no key.", False)


@dataclass(frozen=True)
class RunOutputOptions(shared.OutputOptions, CheckOptions):
    """Tables, report and checks at the end of a run."""

    profile: shared.Profiles = None
    report: shared.WriteReport = False
    log: shared.LogTo = None


def _folders(specs: Sequence[RunSpec], out: Path | None, typed: Mapping[str, str]) -> list[Path]:
    """Return the folder of each run; `typed` is how the user named each benchmark.

    Raises:
        UsageError: two runs would share one.
    """
    from snellen.runs.perform import default_folder

    folders = [
        out
        if out is not None and len(specs) == 1
        else default_folder(structs.replace(spec, benchmark=typed[spec.benchmark]), out or Path("results"))
        for spec in specs
    ]
    if specs and (shard := specs[0].shard):
        from snellen.engine.sharding import shard_folder

        folders = [shard_folder(folder, shard) for folder in folders]
    if len(set(folders)) < len(folders):
        raise UsageError("two of these runs would share a folder", "Run them one by one, each with its own --out.")
    return folders


def run(
    benchmark: list[str] = argument(
        "Benchmarks to run (`snellen list` shows them), or a plan (.toml).", value="BENCHMARK"
    ),
    *,
    options: RunOptions,
    data: shared.DataOptions,
    generation: shared.StudyOptions,
    endpoint: shared.EndpointOptions,
    media: shared.MediaOptions,
    local: shared.LocalOptions,
    agents: AgentOptions,
    workers: shared.WorkerOptions,
    budget: shared.BudgetOptions,
    judging: InlineJudgeOptions,
    readers: InlineReaderOptions,
    output: RunOutputOptions,
) -> None:
    """Run benchmarks against a model, or resume an unfinished run.

    Each benchmark and model has its own run folder. Questions already answered there are skipped. Progress goes to
    stderr, the table to stdout. The exit status is 0 only if every question was answered. On Ctrl-C, SIGTERM, SIGHUP,
    SIGUSR1 or SIGUSR2, pending requests are completed; a second signal cancels them. The exit status is then 130 or 143,
    128 and the signal's number.

    A plan (`snellen --help plans`) runs models × benchmarks × settings side by side, and ends with one table.

    Settings that a benchmark declares are options of this command too: `snellen run vlm2 --help` lists them.
    """
    call = RunCall(options, data, generation, endpoint, media, local, agents, workers, budget, judging, readers, output)
    if (plan := plan_among(benchmark)) is not None:
        from snellen.cli.run_plan import PlanCall, refuse_other_options, run_plan

        refuse_other_options(tuple(vars(call).values()))
        plan_call = PlanCall(options.out, options.dry_run, output.as_json, output.quiet, output.profile, output.report)
        raise typer.Exit(run_plan(plan, plan_call))
    targets = log_targets(output.log) if output.log and not options.dry_run else []
    outcome = perform_call(benchmark, call)
    if outcome is None:
        return
    status = finish(outcome, profile=output.profile, report=output.report, as_json=output.as_json)
    for judged in outcome.judged:
        print_summary(judged, as_json=output.as_json)
    if targets:
        log_runs(targets, outcome.runs, output.profile)
    raise typer.Exit(status)


@dataclass(frozen=True)
class RunCall:
    """The options of one call of `snellen run`, by group."""

    options: RunOptions
    data: shared.DataOptions
    generation: shared.StudyOptions
    endpoint: shared.EndpointOptions
    media: shared.MediaOptions
    local: shared.LocalOptions
    agents: AgentOptions
    workers: shared.WorkerOptions
    budget: shared.BudgetOptions
    judging: InlineJudgeOptions
    readers: InlineReaderOptions
    output: RunOutputOptions


Prepare: TypeAlias = "Callable[[RunSpec, Benchmark], tuple[RunSpec, Benchmark]]"


def perform_call(
    names: Sequence[str], call: RunCall, prepare: Prepare = lambda spec, benchmark: (spec, benchmark)
) -> ModelOutcome | None:
    """Run benchmarks with the options of a call; None with --dry-run. `prepare` may settle what no option does."""
    from snellen.benchmarks.registry import find, lasting_name, with_tasks
    from snellen.cli import environment
    from snellen.runs.settings import as_published, run_spec, with_sampling

    options, judging, output = call.options, call.judging, call.output
    if options.serve is not None and call.endpoint.base_url is not None:
        raise UsageError("--serve and --base-url exclude each other", "Omit --base-url: --serve sets the address.")
    server = None
    if options.serve is not None:
        from snellen.cli.serve import parse_vllm

        server = parse_vllm(options.serve)
    named = options.model or ([] if server is None else [f"api:{server.public}"])
    settings = environment.RunVariables(call.data.data, options.limit, options.out, tuple(named))
    typed = {lasting_name(name): name for name in reversed(with_tasks(names))}
    found = {name: find(name) for name in reversed(typed)}
    if not named or any(each.variables or each.places for each in found.values()):
        settings = environment.with_variables(settings, names)
    run_settings: Any = {
        **shared.run_settings(
            options, call.data, call.generation, call.endpoint, call.media, call.local, call.workers, call.budget
        ),
        **_agent_settings(call.agents, names),
        "data": settings.data,
        "limit": settings.limit,
    }
    base = run_spec("", "", run_settings)
    models = _with_baselines(settings.model) if options.paired else list(dict.fromkeys(settings.model))
    prepared = [
        prepare(
            as_published(
                with_sampling(_own_options(structs.replace(base, benchmark=name, model=model), models, options.paired)),
                found[name].settings,
            ),
            found[name],
        )
        for name in found
        for model in models
    ]
    specs = [spec for spec, _ in prepared]
    benchmarks = [with_subset(benchmark, base) for _, benchmark in prepared]
    folders = _folders(specs, settings.out, typed)
    is_checked = output.fail_under or output.junit is not None or output.step_summary is not None
    checks = CheckReport(output) if is_checked else None
    with contextlib.ExitStack() as stack:
        if checks is not None:
            stack.enter_context(checks.errors(f"run {' '.join(names)}"))
        specs = [
            spec
            if each.with_media is None
            else structs.replace(spec, data=each.with_media(spec.data, base.options.media))
            for spec, each in zip(specs, benchmarks, strict=True)
        ]
        faults = _check(specs, benchmarks, folders, output.profile, dry_run=options.dry_run)
        subjects = [(each, spec.data) for spec, each in zip(specs, benchmarks, strict=True)]
        asked = asked_after_runs(judging, call.readers, subjects, base.options)
        print_notes(() if checks is None else checks.possible(specs, benchmarks, output.profile))
        if options.dry_run:
            for spec, each in zip(specs, benchmarks, strict=True):
                if (reading := each.reading(spec.data)) is not None:
                    show_reading(each, reading)
            require_models(specs, here=False)
            show_estimates(specs, benchmarks, folders, as_json=output.as_json)
            return None
        if len(specs) > 1:
            require_models(specs)
        if asked is not None:
            asked.require_ready(dict(zip(folders, benchmarks, strict=True)))
        if server is not None:
            from snellen.models.serve.supervise import serving

            address = stack.enter_context(serving(server, note)).url
            served = structs.replace(base.options, base_url=address)
            specs = [_own_options(structs.replace(spec, options=served), models, options.paired) for spec in specs]
        return _perform_all(specs, benchmarks, folders, faults, output, asked, checks, paired=options.paired)


def _agent_settings(agents: AgentOptions, benchmarks: Sequence[str]) -> ModelSettings:
    """Return the settings of an agent, with the image of its sandbox; none where all its options are omitted."""
    if agents == AgentOptions():
        return {}
    from snellen.cli.environment import sandbox_image

    return agents.settings(sandbox_image(agents.sif, agents.sandbox, benchmarks))


def plan_among(names: Sequence[str]) -> str | None:
    """Return the plan that is run; None where benchmarks are named.

    Raises:
        UsageError: a plan stands among benchmarks or other plans.
    """
    if not any(name.endswith(".toml") for name in names):
        return None
    from snellen.runs.plan.document import is_plan

    plans = [name for name in names if is_plan(name)]
    if plans and len(names) > 1:
        raise UsageError(
            f"{plans[0]} is a plan, and other names stand beside it",
            "Run plans alone: snellen run PLAN.toml",
        )
    return plans[0] if plans else None


def _check(
    specs: Sequence[RunSpec],
    benchmarks: Sequence[Benchmark],
    folders: Sequence[Path],
    profile: str | None,
    *,
    dry_run: bool,
) -> dict[Path, PluginError]:
    """Refuse options, folders and data before the first request; return the faults of plug-ins by run folder.

    Of several runs, one whose plug-in is faulty fails in its turn; the others are run.
    """
    from snellen.engine.resume import require_video_reader

    faults: dict[Path, PluginError] = {}
    for spec, benchmark, folder in zip(specs, benchmarks, folders, strict=True):
        require_profile(spec, benchmark, profile)
        if not dry_run:
            require_run_folder(folder)
        if len(specs) > 1:  # a benchmark without its data is refused before another one is paid for
            try:
                next(iter(benchmark.samples(spec.data)), None)
                require_video_reader(benchmark, spec)
            except Exception as error:
                fault = error if isinstance(error, PluginError) else plugin_fault(error)
                if dry_run or fault is None:
                    raise
                faults[folder] = fault
    require_used_data(specs[0].data, benchmarks)
    return faults


def _perform_all(
    specs: Sequence[RunSpec],
    benchmarks: Sequence[Benchmark],
    folders: Sequence[Path],
    faults: dict[Path, PluginError],
    output: RunOutputOptions,
    asked: AskedAfterRuns | None,
    checks: CheckReport | None,
    *,
    paired: bool,
) -> ModelOutcome:
    """Perform the runs one after the other; of several, a failed one does not stop the others."""
    from snellen.benchmarks.registry import is_path
    from snellen.engine.progress import display
    from snellen.engine.run_folder import RunFolder
    from snellen.runs.perform import perform

    outcome = ModelOutcome(checks=checks, paired=paired)
    verbose = not (output.quiet or output.as_json)
    for spec, benchmark, folder in zip(specs, benchmarks, folders, strict=True):
        if len(specs) > 1 and verbose:
            note(f"{benchmark.name} with {spec.model_with_adapter}, in {folder}")
        try:
            if folder in faults:
                raise faults[folder]
            reading = None if output.quiet else benchmark.reading(spec.data)
            if reading is not None:
                show_reading(benchmark, reading)
            if spec.data.path is not None and verbose:
                show_data_files(benchmark, spec.data)
            if verbose and (spec.data.path is not None or reading is not None):
                judge = None if asked is None else asked.of(benchmark).judge
                is_judged_table = judge is not None and benchmark.table is not None
                print_notes(() if is_judged_table else benchmark.notices(spec.data))
            if verbose and asked is not None:
                print_notes(filter(None, [asked.other_judge(benchmark)]))
            progress = display(as_json=output.as_json, quiet=output.quiet)
            with log_live(output.log, spec, benchmark) as observer:
                run = perform(
                    spec, RunFolder(folder), benchmark=benchmark, display=progress, trust=True, observer=observer
                )
            outcome.runs.append(run)
        except Exception as error:
            cause = error if isinstance(error, SnellenError) else plugin_fault(error)
            if cause is None or (cause is not error and len(specs) == 1 and not output.as_json):
                raise
            # As a finished run names a table: not by its folder.
            name = benchmark.name if is_path(spec.benchmark) else spec.benchmark
            failure = FailedModel(folder, name, spec.model, cause)
            last = len(specs) == 1 or isinstance(cause, InterruptedRunError)
            if last and output.as_json:
                raise typer.Exit(tell_failure(outcome, failure)) from error
            if last:
                raise
            tell(cause)
            outcome.failures.append(failure)
        else:
            if asked is not None:
                _ask(asked, outcome, output)
    return outcome


def _ask(asked: AskedAfterRuns, outcome: ModelOutcome, output: RunOutputOptions) -> None:
    """Ask reader and judge about the last run of the outcome; one that fails is a failure of its own, and the run stays."""
    from snellen.engine.progress import display
    from snellen.engine.run_folder import JUDGED, derived_folder

    run = outcome.runs[-1]
    try:
        outcome.judged += asked.ask(run, display(as_json=output.as_json, quiet=output.quiet))
    except InterruptedRunError:
        raise
    except SnellenError as error:
        tell(error)
        outcome.judge_commands[run.path] = asked.command(run.path, run.benchmark)
        outcome.failures.append(FailedModel(derived_folder(run.path, JUDGED), JUDGED, None, error))


def _with_baselines(models: Sequence[str]) -> list[str]:
    """Return the models of --paired: before each tools:NAME the same model without tools, api:NAME.

    Raises:
        UsageError: a model has no tools.
    """
    for model in models:
        if not model.startswith("tools:"):
            raise UsageError(
                f"--paired runs a model with and without tools, and --model {model} has none",
                "Write --model tools:NAME.",
            )
    return [each for model in dict.fromkeys(models) for each in (without_tools(model), model)]


def _own_options(spec: RunSpec, models: Sequence[str], paired: bool) -> RunSpec:
    """Drop options that are for other models of the call: tools, and options of endpoints from a local model's run."""
    from snellen.models.registry import runtime_of

    if paired and not spec.model.startswith("tools:"):
        spec = structs.replace(spec, options=structs.replace(spec.options, tools=None))
    if not runtime_of(spec.model).here or all(runtime_of(name).here for name in models):
        return spec
    options = structs.replace(spec.options, base_url=None, key_env=None, extra_body={}, prices=None, cache=None)
    return structs.replace(spec, options=options, max_cost=None)
