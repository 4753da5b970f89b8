"""Checks of `snellen doctor` for agents: sandbox, required programs, installed agents."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from snellen.errors import SnellenError


class Program(Struct, frozen=True):
    """A program that agents need.

    Attributes:
        name: the program on PATH.
        title: its name in the output.
        words: arguments that print its version.
        purpose: its use, and how to install it.
    """

    name: str
    title: str
    words: tuple[str, ...]
    purpose: str


PROGRAMS = (
    Program(
        "apptainer", "Apptainer", ("version",), "only for --sandbox apptainer: https://apptainer.org/docs/admin/main/"
    ),
    Program("node", "Node", ("--version",), "to install agents: Node.js 18 or newer, with npm"),
    Program("npm", "npm", ("--version",), "to install agents: Node.js 18 or newer, with npm"),
    Program("rg", "ripgrep", ("--version",), "for OpenCode's search: apt-get install ripgrep"),
)


def agent_findings() -> Iterator[tuple[str, bool, str]]:
    """Yield (name, whether it works, its version and path or the fault and its remedy)."""
    if sys.platform != "linux":
        yield "agents", False, f"agents need Linux; this is {sys.platform}"
        return
    yield _bubblewrap()
    yield _sandbox()
    from snellen.models.agents.programs import locate, version

    for program in PROGRAMS:
        path = locate(program.name)
        if path is None:
            yield program.title, False, f"not on PATH; {program.purpose}"
        elif (text := version(path, program.words)) is None:
            yield program.title, False, f"{path} cannot be started; {program.purpose}"
        elif program.name == "rg" and not path.startswith(("/usr/", "/bin/")):
            yield program.title, False, f"{text}, {path}, outside /usr, so a sandbox cannot see it"
        else:
            yield program.title, True, f"{text}, {path}"
    yield from _agents()


def _bubblewrap() -> tuple[str, bool, str]:
    from snellen.models.agents.programs import bubblewrap_fault, locate, version

    path = locate("bwrap")
    if path is None:
        return (
            "bubblewrap",
            False,
            "bwrap is not on PATH; it is the default sandbox of agents: apt-get install bubblewrap",
        )
    text = version(path)
    if text is None:
        return "bubblewrap", False, f"{path} cannot be started: apt-get install bubblewrap"
    fault = bubblewrap_fault(path)
    if fault is not None:
        return "bubblewrap", False, f"{text}, {path}, cannot make a sandbox here: {fault}"
    return "bubblewrap", True, f"{text}, {path}"


def _sandbox() -> tuple[str, bool, str]:
    """Check that a sandbox can be made: namespaces, file system and network of its own."""
    from tempfile import TemporaryDirectory

    from snellen.models.agents.limits import AgentLimits
    from snellen.models.agents.supervisor_client import Supervisor

    try:
        with TemporaryDirectory() as folder:
            Supervisor(Path(folder), AgentLimits(), isolated=True, network=False).close()
    except SnellenError as error:
        return "agent sandbox", False, f"{error.message}; unprivileged user namespaces are needed"
    return "agent sandbox", True, "namespaces, bounded files and a network of its own"


def _agents() -> Iterator[tuple[str, bool, str]]:
    from snellen.models.agents import install

    try:
        installed = {(agent.name, agent.version): agent for agent in install.installed()}
    except SnellenError as error:
        yield "agents", False, error.message
        return
    wanted = {(recipe.name, recipe.version) for recipe in install.RECIPES.values()}
    for name, version in sorted({*installed, *wanted}):
        agent = installed.get((name, version))
        if agent is None:
            yield f"agent {name}", False, f"{version} is not installed: snellen agents install {name}"
            continue
        program = Path(install.executable(agent, str(agent.folder)))
        if program.is_file():
            node = f", Node {agent.node}" if agent.node else ""
            yield f"agent {name}", True, f"{version}{node}, {agent.folder}"
        else:
            fix = f"remove {agent.folder}, then: snellen agents install {name}@{version}"
            yield f"agent {name}", False, f"{version} has lost {program}: {fix}"
