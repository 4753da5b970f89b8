"""An agent's way to its answer as a timeline: its turns, searches, pages, commands and the images that it saw."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from snellen.models.trace import Step, calls_by_tool, code_of, copies_by_digest, turns
from snellen.redaction import redact
from snellen.reports.escape import clip
from snellen.viewer.cases.exchanges import json_text
from snellen.viewer.cases.opened_runs import Seal

MAX_STEPS = 300
STEP_CHARACTERS, ALL_CHARACTERS = 8_000, 600_000
OPEN_CHARACTERS = 600
"""A result of at most this many characters is unfolded."""
TITLE_CHARACTERS = 240
MAX_IMAGES = 24

_SUBJECTS = (
    ("search", ("query", "queries", "q", "search_query")),
    ("page", ("url", "uri", "href")),
    ("command", ("command", "cmd", "script", "code")),
    ("image", ("image", "image_path", "box")),
    ("file", ("path", "file", "file_path", "filePath", "filename")),
)
"""Kind of a call by the name of its argument; the first one that a call has counts."""


@dataclass(frozen=True)
class TimelineImage:
    """An image that the model saw: `known` is True if the page can show it, because the question has it too.

    `copy` is a small copy as a data URI; empty: the trace has none, or the reader may not see it.
    """

    digest: str
    known: bool
    copy: str = ""


@dataclass(frozen=True)
class TimelineStep:
    """One step. All text is untrusted.

    Attributes:
        kind: question, model, search, page, command, image, file or tool.
        title: what a call was about: the words searched, the address, the command.
        tool: name of the tool.
        turn: number of the model's reply that it belongs to.
        text: what was said.
        arguments: of a call, as JSON, where the title does not hold all of them.
        result: what a tool gave back.
        open: True if the result is short enough to be unfolded.
        failed: the tool failed, or the reply broke off.
        facts: time and tokens.
        at: seconds from the beginning; None where the steps have no times.
        share: share of the longest step's time, in percent, for the bar; 0 without times.
    """

    kind: str
    title: str
    tool: str
    turn: int
    text: str
    arguments: str
    result: str
    result_length: int
    open: bool
    failed: bool
    facts: str
    images: tuple[TimelineImage, ...]
    at: str = ""
    share: int = 0


@dataclass(frozen=True)
class Timeline:
    """All steps of one reply; `omitted` counts steps and texts that are left out."""

    steps: tuple[TimelineStep, ...]
    summary: str
    omitted: int = 0


def timeline(steps: Sequence[Step], seal: Seal, known: frozenset[str] = frozenset()) -> Timeline | None:
    """Build the timeline of one reply; None without steps.

    Args:
        steps: as the run's traces have them.
        seal: what the reader may not see.
        known: digests of the images that the page can show.
    """
    if not steps:
        return None
    longest = max((step.seconds for step in steps), default=0.0)
    budget, omitted, elapsed = ALL_CHARACTERS, max(0, len(steps) - MAX_STEPS), 0.0
    rows = []
    for step in steps[:MAX_STEPS]:
        texts = []
        title, whole = _title(step.arguments)
        arguments = "" if step.arguments is None or whole else json_text(step.arguments, seal)
        if (code := code_of(step)) is not None:
            title, arguments = "", redact(code)
        for text in (step.text, arguments, step.result):
            clipped = clip(seal.clean(text), STEP_CHARACTERS)
            if len(clipped) > budget:
                clipped, omitted = "", omitted + 1
            budget -= len(clipped)
            texts.append(clipped)
        copies = copies_by_digest(step, budget) if seal.open else {}
        budget -= sum(map(len, copies.values()))
        rows.append(
            TimelineStep(
                kind=_kind(step),
                title=clip(seal.clean(title), TITLE_CHARACTERS),
                tool=clip(seal.clean(step.tool), 80),
                turn=step.turn,
                text=texts[0],
                arguments=texts[1],
                result=texts[2],
                result_length=len(step.result),
                open=len(texts[2]) <= OPEN_CHARACTERS,
                failed=step.error,
                facts=_facts(step),
                images=tuple(
                    TimelineImage(clip(name, 64), name in known, copies.get(name, ""))
                    for name in step.images[:MAX_IMAGES]
                ),
                at=f"{elapsed:,.1f} s" if longest else "",
                share=round(100 * step.seconds / longest) if longest > 0 and step.seconds > 0 else 0,
            )
        )
        elapsed += max(0.0, step.seconds)
    return Timeline(tuple(rows), _summary(steps, elapsed), omitted)


def _kind(step: Step) -> str:
    if step.role == "user":
        return "question" if step.turn == 0 else "image" if step.images else "question"
    if step.role == "assistant":
        return "model"
    names = step.arguments if isinstance(step.arguments, Mapping) else {}
    return next((kind for kind, fields in _SUBJECTS if any(name in names for name in fields)), "tool")


def _title(arguments: Any) -> tuple[str, bool]:
    """Return what a call is about, and True if that is all of its arguments."""
    if not isinstance(arguments, Mapping):
        return "", False
    for _, fields in _SUBJECTS:
        for name in fields:
            if isinstance(value := arguments.get(name), str) and value.strip():
                return value, len(arguments) == 1 and len(value) <= TITLE_CHARACTERS
    return "", not arguments


def _facts(step: Step) -> str:
    facts = [f"{step.seconds:,.1f} s"] if step.seconds > 0 else []
    if step.tokens_in or step.tokens_out:
        facts.append(f"{step.tokens_in:,} tokens in, {step.tokens_out:,} out")
    return " · ".join(facts)


def _summary(steps: Sequence[Step], seconds: float) -> str:
    calls = calls_by_tool(steps)
    parts = [f"{turns(steps):,} turns", f"{sum(calls.values()):,} tool calls"]
    if calls:
        parts[-1] += (
            " ("
            + ", ".join(f"{count:,} × {clip(tool or 'unnamed', 40)}" for tool, count in list(calls.items())[:8])
            + ")"
        )
    if seconds:
        parts.append(f"{seconds:,.1f} s")
    return " · ".join(parts)
