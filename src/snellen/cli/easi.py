"""snellen easi: run all, judge, submit, and the end of the command"""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, NamedTuple

import typer

from snellen.cli import options as shared
from snellen.cli.console import note
from snellen.cli.option_parsing import REQUIRED, argument, only, option, typed
from snellen.cli.options import JudgeKeyEnv, JudgeUrl, parse_pairs
from snellen.errors import SnellenError, UsageError
from snellen.types import MORE_SAMPLING

if TYPE_CHECKING:
    from snellen.easi import Board, EasiWatch
    from snellen.easi.external import HarnessSettings
    from snellen.easi.log_file import LogFile
    from snellen.easi.result_files import ResultFiles
    from snellen.easi.submit.payload import Metadata

SAMPLING_MORE = (*MORE_SAMPLING, "sampling")
SELECTION, JUDGING, SENDING = "Benchmarks and samples", "Judge", "Submission"


@dataclass(frozen=True)
class HarnessOptions:
    """Harness that queries the model, its environment and its arguments."""

    PANEL: ClassVar[str] = "Another harness"

    extra: list[str] | None = argument(
        "Further arguments, passed to another harness unchanged.", None, value="-- EXTRA"
    )
    backend: Literal["native", "lmms-eval", "vlmevalkit"] = option(
        "Harness: Snellen itself, or lmms-eval or VLMEvalKit.", "native"
    )
    model_args: str | None = option("Model arguments of lmms-eval.", value="KEY=VALUE,…")
    accelerate: bool = option("Start lmms-eval with accelerate.", True, names=("--accelerate/--no-accelerate",))
    backend_python: Path | None = option(
        "Python of the harness's environment.", value="FILE", said="the one that runs Snellen"
    )
    backend_home: Path | None = option(
        "Checkout of VLMEvalKit.", value="DIR", said="VLMEVALKIT_HOME, else ./VLMEvalKit"
    )
    backend_time_limit: float | None = option("Maximum time per command of the harness.", value="SECONDS", least=1.0)


@dataclass(frozen=True)
class SelectionOptions:
    """Benchmarks, data and folder of an EASI evaluation."""

    benchmarks: str | None = option(
        "EASI's or Snellen's names, by comma; sitebench is site, site_image or site_video half of it, easi-paper the paper's eight.",
        value="KEYS",
        said="the eight of EASI's average",
        panel=SELECTION,
    )
    include_extra: bool = option("Run the four other benchmarks as well.", False, panel=SELECTION)
    output_dir: Path = option(
        "Output folder: a subfolder per model, in it a run per benchmark.", Path("eval_results"), value="DIR"
    )
    dataset_dir: Path | None = option(
        "Data folder: a subfolder per benchmark (vsi-bench, vsi_bench or VSI-Bench), or VLMEvalKit's tables.",
        value="DIR",
        said="from the hub",
        panel=SELECTION,
    )
    limit: int | None = option("Run only the first N samples of each: never complete.", least=1, panel=SELECTION)
    pairs: list[str] | None = option(
        "A setting of the benchmarks, such as prompting=lmms-eval; may be repeated.",
        names=("--benchmark-option", "-o"),
        value="KEY=VALUE",
        panel=SELECTION,
    )
    prompts: Path | None = option(
        "Words of a harness in place of Snellen's, as `snellen prompts import` writes them.",
        value="FILE",
        panel=SELECTION,
    )
    rerun: bool = option("Start over; existing results are moved to earlier/, not overwritten.", False)
    id_is: shared.IdIs = "id"
    dry_run: bool = option("Check options, data and submission; load no model and send no request.", False)
    seed: shared.Seed = 0


