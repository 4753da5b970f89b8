"""Limits of one agent's sample, and what it may reach over the network."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

from snellen.errors import UsageError
from snellen.models.base import DEFAULTS, ModelOptions

NETWORKS = ("endpoint", "web", "host")
_LEAST = {
    "memory": 64 << 20,
    "disk": 16 << 20,
    "processes": 8,
    "open_files": 64,
    "files": 1000,
    "depth": 16,
    "requests": 2,
}


class AgentLimits(Struct, frozen=True):
    """Limits of one sample; their names are those of the error kinds and, with `--agent-` before them, of the options.

    Attributes:
        memory: bytes of all processes, and of all files, which lie in memory.
        disk: bytes of all files.
        processes: at the same time.
        open_files: of all processes at the same time.
        files: files, folders and links.
        depth: folders within folders.
        requests: to the model, where Snellen passes them on (`--agent-network endpoint` and `web`); to the web, as many again.
    """

    memory: int = DEFAULTS.agent_memory
    disk: int = DEFAULTS.agent_disk
    processes: int = DEFAULTS.agent_processes
    open_files: int = DEFAULTS.agent_open_files
    files: int = DEFAULTS.agent_files
    depth: int = DEFAULTS.agent_depth
    requests: int = DEFAULTS.agent_requests

    def plain(self) -> dict[str, int]:
        return {name: int(value) for name, value in msgspec.to_builtins(self).items()}


def limits_of(options: ModelOptions) -> AgentLimits:
    """Return the limits that the options set.

    Raises:
        UsageError: one is too small for any agent to work in, or memory is smaller than disk.
    """
    limits = AgentLimits(**{name: getattr(options, f"agent_{name}") for name in AgentLimits.__struct_fields__})
    for name, least in _LEAST.items():
        value: Any = getattr(limits, name)
        if value < least:
            flag = f"--agent-{name.replace('_', '-')}"
            raise UsageError(f"{flag} {value:,} is too small for an agent", f"Set {flag} to {least:,} or more.")
    if limits.disk > limits.memory:
        raise UsageError(
            f"--agent-disk {limits.disk:,} is larger than --agent-memory {limits.memory:,}; files lie in memory",
            "Raise --agent-memory, or lower --agent-disk.",
        )
    return limits


def breach_text(limit: str, used: int, limits: AgentLimits) -> str:
    """Describe the limit that was hit, for the sample's error."""
    allowed = getattr(limits, limit, 0)
    option = f"--agent-{limit.replace('_', '-')}"
    if limit in ("memory", "disk"):
        amount = f"{used / 2**20:,.0f} MiB of {limit}, of {allowed / 2**20:,.0f} MiB"
    else:
        amount = f"{used:,} {_UNITS[limit]}, of {allowed:,}"
    return f"it used {amount} allowed by {option}"


_UNITS = {
    "processes": "processes",
    "open_files": "open files",
    "files": "files",
    "depth": "levels of folders",
    "requests": "requests to the model",
}
