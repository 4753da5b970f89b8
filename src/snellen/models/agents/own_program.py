"""The user's own program of an agent (`--agent-bin`), in the place of an installation by `snellen agents install`.

A sandbox shows the program alone, or, of a program that npm installed, the `node_modules` that it lies in.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from snellen.errors import UsageError
from snellen.models.agents.install import RECIPES, Installation
from snellen.models.agents.programs import locate, version
from snellen.sources.digests import digest

OPTION = "--agent-bin"
_MODULES = "node_modules"


def find(agent: str, given: str) -> Installation:
    """Return the program as an installation; it is started once, for its version.

    Args:
        agent: openclaw or opencode.
        given: a path, or a name on PATH.

    Raises:
        UsageError: there is no such program, or no Node for it that a sandbox can show.
    """
    place = shutil.which(os.path.expanduser(given))  # noqa: PTH111 - a name on PATH is no path
    if place is None:
        path = Path(given).expanduser()
        reason = "it is not executable" if path.is_file() else "a program was expected, as a path or a name on PATH"
        raise UsageError(f"{OPTION} {given}: {reason}", f"`snellen agents install {agent}` installs one.")
    program = Path(place).resolve()
    if _MODULES in program.parts:
        at = program.parts.index(_MODULES)
        folder = Path(*program.parts[:at])
        parts = [_MODULES, *_linked(folder)]
        if (folder / "node" / _MODULES).is_dir():
            parts.append("node")
    else:
        folder, parts = program.parent, [program.name]
    node = _node(given, folder) if RECIPES[agent].node else ""
    text = version(str(folder / node), (str(program), "--version")) if node else version(place)
    return Installation(
        name=agent,
        version=(text or "unknown").split()[-1],
        node=node,
        files=1,
        size=program.stat().st_size,
        digest=digest(program).removeprefix("sha256:"),
        installed_at="",
        folder=folder,
        program=str(program.relative_to(folder)),
        parts=tuple(parts),
    )


def _linked(folder: Path) -> list[str]:
    """Return the members of a project's folder that packages in its node_modules are links to."""
    modules = folder / _MODULES
    packages = [path for path in modules.iterdir() if path.is_symlink() or path.name.startswith("@")]
    packages += [path for scope in packages if not scope.is_symlink() for path in scope.iterdir()]
    targets = [path.resolve() for path in packages if path.is_symlink()]
    inside = {target.relative_to(folder).parts[0] for target in targets if target.is_relative_to(folder)}
    return sorted(inside - {_MODULES})


def _node(given: str, folder: Path) -> str:
    """Return Node for the program: its own beside it (as a path below the folder), else that on PATH, below /usr."""
    private = Path("node") / _MODULES / "node" / "bin" / "node"
    if (folder / private).is_file():
        return str(private)
    path = locate("node")
    if path is not None and Path(path).resolve().is_relative_to("/usr"):
        return str(Path(path).resolve())
    where = "there is none on PATH" if path is None else f"{path} lies outside /usr, where a sandbox cannot see it"
    raise UsageError(f"{OPTION} {given} needs Node, and {where}", "Install Node below /usr, or omit --agent-bin.")
