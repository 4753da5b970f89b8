"""snellen agents: install and list agents"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from snellen.cli import options as shared
from snellen.cli.console import note, show_json
from snellen.cli.option_parsing import REQUIRED, Commands, argument, option

if TYPE_CHECKING:
    from snellen.models.agents.install import Installation

group = Commands(help="Install and list the agents that answer as models.", no_args_is_help=True)


@group.command()
def install(
    name: list[str] = argument("openclaw, opencode, or NAME@VERSION.", value="NAME"),
    as_json: shared.JsonResult = False,
) -> None:
    """Install agents into the cache folder with npm, each with its own Node; installed ones are skipped."""
    from snellen.models.agents import install as agents

    for spec in name:
        agents.recipe_of(spec)
    made = []
    for spec in name:
        note(f"installing {spec}; npm takes some minutes")
        agent, new = agents.install(spec)
        made.append(_facts(agent))
        if as_json:
            continue
        state = "installed" if new else "already installed"
        print(
            f"{agent.name} {agent.version}: {state}, {agent.files:,} files, {agent.size / 1e6:,.0f} MB, {agent.folder}"
        )
    if as_json:
        show_json({"agents": made})


def _facts(agent: Installation) -> dict[str, Any]:
    return {
        **{"name": agent.name, "version": agent.version, "installed": True},
        **{"folder": str(agent.folder), "digest": agent.digest},
    }


@group.command(name="list")
def list_agents(
    verify: bool = option("Read every file and compare its digest.", False),
    as_json: bool = option("One JSON object.", False, names=("--json",)),
) -> None:
    """List the available agents, the installed ones with their digest, and Snellen's own tool loop."""
    import snellen
    from snellen.models.agents import install as agents
    from snellen.models.agents import own_loop

    installed = agents.installed()
    for agent in installed if verify else ():
        agents.verify(agent)
    known = {(agent.name, agent.version) for agent in installed}
    others = [(name, recipe.version) for name, recipe in agents.RECIPES.items() if (name, recipe.version) not in known]
    if as_json:
        facts = [{**_facts(agent), "verified": verify} for agent in installed]
        facts += [{"name": name, "version": version, "installed": False} for name, version in others]
        facts.append({"name": own_loop.NAME, "version": snellen.__version__, "installed": True})
        show_json({"agents": facts})
        return
    for agent in installed:
        suffix = ", verified" if verify else ""
        print(f"{agent.name} {agent.version}  sha256:{agent.digest[:16]}  {agent.folder}{suffix}")
    for name, version in others:
        print(f"{name} {version}  not installed: snellen agents install {name}")
    providers = ", ".join(own_loop.PROVIDERS)
    print(
        f"{own_loop.NAME} {snellen.__version__}  built in: --model agent:{own_loop.NAME} --agent-model PROVIDER/MODEL "
        f"({providers}; any other with --base-url)"
    )


@group.command()
def image(
    out: Path = argument("The SIF file to write."),
    source: str = option(
        "A local root folder, or a Docker image.", REQUIRED, names=("--from",), value="FOLDER|docker://IMAGE"
    ),
    as_json: shared.JsonResult = False,
) -> None:
    """Build the image for --sandbox apptainer and its .sha256 file."""
    from snellen.models.agents import apptainer

    digest = apptainer.build(source, out)
    if as_json:
        show_json({"image": str(out), "digest": digest})
    else:
        print(f"{out}  sha256:{digest}")
