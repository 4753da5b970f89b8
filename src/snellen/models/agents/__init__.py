"""Agents as models: OpenClaw and OpenCode, each sample in a folder and a sandbox of its own: `--model agent:NAME`.

`model` ties the parts together; `install` brings the agents, `openclaw` and `opencode` say how each is configured,
started and read, `room` is the folder of a sample, `pool` makes rooms ahead, `sandbox` shuts them in, `process` runs
and ends them, `guard` ends them when we die.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from snellen.models.base import ModelOptions

if TYPE_CHECKING:
    from snellen.models.agents.model import AgentModel


def open_model(name: str, options: ModelOptions) -> AgentModel:
    """The model behind `--model agent:NAME`. Nothing is started until preflight."""
    from snellen.models.agents.model import AgentModel

    return AgentModel(name, options)
