"""Options of agents, and the settings that they become."""

# Annotations are not postponed here: every start would evaluate them again from text.

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from snellen.cli.option_parsing import option
from snellen.cli.option_text import parse_size
from snellen.models.base import ModelOptions

if TYPE_CHECKING:
    from snellen.models.base import ModelSettings

AGENTS = "Agents (agent:)"


@dataclass(frozen=True)
class AgentOptions:
    """Model, sandbox and limits of an agent."""

    PANEL: ClassVar[str] = AGENTS

    agent_model: Annotated[str | None, option(ModelOptions, "agent_model")] = None
    agent_config: Annotated[Path | None, option(ModelOptions, "agent_config")] = None
    agent_bin: Annotated[str | None, option(ModelOptions, "agent_bin")] = None
    sandbox: Annotated[Literal["auto", "bubblewrap", "apptainer", "none"], option(ModelOptions, "sandbox")] = "auto"
    sif: Annotated[Path | None, option(ModelOptions, "sif")] = None
    tools: Annotated[Path | None, option(ModelOptions, "tools")] = None
    agent_network: Annotated[Literal["endpoint", "host"], option(ModelOptions, "agent_network")] = "endpoint"
    agent_memory: Annotated[str | None, option(ModelOptions, "agent_memory")] = None
    agent_disk: Annotated[str | None, option(ModelOptions, "agent_disk")] = None
    agent_processes: Annotated[int | None, option(ModelOptions, "agent_processes")] = None
    agent_open_files: Annotated[int | None, option(ModelOptions, "agent_open_files")] = None
    agent_files: Annotated[int | None, option(ModelOptions, "agent_files")] = None
    agent_depth: Annotated[int | None, option(ModelOptions, "agent_depth")] = None
    agent_requests: Annotated[int | None, option(ModelOptions, "agent_requests")] = None

    def settings(self, sif: Path | None) -> "ModelSettings":
        """Return the agent's settings. `sif`: the image that is used; limits that are not set keep their defaults."""
        limits = {
            "agent_memory": None if self.agent_memory is None else parse_size(self.agent_memory, "--agent-memory"),
            "agent_disk": None if self.agent_disk is None else parse_size(self.agent_disk, "--agent-disk"),
            "agent_processes": self.agent_processes,
            "agent_open_files": self.agent_open_files,
            "agent_files": self.agent_files,
            "agent_depth": self.agent_depth,
            "agent_requests": self.agent_requests,
        }
        result: ModelSettings = {
            "agent_model": self.agent_model,
            "agent_config": None if self.agent_config is None else str(self.agent_config),
            "agent_bin": self.agent_bin,
            "sandbox": self.sandbox,
            "sif": None if sif is None else str(sif),
            "tools": None if self.tools is None else str(self.tools),
            "agent_network": self.agent_network,
        }
        chosen: Any = {name: value for name, value in limits.items() if value is not None}
        return {**result, **chosen}
