"""snellen mcp"""

from __future__ import annotations

import asyncio
import os
from importlib.resources import files
from pathlib import Path

from snellen.cli.console import note
from snellen.cli.option_parsing import option
from snellen.errors import UsageError


def mcp(
    allow: list[str] | None = option(
        "File or folder that clients may name as data, or a name of the hub (hf:OWNER/NAME); may be repeated.",
        value="PATH",
        said="the working folder",
    ),
    results: Path = option("Folder of the runs. Clients read and start runs in it alone.", Path("results")),
    max_cost: float | None = option(
        "US dollars that all runs of this server may cost together. Each run of a priced model then needs max_cost.",
        least=0,
        value="USD",
    ),
    base_url: str | None = option(
        "Endpoint of api:NAME, up to and including /v1. A client cannot name one: it would receive your key.",
        value="URL",
    ),
    key_env: str | None = option("Name of the environment variable that holds its key.", value="NAME"),
    skill: bool = option("Print a skill for agents (SKILL.md) about the command line, and exit.", False),
) -> None:
    """Let an agent or editor drive Snellen: a server of the Model Context Protocol on standard input and output.

    Tools list, check, run, follow, cancel, score, compare and query evaluations, and show answers with their pictures.
    Every run needs a budget. The server ends with its client, and its runs with it; they can be resumed.
    """
    if skill:
        print((files("snellen.cli.mcp") / "SKILL.md").read_text(encoding="utf-8"), end="")
        return
    from snellen.cli.mcp.children import Children
    from snellen.cli.mcp.places import Places
    from snellen.cli.mcp.tools import INSTRUCTIONS, RunDefaults, served_tools
    from snellen.models.tools.mcp_server import build_server, serve_streams
    from snellen.redaction import register_environment

    if key_env is not None:
        from snellen.models.api.services import require_variable

        require_variable(key_env)
    if results.exists() and not results.is_dir():
        raise UsageError(f"--results {results} is no folder", "Name a folder.")
    register_environment(os.environ)
    results.mkdir(parents=True, exist_ok=True)
    places = Places(results, allow or ["."])
    children = Children()
    server = build_server(served_tools(places, children, RunDefaults(max_cost, base_url, key_env)), INSTRUCTIONS)
    note(f"snellen mcp: runs in {places.results}, data from {', '.join(allow or [str(Path.cwd())])}")
    try:
        asyncio.run(serve_streams(server))
    finally:
        children.end()
