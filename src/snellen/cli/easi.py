"""snellen easi"""

from __future__ import annotations

import shlex
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

import typer

from snellen.cli import options as shared
from snellen.cli.console import note
from snellen.cli.easi_finish import SubmissionFacts, command_line, display, end, incomplete_reasons, typed
from snellen.cli.judge_options import JudgeKeyEnv, JudgeUrl
from snellen.cli.option_parsing import expand_options, only
from snellen.cli.option_text import parse_pairs
from snellen.errors import UsageError

if TYPE_CHECKING:
    from snellen.easi.external import HarnessSettings

HARNESS = "Another harness"
SELECTION, JUDGING, SENDING = "Benchmarks and samples", "Judge", "Submission"


@dataclass(frozen=True)
class HarnessOptions:
    """Harness that queries the model, its environment and its arguments."""

    PANEL: ClassVar[str] = HARNESS

    extra: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="-- EXTRA", help="Further arguments, passed to another harness unchanged.", show_default=False
        ),
    ] = None
    backend: Annotated[
        Literal["native", "lmms-eval", "vlmevalkit"],
        typer.Option(help="Harness: Snellen itself, or lmms-eval or VLMEvalKit."),
    ] = "native"
    model_args: Annotated[str | None, typer.Option(metavar="KEY=VALUE,…", help="Model arguments of lmms-eval.")] = None
    accelerate: Annotated[
        bool, typer.Option("--accelerate/--no-accelerate", help="Start lmms-eval with accelerate.")
    ] = True
    backend_python: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Python of the harness's environment.", show_default="the one that runs Snellen"
        ),
    ] = None
    backend_home: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Checkout of VLMEvalKit.", show_default="VLMEVALKIT_HOME, else ./VLMEvalKit"),
    ] = None
    backend_time_limit: Annotated[
        float | None, typer.Option(metavar="SECONDS", min=1.0, help="Maximum time per command of the harness.")
    ] = None


@dataclass(frozen=True)
class SelectionOptions:
    """Benchmarks, data and folder of an EASI evaluation."""

    benchmarks: Annotated[
        str | None,
        typer.Option(
            metavar="KEYS",
            help="EASI's or Snellen's names, separated by commas; sitebench is site, and site_image or site_video half "
            "of it.",
            show_default="the eight of EASI's average",
            rich_help_panel=SELECTION,
        ),
    ] = None
    include_extra: Annotated[
        bool,
        typer.Option("--include-extra", help="Run the four other benchmarks as well.", rich_help_panel=SELECTION),
    ] = False
    output_dir: Annotated[
        Path, typer.Option(metavar="DIR", help="Output folder: a subfolder per model, in it a run per benchmark.")
    ] = Path("eval_results")
    dataset_dir: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Data folder: a subfolder per benchmark (vsi-bench, vsi_bench or VSI-Bench), or VLMEvalKit's tables.",
            show_default="from the hub",
            rich_help_panel=SELECTION,
        ),
    ] = None
    limit: Annotated[
        int | None,
        typer.Option(min=1, help="Run only the first N samples of each: never complete.", rich_help_panel=SELECTION),
    ] = None
    option: Annotated[
        list[str] | None,
        typer.Option(
            "--benchmark-option",
            "-o",
            metavar="KEY=VALUE",
            help="A setting of the benchmarks, such as prompting=lmms-eval; may be repeated.",
            rich_help_panel=SELECTION,
        ),
    ] = None
    rerun: Annotated[
        bool, typer.Option("--rerun", help="Start over; existing results are moved to earlier/, not overwritten.")
    ] = False
    id_is: shared.IdIs = "id"
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Check options, data and submission; load no model and send no request."),
    ] = False
    seed: shared.Seed = 0


@dataclass(frozen=True)
class EasiJudgeOptions:
    """Judge of replies that rules cannot parse."""

    PANEL: ClassVar[str] = JUDGING

    judge: Annotated[
        str | None,
        typer.Option(
            "--judge",
            "--judge-model",
            metavar="KIND:NAME",
            help="Model that grades the replies of a benchmark if too many are unparseable; exact_matching is --no-judge.",
            show_default="none",
        ),
    ] = None
    judge_base_url: JudgeUrl = None
    judge_key_env: JudgeKeyEnv = None
    extraction_threshold: Annotated[
        float, typer.Option(min=0.0, max=1.0, help="Share of unparseable replies above which the judge is used.")
    ] = 0.025
    no_judge: Annotated[bool, typer.Option("--no-judge", help="Use no judge and ignore existing verdicts.")] = False


