"""Paths of this machine, taken out of pages that leave it: error messages, replies of programs and settings can hold them."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

SYSTEM = frozenset(
    [
        "bin",
        "boot",
        "dev",
        "etc",
        "lib",
        "lib32",
        "lib64",
        "libx32",
        "lost+found",
        "proc",
        "run",
        "sbin",
        "sys",
        "usr",
        "var",
    ]
)
"""Folders at the top that are alike on every machine: a path in them says nothing about this one."""
PERSONAL = (
    "home",
    "Users",
    "Volumes",
    "root",
    "tmp",
    "private",
    "mnt",
    "media",
    "data",
    "scratch",
    "workspace",
    "opt",
    "srv",
)
"""Folders at the top that hold what users put there, on the machine of a run from elsewhere too."""
BELOW = ("var/folders", "var/tmp", "var/home", "run/user", "run/media")
_END = r"""[^\s<>"'`&;,|\\/]"""


def path_hider(root: Path) -> Callable[[str], str]:
    """Return a function that shortens absolute paths in HTML to their last name.

    Hidden are the root, the home and the working folder wherever they stand, and every path below a folder for users' files.
    Paths below system folders such as /usr stay, as do addresses of the web.
    """
    from markupsafe import escape

    places = {str(root.absolute()), str(root.resolve()), str(Path.home()), str(Path.cwd())}
    texts = {text for place in places if len(place) > 3 for text in (place, str(escape(place)))}
    known = re.compile("|".join(re.escape(text) for text in sorted(texts, key=len, reverse=True)))
    tops = "|".join(re.escape(name) for name in sorted({*PERSONAL, *BELOW, *_top_folders()}, key=len, reverse=True))
    unix = rf"(?<![\w<./%+…-])(?:file://)?/+(?:{tops})(?:/+({_END}+))+/*(?!\w)"
    windows = rf"(?<![\w])[A-Za-z]:[\\/]+Users(?:[\\/]+({_END}+))+"
    pattern = re.compile(f"{unix}|{windows}")

    def hide(html: str) -> str:
        return pattern.sub(lambda match: f"…/{match[1] or match[2]}", known.sub("…", html))

    return hide


def _top_folders() -> list[str]:
    """Return the names of the folders at the top of this machine that are not those of the system."""
    try:
        return [path.name for path in Path("/").iterdir() if path.is_dir() and path.name not in SYSTEM]
    except OSError:
        return []
