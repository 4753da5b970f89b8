"""Options of agents, and the settings that they become."""

# Annotations are not postponed here: every start would evaluate them again from text.

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import typer

from snellen.cli.option_text import parse_size

if TYPE_CHECKING:
    from snellen.models.base import ModelSettings

AGENTS = "Agents (agent:)"


@dataclass(frozen=True)
class AgentOptions:
    """Model, sandbox and limits of an agent."""

    PANEL: ClassVar[str] = AGENTS

    agent_model: Annotated[
        str | None, typer.Option(metavar="PROVIDER/MODEL", help="Model that the agent uses, at --base-url.")
    ] = None
    agent_config: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Your own configuration of the agent (JSON, comments allowed); it may name model, endpoint and key.",
        ),
    ] = None
    agent_bin: Annotated[
        str | None,
        typer.Option(metavar="PROGRAM", help="Your own program of the agent, instead of an installed one."),
    ] = None
    sandbox: Annotated[
        Literal["auto", "bubblewrap", "apptainer", "none"],
        typer.Option(help="Sandbox of the agent; auto is bubblewrap, none must be named."),
    ] = "auto"
    sif: Annotated[Path | None, typer.Option("--sif", metavar="FILE", help="Image for apptainer.")] = None
    tools: Annotated[
        Path | None,
        typer.Option(
            "--tools",
            metavar="FILE",
            help="Tool settings of tools:NAME and of agents; by default the file named by SNELLEN_TOOLS.",
        ),
    ] = None
    agent_network: Annotated[
        Literal["endpoint", "host"],
        typer.Option(
            help="Network of the agent. endpoint: --base-url, and the web only through --tools. host: everything that "
            "this machine can reach, including its own servers on loopback and abstract sockets."
        ),
    ] = "endpoint"
    agent_memory: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE", help="Memory per sample, including its files, which are kept in memory.", show_default="2G"
        ),
    ] = None
    agent_disk: Annotated[
        str | None, typer.Option(metavar="SIZE", help="Size of all files per sample.", show_default="1G")
    ] = None
    agent_processes: Annotated[
        int | None, typer.Option(metavar="N", help="Concurrent processes per sample.", show_default="128")
    ] = None
    agent_open_files: Annotated[
        int | None, typer.Option(metavar="N", help="Simultaneously open files per sample.", show_default="2048")
    ] = None
    agent_files: Annotated[
        int | None, typer.Option(metavar="N", help="Files and folders per sample.", show_default="65536")
    ] = None
    agent_depth: Annotated[
        int | None, typer.Option(metavar="N", help="Folder depth per sample.", show_default="128")
    ] = None
    agent_requests: Annotated[
        int | None, typer.Option(metavar="N", help="Requests to the model per sample.", show_default="300")
    ] = None

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
