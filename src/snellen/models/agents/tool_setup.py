"""The tools of `--tools` for an agent: as an MCP server where it speaks that, else as a skill with a command.

Both run inside the sandbox, with the interpreter and the package that run here, which it then sees for reading, as it
sees the folders that the settings name.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct, structs

from snellen.errors import UsageError
from snellen.models.agents.reader import python_folders
from snellen.models.agents.workdir import Room
from snellen.models.tools.settings import VARIABLE, Settings, identity, load, needed, prepare, require_apart, write
from snellen.models.tools.skill import NAME, write_skill

_CONFIG = "tools.json"


class Equipment(Struct, frozen=True):
    """Settings of the tools, and the folders that a sandbox must show for them, under their own names."""

    settings: Settings
    read: tuple[Path, ...] = ()
    written: tuple[Path, ...] = ()


def find(file: str | None) -> Equipment | None:
    """What `--tools FILE` or SNELLEN_TOOLS asks for; None: the agent has its own tools only.

    Raises:
        UsageError: the file cannot be read, or the tools cannot be given.
    """
    path = file or os.environ.get(VARIABLE)
    if not path:
        return None
    settings = load(path)
    settings.given()
    return Equipment(settings)


def ready(equipment: Equipment, hidden: Sequence[Path] = ()) -> Equipment:
    """With the index of its pages built, and the folders named. May take minutes for a large collection.

    Raises:
        PreflightError: a folder that would be shown holds one of the hidden paths.
    """
    require_apart(needed(equipment.settings), hidden)
    settings = prepare(equipment.settings)
    python = python_folders()
    kept = set[Path]()
    if settings.record is not None and not settings.replay:  # what is only replayed, nobody may change
        kept.add(Path(settings.record).absolute())
    for folder in kept:
        folder.mkdir(parents=True, exist_ok=True)
    read = {path.absolute() for path in needed(settings)} - kept
    outside = (path for path in (*read, *python) if not path.is_relative_to("/usr"))
    shown = Equipment(settings, tuple(sorted(outside)), tuple(sorted(kept)))
    require_apart((*shown.read, *shown.written), hidden)
    return shown


def asks_web(settings: Settings) -> bool:
    """Whether the tools go over the network."""
    return settings.backend == "web" and not settings.replay


def require_bounded(equipment: Equipment) -> None:
    """Raise UsageError where an agent in a sandbox would write to a folder of the user, past its limits."""
    settings = equipment.settings
    if settings.record is not None and not settings.replay:
        raise UsageError(
            "an agent in a sandbox cannot record its tools' calls: it could fill the folder, and change what is in it",
            "Record with --model tools:NAME, and give the agent the same settings with replay.",
        )


def described(equipment: Equipment | None) -> dict[str, object]:
    """What of it can change an answer."""
    return {} if equipment is None else {"tools": identity(equipment.settings)}


def server(room: Room, settings: Settings) -> list[str]:
    """Write the settings of this room's MCP server, and say how it is started inside."""
    write(structs.replace(_inside(room, settings), images=room.workplace), room.box / _CONFIG)
    words = [sys.executable, "-m", "snellen.models.tools.mcp_server", "--config", f"{room.inside}/{_CONFIG}"]
    return words if room.web is None else [*words, "--relay", room.web]


def _inside(room: Room, settings: Settings) -> Settings:
    """The settings as the agent may see them: the address of a search engine can hold a password."""
    if settings.searxng is None or room.web is None:
        return settings
    return structs.replace(settings, searxng=room.web)


def skill(room: Room, settings: Settings) -> None:
    """Write the skill into the workspace; it names its command as the agent sees it."""
    folder = room.work / "skills" / NAME
    write_skill(folder, structs.replace(_inside(room, settings), images="../.."), relay=room.web)
    about = folder / "SKILL.md"
    about.write_text(about.read_text().replace(str(room.box.absolute()), room.inside))
