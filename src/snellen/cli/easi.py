"""snellen easi"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from snellen.cli import options as given
from snellen.cli.easi_finish import again, end, foreseen, shown, typed
from snellen.errors import UsageError

if TYPE_CHECKING:
    from snellen.easi.external import Settings as BackendSettings
    from snellen.easi.submit.payload import Metadata

PEERS = "Another back end"
CHOICE, JUDGING, SENDING = "What is asked", "Judge", "Submission"


def easi(
    context: typer.Context,
    model: Annotated[
        str,
        typer.Option(
            "--model",
            "-m",
            metavar="KIND:NAME",
            help="Who answers: local:NAME, api:NAME, embedded, …; of another back end its own name of a model.",
        ),
    ],
    extra: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="-- EXTRA", help="Further arguments of another back end, as they are.", show_default=False
        ),
    ] = None,
    backend: Annotated[
        Literal["native", "lmms-eval", "vlmevalkit"],
        typer.Option(help="Who asks: Snellen, or a peer's own harness.", rich_help_panel=PEERS),
    ] = "native",
    model_args: Annotated[
        str | None,
        typer.Option(metavar="KEY=VALUE,…", help="Of lmms-eval's model.", rich_help_panel=PEERS),
    ] = None,
    accelerate: Annotated[
        bool,
        typer.Option("--accelerate/--no-accelerate", help="Start lmms-eval by accelerate.", rich_help_panel=PEERS),
    ] = True,
    backend_python: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Python of the harness's environment.",
            show_default="the one that runs Snellen",
            rich_help_panel=PEERS,
        ),
    ] = None,
    backend_home: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="VLMEvalKit's checkout.",
            show_default="VLMEVALKIT_HOME, else ./VLMEvalKit",
            rich_help_panel=PEERS,
        ),
    ] = None,
    backend_time_limit: Annotated[
        float | None,
        typer.Option(metavar="SECONDS", min=1.0, help="Longest that a command of it may take.", rich_help_panel=PEERS),
    ] = None,
    benchmarks: Annotated[
        str | None,
        typer.Option(
            metavar="KEYS",
            help="By comma, EASI's keys or ours; sitebench is site, and site_image or site_video half of it.",
            show_default="the eight of EASI's average",
            rich_help_panel=CHOICE,
        ),
    ] = None,
    include_extra: Annotated[
        bool,
        typer.Option("--include-extra", help="The four other benchmarks as well.", rich_help_panel=CHOICE),
    ] = False,
    output_dir: Annotated[
        Path, typer.Option(metavar="DIR", help="Gets a folder for the model, and in it a run for each benchmark.")
    ] = Path("eval_results"),
    dataset_dir: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Holds the data: a folder a benchmark (vsi-bench, vsi_bench or VSI-Bench), or VLMEvalKit's tables.",
            show_default="from the hub",
            rich_help_panel=CHOICE,
        ),
    ] = None,
    limit: Annotated[
        int | None,
        typer.Option(min=1, help="Only the first so many questions of each; never complete.", rich_help_panel=CHOICE),
    ] = None,
    option: Annotated[
        list[str] | None,
        typer.Option(
            "--benchmark-option",
            "-o",
            metavar="KEY=VALUE",
            help="A setting of the benchmarks, such as prompting=lmms-eval; may be repeated.",
            rich_help_panel=CHOICE,
        ),
    ] = None,
    rerun: Annotated[
        bool, typer.Option("--rerun", help="Begin anew; what is there is moved to earlier/, not overwritten.")
    ] = False,
    id_is: given.IdIs = "id",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check options, data and submission; load no model and ask nobody.")
    ] = False,
    judge: Annotated[
        str | None,
        typer.Option(
            "--judge",
            "--judge-model",
            metavar="KIND:NAME",
            help="Reads and grades the replies of a benchmark where the rules cannot read too many.",
            show_default="nobody",
            rich_help_panel=JUDGING,
        ),
    ] = None,
    extraction_threshold: Annotated[
        float,
        typer.Option(
            min=0.0, max=1.0, help="Share of unread replies above which a judge is asked.", rich_help_panel=JUDGING
        ),
    ] = 0.025,
    no_judge: Annotated[
        bool,
        typer.Option(
            "--no-judge", help="Ask no judge, and leave verdicts that are there out.", rich_help_panel=JUDGING
        ),
    ] = False,
    submit: Annotated[
        bool,
        typer.Option("--submit", help="Send the results to the leaderboard at the end.", rich_help_panel=SENDING),
    ] = False,
    submission_configs: Annotated[
        str | None,
        typer.Option(
            metavar="JSON|FILE", help="What the submission says about the model; see docs.", rich_help_panel=SENDING
        ),
    ] = None,
    nproc: given.Nproc = None,
    ray: given.Ray = None,
    seed: given.Seed = 0,
    max_tokens: given.MaxTokens = None,
    temperature: given.Temperature = None,
    top_p: given.TopP = None,
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
    dtype: given.Dtype = "auto",
    device: given.Device = "auto",
    batch_size: given.BatchSize = 32,
    revision: given.Revision = None,
    no_rich: Annotated[
        bool, typer.Option("--no-rich", help="Plain lines in place of the live table.", rich_help_panel=given.SHOWING)
    ] = False,
    verbose: Annotated[
        bool,
        typer.Option(
            "--verbose", help="Everything that any module logs, into the log file.", rich_help_panel=given.SHOWING
        ),
    ] = False,
    as_json: given.AsJson = False,
) -> None:
    """Ask a model all of EASI's spatial benchmarks, or go on with that; judge and submit if asked.

    Options, the submission and all data are checked before the model is loaded, which is done once. What has an answer
    is not asked again, and a benchmark that fails does not stop the others. The exit status is 0 only if every
    benchmark is complete.
    """
    from snellen.easi import Settings, plan, prepare, work
    from snellen.easi.log_file import LogFile
    from snellen.easi.names import chosen
    from snellen.models.base import ModelOptions

    names = chosen(benchmarks, extra=include_extra)
    if backend != "native":
        from snellen.easi.external import Settings as BackendSettings
        from snellen.easi.external.run_all import PAYLOAD_NAMES

        driven = BackendSettings(
            model=model,
            model_args=model_args or "",
            nproc=nproc or 1,
            accelerate=accelerate,
            out=output_dir,
            dataset_dir=dataset_dir,
            python=backend_python,
            home=backend_home,
            judge_model="" if no_judge else judge or "",
            threshold=extraction_threshold,
            rerun=rerun,
            verbose=verbose,
            extra=tuple(extra or ()),
            time_limit_s=backend_time_limit,
        )
        details = _details(model, submit, submission_configs, PAYLOAD_NAMES[backend], dry_run=dry_run)
        _by_peer(context, driven, names, backend, details, plain=no_rich, as_json=as_json, dry_run=dry_run)
        return
    settings = Settings(
        model=model,
        options=ModelOptions(
            generation=given.generation(max_tokens, temperature, top_p, None),
            media=given.media(max_long_side, max_pixels, "original", 90, None, False, None, "frames"),
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
            revision=revision,
            seed=seed,
            id_is=id_is,
        ),
        benchmarks=names,
        out=output_dir,
        dataset_dir=dataset_dir,
        benchmark_options=given.pairs(option),
        limit=limit,
        nproc=nproc,
        ray=ray,
        max_attempts=max_attempts,
        judge=judge,
        threshold=extraction_threshold,
        judging=not no_judge,
        rerun=rerun,
    )
    details = _details(model.partition(":")[2], submit, submission_configs, dry_run=dry_run)
    if extra:
        raise UsageError(f"{shlex.join(extra)}: arguments behind -- are for another back end", "Leave them away.")
    _only(context, PEER_ONLY, "another back end", "Name one with --backend, or leave them away.")
    board = plan(settings)
    with LogFile(board.folder, verbose=verbose) as log:
        log.said(again(context, drop=()))
        with shown(board, log, plain=no_rich, as_json=as_json) as watch:
            prepare(settings, board, watch)
            if details is not None and (why := foreseen(board, limit)):
                watch.said(f"nothing will be sent at the end, because the results cannot be whole: {why}")
            if not dry_run:
                work(settings, board, watch)
        end(context, board, details, log, as_json=as_json, dry_run=dry_run)


PEER_ONLY = ("model_args", "accelerate", "backend_python", "backend_home", "backend_time_limit")
NATIVE_ONLY = (
    *("limit", "option", "ray", "seed", "max_tokens", "temperature", "top_p", "base_url", "key_env", "concurrency"),
    *("id_is", "timeout", "max_attempts", "patience", "rpm", "tpm", "extra_body", "max_long_side", "max_pixels"),
    *("dtype", "device", "batch_size", "revision"),
)


def _only(context: typer.Context, names: tuple[str, ...], whose: str, hint: str) -> None:
    """Refuse options that would have no effect."""
    idle = [one.opts[0] for one in context.command.params if one.name in names and typed(context, one.name)]
    if idle:
        raise UsageError(f"{', '.join(idle)}: for {whose}, and of no effect here", hint)


def _by_peer(
    context: typer.Context,
    settings: BackendSettings,
    names: tuple[str, ...],
    backend: str,
    details: Metadata | None,
    *,
    plain: bool,
    as_json: bool,
    dry_run: bool,
) -> None:
    """The whole command where another harness asks."""
    from snellen.easi.external import run_all
    from snellen.easi.log_file import LogFile

    _only(
        context,
        NATIVE_ONLY,
        "Snellen's own back end",
        "Give the harness its own arguments behind --, or in --model-args.",
    )
    board = run_all.plan(backend, settings, names)
    with LogFile(board.folder, verbose=settings.verbose) as log:
        log.said(again(context, drop=()))
        with shown(board, log, plain=plain, as_json=as_json) as watch:
            if not dry_run:
                run_all.work(backend, settings, board, watch, board.folder / f"{backend}.log")
        end(context, board, details, log, as_json=as_json, dry_run=dry_run)


def _details(
    name: str, submit: bool, configs: str | None, backend: str = "others", *, dry_run: bool
) -> Metadata | None:
    """What the submission says, checked before anything else; None where nothing is sent."""
    if not submit:
        if configs is not None:
            raise UsageError("--submission-configs is for --submit, which was not given.", "Write both, or neither.")
        return None
    from snellen.easi.submit import hub_token
    from snellen.easi.submit.payload import is_model_name, metadata

    named = {"modelName": name} if is_model_name(name) else {}
    details = metadata({}, configs, defaults={"backend": backend, **named})
    if not dry_run:
        hub_token()
    return details
