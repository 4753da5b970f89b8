"""Transcripts: an agent's own record in one shape for all agents."""

from __future__ import annotations

import hashlib
from binascii import a2b_base64
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import msgspec
from msgspec import Struct, structs

from snellen.models.trace import Step
from snellen.types import Usage

LOOP_CALLS = 8
MAX_TOKENS = 1 << 40  # of one count in a record; more is forged
MAX_FAULT = 2000  # characters of an agent's own error that are kept
_DATA = "data:"


class Transcript(Struct, frozen=True):
    """One conversation.

    Attributes:
        steps: as in snellen.models.trace.
        finished: the model came to an end by itself (it stopped, or result into its token limit).
        answer: the text of its last reply; only of a finished conversation.
        reasoning: its thoughts before that reply, where the endpoint tells them.
        fault: why the agent broke off, in its words; empty where it did not.
        usage: tokens over all replies, those of sub-agents included; no cost.
        raw: the record itself, one JSON object a line, images by digest.
        replaced: what lies in the place of the record, where the agent put something else there; else empty.
    """

    steps: tuple[Step, ...] = ()
    finished: bool = False
    answer: str = ""
    reasoning: str = ""
    fault: str = ""
    usage: Usage = Usage()
    raw: tuple[bytes, ...] = ()
    replaced: str = ""


Reader: TypeAlias = Callable[[Mapping[str, bytes], Path], Transcript]


def read_safely(read: Reader, files: Mapping[str, bytes], scratch: Path) -> Transcript:
    """Read a record that a model may have overwritten: an unknown form is a fault of the agent's."""
    try:
        transcript = read(files, scratch)
        return structs.replace(transcript, fault=transcript.fault[:MAX_FAULT])
    except Exception as error:  # noqa: BLE001 - a forged record can raise anything; the transcript says what
        return Transcript(fault=f"its own record cannot be read: {type(error).__name__}: {str(error)[:200]}")


def token_count(count: Any) -> int:
    """Return a number of tokens in a record.

    Raises:
        ValueError: it is negative, or larger than any; the budget of a run is measured by it.
    """
    if not 0 <= int(count) <= MAX_TOKENS:
        raise ValueError(f"{str(count)[:40]} tokens")
    return int(count)


def loops(steps: tuple[Step, ...]) -> bool:
    """Return True if the last 8 calls are one call: same tool, same arguments."""
    last = [(step.tool, msgspec.json.encode(step.arguments, order="deterministic")) for step in steps if step.tool]
    return len(last) >= LOOP_CALLS and len(set(last[-LOOP_CALLS:])) == 1


def digest_of(base64: str) -> str:
    """Return SHA-256 of what a base64 text holds, of the text itself where it is not base64."""
    try:
        return hashlib.sha256(a2b_base64(base64)).hexdigest()
    except ValueError:
        return hashlib.sha256(base64.encode()).hexdigest()


def digest_of_uri(uri: str) -> str:
    """Return SHA-256 of what a data URI holds."""
    return digest_of(uri.partition(",")[2])


def joined(parts: Iterable[Mapping[str, Any]], kind: str = "text", field: str = "text") -> str:
    """Return the texts of one kind of part, a line each."""
    return "\n".join(part.get(field, "") for part in parts if part.get("type") == kind)


def without_images(value: Any) -> Any:
    """Return a JSON value in which images are replaced by `{"sha256": ...}`.

    Images are data URIs anywhere, and `data` beside a `mimeType`.
    """
    if isinstance(value, str):
        if value.startswith(_DATA) and ";base64," in value[:200]:
            return {"sha256": digest_of_uri(value)}
        return value
    if isinstance(value, list):
        return [without_images(member) for member in value]
    if isinstance(value, dict):
        is_image = isinstance(value.get("mimeType"), str) and isinstance(value.get("data"), str)
        return {
            key: {"sha256": digest_of(member)} if is_image and key == "data" else without_images(member)
            for key, member in value.items()
        }
    return value
