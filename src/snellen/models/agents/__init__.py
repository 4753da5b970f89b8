"""Agents as models: OpenClaw and OpenCode, each sample in a folder and a sandbox of its own: `--model agent:NAME`.

`agent:snellen` is Snellen's own tool loop (own_loop.py).

`model` ties the parts together. `install` brings the agents; `openclaw` and `opencode` configure, start and read them;
`workdir` makes the folders of samples; `sandbox`, `system_calls` and `gateway` isolate them; `process` and
`supervisor` run and end them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from snellen.models.base import ModelOptions

if TYPE_CHECKING:
    from snellen.models.agents.model import AgentModel
    from snellen.models.tools.model import ToolsModel


def open_model(name: str, options: ModelOptions) -> AgentModel | ToolsModel:
    """Return the model behind `--model agent:NAME`. Nothing is started until preflight."""
    if name == "snellen":
        from snellen.models.agents import own_loop

        return own_loop.open_model(options)
    from snellen.models.agents.model import AgentModel

    return AgentModel(name, options)