@dataclass(frozen=True)
class EasiJudgeOptions:
    """Judge of replies that rules cannot parse."""

    PANEL: ClassVar[str] = JUDGING

    judge: str | None = option(
        "Model that grades the replies of a benchmark if too many are unparseable; exact_matching is --no-judge.",
        names=("--judge", "--judge-model"),
        value="KIND:NAME",
        said="none",
    )
    judge_base_url: JudgeUrl = None
    judge_key_env: JudgeKeyEnv = None
    rubric: Path | None = option(
        "Judge prompts of a harness in place of Snellen's, as `snellen prompts import` writes them: kit-judge.toml.",
        value="FILE",
    )
    extraction_threshold: float = option(
        "Share of unparseable replies above which the judge is used.", 0.025, least=0.0, most=1.0
    )
    no_judge: bool = option("Use no judge and ignore existing verdicts.", False)


@dataclass(frozen=True)
class SubmitOptions:
    """Submission of the results at the end."""

    PANEL: ClassVar[str] = SENDING

    submit: bool = option("Send the results to the leaderboard at the end.", False)
    submission_configs: str | None = option("Facts about the model for the submission; see docs.", value="JSON|FILE")


@dataclass(frozen=True)
class EasiOutputOptions:
    """Form of progress and result."""

    PANEL: ClassVar[str] = shared.OUTPUT

    no_rich: bool = option("Plain lines instead of the live table.", False)
    verbose: bool = option("Write the log messages of all modules to the log file.", False)
    as_json: bool = option("One JSON object on stdout, progress as JSON lines on stderr.", False, names=("--json",))