@dataclass(frozen=True)
class SubmitOptions:
    """Submission of the results at the end."""

    PANEL: ClassVar[str] = SENDING

    submit: Annotated[bool, typer.Option("--submit", help="Send the results to the leaderboard at the end.")] = False
    submission_configs: Annotated[
        str | None, typer.Option(metavar="JSON|FILE", help="Facts about the model for the submission; see docs.")
    ] = None


@dataclass(frozen=True)
class EasiOutputOptions:
    """Form of progress and result."""

    PANEL: ClassVar[str] = shared.OUTPUT

    no_rich: Annotated[bool, typer.Option("--no-rich", help="Plain lines instead of the live table.")] = False
    verbose: Annotated[
        bool, typer.Option("--verbose", help="Write the log messages of all modules to the log file.")
    ] = False
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON object on stdout, progress as JSON lines on stderr.")
    ] = False


@expand_options
def easi(
    context: typer.Context,
    model: Annotated[
        str,
        typer.Option(
            "--model",
            "-m",
            metavar="KIND:NAME",
            help="Model to evaluate: local:NAME, api:NAME, embedded, …; with --backend the harness's own name for it.",
        ),
    ],
    harness: HarnessOptions,
    selection: SelectionOptions,
    judging: EasiJudgeOptions,
    submission: SubmitOptions,
    workers: shared.WorkerOptions,
    generation: Annotated[shared.GenerationOptions, only("max_tokens", "temperature", "top_p")],
    endpoint: shared.EndpointOptions,
    media: Annotated[shared.MediaOptions, only("max_long_side", "max_pixels")],
    local: Annotated[shared.LocalOptions, only("dtype", "device", "batch_size", "revision")],
    output: EasiOutputOptions,
) -> None:
    """Run all of EASI's spatial benchmarks with one model, or resume; judge and submit if requested.

    Options, the submission and all data are checked before the model is loaded, which happens once. Answered samples are
    skipped, and a benchmark that fails does not stop the others. The exit status is 0 only if every benchmark is
    complete.
    """
    from msgspec import structs

    from snellen.easi import EasiSettings, plan, prepare, work
    from snellen.easi.judge import RULE_NAMES
    from snellen.easi.log_file import LogFile
    from snellen.easi.names import chosen
    from snellen.models.base import ModelOptions

    names = chosen(selection.benchmarks, extra=selection.include_extra)
    if judging.judge in RULE_NAMES:
        judging = replace(judging, judge=None, no_judge=True)
    if harness.backend != "native":
        from snellen.easi.external import HarnessSettings
        from snellen.easi.external.run_all import PAYLOAD_NAMES

        external = HarnessSettings(
            model=model,
            model_args=harness.model_args or "",
            nproc=workers.nproc or 1,
            accelerate=harness.accelerate,
            out=selection.output_dir,
            dataset_dir=selection.dataset_dir,
            python=harness.backend_python,
            home=harness.backend_home,
            judge_model="" if judging.no_judge else judging.judge or "",
            judge_base_url=judging.judge_base_url or "",
            threshold=judging.extraction_threshold,
            rerun=selection.rerun,
            verbose=output.verbose,
            extra=tuple(harness.extra or ()),
            time_limit_s=harness.backend_time_limit,
        )
        details = _details(model, submission, PAYLOAD_NAMES[harness.backend], dry_run=selection.dry_run)
        _run_external(context, external, names, harness.backend, details, output, dry_run=selection.dry_run)
        return
    model = hub_model(model)
    settings = EasiSettings(
        model=model,
        options=structs.replace(
            shared.model_options(generation, endpoint, media, local),
            seed=selection.seed,
            id_is=selection.id_is,
        ),
        benchmarks=names,
        out=selection.output_dir,
        dataset_dir=selection.dataset_dir,
        benchmark_options=parse_pairs(selection.option),
        limit=selection.limit,
        nproc=workers.nproc,
        ray=workers.ray,
        max_attempts=endpoint.max_attempts,
        retry_empty=endpoint.retry_empty,
        judge=judging.judge,
        threshold=judging.extraction_threshold,
        judging=not judging.no_judge,
        judge_options=ModelOptions(base_url=judging.judge_base_url, key_env=judging.judge_key_env),
        rerun=selection.rerun,
    )
    details = _details(model.partition(":")[2] or model, submission, dry_run=selection.dry_run)
    if harness.extra:
        raise UsageError(f"{shlex.join(harness.extra)}: arguments behind -- require --backend", "Omit them.")
    _refuse_unused(context, HARNESS_ONLY, "another harness", "Add --backend, or omit them.")
    board = plan(settings)
    with LogFile(board.folder, verbose=output.verbose) as log:
        log.said(command_line(context))
        with display(board, log, plain=output.no_rich, as_json=output.as_json) as watch:
            prepare(settings, board, watch)
            if details.wanted and (why := incomplete_reasons(board, selection.limit)):
                watch.said(f"nothing will be submitted at the end, because the results cannot be complete: {why}")
            if not selection.dry_run:
                work(settings, board, watch)
        end(context, board, details, log, as_json=output.as_json, dry_run=selection.dry_run)


