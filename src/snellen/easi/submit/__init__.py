"""Submission to EASI's leaderboard from Python, as `snellen submit easi` and `snellen easi --submit` do it.

`metadata` (of `snellen.easi.submit.payload`) checks what is said about the model before anything else is done; `hub_token`
finds who submits; `prepare` makes the files, `require_whole` says whether they may go, `post` sends them. `submit` does the last
three.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from snellen.easi.result import locate_results, model_names, payload_backend
from snellen.easi.submit.client import (
    ENDPOINT,
    TIMEOUT_S,
    WAITS_S,
    LeaderboardReply,
    check_endpoint,
    send,
    send_by_blob,
)
from snellen.easi.submit.package import OUT, PROFILE, UPLOADS, Prepared, prepare
from snellen.easi.submit.payload import Metadata, is_model_name, metadata
from snellen.engine.journal import storage_error
from snellen.errors import PreflightError, SubmissionError
from snellen.models.api.services import find_key
from snellen.redaction import redact_bytes

__all__ = [
    "ENDPOINT",
    "OUT",
    "PROFILE",
    "UPLOADS",
    "Prepared",
    "check_endpoint",
    "hub_token",
    "masked",
    "metadata",
    "metadata_defaults",
    "post",
    "prepare",
    "require_whole",
    "submit",
    "taken_before",
]

VARIABLE = "HF_TOKEN"
SENT = "sent.jsonl"


def hub_token() -> str:
    """Read HF_TOKEN from the environment or from .env in the working folder, and register it for redaction.

    Raises:
        PreflightError: there is none, or it holds what a token cannot hold.
    """
    try:
        return find_key(VARIABLE) or ""
    except PreflightError as error:
        if "is not set" not in error.message:
            raise
        raise PreflightError(
            f"{VARIABLE} is not set, in the environment or in .env: the leaderboard wants to know who submits",
            f"Make a token on huggingface.co (Settings, Access Tokens; reading is enough), then: export {VARIABLE}=…",
        ) from None


def masked(token: str) -> str:
    """Mask a token for display: its ends, or nothing of a short one."""
    return "****" if len(token) <= 8 else f"{token[:4]}****{token[-4:]}"


def metadata_defaults(
    results: Sequence[str | Path], *, trust: bool = False, say: Callable[[str], None] = lambda line: None
) -> dict[str, str]:
    """Return metadata that the results imply: the harness, and the model if its name is org/model.

    `say` is told what of the results is left out.

    Raises:
        SnellenError: as `locate_results`.
    """
    located = locate_results(results, trust=trust, say=say)
    names = [name.partition(":")[2] for name in model_names(located)]
    named = {"modelName": names[0]} if len(names) == 1 and is_model_name(names[0]) else {}
    return {"backend": payload_backend(located), **named}


def submit(
    results: Sequence[str | Path],
    details: Metadata,
    token: str,
    *,
    profile: str = PROFILE,
    out: str | Path = OUT,
    endpoint: str = ENDPOINT,
    allow_incomplete: bool = False,
    mention: bool = False,
    say: Callable[[str], None] = lambda line: None,
) -> tuple[Prepared, LeaderboardReply]:
    """Package a model's results and send them; see `prepare`, `require_whole` and `post`.

    Raises:
        SnellenError: see snellen.errors.
    """
    prepared = prepare(results, details, profile=profile, out=out, mention=mention)
    require_whole(prepared, allow_incomplete=allow_incomplete)
    return prepared, post(prepared, token, endpoint=endpoint, say=say)


def require_whole(prepared: Prepared, *, allow_incomplete: bool = False) -> None:
    """Refuse results that do not answer all questions of the eight benchmarks, unless allowed.

    Raises:
        SubmissionError: with one line for each thing that is missing.
    """
    faults = prepared.faults()
    if faults and not allow_incomplete:
        raise SubmissionError(
            "the results are incomplete:" + "".join(f"\n  - {line}" for line in faults),
            "Resume the runs first (`snellen rerun RUN`). --allow-incomplete submits what there is: a benchmark that "
            "is not evaluated is null, and the figures are those of the answers that there are.",
        )


def post(
    prepared: Prepared,
    token: str,
    *,
    endpoint: str = ENDPOINT,
    say: Callable[[str], None] = lambda line: None,
    waits_s: Sequence[float] = WAITS_S,
) -> LeaderboardReply:
    """Send a submission; the reply is appended to sent.jsonl in its folder, without the token.

    Raises:
        UsageError, SubmissionError: as `client.send`.
    """
    try:
        if prepared.by_blob:
            reply = send_by_blob(
                prepared.payload,
                prepared.archive,
                token,
                endpoint=endpoint,
                timeout_s=TIMEOUT_S,
                waits_s=waits_s,
                say=say,
            )
        else:
            reply = send(prepared.request, token, endpoint=endpoint, say=say, waits_s=waits_s)
    except SubmissionError as error:
        _log(prepared.folder, endpoint, {"taken": False, "why": error.message})
        raise
    _log(prepared.folder, endpoint, {"taken": True, "status": reply.status, "reply": reply.text})
    return reply


def taken_before(prepared: Prepared) -> str:
    """Return the time at which the leaderboard accepted the same bytes; empty if it never did."""
    path = prepared.folder / SENT
    when = ""
    for line in path.read_bytes().splitlines() if path.exists() else ():
        try:
            row = msgspec.json.decode(line, type=_Attempt)
        except (msgspec.DecodeError, RecursionError):  # a line that was cut off when the disk was full
            continue
        when = row.time if row.taken else when
    return when


class _Attempt(Struct):
    """The fields read from a line of sent.jsonl."""

    time: str
    taken: bool


def _log(folder: Path, endpoint: str, entry: Mapping[str, Any]) -> None:
    when = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    line = redact_bytes(msgspec.json.encode({"time": when, "endpoint": endpoint, **entry})) + b"\n"
    try:
        with (folder / SENT).open("ab") as file:
            file.write(line)
    except OSError as error:
        raise storage_error(folder / SENT, error) from error
