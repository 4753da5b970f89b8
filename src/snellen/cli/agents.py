"""`snellen agents`: install the agents that answer as models, and show those there are."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from snellen.cli.console import note

group = typer.Typer(help="Install the agents that answer as models, and show those there are.", no_args_is_help=True)


@group.command()
def install(
    name: Annotated[list[str], typer.Argument(metavar="NAME", help="openclaw, opencode, or NAME@VERSION.")],
) -> None:
    """Install an agent and a Node of its own into the cache folder, by npm; what is there is left as it is."""
    from snellen.models.agents import install as agents

    for one in name:
        agents.recipe_of(one)
    for one in name:
        note(f"installing {one}; npm takes some minutes")
        found, new = agents.install(one)
        word = "installed" if new else "already there"
        print(
            f"{found.name} {found.version}: {word}, {found.files:,} files, {found.size / 1e6:,.0f} MB, {found.folder}"
        )


@group.command(name="list")
def show(
    verify: Annotated[bool, typer.Option("--verify", help="Read every file and compare its digest.")] = False,
) -> None:
    """Show the agents there are, the installed ones with their digest."""
    from snellen.models.agents import install as agents

    there = agents.installed()
    for found in there:
        if verify:
            agents.verify(found)
        checked = ", verified" if verify else ""
        print(f"{found.name} {found.version}  sha256:{found.digest[:16]}  {found.folder}{checked}")
    for name, recipe in agents.RECIPES.items():
        if not any((one.name, one.version) == (name, recipe.version) for one in there):
            print(f"{name} {recipe.version}  not installed: snellen agents install {name}")


@group.command()
def image(
    out: Annotated[Path, typer.Argument(help="The SIF file to write.")],
    source: Annotated[
        str,
        typer.Option("--from", metavar="FOLDER|docker://IMAGE", help="A local root folder, or a Docker image."),
    ],
) -> None:
    """Build the image for --sandbox apptainer, with a .sha256 file beside it."""
    from snellen.models.agents import apptainer

    digest = apptainer.build(source, out)
    print(f"{out}  sha256:{digest}")