HARNESS_ONLY = ("model_args", "accelerate", "backend_python", "backend_home", "backend_time_limit")
NATIVE_ONLY = (
    *("limit", "option", "ray", "seed", "max_tokens", "temperature", "top_p", "base_url", "key_env", "concurrency"),
    *("id_is", "timeout", "max_attempts", "patience", "rpm", "tpm", "extra_body", "max_long_side", "max_pixels"),
    *("dtype", "device", "batch_size", "revision", "effort", "detail", "responses", "stream", "judge_key_env"),
    "retry_empty",
)
HARNESS_UNUSED = {"vlmevalkit": ("model_args", "accelerate"), "lmms-eval": ("judge_base_url", "judge_key_env")}
"""Options that another harness's back end has no use for, though a different one has."""


def _refuse_unused(context: typer.Context, names: tuple[str, ...], whose: str, hint: str) -> None:
    """Raise UsageError for options on the command line that would have no effect."""
    unused = [
        parameter.opts[0]
        for parameter in context.command.params
        if parameter.name in names and typed(context, parameter.name)
    ]
    if unused:
        raise UsageError(f"{', '.join(unused)}: for {whose}, and without effect here", hint)


def _run_external(
    context: typer.Context,
    settings: HarnessSettings,
    names: tuple[str, ...],
    backend: str,
    details: SubmissionFacts,
    output: EasiOutputOptions,
    *,
    dry_run: bool,
) -> None:
    """Run the benchmarks with another harness, and end the command."""
    from snellen.easi.external import run_all
    from snellen.easi.log_file import LogFile

    _refuse_unused(
        context, NATIVE_ONLY, "Snellen itself", "Pass the harness its own arguments after --, or in --model-args."
    )
    _refuse_unused(context, HARNESS_UNUSED[backend], "another back end", f"Omit them: {backend} does not read them.")
    board = run_all.plan(backend, settings, names)
    with LogFile(board.folder, verbose=settings.verbose) as log:
        log.said(command_line(context))
        with display(board, log, plain=output.no_rich, as_json=output.as_json) as watch:
            if not dry_run:
                run_all.work(backend, settings, board, watch, board.folder / f"{backend}.log")
        end(context, board, details, log, as_json=output.as_json, dry_run=dry_run)


def hub_model(name: str) -> str:
    """Return KIND:NAME; a bare org/model is a model of the hub that runs here, as in EASI's script."""
    from snellen.easi.submit.payload import is_model_name

    if ":" in name or not is_model_name(name) or Path(name).exists():
        return name
    note(f"note: --model {name} is a model of the hub: local:{name}")
    return f"local:{name}"


def _details(name: str, submission: SubmitOptions, backend: str = "others", *, dry_run: bool) -> SubmissionFacts:
    """Build the facts about the model for easi_results.json, and those of a submission if one is requested."""
    from snellen.easi.submit import hub_token
    from snellen.easi.submit.payload import is_model_name, metadata, partial_metadata

    named = {"modelName": name} if is_model_name(name) else {}
    if not submission.submit:
        defaults = {"backend": backend, "modelName": name}
        return SubmissionFacts(partial_metadata(submission.submission_configs, defaults=defaults), wanted=False)
    details = metadata({}, submission.submission_configs, defaults={"backend": backend, **named})
    if not dry_run:
        hub_token()
    return SubmissionFacts(details, wanted=True)
