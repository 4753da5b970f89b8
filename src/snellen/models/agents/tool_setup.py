"""The tools of `--tools` for an agent: as an MCP server where it speaks that, else as a skill with a command.

Both run inside the sandbox, with the interpreter and the package that run here, which it then sees for reading, as it
sees the folders that the settings name.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct, structs

from snellen.errors import UsageError
from snellen.models.agents.programs import interpreter
from snellen.models.agents.reader import python_folders
from snellen.models.agents.workdir import Workdir
from snellen.models.tools.definitions import open_web
from snellen.models.tools.settings import ToolSettings, identity, load_named, needed, prepare, require_apart, write
from snellen.models.tools.skill import NAME, write_skill

_CONFIG = "tools.json"


class ToolSetup(Struct, frozen=True):
    """ToolSettings of the tools, and the folders that a sandbox must show for them, under their own names."""

    settings: ToolSettings
    read: tuple[Path, ...] = ()
    written: tuple[Path, ...] = ()


def find(file: str | None) -> ToolSetup | None:
    """Return the tools of `--tools` or SNELLEN_TOOLS; None: the agent has its own tools only.

    Raises:
        UsageError: the file cannot be read, or the tools cannot be given.
    """
    settings = load_named(file)
    if settings is None:
        return None
    if "python" in settings.given():
        raise UsageError(
            "the tool python is for tools:NAME; an agent runs programs by itself", "Leave it out of --tools."
        )
    return ToolSetup(settings)


def ready(setup: ToolSetup, hidden: Sequence[Path] = ()) -> ToolSetup:
    """Build the index of the pages and name the folders. May take minutes for a large collection.

    Raises:
        PreflightError: a folder that would be shown holds one of the hidden paths.
        MissingExtraError: engines are named, and PicImageSearch is not installed.
    """
    require_apart(needed(setup.settings), hidden)
    settings = prepare(setup.settings)
    if asks_web(settings):
        open_web(settings)  # says what is not installed, before the first sample
    python = python_folders()
    writable = set[Path]()
    if settings.record is not None and not settings.replay:  # what is only replayed, nobody may change
        writable.add(Path(settings.record).absolute())
    for folder in writable:
        folder.mkdir(parents=True, exist_ok=True)
    read = {path.absolute() for path in needed(settings)} - writable
    outside = (path for path in (*read, *python) if not path.is_relative_to("/usr"))
    setup = ToolSetup(settings, tuple(sorted(outside)), tuple(sorted(writable)))
    require_apart((*setup.read, *setup.written), hidden)
    return setup


def asks_web(settings: ToolSettings) -> bool:
    """Return True if the tools go over the network."""
    return settings.backend == "web" and not settings.replay


def require_bounded(setup: ToolSetup) -> None:
    """Raise UsageError where an agent in a sandbox would write to a folder of the user, past its limits."""
    settings = setup.settings
    if settings.record is not None and not settings.replay:
        raise UsageError(
            "an agent in a sandbox cannot record its tools' calls: it could fill the folder, and change what is in it",
            "Record with --model tools:NAME, and give the agent the same settings with replay.",
        )


def described(setup: ToolSetup | None) -> dict[str, object]:
    """Return the part of the setup that can change an answer."""
    return {} if setup is None else {"tools": identity(setup.settings)}


def server(workdir: Workdir, settings: ToolSettings) -> list[str]:
    """Write the settings of this workdir's MCP server, and say how it is started inside."""
    write(structs.replace(_inside(workdir, settings), images=workdir.workplace), workdir.box / _CONFIG)
    words = [interpreter(), "-m", "snellen.models.tools.mcp_server", "--config", f"{workdir.inside}/{_CONFIG}"]
    return words if workdir.web is None else [*words, "--relay", workdir.web]


def _inside(workdir: Workdir, settings: ToolSettings) -> ToolSettings:
    """Return the settings as the agent may see them: the address of a search engine can hold a password."""
    if settings.searxng is None or workdir.web is None:
        return settings
    return structs.replace(settings, searxng=workdir.web)


def skill(workdir: Workdir, settings: ToolSettings) -> None:
    """Write the skill into the workspace; it names its command as the agent sees it."""
    folder = workdir.work / "skills" / NAME
    write_skill(folder, structs.replace(_inside(workdir, settings), images="../.."), interpreter(), workdir.web)
    about = folder / "SKILL.md"
    about.write_text(about.read_text().replace(str(workdir.box.absolute()), workdir.inside))
