"""The tools as an MCP server over standard input and output: `python -m snellen.models.tools.mcp_server --config FILE`.

One server serves one conversation: its calls are counted, and its images are those of the folder that the file names.
Model Context Protocol, revision 2025-06-18 and what `mcp` speaks besides: tools/list and tools/call.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from base64 import b64encode
from importlib.metadata import version
from pathlib import Path
from typing import Any

from snellen.errors import MissingExtraError, SnellenError
from snellen.installation import install_hint
from snellen.media import read_header
from snellen.models.tools.base import Context, ToolResult
from snellen.models.tools.definitions import all_tools
from snellen.models.tools.images import ToolImages
from snellen.models.tools.settings import ToolSettings, load
from snellen.redaction import redact, register_environment

NAME = "snellen"


def mime(data: bytes) -> str:
    """Return the media type of an image, by its content."""
    header = read_header(data)
    return f"image/{header.format}" if header is not None else "application/octet-stream"


def make_server(settings: ToolSettings, relay: str | None = None) -> Any:
    """Return an `mcp` server with the tools that the settings give; `relay`: see `all_tools`.

    Raises:
        MissingExtraError: `mcp` is not installed. DataError, UsageError: as of `all_tools`.
    """
    try:
        from mcp.server.lowlevel import Server
        from mcp.types import CallToolResult, ImageContent, ListToolsResult, TextContent
        from mcp.types import Tool as Declared
    except ImportError:
        raise MissingExtraError("the MCP server needs mcp 2, which is not installed.", install_hint("agents")) from None
    tools = {tool.name: tool for tool in all_tools(settings, relay=relay)}
    context = Context(ToolImages(folder=Path(settings.images)))

    async def listing(_: Any, __: Any) -> ListToolsResult:
        return ListToolsResult(
            tools=[
                Declared(name=tool.name, description=tool.description, input_schema=dict(tool.parameters))
                for tool in tools.values()
            ]
        )

    async def calling(_: Any, request: Any) -> CallToolResult:
        tool = tools.get(request.name)
        if tool is None:
            result = ToolResult(f"there is no tool {request.name!r}; there are {', '.join(tools)}", error=True)
        else:
            result = await tool.call(request.arguments, context)
        images = [ImageContent(data=b64encode(data).decode(), mime_type=mime(data)) for data in result.images]
        return CallToolResult(content=[TextContent(text=redact(result.text)), *images], is_error=result.error)

    return Server(NAME, version=version("snellen"), on_list_tools=listing, on_call_tool=calling)


async def serve(settings: ToolSettings, relay: str | None = None) -> None:
    """Serve until standard input ends."""
    from mcp.server.stdio import stdio_server

    server = make_server(settings, relay)
    async with stdio_server() as (received, sent):
        await server.run(received, sent, server.create_initialization_options())


def main() -> int:
    """Run the command. Standard output belongs to the protocol; notices and errors go to standard error."""
    parser = argparse.ArgumentParser(prog="python -m snellen.models.tools.mcp_server", description=__doc__)
    parser.add_argument("--config", required=True, type=Path, help="tool settings, a JSON file")
    parser.add_argument("--relay", metavar="URL", help="gateway that asks the web, where there is no network")
    register_environment(os.environ)  # an agent has its endpoint's key
    try:
        arguments = parser.parse_args()
        settings = load(arguments.config)
        for notice in settings.notices():
            print(notice, file=sys.stderr)
        asyncio.run(serve(settings, arguments.relay))
    except SnellenError as error:
        print(f"snellen: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
