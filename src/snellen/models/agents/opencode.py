"""OpenCode: its configuration, its command and its files. Facts: its release 1.18.33, tried and read.

The question goes in by standard input, which leaves it as it is; images are attached by `-f`. The transcript is its
SQLite database (opencode_record.py), which also holds the question and what was attached; the events on standard output
do not.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from snellen.models.agents import tool_setup
from snellen.models.agents.opencode_record import DATABASE, LOG
from snellen.models.agents.own_program import as_object, merged
from snellen.models.agents.process import AgentCommand
from snellen.models.agents.workdir import CONTEXT, KEY, AgentModelSettings, Workdir, write_config
from snellen.models.tools.settings import ToolSettings

WORKPLACE = "work"
CONFIG = "home/.config/opencode/opencode.json"
MCP_MS = 60_000
ASKED_MARK = b"message=stream providerID="


def prepare(workdir: Workdir, tools: ToolSettings | None) -> None:
    """Write its configuration, with the tools as an MCP server.

    It would ask a person before the third equal call and refuse by itself where there is none (`doom_loop`): allowed,
    since a loop is ended by us, and for every agent alike.
    """
    settings = workdir.model_settings
    generation = settings.generation
    sampling = {"temperature": generation.temperature, "top_p": generation.top_p}
    model = {
        "name": settings.model,
        "attachment": True,
        "tool_call": True,
        "temperature": True,
        "modalities": {"input": ["text", "image"], "output": ["text"]},
        "limit": {"context": CONTEXT, "output": settings.max_tokens},
    }
    config: dict[str, Any] = {
        "autoupdate": False,
        "share": "disabled",
        "model": settings.name,
        "small_model": settings.name,
        "enabled_providers": [settings.provider],
        "permission": {
            "edit": "allow",
            "bash": "allow",
            "webfetch": "allow",
            # In a sandbox there is nothing outside that it may not see; without one this is what there is.
            "external_directory": "deny" if workdir.inside == str(workdir.box) else "allow",
            "doom_loop": "allow",
        },
        "agent": {"build": {key: value for key, value in sampling.items() if value is not None}},
        "provider": {
            settings.provider: {
                "npm": "@ai-sdk/openai-compatible",
                "name": settings.provider,
                "options": {"baseURL": settings.base_url, "apiKey": f"{{env:{KEY}}}"},
                "models": {settings.model: model},
            }
        },
    }
    if tools is not None:
        command = tool_setup.server(workdir, tools)
        config["mcp"] = {"snellen": {"type": "local", "command": command, "enabled": True, "timeout": MCP_MS}}
    path = workdir.box / CONFIG
    path.parent.mkdir(parents=True)
    write_config(path, msgspec.json.encode(with_own(config, settings)), fixed=bool(settings.config))


def with_own(ours: dict[str, Any], settings: AgentModelSettings) -> dict[str, Any]:
    """Return our configuration laid over the user's own, of which only the provider that is used stays.

    The user's permissions and the description of the model stay.
    """
    if not settings.config:
        return ours
    own = dict(settings.config)
    provider = as_object(as_object(own.pop("provider", None)).get(settings.provider))
    permission = own.pop("permission", {})
    own.pop("disabled_providers", None)
    if str(own.get("small_model", "")).partition("/")[0] == settings.provider:
        ours = {name: value for name, value in ours.items() if name != "small_model"}
    result = merged(own, ours)
    result["permission"] = merged(ours["permission"], permission) if isinstance(permission, dict) else permission
    our_provider = ours["provider"][settings.provider]
    used = merged(our_provider, provider)
    used["options"] = merged(as_object(used["options"]), our_provider["options"])
    model = merged(our_provider["models"][settings.model], as_object(as_object(used["models"]).get(settings.model)))
    if settings.generation.max_tokens is not None:
        model["limit"] = {**as_object(model.get("limit")), "output": settings.max_tokens}
    used["models"] = {settings.model: model}
    result["provider"] = {settings.provider: used}
    return result


def command(workdir: Workdir, program: str, question: str, images: list[str]) -> AgentCommand:
    """Return its process; `images` are names in the working folder."""
    home = f"{workdir.inside}/home"
    words = ["run", "--format", "json", "-m", workdir.model_settings.name, "--title", "sample"]
    attached = [word for name in images for word in ("-f", f"{workdir.inside}/{WORKPLACE}/{name}")]
    return AgentCommand(
        argv=[program, *words, "--print-logs", *attached],
        env={
            "HOME": home,
            "TMPDIR": f"{workdir.inside}/tmp",  # noqa: S108 - its own
            "XDG_CONFIG_HOME": f"{home}/.config",
            "XDG_DATA_HOME": f"{home}/.local/share",
            "XDG_CACHE_HOME": f"{home}/.cache",
            "XDG_STATE_HOME": f"{home}/.local/state",
            "OPENCODE_DISABLE_AUTOUPDATE": "1",
            "OPENCODE_DISABLE_MODELS_FETCH": "1",
        },
        cwd=f"{workdir.inside}/{WORKPLACE}",
        stdin=question.encode("utf-8", "replace"),
    )


def transcript_size(workdir: Workdir) -> int:
    """Return the size of the events on standard output, one or more a step."""
    return workdir.stdout.stat().st_size


def record(workdir: Workdir) -> dict[str, bytes]:
    """Return its database and the write-ahead log of it: 128 MB at most. No other file beside the database is read."""
    return workdir.contents(record_path(workdir).parent, (DATABASE, LOG))


def record_path(workdir: Workdir) -> Path:
    """Return the place of its database."""
    return workdir.box / "home" / ".local" / "share" / "opencode" / DATABASE
