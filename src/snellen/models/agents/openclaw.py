"""OpenClaw: its configuration, its command and its transcript. Facts: its release 2026.3.13, tried and read.

It runs without a gateway (`--local`). Pictures whose path stands in the message as ./NAME are attached by itself, but
only from below its state folder, so that the working folder lies there. Its exit status is 0 whatever happened; its
`--timeout` counts from the first request. What is true is in the transcript.
"""

from __future__ import annotations

import math
import shutil
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

from snellen.models.agents import equip
from snellen.models.agents.process import Command
from snellen.models.agents.room import CONTEXT, KEY, MAX_TOKENS, MOST_RECORD, Room
from snellen.models.agents.transcript import Transcript, digest_of, without_pictures
from snellen.models.tools.settings import Settings
from snellen.models.trace import Step
from snellen.types import Usage

SESSION = "sample"
WORKPLACE = "state/workspace"
ASKED_MARK = b"snellen: the model is asked"
_LAUNCH = Path(__file__).with_name("launch.mjs")


def prepare(room: Room, tools: Settings | None) -> None:
    """Write its configuration, and the program that starts it with a question from standard input.

    It speaks no MCP, so that tools come as a skill.
    """
    state = room.box / "state"
    asked = room.asked
    name = f"{asked.provider}/{asked.model}"
    generation = asked.generation
    sampling = {"temperature": generation.temperature, "topP": generation.top_p}
    model = {
        "id": asked.model,
        "name": asked.model,
        "reasoning": False,
        "input": ["text", "image"],
        "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0},
        "contextWindow": CONTEXT,
        "maxTokens": generation.max_tokens or MAX_TOKENS,
    }
    provider = {"baseUrl": asked.base_url, "apiKey": f"${{{KEY}}}", "api": "openai-completions", "models": [model]}
    config = {
        "models": {"mode": "merge", "providers": {asked.provider: provider}},
        "agents": {
            "defaults": {
                "model": {"primary": name},
                "models": {name: {"params": {key: value for key, value in sampling.items() if value is not None}}},
                "workspace": f"{room.inside}/{WORKPLACE}",
                "skipBootstrap": True,
                "timeoutSeconds": math.ceil(asked.timeout_s),
            }
        },
        "tools": {"exec": {"security": "full", "ask": "off"}},
        "gateway": {"mode": "local"},
    }
    (state / "openclaw.json").write_bytes(msgspec.json.encode(config))
    shutil.copyfile(_LAUNCH, room.box / "launch.mjs")
    if tools is not None:
        equip.skill(room, tools)


def command(room: Room, program: str, question: str, pictures: list[str]) -> Command:
    """Its process. `pictures` are named in the question, which is how OpenClaw finds them."""
    entry = f"{room.agent}/node_modules/openclaw/openclaw.mjs"
    words = ["agent", "--local", "--agent", "main", "--session-id", SESSION, "--json"]
    # Its own limit is a little later than ours, so that ours is the one that counts.
    limit = ["--timeout", str(math.ceil(room.asked.timeout_s) + 5)]
    return Command(
        argv=[program, f"{room.inside}/launch.mjs", entry, *words, *limit],
        env={
            "HOME": f"{room.inside}/home",
            "TMPDIR": f"{room.inside}/tmp",  # noqa: S108 - its own
            "OPENCLAW_STATE_DIR": f"{room.inside}/state",
            "OPENCLAW_CONFIG_PATH": f"{room.inside}/state/openclaw.json",
            "OPENCLAW_NO_RESPAWN": "1",
        },
        cwd=f"{room.inside}/{WORKPLACE}",
        stdin=question.encode("utf-8", "replace"),
    )


def has_asked(room: Room) -> bool:
    """Whether start-up is over: the first request to the model is on its way (launch.mjs says so)."""
    return ASKED_MARK in room.stderr.read_bytes()


def transcript_size(room: Room) -> int:
    """Grows with every step."""
    path = room.own(_path(room))
    return 0 if path is None else path.stat().st_size


def read(room: Room) -> Transcript:
    """The transcript as far as it is written; a torn last line is left out."""
    data = room.content(_path(room), MOST_RECORD) or b""
    entries = list(_entries(data))
    used = [*entries]
    left = MOST_RECORD - len(data)
    for other in sorted(_path(room).parent.glob("*.jsonl")):  # sub-agents
        if other.name != f"{SESSION}.jsonl" and (own := room.content(other, left)) is not None:
            used += _entries(own)
            left -= len(own)
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
                    tokens_out=int(usage.get("output", 0)),
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
        reasoning="\n".join(part.get("thinking", "") for part in _parts(last) if part.get("type") == "thinking"),
        fault="" if finished else str(last.get("errorMessage") or last.get("stopReason") or "").replace("toolUse", ""),
        usage=_usage(used),
        raw=tuple(msgspec.json.encode(without_pictures(entry)) for entry in _lines(data)),
    )


def _path(room: Room) -> Path:
    return room.box / "state" / "agents" / "main" / "sessions" / f"{SESSION}.jsonl"


def _lines(data: bytes) -> Iterator[Any]:
    """Every line as it stands."""
    for line in data.splitlines():
        try:
            yield msgspec.json.decode(line)
        except msgspec.DecodeError:
            return


def _entries(data: bytes) -> Iterator[dict[str, Any]]:
    """The messages among the lines, in the order in which they were written."""
    for entry in _lines(data):
        message = entry.get("message") if isinstance(entry, dict) and entry.get("type") == "message" else None
        if isinstance(message, dict) and "role" in message:
            yield entry


def _parts(message: dict[str, Any]) -> list[dict[str, Any]]:
    content = message.get("content") or []
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _text(message: dict[str, Any]) -> str:
    return "\n".join(part.get("text", "") for part in _parts(message) if part.get("type") == "text")


def _seconds(entry: dict[str, Any]) -> float:
    try:
        return datetime.fromisoformat(entry.get("timestamp", "")).timestamp()
    except ValueError:
        return 0.0


def _span(start: float, end: float) -> float:
    return round(max(0.0, end - start), 3) if start and end else 0.0


def _read_tokens(usage: dict[str, Any]) -> int:
    return sum(int(usage.get(name, 0)) for name in ("input", "cacheRead", "cacheWrite"))


def _usage(entries: list[dict[str, Any]]) -> Usage:
    each = [entry["message"].get("usage") or {} for entry in entries if entry["message"]["role"] == "assistant"]
    return Usage(
        input_tokens=sum(map(_read_tokens, each)),
        output_tokens=sum(int(one.get("output", 0)) for one in each),
        cached_tokens=sum(int(one.get("cacheRead", 0)) for one in each),
    )
