"""How `snellen easi` ends: what is sent, what is shown, the command that goes on, and the exit status."""

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
    from snellen.easi.submit.payload import Metadata


def end(
    context: typer.Context, board: Board, details: Metadata | None, log: LogFile, *, as_json: bool, dry_run: bool
) -> None:
    """Send what is to be sent, show how it stands, and leave with the exit status of it all."""
    for row in board.failed:
        log.said(f"{row.name} failed: {row.error}")
    status = 0 if dry_run and not (board.failed or board.interrupted) else board.status
    sent = None if details is None else _sent(context, board, details, log, status, dry_run=dry_run)
    _tell(context, board, log, sent, as_json=as_json, dry_run=dry_run)
    raise typer.Exit(status or (0 if sent is None else sent.status))


class _Sent(NamedTuple):
    """What became of the submission: one line for people, where its files are, and an exit status."""

    text: str
    folder: Path | None = None
    status: int = 0


def _sent(
    context: typer.Context, board: Board, details: Metadata, log: LogFile, status: int, *, dry_run: bool
) -> _Sent:
    """Send what is there, if all that was asked for is complete."""
    from snellen.easi import submit
    from snellen.easi.status import whole_runs

    if dry_run:
        why = foreseen(board, context.params["limit"])
        less = f", but the results would not be whole ({why})" if why else ""
        sent = _Sent(f"not sent (--dry-run): what it says of {details.model_name} is in order{less}")
    elif status:
        sent = _Sent("not sent: not everything is complete")
    elif context.params["no_judge"] and (judged := _judged(board)):
        sent = _Sent(
            f"not sent: verdicts lie beside {', '.join(judged)}, and a submission has the judge's figures where there are "
            "such; move them away, or leave --no-judge out",
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
            sent = _Sent(f"sent as {details.model_name}: {reply.text.strip() or reply.status}", prepared.folder)
        except SnellenError as error:
            log.said(f"submission: {error}")
            sent = _Sent(f"not sent: {error}\nBy hand: snellen submit easi {board.folder}", None, error.exit_code)
    log.said(f"submission {sent.text}")
    return sent


def foreseen(board: Board, limit: int | None) -> str:
    """Why the leaderboard would be sent nothing at the end, as far as options and data tell; empty where nothing says so."""
    from snellen.benchmarks.spatial.tasks import EIGHT, TASKS
    from snellen.easi.status import whole_runs

    there = {row.name for row in board.rows} | {path.name for path in whole_runs(board.folder)}
    left_out = [name for name in EIGHT if name not in there]
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
        "--limit asks a part": ["of each benchmark"] if limit is not None else [],
        "not asked": left_out,
        "without data": failed,
        "fewer questions than the whole set has": [] if limit is not None else short,
    }
    return "; ".join(f"{why}: {', '.join(names)}" for why, names in reasons.items() if names)


def _judged(board: Board) -> list[str]:
    from snellen.easi import judged_scores
    from snellen.engine.run_folder import RunFolder

    return [row.name for row in board.rows if judged_scores.beside(RunFolder(row.folder)) is not None]


@contextlib.contextmanager
def shown(board: Board, log: LogFile, *, plain: bool, as_json: bool) -> Iterator[EasiWatch]:
    from snellen.cli.easi_display import Plain, Screen, Watchers

    if as_json or plain or not sys.stderr.isatty():
        yield Watchers([log, Plain(as_json=as_json)])
        return
    with Screen(board, _title(board)) as screen:
        yield Watchers([log, screen])


def _tell(
    context: typer.Context, board: Board, log: LogFile, sent: _Sent | None, *, as_json: bool, dry_run: bool
) -> None:
    """The table that stays and what it cannot hold, or one JSON object."""
    from snellen.cli.console import show, show_json
    from snellen.cli.easi_display import final, listed, remarks
    from snellen.easi.status import entry

    left = [] if dry_run else board.unfinished
    # Runs with other settings refuse the same command again; each says what to do.
    settled = all(isinstance(row.error, FingerprintError) for row in left)
    # With its limit the same command would end where it ended.
    limited = ("limit",) if all(row.capped for row in left) else ()
    command = again(context, drop=("rerun", "dry_run", *limited))
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
                **({} if settled else {"go_on": command}),
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
        said = f"\n{len(left)} of {len(board.rows)} benchmarks are not complete."
        print(said if settled else f"{said} To go on:\n  {command}")


def _width() -> int:
    from rich.console import Console

    console = Console()
    return console.width if console.is_terminal else 160


def _title(board: Board) -> str:
    return f"EASI · {board.model}"


def again(context: typer.Context, drop: tuple[str, ...]) -> str:
    """The command as it was given, quoted for a shell, without the options named in `drop`."""
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
        for one in value if isinstance(value, list | tuple) else [value]:
            words += [flag, str(one)]
    behind = context.params.get("extra") or []
    return shlex.join([*words, "--", *behind] if behind else words)


def typed(context: typer.Context, name: str) -> bool:
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"