def easi(
    context: typer.Context,
    model: str = option(
        "Model to evaluate: local:NAME, api:NAME, embedded, …; with --backend the harness's own name for it.",
        REQUIRED,
        names=("--model", "-m"),
        value="KIND:NAME",
    ),
    *,
    harness: HarnessOptions,
    selection: SelectionOptions,
    judging: EasiJudgeOptions,
    submission: SubmitOptions,
    workers: shared.WorkerOptions,
    generation: Annotated[shared.StudyOptions, only("max_tokens", "temperature", "top_p", *SAMPLING_MORE, "system")],
    endpoint: shared.EndpointOptions,
    media: Annotated[shared.MediaOptions, only("max_long_side", "max_pixels", "min_pixels", "resize")],
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
    from snellen.easi.names import chosen
    from snellen.engine.run_folder import RunSpec
    from snellen.models.base import ModelOptions
    from snellen.runs.settings import with_sampling

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
    options = structs.replace(
        shared.model_options(generation, endpoint, media, local), seed=selection.seed, id_is=selection.id_is
    )
    asked = with_sampling(RunSpec(benchmark="", model=model, options=options, system=generation.system or ""))
    settings = EasiSettings(
        model=model,
        options=asked.options,
        benchmarks=names,
        out=selection.output_dir,
        dataset_dir=selection.dataset_dir,
        benchmark_options=parse_pairs(selection.pairs)
        | ({} if selection.prompts is None else {"prompts": str(selection.prompts)}),
        system=asked.system,
        recipe=asked.recipe,
        limit=selection.limit,
        nproc=workers.nproc,
        ray=workers.ray,
        max_attempts=endpoint.max_attempts,
        retry_empty=endpoint.retry_empty,
        judge=judging.judge,
        threshold=judging.extraction_threshold,
        judging=not judging.no_judge,
        judge_prompts="" if judging.rubric is None else str(judging.rubric),
        judge_options=ModelOptions(base_url=judging.judge_base_url, key_env=judging.judge_key_env),
        rerun=selection.rerun,
    )
    details = _details(model.partition(":")[2] or model, submission, dry_run=selection.dry_run)
    if harness.extra:
        raise UsageError(f"{shlex.join(harness.extra)}: arguments behind -- require --backend", "Omit them.")
    _refuse_unused(context, HARNESS_ONLY, "another harness", "Add --backend, or omit them.")
    board = plan(settings)

    def perform(watch: EasiWatch) -> None:
        prepare(settings, board, watch)
        if details.wanted and (why := incomplete_reasons(board, selection.limit)):
            watch.said(f"nothing will be submitted at the end, because the results cannot be complete: {why}")
        if not selection.dry_run:
            work(settings, board, watch)

    _perform(context, board, details, output, perform, dry_run=selection.dry_run)


HARNESS_ONLY = ("model_args", "accelerate", "backend_python", "backend_home", "backend_time_limit")
NATIVE_ONLY = (
    *("limit", "pairs", "ray", "seed", "system", "max_tokens", "temperature", "top_p", *SAMPLING_MORE),
    *("base_url", "key_env"),
    *("concurrency", "id_is", "timeout", "max_attempts", "patience", "rpm", "tpm", "extra_body", "max_long_side"),
    *("max_pixels", "min_pixels", "resize", "dtype", "device", "batch_size", "revision", "effort", "detail"),
    *("responses", "stream", "judge_key_env", "rubric", "retry_empty"),
)
HARNESS_UNUSED = {"vlmevalkit": ("model_args", "accelerate"), "lmms-eval": ("judge_base_url", "judge_key_env")}
"""Options that another harness's back end has no use for, though a different one has."""


def _refuse_unused(context: typer.Context, names: tuple[str, ...], whose: str, hint: str) -> None:
    """Raise UsageError for options on the command line that would have no effect."""
    if unused := typed(context, names):
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

    _refuse_unused(
        context, NATIVE_ONLY, "Snellen itself", "Pass the harness its own arguments after --, or in --model-args."
    )
    _refuse_unused(context, HARNESS_UNUSED[backend], "another back end", f"Omit them: {backend} does not read them.")
    board = run_all.plan(backend, settings, names)

    def perform(watch: EasiWatch) -> None:
        if not dry_run:
            run_all.work(backend, settings, board, watch, board.folder / f"{backend}.log")

    _perform(context, board, details, output, perform, dry_run=dry_run)


def _perform(
    context: typer.Context,
    board: Board,
    facts: SubmissionFacts,
    output: EasiOutputOptions,
    perform: Callable[[EasiWatch], None],
    *,
    dry_run: bool,
) -> None:
    """Run the benchmarks under a display and a log, and end the command."""
    from snellen.cli.easi_display import display
    from snellen.easi.log_file import LogFile

    with LogFile(board.folder, verbose=output.verbose) as log:
        log.said(command_line(context))
        with display(board, log, plain=output.no_rich, as_json=output.as_json) as watch:
            perform(watch)
        end(context, board, facts, log, as_json=output.as_json, dry_run=dry_run)


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


class SubmissionFacts(NamedTuple):
    """Facts about the model for easi_results.json, and whether a submission is wanted."""

    details: Metadata
    wanted: bool


def end(
    context: typer.Context, board: Board, facts: SubmissionFacts, log: LogFile, *, as_json: bool, dry_run: bool
) -> None:
    """Write easi_results.json and its zip, submit the results if requested, show them, and exit with the command's status."""
    from snellen.cli.easi_display import show_end

    for row in board.failed:
        log.said(f"{row.name} failed: {row.error}")
    status = 0 if dry_run and not (board.failed or board.interrupted) else board.status
    files = None if dry_run else _result_files(context, board, facts.details, log)
    submission = _submit(context, board, facts.details, log, status, dry_run=dry_run) if facts.wanted else None
    status = status or (0 if submission is None else submission.status)
    unfinished = [] if dry_run else board.unfinished
    # With its limit, the same command would end at the same sample.
    limited = ("limit",) if all(row.capped for row in unfinished) else ()
    command = command_line(context, drop=("rerun", "dry_run", *limited))
    show_end(board, log, submission, files, status, unfinished, command, as_json=as_json)
    raise typer.Exit(status)


def _result_files(context: typer.Context, board: Board, details: Metadata, log: LogFile) -> ResultFiles | None:
    """Write easi_results.json and easi_results.zip; an error is logged and shown, and changes no exit status."""
    from snellen.cli.console import note
    from snellen.easi.result_files import write_result_files

    if not any(row.run is not None for row in board.rows):
        return None
    try:
        files = write_result_files(board, details, context.params["output_dir"])
    except SnellenError as error:
        log.said(f"easi_results: {error}")
        note(f"note: easi_results.json and its zip were not written: {error}")
        return None
    log.said(f"easi_results: {files.payload}, {files.archive}")
    return files


class Submission(NamedTuple):
    """Outcome of the submission: a line for the user, the folder of its files, and an exit status."""

    text: str
    folder: Path | None = None
    status: int = 0


def _submit(
    context: typer.Context, board: Board, details: Metadata, log: LogFile, status: int, *, dry_run: bool
) -> Submission:
    """Submit the results if all requested benchmarks are complete."""
    from snellen.easi import submit
    from snellen.easi.status import whole_runs

    if dry_run:
        why = incomplete_reasons(board, context.params["limit"])
        but = f", but the results would be incomplete ({why})" if why else ""
        submission = Submission(f"not sent (--dry-run): the facts about {details.model_name} are valid{but}")
    elif status:
        submission = Submission("not sent: the results are incomplete")
    elif context.params["no_judge"] and (judged := _judged(board)):
        submission = Submission(
            f"not sent: {', '.join(judged)} have verdicts, and a submission uses the judge's scores if there are any. Move "
            "the verdicts away, or omit --no-judge",
            None,
            UsageError.exit_code,
        )
    else:
        try:
            token = submit.hub_token()
            prepared, reply = submit.submit(
                whole_runs(board.folder),
                details,
                token,
                profile=board.profile,
                out=board.folder / "submissions",
                say=log.said,
            )
            submission = Submission(
                f"sent as {details.model_name}: {reply.text.strip() or reply.status}", prepared.folder
            )
        except SnellenError as error:
            log.said(f"submission: {error}")
            text = f"not sent: {error}\nTo send them: snellen submit easi {board.folder}"
            submission = Submission(text, None, error.exit_code)
    log.said(f"submission {submission.text}")
    return submission


def incomplete_reasons(board: Board, limit: int | None) -> str:
    """Return why the results cannot become complete, as far as options and data show; empty if they can."""
    from snellen.benchmarks.spatial.tasks import EIGHT, TASKS
    from snellen.easi.status import whole_runs

    evaluated = {row.name for row in board.rows} | {path.name for path in whole_runs(board.folder)}
    omitted = [name for name in EIGHT if name not in evaluated]
    short = [
        row.name
        for row in board.rows
        if row.name in TASKS
        and row.total is not None
        and TASKS[row.name].rows
        and row.total < min(TASKS[row.name].rows)
    ]
    failed = [row.name for row in board.failed]
    reasons = {
        "--limit runs only a part": ["of each benchmark"] if limit is not None else [],
        "not evaluated": omitted,
        "without data": failed,
        "fewer questions than the full set": [] if limit is not None else short,
    }
    return "; ".join(f"{why}: {', '.join(names)}" for why, names in reasons.items() if names)


def _judged(board: Board) -> list[str]:
    from snellen.easi import judged_scores
    from snellen.engine.run_folder import RunFolder

    return [row.name for row in board.rows if judged_scores.beside(RunFolder(row.folder)) is not None]


def command_line(context: typer.Context, drop: tuple[str, ...] = ()) -> str:
    """Return the command line as it was typed, quoted for a shell, without the options named in `drop`."""
    words = ["snellen", "easi"]
    for parameter in context.command.params:
        name = parameter.name or ""
        if name in (*drop, "extra") or not typed(context, (name,)):
            continue
        value: Any = context.params[name]
        flag = parameter.opts[0]
        if isinstance(value, bool):
            words.append(flag if value else (parameter.secondary_opts or [flag])[0])
            continue
        for item in value if isinstance(value, list | tuple) else [value]:
            words += [flag, str(item)]
    extra = context.params.get("extra") or []
    return shlex.join([*words, "--", *extra] if extra else words)
