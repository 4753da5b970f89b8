"""A skill folder: what an agent reads to learn of the tools, and the command by which it calls them.

OpenClaw lists the skills of its workspace by the front matter of SKILL.md and runs commands with its exec tool.
"""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

from snellen.models.tools.command import usage
from snellen.models.tools.definitions import all_tools
from snellen.models.tools.settings import ToolSettings, prepare, write

NAME = "snellen-tools"
_HEAD = """---
name: {name}
description: "Look closer at the picture of a question and look things up. Tools: {tools}."
---

# Tools

Run the command below with the name of a tool and its arguments. Put values in quotes. Results are printed; pictures are
saved as files, which you can then read.

    {command} TOOL --argument value

"""


def write_skill(folder: Path, settings: ToolSettings, python: str = sys.executable, relay: str | None = None) -> Path:
    """Write SKILL.md, the command `tools` and its settings into a folder, which is made.

    Args:
        folder: where the agent looks for the skill; its name should be that of the skill.
        settings: what the tools work on. `images` is where the sample's images lie, absolute, or relative to the
            settings' file in the folder. The index of a local collection is built if it is not there yet.
        python: the interpreter that has Snellen, as the agent's sandbox sees it.
        relay: address of the gateway that asks the web, where the agent has no network.

    Returns:
        The command.

    Raises:
        as of `all_tools`.
    """
    settings = prepare(settings)
    tools = all_tools(settings)
    folder.mkdir(parents=True, exist_ok=True)
    write(settings, folder / "tools.json")
    command = folder / "tools"
    way = "" if relay is None else f" --relay {shlex.quote(relay)}"
    command.write_text(
        "#!/bin/sh\n"
        'here=$(cd "$(dirname "$0")" && pwd) || exit 2\n'
        f'exec {shlex.quote(python)} -m snellen.models.tools.command --config "$here/tools.json"{way} "$@"\n'
    )
    command.chmod(0o755)
    head = _HEAD.format(
        name=NAME, tools=", ".join(tool.name for tool in tools), command=shlex.quote(str(command.absolute()))
    )
    (folder / "SKILL.md").write_text(head + "\n".join(f"- `{_line(usage(tool))}" for tool in tools) + "\n")
    return command


def _line(text: str) -> str:
    call, _, about = text.partition("\n")
    return f"{call}`: {about.strip()}"
