"""`snellen submit`: send results to a leaderboard."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from snellen.cli import options as given
from snellen.cli.console import note, show, show_json
from snellen.errors import PreflightError
from snellen.scoring.interval_text import mark, span

if TYPE_CHECKING:
    from rich.table import Table

    from snellen.easi.submit import Prepared

group = typer.Typer(help="Send results to a leaderboard.", no_args_is_help=True)
ABOUT = "About the model"


@group.callback()
def _group() -> None: ...


@group.command()
def easi(
    results: Annotated[
        list[Path],
        typer.Argument(
            metavar="RESULTS",
            help="Run folders of the spatial benchmarks, folders of such, or folders and files of lmms-eval's or "
            "VLMEvalKit's results; of one model.",
        ),
    ],
    model_name: Annotated[
        str | None,
        typer.Option(
            metavar="ORG/MODEL", help="Its name on the hub.", show_default="the runs' own", rich_help_panel=ABOUT
        ),
    ] = None,
    model_type: Annotated[
        str | None,
        typer.Option(metavar="TYPE", help="pretrained, finetuned, instruction or rl.", rich_help_panel=ABOUT),
    ] = None,
    precision: Annotated[
        str | None,
        typer.Option(metavar="TYPE", help="bfloat16, float16, float32 or int8.", rich_help_panel=ABOUT),
    ] = None,
    revision: Annotated[
        str | None, typer.Option(help="Of its repository.", show_default="main", rich_help_panel=ABOUT)
    ] = None,
    weight_type: Annotated[
        str | None, typer.Option(metavar="TYPE", help="Original, Delta or Adapter.", rich_help_panel=ABOUT)
    ] = None,
    base_model: Annotated[
        str | None,
        typer.Option(metavar="ORG/MODEL", help="What a delta or an adapter belongs to.", rich_help_panel=ABOUT),
    ] = None,
    backend: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="vlmevalkit, lmmseval or others.",
            show_default="as the results say",
            rich_help_panel=ABOUT,
        ),
    ] = None,
    remarks: Annotated[str | None, typer.Option(help="Free text.", rich_help_panel=ABOUT)] = None,
    submission_configs: Annotated[
        str | None,
        typer.Option(
            metavar="JSON|FILE",
            help='The same in one: {"modelName": …, "modelType": …}; options win over it.',
            rich_help_panel=ABOUT,
        ),
    ] = None,
    mention: Annotated[
        bool, typer.Option("--mention", help="Add to the remarks how the figures were made.", rich_help_panel=ABOUT)
    ] = False,
    profile: Annotated[
        str, typer.Option(help="The scoring profile, one for all: easi, vlmevalkit, lmms-eval or strict.")
    ] = "easi",
    out: Annotated[Path, typer.Option(help="Each submission gets a folder of its own in it.")] = Path(
        "results/submissions"
    ),
    endpoint: Annotated[
        str | None, typer.Option(metavar="URL", help="Where to send it.", show_default="the leaderboard's own")
    ] = None,
    allow_incomplete: Annotated[
        bool, typer.Option("--allow-incomplete", help="Send also what does not answer all of the eight in full.")
    ] = False,
    trust: given.Trust = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Do all but the sending, and show what would be sent.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before sending.")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON object on stdout.", rich_help_panel=given.SHOWING)
    ] = False,
) -> None:
    """Submit a model's results on the spatial benchmarks to EASI's leaderboard.

    The token is HF_TOKEN, of the environment or of .env in the working folder; it is checked first, then what is said about
    the model, then whether the results are whole. Everything that is sent lies in a folder of its own before it is sent.
    """
    from snellen.easi import submit

    address = submit.check_endpoint(endpoint or submit.ENDPOINT)
    try:
        token = submit.hub_token()
    except PreflightError as error:
        if not dry_run:
            raise
        token = ""
        note(f"note: {error.message}; nothing can be sent before that")
    details = submit.metadata(
        {
            "modelName": model_name,
            "modelType": model_type,
            "precision": precision,
            "revision": revision,
            "weightType": weight_type,
            "baseModel": base_model,
            "backend": backend,
            "remarks": remarks,
        },
        submission_configs,
        defaults=submit.said_by(results, trust=trust),
    )
    prepared = submit.prepare(results, details, profile=profile, out=out, mention=mention, trust=trust)
    if not as_json:
        show(_table(prepared), _sending(prepared, address, token, profile))
    submit.require_whole(prepared, allow_incomplete=allow_incomplete)
    faults = prepared.faults()
    for line in faults:
        note(f"note: {line}")
    if before := submit.taken_before(prepared):
        note(f"note: the leaderboard took these very files on {before}")
    reply = None
    if not dry_run:
        if not yes and sys.stdin.isatty():
            typer.confirm("Send it?", abort=True)
        reply = submit.post(prepared, token, endpoint=address, say=lambda line: note(f"note: {line}"))
    if as_json:
        show_json(_json(prepared, address, None if reply is None else reply._asdict()))
    else:
        print(
            f"nothing was sent (--dry-run); it lies in {prepared.folder}" if reply is None else f"taken: {reply.text}"
        )


def _table(prepared: Prepared) -> Table:
    """The twelve, whatever was given."""
    from rich.table import Table

    from snellen.benchmarks.spatial.tasks import EIGHT, TASKS

    table = Table(title=f"{prepared.details.model_name} · EASI", title_justify="left")
    table.add_column("benchmark", no_wrap=True)
    for name in ("answers", "of", "coverage", "score", "95 % interval", ""):
        table.add_column(name, justify="right" if name else "left", no_wrap=bool(name))
    for name, task in TASKS.items():
        one = prepared.standings.get(name)
        if one is None:
            table.add_row(task.id, "–", "", "", "–", "", "not evaluated" if name in EIGHT else "not evaluated (extra)")
        else:
            sent = prepared.payload["scores"][task.id]
            ends = one.overall.ci95
            table.add_row(
                task.id,
                f"{one.done:,}",
                f"{one.expected:,}",
                f"{one.coverage:.1%}",
                "–" if sent is None else f"{sent:.2f}",
                span(ends, ".2f", scale=100.0) + mark(one.overall.interval),
                "incomplete" if one.faults else "complete",
            )
        if name == EIGHT[-1]:
            table.add_section()
    mean, count = prepared.average
    shown = "–" if mean is None else f"{mean:.2f}"
    table.caption = f"mean over {count} of the 8 benchmarks of EASI-8: {shown} (not sent)"
    table.caption_justify = "left"
    return table


def _sending(prepared: Prepared, address: str, token: str, profile: str) -> str:
    """What would be sent, where to, and by whom."""
    from rich.markup import escape

    from snellen.easi.submit import masked

    kept = "whole replies" if prepared.kept is None else f"the last {prepared.kept:,} characters of each reply"
    said = {name: value for name, value in prepared.payload.items() if isinstance(value, str) and value}
    lines = [
        f"POST {address}",
        f"token {masked(token) if token else 'none'} · request {len(prepared.request.body):,} bytes · "
        f"zip {prepared.zip_bytes:,} bytes, {kept} · profile {profile}",
        " · ".join(f"{name} {value}" for name, value in said.items()),
        str(prepared.folder),
    ]
    return escape("\n".join(lines))


def _json(prepared: Prepared, address: str, reply: dict[str, Any] | None) -> dict[str, Any]:
    mean, count = prepared.average
    return {
        "folder": str(prepared.folder),
        "endpoint": address,
        "payload": dict(prepared.payload),
        "request_bytes": len(prepared.request.body),
        "zip_bytes": prepared.zip_bytes,
        "reply_characters": prepared.kept,
        "average": {"value": mean, "evaluated": count, "of": 8},
        "incomplete": prepared.faults(),
        "sent": reply is not None,
        "reply": reply,
    }
