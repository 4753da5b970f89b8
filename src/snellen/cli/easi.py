"""snellen easi"""

from __future__ import annotations

import contextlib
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from snellen.cli import options as given
from snellen.errors import SnellenError, UsageError

if TYPE_CHECKING:
    from snellen.interop.easi_payload import Metadata
    from snellen.pipeline import Board, Settings, Watch
    from snellen.pipeline.journal import LogFile

CHOICE, JUDGING, SENDING = "What is asked", "Judge", "Submission"


def easi(
    context: typer.Context,
    model: Annotated[
        str, typer.Option("--model", "-m", metavar="KIND:NAME", help="Who answers: local:NAME, api:NAME, embedded, …")
    ],
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
    from snellen.models.base import ModelOptions
    from snellen.pipeline import Settings, plan
    from snellen.pipeline.journal import LogFile
    from snellen.pipeline.keys import chosen

    settings = Settings(
        model=model,
        options=ModelOptions(
            generation=given.generation(max_tokens, temperature, top_p, None),
            media=given.media(max_long_side, max_pixels, "original", 90, None, False, None, "frames"),
            base_url=base_url,
            key_env=key_env,
            extra_body=given.json_object(extra_body, "--extra-body"),
            timeout_s=timeout,
            concurrency=concurrency,
            dtype=dtype,
            device=device,
            batch_size=batch_size,
            revision=revision,
            seed=seed,
        ),
        benchmarks=chosen(benchmarks, extra=include_extra),
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
    details = _details(model, submit, submission_configs, dry_run=dry_run)
    board = plan(settings)
    with LogFile(board.folder, verbose=verbose) as log:
        log.said(f"snellen easi: {_again(context, drop=())}")
        _through(settings, board, log, dry_run=dry_run, plain=no_rich, as_json=as_json)
        status = (board.status if board.failed else 0) if dry_run else board.status
        sent = None if details is None else _sent(board, details, log, status, dry_run=dry_run)
        _tell(context, board, log, sent, as_json=as_json, dry_run=dry_run)
    raise typer.Exit(status or (0 if sent is None else sent.status))


def _details(model: str, submit: bool, configs: str | None, *, dry_run: bool) -> Metadata | None:
    """What the submission says, checked before anything else; None where nothing is sent."""
    if not submit:
        if configs is not None:
            raise UsageError("--submission-configs is for --submit, which was not given.", "Write both, or neither.")
        return None
    from snellen.interop.easi_payload import is_model_name, metadata
    from snellen.submitting import hub_token

    name = model.partition(":")[2]
    details = metadata({}, configs, defaults={"modelName": name} if is_model_name(name) else {})
    if not dry_run:
        hub_token()
    return details


def _through(settings: Settings, board: Board, log: LogFile, *, dry_run: bool, plain: bool, as_json: bool) -> None:
    """Data, answers and judge, shown as they come."""
    from snellen.pipeline import prepare, work

    with _shown(board, log, plain=plain, as_json=as_json) as watch:
        prepare(settings, board, watch)
        if not dry_run:
            work(settings, board, watch)
    for row in board.failed:
        log.said(f"{row.name} failed: {row.error}")


class _Sent(NamedTuple):
    """What became of the submission: one line for people, where its files are, and an exit status."""

    text: str
    folder: Path | None = None
    status: int = 0


def _sent(board: Board, details: Metadata, log: LogFile, status: int, *, dry_run: bool) -> _Sent:
    """Send what is there, if all that was asked for is complete."""
    from snellen import submitting
    from snellen.pipeline.board import whole_runs

    if dry_run:
        sent = _Sent(f"not sent (--dry-run): what it says of {details.model_name} is in order")
    elif status:
        sent = _Sent("not sent: not everything is complete")
    else:
        try:
            token = submitting.hub_token()
            prepared, reply = submitting.submit(
                whole_runs(board.folder), details, token, out=board.folder / "submissions", say=log.said
            )
            sent = _Sent(f"sent as {details.model_name}: {reply.text.strip() or reply.status}", prepared.folder)
        except SnellenError as error:
            log.said(f"submission: {error}")
            sent = _Sent(f"not sent: {error}\nBy hand: snellen submit easi {board.folder}", None, error.exit_code)
    log.said(f"submission {sent.text}")
    return sent


@contextlib.contextmanager
def _shown(board: Board, log: LogFile, *, plain: bool, as_json: bool) -> Iterator[Watch]:
    from snellen.cli.easi_screen import Plain, Screen, Watchers

    if as_json or plain or not sys.stderr.isatty():
        yield Watchers([log, Plain(as_json=as_json)])
        return
    with Screen(board, _title(board)) as screen:
        yield Watchers([log, screen])


def _tell(
    context: typer.Context, board: Board, log: LogFile, sent: _Sent | None, *, as_json: bool, dry_run: bool
) -> None:
    """The table that stays and what it cannot hold, or one JSON object."""
    from snellen.cli.easi_screen import final, listed, remarks
    from snellen.cli.output import show, show_json
    from snellen.pipeline.board import entry

    again = _again(context, drop=("rerun", "dry_run"))
    left = [] if dry_run else board.unfinished
    if as_json:
        average, known = board.average()
        show_json(
            {
                "model": board.model,
                "folder": str(board.folder),
                "benchmarks": {row.name: entry(row) for row in board.rows},
                "average": {"value": average, "benchmarks": known, "of": 8},
                "log": str(log.path),
                "exit_code": board.status,
                **({"go_on": again} if left else {}),
                **({} if sent is None else {"submission": {"text": sent.text, "folder": sent.folder}}),
            }
        )
        return
    show(final(board, _title(board), _width()))
    if found := remarks(board):
        show(listed(found), "")
    print(f" results      {board.folder}\n log          {log.path}")
    if sent is not None:
        print(f" leaderboard  {sent.text}" + (f"\n              {sent.folder}" if sent.folder else ""))
    if left:
        print(f"\n{len(left)} of {len(board.rows)} benchmarks are not complete. To go on:\n  {again}")


def _width() -> int:
    from rich.console import Console

    console = Console()
    return console.width if console.is_terminal else 160


def _title(board: Board) -> str:
    return f"EASI · {board.model}"


def _again(context: typer.Context, drop: tuple[str, ...]) -> str:
    """The command as it was given, quoted for a shell, without the options named in `drop`."""
    words = ["snellen", "easi"]
    for parameter in context.command.params:
        name = parameter.name or ""
        source = context.get_parameter_source(name)
        if name in drop or source is None or source.name != "COMMANDLINE":
            continue
        value: Any = context.params[name]
        flag = parameter.opts[0]
        if isinstance(value, bool):
            words.append(flag if value else (parameter.secondary_opts or [flag])[0])
            continue
        for one in value if isinstance(value, list | tuple) else [value]:
            words += [flag, str(one)]
    return shlex.join(words)
