"""One call of one tool from a shell, for agents that run commands: `python -m snellen.models.tools.command --config FILE TOOL --query …`.

The result's text goes to standard output; images are written beside the sample's own, and the text names them. Calls
are counted in a file there, since every call is a process of its own.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from snellen.errors import SnellenError, UsageError
from snellen.models.tools.base import Context, Tool, ToolResult
from snellen.models.tools.definitions import all_tools
from snellen.models.tools.images import ToolImages
from snellen.models.tools.settings import load
from snellen.redaction import redact, register_environment

COUNT = ".tool-calls"


def main(words: Sequence[str] | None = None) -> int:
    """Run the command; return 0 for a result, 1 for a fault that the tool reports, 2 for a call that cannot be read."""
    rest = list(sys.argv[1:] if words is None else words)
    register_environment(os.environ)  # an agent has its endpoint's key
    try:
        if rest[:1] != ["--config"] or len(rest) < 2:
            raise UsageError("--config FILE comes first.")
        settings = load(rest[1])
        relay = rest[3] if rest[2:3] == ["--relay"] and len(rest) > 3 else None
        rest = rest[4:] if relay else rest[2:]
        for notice in settings.notices():
            print(notice, file=sys.stderr)
        tools = {tool.name: tool for tool in all_tools(settings, relay=relay)}
        if not rest or rest[0] in ("-h", "--help"):
            print("\n".join(usage(tool) for tool in tools.values()))
            return 0
        tool = tools.get(rest[0])
        if tool is None:
            raise UsageError(f"there is no tool {rest[0]!r}.", f"Tools: {', '.join(tools)}.")
        arguments = read_arguments(tool, rest[1:])
        folder = Path(settings.images)
        result = asyncio.run(_call(tool, arguments, folder))
    except SnellenError as error:
        print(f"{error.message} {error.hint}".strip())
        return error.exit_code
    print(redact(result.text))
    return 1 if result.error else 0


async def _call(tool: Tool, arguments: dict[str, Any], folder: Path) -> ToolResult:
    """Make the call; an image that it returns is saved in the folder, and the text names it."""
    images = ToolImages(folder=folder, out=folder)
    before = set(images.names())
    context = Context(images, calls=_count(folder))
    result = await tool.call(arguments, context)
    new = [name for name in images.names() if name not in before]
    for data in result.images:
        if not any(images.read(name) == data for name in new):
            new.append(images.add(data))
    if not new:
        return result
    files = "\n".join(f"Saved as {folder / name}" for name in new)
    return ToolResult(f"{result.text}\n{files}\nRead the file to see it.", result.images, result.error)


def _count(folder: Path) -> int:
    """Return the number of earlier calls; one byte a call, appended, so that simultaneous calls count too."""
    handle = os.open(folder / COUNT, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        before = os.fstat(handle).st_size
        os.write(handle, b".")
    finally:
        os.close(handle)
    return before


def read_arguments(tool: Tool, words: Sequence[str]) -> dict[str, Any]:
    """Return arguments of a tool from `--name value` and `--name=value`; a list of numbers is written with commas.

    Raises:
        UsageError: an argument that the tool does not have, or one without a value.
    """
    known = tool.parameters["properties"]
    values: dict[str, Any] = {}
    rest = list(words)
    while rest:
        name, equals, value = rest.pop(0).partition("=")
        field = name.removeprefix("--")
        if not name.startswith("--") or field not in known or not (equals or rest):
            raise UsageError(f"{tool.name}: {name!r} is not an argument with its value.", usage(tool))
        if not equals:
            value = rest.pop(0)
        is_list = known[field].get("type") == "array"
        values[field] = [part.strip() for part in value.strip("[] ").split(",")] if is_list else value
    return values


def usage(tool: Tool) -> str:
    """Return the usage of a tool on one line, and its description."""
    required = tool.parameters["required"]
    pieces = [
        f"--{name} {_form(about)}" if name in required else f"[--{name} {_form(about)}]"
        for name, about in tool.parameters["properties"].items()
    ]
    return f"{tool.name} {' '.join(pieces)}\n    {tool.description}"


def _form(about: dict[str, Any]) -> str:
    forms = {"array": "LEFT,TOP,RIGHT,BOTTOM", "string": "TEXT", "integer": "N", "number": "X"}
    return forms.get(str(about.get("type")), "VALUE")


if __name__ == "__main__":
    sys.exit(main())
