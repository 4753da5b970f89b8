"""`snellen submit`: send results to a leaderboard."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import typer

from snellen.cli import options as shared
from snellen.cli.console import new_table, note, remark, show, show_json
from snellen.cli.option_parsing import REQUIRED, Commands, argument, option
from snellen.errors import PreflightError
from snellen.scoring.metric_text import mark, span

if TYPE_CHECKING:
    from rich.table import Table

    from snellen.easi.submit import Prepared

group = Commands(help="Send results to a leaderboard.", no_args_is_help=True)


@dataclass(frozen=True)
class SubmissionOptions:
    """Facts about the model in a submission."""

    PANEL: ClassVar[str] = "About the model"

    model_name: str | None = option("Model name on the hub.", value="ORG/MODEL", said="the runs' own")
    model_type: str | None = option("pretrained, finetuned, instruction or rl.", value="TYPE")
    precision: str | None = option("bfloat16, float16, float32 or int8.", value="TYPE")
    revision: str | None = option("Revision of its repository.", said="main")
    weight_type: str | None = option("Original, Delta or Adapter.", value="TYPE")
    base_model: str | None = option("Base model of a delta or an adapter.", value="ORG/MODEL")
    backend: str | None = option("vlmevalkit, lmmseval or others.", value="NAME", said="as the results say")
    remarks: str | None = option("Free text.")
    submission_configs: str | None = option(
        'All of these as JSON: {"modelName": …, "modelType": …}; options override it.', value="JSON|FILE"
    )
    mention: bool = option("Add to the remarks how the scores were computed.", False)

    def named(self) -> dict[str, str | None]:
        """Return the facts under the leaderboard's names."""
        return {
            "modelName": self.model_name,
            "modelType": self.model_type,
            "precision": self.precision,
            "revision": self.revision,
            "weightType": self.weight_type,
            "baseModel": self.base_model,
            "backend": self.backend,
            "remarks": self.remarks,
        }


@group.callback()
def _group() -> None: ...


@group.command()
def easi(
    results: list[Path] = argument(
        "Run folders of the spatial benchmarks, parents of these, or folders and files of lmms-eval's or "
        "VLMEvalKit's results; all of one model.",
        REQUIRED,
        value="RESULTS",
    ),
    *,
    details: SubmissionOptions,
    profile: str = option("Scoring profile of all benchmarks: easi, vlmevalkit, lmms-eval or strict.", "easi"),
    out: Path = option("Folder for submissions, one subfolder each.", Path("results/submissions")),
    endpoint: str | None = option("URL to send to.", value="URL", said="the leaderboard's"),
    upload: Literal["auto", "request", "blob"] = option(
        "How the zip is sent: in one request (4.5 MB, longer replies cut), by the blob store (20 MB), or auto: by "
        "the store if one request cannot hold it.",
        "auto",
    ),
    allow_incomplete: bool = option("Send even if one of the eight benchmarks is incomplete.", False),
    trust: shared.Trust = False,
    dry_run: bool = option("Prepare and show the submission without sending it.", False),
    yes: bool = option("Send without confirmation.", False, names=("--yes", "-y")),
    as_json: shared.JsonResult = False,
) -> None:
    """Submit a model's results on the spatial benchmarks to EASI's leaderboard.

    The token is HF_TOKEN, from the environment or from .env in the working folder. Facts about the model, token and
    completeness of the results are checked in this order. Everything is written to a folder before it is sent.
    """
    from snellen.easi import submit

    address = submit.check_endpoint(endpoint or submit.ENDPOINT)
    metadata = submit.metadata(
        details.named(), details.submission_configs, defaults=submit.metadata_defaults(results, trust=trust, say=remark)
    )
    try:
        token = submit.hub_token()
    except PreflightError as error:
        if not dry_run:
            raise
        token = ""
        note(f"note: {error.message}; required before anything can be sent")
    prepared = submit.prepare(
        results, metadata, profile=profile, out=out, mention=details.mention, upload=upload, trust=trust
    )
    if not as_json:
        show(_table(prepared), _request(prepared, address, token, profile))
    submit.require_whole(prepared, allow_incomplete=allow_incomplete)
    for line in prepared.words_notes():
        note(line)
    faults = prepared.faults()
    for line in faults:
        note(f"note: {line}")
    if before := submit.taken_before(prepared):
        note(f"note: the leaderboard accepted the same files on {before}")
    reply = None
    if not dry_run:
        if not yes and sys.stdin.isatty():
            typer.confirm("Send it?", abort=True)
        reply = submit.post(prepared, token, endpoint=address, say=lambda line: note(f"note: {line}"))
    if as_json:
        show_json(_json(prepared, address, None if reply is None else reply._asdict()))
    else:
        print(f"nothing was sent (--dry-run); see {prepared.folder}" if reply is None else f"accepted: {reply.text}")


def _table(prepared: Prepared) -> Table:
    """Build the table of all twelve benchmarks."""
    from snellen.benchmarks.spatial.tasks import EIGHT, TASKS

    headings = ("answers", "of", "coverage", "score", "95 % interval")
    table = new_table(f"{prepared.details.model_name} · EASI", ["benchmark"], headings)
    table.add_column("")
    for name, task in TASKS.items():
        standing = prepared.results.get(name)
        if standing is None:
            table.add_row(task.id, "–", "", "", "–", "", "not evaluated" if name in EIGHT else "not evaluated (extra)")
        else:
            score = prepared.payload["scores"][task.id]
            ends = standing.overall.ci95
            table.add_row(
                task.id,
                f"{standing.done:,}",
                f"{standing.expected:,}",
                f"{standing.coverage:.1%}",
                "–" if score is None else f"{score:.2f}",
                span(ends, ".2f", scale=100.0) + mark(standing.overall.interval),
                "incomplete" if standing.faults else "complete",
            )
        if name == EIGHT[-1]:
            table.add_section()
    mean, count = prepared.average
    average = "–" if mean is None else f"{mean:.2f}"
    table.caption = f"mean over {count} of the 8 benchmarks of EASI-8: {average} (not sent)"
    return table


def _request(prepared: Prepared, address: str, token: str, profile: str) -> str:
    """Describe the request: address, token, sizes, facts about the model."""
    from rich.markup import escape

    from snellen.easi.submit import masked
    from snellen.easi.submit.client import base_of

    replies = "whole replies" if prepared.kept is None else f"the last {prepared.kept:,} characters of each reply"
    facts = {name: value for name, value in prepared.payload.items() if isinstance(value, str) and value}
    size = "by the blob store" if prepared.by_blob else f"request {len(prepared.request.body):,} bytes"
    lines = [
        f"POST {f'{base_of(address)}/api/submit' if prepared.by_blob else address}",
        f"token {masked(token) if token else 'none'} · {size} · "
        f"zip {prepared.zip_bytes:,} bytes, {replies} · profile {profile}",
        " · ".join(f"{name} {value}" for name, value in facts.items()),
        str(prepared.folder),
    ]
    return escape("\n".join(lines))


def _json(prepared: Prepared, address: str, reply: dict[str, Any] | None) -> dict[str, Any]:
    mean, count = prepared.average
    return {
        "folder": str(prepared.folder),
        "endpoint": address,
        "payload": dict(prepared.payload),
        "request_bytes": None if prepared.by_blob else len(prepared.request.body),
        "upload": "blob" if prepared.by_blob else "request",
        "zip_bytes": prepared.zip_bytes,
        "reply_characters": prepared.kept,
        "average": {"value": mean, "evaluated": count, "of": 8},
        "incomplete": prepared.faults(),
        "sent": reply is not None,
        "reply": reply,
    }
