"""End of `snellen easi`: submission, final table, the command to resume, and exit status."""

from __future__ import annotations

import contextlib
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import typer

from snellen.errors import FingerprintError, SnellenError, UsageError

if TYPE_CHECKING:
    from snellen.easi import Board, EasiWatch
    from snellen.easi.log_file import LogFile
    from snellen.easi.result_files import ResultFiles
    from snellen.easi.submit.payload import Metadata


class SubmissionFacts(NamedTuple):
    """Facts about the model for easi_results.json, and whether a submission is wanted."""

    details: Metadata
    wanted: bool


def end(
    context: typer.Context, board: Board, facts: SubmissionFacts, log: LogFile, *, as_json: bool, dry_run: bool
) -> None:
    """Write easi_results.json and its zip, submit the results if requested, show them, and exit with the command's status."""
    for row in board.failed:
        log.said(f"{row.name} failed: {row.error}")
    status = 0 if dry_run and not (board.failed or board.interrupted) else board.status
    files = None if dry_run else _result_files(context, board, facts.details, log)
    submission = _submit(context, board, facts.details, log, status, dry_run=dry_run) if facts.wanted else None
    status = status or (0 if submission is None else submission.status)
    _show(context, board, log, submission, files, status, as_json=as_json, dry_run=dry_run)
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


@contextlib.contextmanager
def display(board: Board, log: LogFile, *, plain: bool, as_json: bool) -> Iterator[EasiWatch]:
    """Show progress in this block and write it to the log: a live table on a terminal, else plain lines."""
    from snellen.cli.easi_display import Plain, Screen, Watchers

    if as_json or plain or not sys.stderr.isatty():
        yield Watchers([log, Plain(as_json=as_json)])
        return
    with Screen(board, _title(board)) as screen:
        yield Watchers([log, screen])


def _show(
    context: typer.Context,
    board: Board,
    log: LogFile,
    submission: Submission | None,
    files: ResultFiles | None,
    status: int,
    *,
    as_json: bool,
    dry_run: bool,
) -> None:
    """Print the final table and its remarks, or one JSON object."""
    from snellen.cli.console import show, show_json
    from snellen.cli.easi_display import board_remarks, final, remark_table
    from snellen.easi.status import entry

    unfinished = [] if dry_run else board.unfinished
    # Runs with other settings refuse the same command; their errors name the remedy.
    refused = all(isinstance(row.error, FingerprintError) for row in unfinished)
    # With its limit, the same command would end at the same sample.
    limited = ("limit",) if all(row.capped for row in unfinished) else ()
    command = command_line(context, drop=("rerun", "dry_run", *limited))
    if as_json:
        average, known = board.average()
        show_json(
            {
                "model": board.model,
                "folder": str(board.folder),
                "benchmarks": {row.name: entry(row) for row in board.rows},
                "average": {"value": average, "benchmarks": known, "of": 8},
                "log": str(log.path),
                "easi_results": None if files is None else {"json": files.payload, "zip": files.archive},
                "exit_code": status,
                **({} if refused else {"go_on": command}),
                **(
                    {} if submission is None else {"submission": {"text": submission.text, "folder": submission.folder}}
                ),
            }
        )
        return
    show(final(board, _title(board), _width()))
    if remarks := board_remarks(board):
        show(remark_table(remarks), "")
    print(f" results      {board.folder}\n log          {log.path}")
    if files is not None:
        null = f"; null there, because incomplete: {', '.join(files.missing)}" if files.missing else ""
        print(f" for EASI     {files.payload} and {files.archive.name}{null}")
    if submission is not None:
        print(
            f" leaderboard  {submission.text}" + (f"\n              {submission.folder}" if submission.folder else "")
        )
    if unfinished:
        text = f"\n{len(unfinished)} of {len(board.rows)} benchmarks are not complete."
        print(text if refused else f"{text} To resume:\n  {command}")


def _width() -> int:
    from rich.console import Console

    console = Console()
    return console.width if console.is_terminal else 160


def _title(board: Board) -> str:
    return f"EASI · {board.model}"


def command_line(context: typer.Context, drop: tuple[str, ...] = ()) -> str:
    """Return the command line as it was typed, quoted for a shell, without the options named in `drop`."""
    words = ["snellen", "easi"]
    for parameter in context.command.params:
        name = parameter.name or ""
        if name in (*drop, "extra") or not typed(context, name):
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


def typed(context: typer.Context, name: str) -> bool:
    """Return True if a parameter stands on the command line."""
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"
