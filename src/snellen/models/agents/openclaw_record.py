"""Read the transcript of OpenClaw, which the agent itself may have written over: only inside the reader (reader.py)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

from snellen.models.agents.transcript import Transcript, digest_of, joined, token_count, without_images
from snellen.models.trace import Step
from snellen.types import Usage

SESSION = "sample"


def read(files: Mapping[str, bytes], scratch: Path) -> Transcript:
    """Return the transcript as far as it is written; a torn last line is left out.

    Args:
        files: its name and content, and those of its sub-agents.
        scratch: not used.
    """
    data = files.get(f"{SESSION}.jsonl", b"")
    entries = list(_entries(data))
    sub_agents = [entry for name in sorted(files) if name != f"{SESSION}.jsonl" for entry in _entries(files[name])]
    steps, calls, results = list[Step](), dict[str, dict[str, Any]](), set[str]()
    turn, before, last = 0, 0.0, dict[str, Any]()
    for entry in entries:
        message = entry["message"]
        at = _seconds(entry)
        images = tuple(
            digest_of(part["data"]) for part in _parts(message) if part.get("type") == "image" and part.get("data")
        )
        if message["role"] == "user":
            steps.append(Step(turn, "user", _text(message), images=images))
        elif message["role"] == "assistant":
            turn, last = turn + 1, message
            usage = message.get("usage") or {}
            calls.update({str(part["id"]): part for part in _parts(message) if part.get("type") == "toolCall"})
            steps.append(
                Step(
                    turn,
                    "assistant",
                    _text(message),
                    error=message.get("stopReason") in ("error", "aborted"),
                    tokens_in=_read_tokens(usage),
                    tokens_out=token_count(usage.get("output", 0)),
                    seconds=_span(message.get("timestamp", 0) / 1000, at),
                )
            )
        elif message["role"] == "toolResult":
            call = calls.get(message.get("toolCallId", ""), {})
            results.add(message.get("toolCallId", ""))
            steps.append(
                Step(
                    turn,
                    "tool",
                    tool=message.get("toolName", ""),
                    arguments=call.get("arguments"),
                    result=_text(message),
                    error=bool(message.get("isError")),
                    images=images,
                    seconds=_span(before, at),
                )
            )
        before = at
    for name, call in calls.items():
        if name not in results:  # it was ended in the middle of a call
            steps.append(Step(turn, "tool", tool=call.get("name", ""), arguments=call.get("arguments"), error=True))
    finished = last.get("stopReason") in ("stop", "length")
    return Transcript(
        steps=tuple(steps),
        finished=finished,
        answer=_text(last).strip() if finished else "",
        reasoning=joined(_parts(last), "thinking", "thinking"),
        fault="" if finished else str(last.get("errorMessage") or last.get("stopReason") or "").replace("toolUse", ""),
        usage=_usage([*entries, *sub_agents]),
        raw=tuple(msgspec.json.encode(without_images(entry)) for entry in _lines(data)),
    )


def _lines(data: bytes) -> Iterator[Any]:
    """Yield every line as it stands."""
    for line in data.splitlines():
        try:
            yield msgspec.json.decode(line)
        except (msgspec.DecodeError, RecursionError):
            return


def _entries(data: bytes) -> Iterator[dict[str, Any]]:
    """Yield the messages among the lines, in the order in which they were written."""
    for entry in _lines(data):
        message = entry.get("message") if isinstance(entry, dict) and entry.get("type") == "message" else None
        if isinstance(message, dict) and "role" in message:
            yield entry


def _parts(message: dict[str, Any]) -> list[dict[str, Any]]:
    content = message.get("content") or []
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _text(message: dict[str, Any]) -> str:
    return joined(_parts(message))


def _seconds(entry: dict[str, Any]) -> float:
    try:
        return datetime.fromisoformat(entry.get("timestamp", "")).timestamp()
    except ValueError:
        return 0.0


def _span(start: float, end: float) -> float:
    return round(max(0.0, end - start), 3) if start and end else 0.0


def _read_tokens(usage: dict[str, Any]) -> int:
    return sum(token_count(usage.get(name, 0)) for name in ("input", "cacheRead", "cacheWrite"))


def _usage(entries: list[dict[str, Any]]) -> Usage:
    each = [entry["message"].get("usage") or {} for entry in entries if entry["message"]["role"] == "assistant"]
    return Usage(
        input_tokens=sum(map(_read_tokens, each)),
        output_tokens=sum(token_count(usage.get("output", 0)) for usage in each),
        cached_tokens=sum(token_count(usage.get("cacheRead", 0)) for usage in each),
    )
