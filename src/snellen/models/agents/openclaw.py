"""OpenClaw: its configuration, its command and its files. Facts: its release 2026.3.13, tried and read.

It runs without a gateway (`--local`). Images whose path stands in the message as ./NAME are attached by itself, but
only from below its state folder, so that the working folder lies there. Its exit status is 0 whatever happened; its
`--timeout` counts from the first request. What is true is in the transcript (openclaw_record.py).
"""

from __future__ import annotations

import math
import shutil
from pathlib import Path
from typing import Any

import msgspec

from snellen.models.agents import tool_setup
from snellen.models.agents.openclaw_record import SESSION
from snellen.models.agents.own_program import as_object, merged
from snellen.models.agents.process import AgentCommand
from snellen.models.agents.workdir import CONTEXT, KEY, AgentModelSettings, Workdir, write_config
from snellen.models.tools.settings import ToolSettings

WORKPLACE = "state/workspace"
CONFIG = "state/openclaw.json"
DROPPED = ("gateway", "channels", "bindings", "cron", "hooks", "env", "auth")
"""Members of the user's own configuration that are for the user's machine, and not for one question in a sandbox."""
ASKED_MARK = b"snellen: the model is asked"
MAX_SESSIONS = 256
_LAUNCH = Path(__file__).with_name("launch.mjs")


def prepare(workdir: Workdir, tools: ToolSettings | None) -> None:
    """Write its configuration, and the program that starts it with a question from standard input.

    It speaks no MCP, so that tools come as a skill.
    """
    settings = workdir.model_settings
    generation = settings.generation
    sampling = {"temperature": generation.temperature, "topP": generation.top_p}
    model = {
        "id": settings.model,
        "name": settings.model,
        "reasoning": False,
        "input": ["text", "image"],
        "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0},
        "contextWindow": CONTEXT,
        "maxTokens": settings.max_tokens,
    }
    provider = {"baseUrl": settings.base_url, "apiKey": f"${{{KEY}}}", "api": "openai-completions", "models": [model]}
    config: dict[str, Any] = {
        "models": {"mode": "merge", "providers": {settings.provider: provider}},
        "agents": {
            "defaults": {
                "model": {"primary": settings.name},
                "models": {
                    settings.name: {"params": {key: value for key, value in sampling.items() if value is not None}}
                },
                "workspace": f"{workdir.inside}/{WORKPLACE}",
                "skipBootstrap": True,
                "timeoutSeconds": math.ceil(settings.timeout_s),
            }
        },
        "tools": {"exec": {"security": "full", "ask": "off"}},
        "gateway": {"mode": "local"},
    }
    content = msgspec.json.encode(with_own(config, settings))
    write_config(workdir.box / CONFIG, content, fixed=bool(settings.config))
    shutil.copyfile(_LAUNCH, workdir.box / "launch.mjs")
    if tools is not None:
        tool_setup.skill(workdir, tools)


def with_own(ours: dict[str, Any], settings: AgentModelSettings) -> dict[str, Any]:
    """Return our configuration laid over the user's own, of which only the provider that is used stays."""
    if not settings.config:
        return ours
    own = {name: value for name, value in settings.config.items() if name not in DROPPED}
    providers = as_object(as_object(own.get("models")).get("providers"))
    provider = as_object(providers.get(settings.provider))
    listed = provider.get("models")
    entries = [as_object(entry) for entry in listed] if isinstance(listed, list) else []
    named = next((entry for entry in entries if entry.get("id") == settings.model), {})
    our_provider = ours["models"]["providers"][settings.provider]
    model = {**our_provider["models"][0], **named}
    if settings.generation.max_tokens is not None:
        model["maxTokens"] = settings.max_tokens
    defaults = as_object(as_object(own.get("agents")).get("defaults"))
    defaults["model"] = as_object(defaults.get("model"))
    result = merged({**own, "agents": {"defaults": defaults}}, {**ours, "models": {}})
    result["models"] = {
        "mode": "merge",
        "providers": {settings.provider: {**provider, **our_provider, "models": [model]}},
    }
    return result


def command(workdir: Workdir, program: str, question: str, images: list[str]) -> AgentCommand:
    """Return its process. `images` are named in the question, which is how OpenClaw finds them."""
    entry = workdir.entry or f"{workdir.agent}/node_modules/openclaw/openclaw.mjs"
    words = ["agent", "--local", "--agent", "main", "--session-id", SESSION, "--json"]
    # Its own limit is a little later than ours, so that ours is the one that counts.
    limit = ["--timeout", str(math.ceil(workdir.model_settings.timeout_s) + 5)]
    return AgentCommand(
        argv=[program, f"{workdir.inside}/launch.mjs", entry, *words, *limit],
        env={
            "HOME": f"{workdir.inside}/home",
            "TMPDIR": f"{workdir.inside}/tmp",  # noqa: S108 - its own
            "OPENCLAW_STATE_DIR": f"{workdir.inside}/state",
            "OPENCLAW_CONFIG_PATH": f"{workdir.inside}/state/openclaw.json",
            "OPENCLAW_NO_RESPAWN": "1",
        },
        cwd=f"{workdir.inside}/{WORKPLACE}",
        stdin=question.encode("utf-8", "replace"),
    )


def transcript_size(workdir: Workdir) -> int:
    """Return the size of the transcript, which grows with every step."""
    return workdir.size(_sessions(workdir) / f"{SESSION}.jsonl")


def record(workdir: Workdir) -> dict[str, bytes]:
    """Return its transcript and those of its sub-agents: 128 MB of 256 files at most."""
    folder = _sessions(workdir)
    others = [name for name in workdir.names(folder, MAX_SESSIONS) if name.endswith(".jsonl")]
    return workdir.contents(folder, (f"{SESSION}.jsonl", *others))


def record_path(workdir: Workdir) -> Path:
    """Return the place of its transcript."""
    return _sessions(workdir) / f"{SESSION}.jsonl"


def _sessions(workdir: Workdir) -> Path:
    return workdir.box / "state" / "agents" / "main" / "sessions"
