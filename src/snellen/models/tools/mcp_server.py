"""The tools as an MCP server over standard input and output: `python -m snellen.models.tools.mcp_server --config FILE`.

One server serves one conversation: its calls are counted, and its images are those of the folder that the file names.
Model Context Protocol, revision 2025-06-18 and what `mcp` speaks besides: tools/list and tools/call.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
from base64 import b64encode
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextvars import ContextVar
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from snellen.errors import MissingExtraError, SnellenError
from snellen.installation import install_hint
from snellen.media import read_header
from snellen.models.tools.base import Context, Tool, ToolResult
from snellen.models.tools.definitions import all_tools
from snellen.models.tools.images import ToolImages
from snellen.models.tools.settings import ToolSettings, load
from snellen.redaction import redact, register_environment

NAME = "snellen"


Report: TypeAlias = Callable[[float, "float | None"], Awaitable[None]]
"""Tells the client of a call how much is done, and of how much; nothing where it did not ask for that."""
REPORT: ContextVar[Report | None] = ContextVar("report", default=None)
"""The report of the call that is being answered."""


def mime(data: bytes) -> str:
    """Return the media type of an image, by its content."""
    header = read_header(data)
    return f"image/{header.format}" if header is not None else "application/octet-stream"


class ServedTool(NamedTuple):
    """A tool as a client sees it, and what answers a call: the coroutine takes the arguments, which may be anything.

    `output` is the JSON Schema of the answer's `structured`, whose keys are struck out by the tool; None for a tool that
    answers in text and images alone.
    """

    name: str
    about: str
    parameters: Mapping[str, Any]
    call: Callable[[Any], Awaitable[ToolResult]]
    output: Mapping[str, Any] | None = None
    read_only: bool | None = None


def build_server(served: Iterable[ServedTool], instructions: str | None = None) -> Any:
    """Return an `mcp` server with these tools. Texts of answers are redacted; a failed call is an answer, marked as an error.

    Raises:
        MissingExtraError: `mcp` is not installed.
    """
    try:
        from mcp.server.lowlevel import Server
        from mcp.types import CallToolResult, ImageContent, ListToolsResult, TextContent, ToolAnnotations
        from mcp.types import Tool as Declared
    except ImportError:
        raise MissingExtraError("the MCP server needs mcp 2, which is not installed.", install_hint("agents")) from None
    tools = {tool.name: tool for tool in served}

    async def listing(_: Any, __: Any) -> ListToolsResult:
        return ListToolsResult(
            tools=[
                Declared(
                    name=tool.name,
                    description=tool.about,
                    input_schema=dict(tool.parameters),
                    output_schema=None if tool.output is None else dict(tool.output),
                    annotations=None if tool.read_only is None else ToolAnnotations(read_only_hint=tool.read_only),
                )
                for tool in tools.values()
            ]
        )

    async def calling(context: Any, request: Any) -> CallToolResult:
        tool = tools.get(request.name)
        if tool is None:
            result = ToolResult(f"there is no tool {request.name!r}; there are {', '.join(tools)}", error=True)
        else:
            REPORT.set(context.session.report_progress)
            result = await tool.call(request.arguments)
        # Clients that know no structured content read the object as text.
        texts = [] if result.structured is None else [json.dumps(result.structured, ensure_ascii=False)]
        texts += [result.text] if result.text or not texts else []
        images = [ImageContent(data=b64encode(data).decode(), mime_type=mime(data)) for data in result.images]
        return CallToolResult(
            content=[*(TextContent(text=redact(text)) for text in texts), *images],
            structured_content=result.structured,
            is_error=result.error,
        )

    return Server(
        NAME,
        version=version("snellen"),
        instructions=instructions,
        on_list_tools=listing,
        on_call_tool=calling,
    )


async def serve_streams(server: Any) -> None:
    """Serve until standard input ends. Standard output is that of the process, whatever `sys.stdout` was replaced by."""
    import anyio
    from mcp.server.stdio import stdio_server

    with (
        open(0, encoding="utf-8", errors="replace", closefd=False) as read,  # noqa: ASYNC230 - streams that are open
        open(1, "w", encoding="utf-8", closefd=False) as written,  # noqa: ASYNC230
    ):
        async with stdio_server(anyio.wrap_file(read), anyio.wrap_file(written)) as (received, sent):
            await server.run(received, sent, server.create_initialization_options())


def make_server(settings: ToolSettings, relay: str | None = None) -> Any:
    """Return an `mcp` server with the tools that the settings give; `relay`: see `all_tools`.

    Raises:
        MissingExtraError: `mcp` is not installed. DataError, UsageError: as of `all_tools`.
    """
    context = Context(ToolImages(folder=Path(settings.images)))

    def served(tool: Tool) -> ServedTool:
        return ServedTool(tool.name, tool.description, tool.parameters, lambda words: tool.call(words, context))

    return build_server(map(served, all_tools(settings, relay=relay)))


async def serve(settings: ToolSettings, relay: str | None = None) -> None:
    """Serve the tools until standard input ends."""
    await serve_streams(make_server(settings, relay))


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
