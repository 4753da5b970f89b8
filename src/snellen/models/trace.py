"""Traces: the steps that led to an answer, in one shape for every agent and for our own tool loop."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Literal

import msgspec
from msgspec import Struct

Role = Literal["user", "assistant", "tool"]

STOP = "stop"
ABORTED = "aborted"
NO_ANSWER = "no_answer"
LOOP = "loop"
IMAGE_NEVER_SEEN = "image_never_seen"


class Exchange(dict[str, msgspec.Raw]):
    """A request and its reply as JSON, one line each: {"request": …, "reply": …}, images by digest.

    Keys are struck from `reply` already: it is made of what the transport returned.
    """


class Step(Struct, frozen=True, omit_defaults=True):
    """One message of a conversation, or one tool call with its result.

    Attributes:
        turn: which reply of the model this belongs to, from 1; what stands before the first reply is turn 0.
        role: who speaks: `user` (the question, and images handed over), `assistant` (the model), `tool` (a call).
        text: what was said; for a tool step empty.
        tool: name of the tool called; only in tool steps.
        arguments: what the tool was called with, as the model wrote it.
        result: what the tool gave back as text.
        error: the tool failed, or the reply was broken off.
        images: sha256 digests (64 hex digits) of the images that the model got to see in this step, in order.
        copies: small JPEGs, in base 64, of the images of a call that exist nowhere else; as many as `images`, or none.
        tokens_in: tokens that the model read for this reply; only in assistant steps.
        tokens_out: tokens that it wrote.
        seconds: how long the step took, wall time; 0 where the source does not say.
    """

    turn: int
    role: Role
    text: str = ""
    tool: str = ""
    arguments: object = None
    result: str = ""
    error: bool = False
    images: tuple[str, ...] = ()
    copies: tuple[str, ...] = ()
    tokens_in: int = 0
    tokens_out: int = 0
    seconds: float = 0.0


def plain(steps: Iterable[Step]) -> list[dict[str, Any]]:
    """Return the steps as JSON objects, as `Response.trace` holds them; fields at their default are left out."""
    return [msgspec.to_builtins(step) for step in steps]


def read(trace: object) -> list[Step]:
    """Return steps from what `plain` made, read back from a run's traces.

    Raises:
        msgspec.ValidationError: the trace has another shape; only agents and the tool loop write this one.
    """
    return msgspec.convert(trace, list[Step])


def code_of(step: Step) -> str | None:
    """Return the code that a tool was called with, where it is all that it was called with; pages show it as it is."""
    match step.arguments:
        case {"code": str(code), **rest} if not rest:
            return code
    return None


_COPY = re.compile(r"[A-Za-z0-9+/]+={0,2}")
_COPY_HEAD = "data:image/jpeg;base64,"


def copies_by_digest(step: Step, most: int) -> dict[str, str]:
    """Return the data URIs of a step's small copies by the digests of their images, at most so many characters in all.

    Traces may be somebody else's: what is no base 64 is left out.
    """
    found: dict[str, str] = {}
    for digest, copy in zip(step.images, step.copies, strict=False):
        if len(copy) + len(_COPY_HEAD) <= most and _COPY.fullmatch(copy):
            found[digest] = _COPY_HEAD + copy
            most -= len(found[digest])
    return found


def turns(steps: Sequence[Step]) -> int:
    """Count the replies of the model."""
    return sum(step.role == "assistant" for step in steps)


def calls_by_tool(steps: Sequence[Step]) -> dict[str, int]:
    """Count the calls of each tool, most often first, then by name."""
    counted = Counter(step.tool for step in steps if step.role == "tool")
    return dict(sorted(counted.items(), key=lambda item: (-item[1], item[0])))


def images_seen(steps: Iterable[Step]) -> tuple[str, ...]:
    """Return digests of the images that were shown, each once, in the order of first sight."""
    return tuple(dict.fromkeys(digest for step in steps for digest in step.images))
