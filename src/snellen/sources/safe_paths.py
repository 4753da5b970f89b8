"""Checks of names from data: none may leave its folder or archive."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable
from pathlib import Path

from snellen.errors import DataError, UnsafeArchiveError

_DRIVE = re.compile(r"[A-Za-z]:")
MAX_NAME = 4096


def member_name(name: str, where: str) -> str:
    """Return a relative name with `/` between its parts and without `.` parts, or raise.

    Refused: absolute names, `..`, backslashes, drive letters, control characters (including NUL), the empty name, more
    than 4,096 characters. They are refused rather than repaired: a repaired name may be another member's.

    Raises:
        UnsafeArchiveError: with the name and the violated rule.
    """
    fault = _fault(name)
    if fault:
        quoted = ascii(name if len(name) <= 200 else name[:200] + "...")
        raise UnsafeArchiveError(
            f"{where}: the name {quoted} {fault}; names must stay under their root",
            "The data is careless or hostile; rebuild the archive or the list of files.",
        )
    if name.startswith("./") or "/./" in name or "//" in name or name.endswith("/."):
        name = "/".join(part for part in name.split("/") if part not in ("", "."))
    return name


def _fault(name: str) -> str:
    if not name or (name[0] == "." and all(part in ("", ".") for part in name.split("/"))):
        return "is empty"
    if len(name) > MAX_NAME:
        return f"is longer than {MAX_NAME:,} characters"
    if name.startswith("/"):
        return "is absolute"
    if "\\" in name:
        return "holds a backslash"
    if _DRIVE.match(name):
        return "begins with a drive letter"
    if not name.isprintable() and any(ord(character) < 32 or ord(character) == 127 for character in name):
        return "holds control characters"
    if ".." in name and ".." in name.split("/"):
        return "holds '..'"
    return ""


def within(root: Path | str, relative: str, allow: Iterable[Path] = ()) -> Path:
    """Return the path of `relative` under `root`, after checking that symbolic links stay inside.

    Args:
        relative: a name from data.
        allow: further folders that links may lead into (the hub's cache keeps contents beside the snapshot).

    Returns:
        `root / relative`, unresolved, as the user knows it. It need not exist.

    Raises:
        UnsafeArchiveError: the name is not a plain relative one, or a link in it leads out of the root.
    """
    base = Path(root)
    path = base / member_name(relative, str(root))
    real = os.path.realpath(path)
    for home in (base, *allow):
        top = os.path.realpath(home)
        if real == top or real.startswith(top if top.endswith(os.sep) else top + os.sep):
            return path
    raise UnsafeArchiveError(
        f"{base}: {relative!r} is a symbolic link to {real}, outside of the folder",
        "Copy the file into the folder, or pass the folder that holds the data.",
    )


def missing_hint(path: Path) -> str:
    """Suggest a correction for a missing path: an unexpanded tilde or pattern, or a similar name."""
    import difflib  # only where a path is wrong

    text = str(path)
    if text.startswith("~"):
        return f"The shell did not expand ~. Write the whole path: {os.path.expanduser(text)}"  # noqa: PTH111
    if os.sep == "/" and ("\\" in text or re.match(r"[A-Za-z]:", text)):
        return "This is a Windows path. Write the local path, such as /mnt/c/data/FILE."
    if any(mark in text for mark in "*?["):
        return "The pattern was not expanded; remove the quotes. Or name one file, or the folder of the files."
    parent = path.parent
    try:
        if path.is_dir():
            return f"{path} is a folder; name a file in it."
        if parent.is_file():
            return f"{parent} is a file; a folder was expected."
        if not parent.is_dir():
            existing = next(place for place in parent.parents if place.is_dir())
            return f"There is no folder {parent}; the path exists up to {existing.absolute()}."
        close_names = difflib.get_close_matches(path.name, os.listdir(parent), n=3)  # noqa: PTH208 - names, not paths
        folded = [name for name in os.listdir(parent) if name.lower() == path.name.lower()]  # noqa: PTH208
    except (OSError, ValueError, StopIteration):
        return "Check the path, and that the data was fetched completely."
    if names := list(dict.fromkeys([*folded, *close_names])):
        return f"Did you mean {' or '.join(str(parent / name) for name in names)}?"
    return "Check the path, and that the data was fetched completely."


def regular_file(path: Path) -> os.stat_result:
    """Return the stat of a regular file. Raises DataError for a missing file, a device, a pipe or a folder."""
    try:
        status = path.stat()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise DataError(f"cannot read {path}: {reason}", missing_hint(path)) from error
    if not stat.S_ISREG(status.st_mode):
        raise DataError(f"cannot read {path}: it is not a regular file", "Pass a regular file.")
    return status
