"""Tools for models that may look things up: `web_search`, `fetch_url`, `reverse_image_search`, `crop_zoom`, `view_image`.

The same five for every agent (as an MCP server or a skill) and for our own loop, `--model tools:NAME`. They work on a
local collection, on the record of an earlier run, or on the network. They never see an answer that is to be found.
"""

from snellen.models.tools.base import Context, Tool, ToolError, ToolResult
from snellen.models.tools.definitions import all_tools
from snellen.models.tools.images import ToolImages
from snellen.models.tools.settings import ToolLimits, ToolSettings, load, needed, prepare, write
from snellen.models.tools.skill import write_skill

__all__ = [
    "Context",
    "Tool",
    "ToolError",
    "ToolImages",
    "ToolLimits",
    "ToolResult",
    "ToolSettings",
    "all_tools",
    "load",
    "needed",
    "prepare",
    "write",
    "write_skill",
]
