"""OpenClaw: its configuration, its command and its files. Facts: its release 2026.3.13, tried and read.

It runs without a gateway (`--local`). Pictures whose path stands in the message as ./NAME are attached by itself, but
only from below its state folder, so that the working folder lies there. Its exit status is 0 whatever happened; its
`--timeout` counts from the first request. What is true is in the transcript (openclaw_record.py).
"""

from __future__ import annotations

import math
import shutil
from pathlib import Path

import msgspec

from snellen.models.agents import tool_setup
from snellen.models.agents.openclaw_record import SESSION
from snellen.models.agents.process import Command
from snellen.models.agents.workdir import CONTEXT, KEY, MAX_TOKENS, MOST_RECORD, Room
from snellen.models.tools.settings import Settings

WORKPLACE = "state/workspace"
ASKED_MARK = b"snellen: the model is asked"
MOST_SESSIONS = 256
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
        tool_setup.skill(room, tools)


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


def transcript_size(room: Room) -> int:
    """Grows with every step."""
    return room.size(_sessions(room) / f"{SESSION}.jsonl")


def record(room: Room) -> dict[str, bytes]:
    """Its transcript, and those of its sub-agents: 128 MB of 256 files at most."""
    folder = _sessions(room)
    names = [name for name in room.names(folder, MOST_SESSIONS) if name.endswith(".jsonl")]
    files: dict[str, bytes] = {}
    left = MOST_RECORD
    for name in sorted({f"{SESSION}.jsonl", *names}, key=lambda name: (name != f"{SESSION}.jsonl", name)):
        data = room.content(folder / name, left)
        if data is not None:
            files[name] = data
            left -= len(data)
    return files


def _sessions(room: Room) -> Path:
    return room.box / "state" / "agents" / "main" / "sessions"
