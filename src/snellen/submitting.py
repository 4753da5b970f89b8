"""A submission to EASI's leaderboard, from Python; `snellen submit easi` and `snellen easi --submit` call this."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from snellen.errors import PreflightError
from snellen.interop.easi_payload import Metadata
from snellen.leaderboard import ENDPOINT
from snellen.models.api.keys import find_key

VARIABLE = "HF_TOKEN"
PROFILE = "easi"


@dataclass(frozen=True)
class Submission:
    """A submission on disk, and what became of it.

    Attributes:
        folder: where easi_results.json, easi_provenance.json, easi_results.zip and the samples lie.
        payload: what easi_results.json holds.
        sent: whether the leaderboard took it; False after a dry run.
        reply: what it answered.
        notes: what the sender must know, one line each.
    """

    folder: Path
    payload: dict[str, object]
    sent: bool = False
    reply: str = ""
    notes: tuple[str, ...] = ()


def hub_token() -> str:
    """HF_TOKEN of the environment, else of .env in the working folder; registered for redaction.

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
            f"Make a token on huggingface.co (Settings, Access Tokens; reading is enough) and export {VARIABLE}=… .",
        ) from None


def masked(token: str) -> str:
    """A token as it may be shown: its ends, or nothing of a short one."""
    return "****" if len(token) <= 8 else f"{token[:4]}****{token[-4:]}"


def submit(
    results: Sequence[str | Path],
    details: Metadata,
    *,
    token: str | None = None,
    profile: str = PROFILE,
    out: str | Path = "results/submissions",
    endpoint: str = ENDPOINT,
    allow_incomplete: bool = False,
    dry_run: bool = False,
) -> Submission:
    """Make the payload and the zip of a model's results, and send them.

    Args:
        results: run folders of Snellen, or folders and files of lmms-eval's or VLMEvalKit's results.
        details: who answered (`interop.easi_payload.metadata`).
        token: who submits (`hub_token`); may be None for a dry run.
        profile: under whose rules the figures are made.
        out: each submission gets a folder of its own in it.
        endpoint: where to send it.
        allow_incomplete: send also what does not answer all of the eight benchmarks in full.
        dry_run: do all but the sending.

    Raises:
        SnellenError: see snellen.errors.
    """
    raise NotImplementedError
