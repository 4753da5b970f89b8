"""snellen run"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from msgspec import structs

from snellen.cli import options as given
from snellen.cli.console import note
from snellen.cli.errors import tell
from snellen.cli.preview import (
    require_models,
    require_profile,
    require_run_folder,
    require_used_data,
    show_estimates,
)
from snellen.cli.results import Failure, Outcome, finish, tell_failure
from snellen.cli.serve import parse_vllm
from snellen.errors import InterruptedRunError, PluginError, SnellenError, UsageError
from snellen.plugin_errors import plugin_fault

if TYPE_CHECKING:
    from snellen.benchmarks.base import Benchmark
    from snellen.engine.run_folder import RunSpec

LOCAL = ("local", "embedded")
"""Kinds of models that run in this process: they refuse what is for an endpoint."""


def run(
    benchmark: Annotated[list[str], typer.Argument(metavar="BENCHMARK", help="What to ask; see `snellen list`.")],
    model: Annotated[
        list[str] | None,
        typer.Option(
            "--model", "-m", metavar="KIND:NAME", help="Who answers; may be repeated. embedded, api:NAME, local:NAME, …"
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Folder of the run, or of the runs if there are several.",
            show_default="results/BENCHMARK-MODEL",
        ),
    ] = None,
    data: given.DataPath = None,
    images: given.ImagesPath = None,
    option: given.BenchmarkOptions = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Only the first so many questions.")] = None,
    repeats: Annotated[int, typer.Option(min=1, max=given.MOST_REPEATS, help="Ask each question so often.")] = 1,
    seed: given.Seed = 0,
    max_tokens: given.MaxTokens = None,
    temperature: given.Temperature = None,
    top_p: given.TopP = None,
    stop: given.Stop = None,
    base_url: given.BaseUrl = None,
    key_env: given.KeyEnv = None,
    concurrency: given.Concurrency = 16,
    timeout: given.Timeout = 300.0,
    max_attempts: given.MaxAttempts = 6,
    patience: given.Patience = 900.0,
    rpm: given.Rpm = None,
    tpm: given.Tpm = None,
    extra_body: given.ExtraBody = None,
    max_long_side: given.MaxLongSide = None,
    max_pixels: given.MaxPixels = None,
    image_format: given.ImageFormat = "original",
    quality: given.Quality = 90,
    frames: given.Frames = None,
    fps: given.Fps = None,
    video: given.VideoAs = "frames",
    blank_images: given.BlankImages = False,
    corrupt: given.Corrupt = None,
    dtype: given.Dtype = "auto",
    device: given.Device = "auto",
    batch_size: given.BatchSize = 32,
    stop_after_first_json: given.StopAfterFirstJson = False,
    revision: given.Revision = None,
    agent_model: given.AgentModel = None,
    sandbox: given.Sandbox = "auto",
    sif: given.Sif = None,
    tools: given.Tools = None,
    agent_network: given.AgentNetwork = "endpoint",
    agent_memory: given.AgentMemory = None,
    agent_disk: given.AgentDisk = None,
    agent_processes: given.AgentProcesses = None,
    agent_open_files: given.AgentOpenFiles = None,
    agent_files: given.AgentFiles = None,
    agent_depth: given.AgentDepth = None,
    agent_requests: given.AgentRequests = None,
    serve: Annotated[
        str | None,
        typer.Option(
            metavar="'vllm MODEL …'", help="Start this server for the run, as `snellen serve` would, and end it after."
        ),
    ] = None,
    nproc: given.Nproc = None,
    ray: given.Ray = None,
    id_is: given.IdIs = "id",
    max_cost: given.MaxCost = None,
    max_tokens_total: given.MaxTokensTotal = None,
    prices: given.Prices = None,
    profile: given.Profiles = None,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run", help="Show questions, images, estimated tokens and cost. Sends nothing, needs no key."
        ),
    ] = False,
    report: given.WriteReport = False,
    as_json: given.AsJson = False,
    quiet: given.Quiet = False,
) -> None:
    """Ask a model everything that a benchmark asks, or go on with a run that was begun.

    Each benchmark and model has a run folder of its own; what it holds an answer to is not asked again. Progress goes
    to stderr, the table to stdout. The exit status is 0 only if every question was answered. Ctrl-C, SIGTERM and SIGHUP let
    pending requests finish, a second one gives them up; the status is then 130, 143 or 129.

    What a benchmark declares as a setting is an option of this command too: `snellen run vlm2 --help` lists them.
    """
    from snellen.benchmarks.base import Data
    from snellen.cli import environment
    from snellen.engine.preflight import require_video_reader
    from snellen.engine.progress import display
    from snellen.engine.run_folder import RunFolder, RunSpec
    from snellen.models.base import ModelOptions
    from snellen.runs.evaluate import default_folder, perform
    from snellen.runs.run import find_benchmark

    if serve is not None and base_url is not None:
        raise UsageError("--serve and --base-url exclude each other", "The server says where it is.")
    started = None if serve is None else parse_vllm(serve)
    if started is not None and not model:
        model = [f"api:{started.public}"]
    said = environment.filled(environment.Given(data, limit, out, tuple(model or ())), benchmark)
    data, limit, out = said.data, said.limit, said.out
    image = environment.sandbox_image(sif, sandbox, benchmark)
    settings = ModelOptions(
        generation=given.generation(max_tokens, temperature, top_p, stop),
        media=given.media(max_long_side, max_pixels, image_format, quality, frames, blank_images, fps, video, corrupt),
        base_url=base_url,
        key_env=key_env,
        extra_body=given.json_object(extra_body, "--extra-body"),
        timeout_s=timeout,
        patience_s=patience,
        rpm=rpm,
        tpm=tpm,
        concurrency=concurrency,
        dtype=dtype,
        device=device,
        batch_size=batch_size,
        stop_after_first_json=stop_after_first_json,
        revision=revision,
        prices=None if prices is None else str(prices),
        seed=seed,
        agent_model=agent_model,
        sandbox=sandbox,
        sif=None if image is None else str(image),
        tools=None if tools is None else str(tools),
        id_is=id_is,
        agent_network=agent_network,
        **given.agent_limits(
            agent_memory, agent_disk, agent_processes, agent_open_files, agent_files, agent_depth, agent_requests
        ),
    )
    asked = RunSpec(
        benchmark="",
        model="",
        data=Data(data, images, given.pairs(option), seed),
        options=settings,
        limit=limit,
        repeats=repeats,
        max_attempts=max_attempts,
        max_cost=max_cost,
        max_tokens_total=max_tokens_total,
        nproc=nproc,
        ray=ray,
    )
    models = _once(list(said.model))
    specs = [_beside(structs.replace(asked, benchmark=b, model=m), models) for b in _once(benchmark) for m in models]
    folders = [
        out if out is not None and len(specs) == 1 else default_folder(spec, out or Path("results")) for spec in specs
    ]
    if len(set(folders)) < len(folders):
        raise UsageError("two of these runs would share a folder", "Run them one by one, each with its own --out.")
    outcome = Outcome()
    faulty: dict[Path, PluginError] = {}
    chosen: list[Benchmark] = []
    for spec, folder in zip(specs, folders, strict=True):
        chosen.append(made := require_profile(spec, profile))
        if not dry_run:
            require_run_folder(folder)
        if len(specs) > 1:  # a benchmark without its data is refused before another one is paid for
            try:
                next(iter(made.samples(spec.data)), None)
                require_video_reader(made, spec)
            except Exception as error:
                if dry_run or (fault := plugin_fault(error)) is None:
                    raise
                faulty[folder] = fault  # it fails in its turn; the others are asked
    require_used_data(specs[0].data, chosen)
    if dry_run:
        show_estimates(specs, folders, as_json=as_json)
        return
    if len(specs) > 1:
        require_models(specs)
    with contextlib.ExitStack() as servers:
        if started is not None:
            from snellen.models.serve.supervise import serving

            address = servers.enter_context(serving(started, note)).url
            served = structs.replace(settings, base_url=address)
            specs = [_beside(structs.replace(spec, options=served), models) for spec in specs]
        for spec, folder in zip(specs, folders, strict=True):
            if len(specs) > 1 and not (quiet or as_json):
                note(f"{spec.benchmark} with {spec.model}, in {folder}")
            try:
                if folder in faulty:
                    raise faulty[folder]
                if spec.data.path is not None and not (quiet or as_json):
                    for line in find_benchmark(spec, trust=True).notices(spec.data):
                        note(f"note: {line}")
                outcome.runs.append(
                    perform(spec, RunFolder(folder), display=display(as_json=as_json, quiet=quiet), trust=True)
                )
            except Exception as raised:
                cause = raised if isinstance(raised, SnellenError) else plugin_fault(raised)
                if cause is None or (cause is not raised and len(specs) == 1 and not as_json):
                    raise
                failure = Failure(folder, spec.benchmark, spec.model, cause)
                last = len(specs) == 1 or isinstance(cause, InterruptedRunError)
                if last and as_json:
                    raise typer.Exit(tell_failure(outcome, failure)) from raised
                if last:
                    raise
                tell(cause)
                outcome.failures.append(failure)
    raise typer.Exit(finish(outcome, profile=profile, report=report, as_json=as_json))


def _beside(spec: RunSpec, models: list[str]) -> RunSpec:
    """A local model's part of a call that names models behind an endpoint too: what is for those is not for it."""
    if spec.model.partition(":")[0] not in LOCAL or all(name.partition(":")[0] in LOCAL for name in models):
        return spec
    options = structs.replace(spec.options, base_url=None, key_env=None, extra_body={}, prices=None)
    return structs.replace(spec, options=options, max_cost=None)


def _once(names: list[str]) -> list[str]:
    return list(dict.fromkeys(names))
