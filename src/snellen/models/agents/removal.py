"""Remove a folder that an agent has written to, however deep, however locked, and whatever links lie in it."""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path
from typing import Any

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
_PARENTS = 64  # folders on the way down that are kept open


class _Level:
    """A folder on the way down: its name in the one above, its descriptor, and its folders that are still to be entered."""

    def __init__(self, name: str, handle: int, identity: tuple[int, int]) -> None:
        self.name = name
        self.handle: int | None = handle
        self.identity = identity
        self.folders: list[str] = []


def remove_tree(folder: Path) -> None:
    """Remove a folder and all in it. No link is followed, no path is longer than a name, and nothing recurses.

    Folders that may not be entered are opened to us first. What cannot be removed (another user's file) stays. A folder
    that is not there is no fault.
    """
    try:
        above = os.open(folder.parent, os.O_RDONLY | os.O_DIRECTORY)
    except OSError:
        return
    try:
        _remove(above, folder.name)
    finally:
        os.close(above)


def _remove(above: int, name: str) -> None:
    """Remove one folder: empty each level of plain files, go down into its folders, and come back by `..`."""
    levels: list[_Level] = []
    if (level := _enter(above, name)) is None:
        return
    levels.append(level)
    try:
        while levels:
            level = levels[-1]
            handle = level.handle
            if handle is None:
                raise AssertionError("the deepest level is open")
            if level.folders:
                if (inner := _enter(handle, level.folders.pop())) is not None:
                    levels.append(inner)
                    if len(levels) > _PARENTS:
                        _let_go(levels[-_PARENTS])
                continue
            levels.pop()
            parent = above if not levels else _reopened(levels[-1], handle)
            os.close(handle)
            if parent is None:  # somebody moved it meanwhile: the levels above cannot be had again
                return
            with contextlib.suppress(OSError):
                os.rmdir(level.name, dir_fd=parent)
    finally:
        for level in levels:
            _let_go(level)


def _enter(above: int, name: str) -> _Level | None:
    """Open a folder, remove all in it that is no folder, and remember those that are."""
    try:
        handle = os.open(name, _FOLDER, dir_fd=above)
    except PermissionError:
        handle = _unlocked(above, name)
    except OSError:
        return None
    if handle < 0:
        return None
    status = os.fstat(handle)
    if status.st_mode & stat.S_IRWXU != stat.S_IRWXU:
        with contextlib.suppress(OSError):
            os.fchmod(handle, stat.S_IRWXU)
    level = _Level(name, handle, (status.st_dev, status.st_ino))
    with contextlib.suppress(OSError):
        # The whole list first: a folder that is read while it shrinks may leave entries out.
        with os.scandir(handle) as entries:
            names = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
        for inner, is_folder in names:
            if is_folder:
                level.folders.append(inner)
            else:
                with contextlib.suppress(OSError):
                    os.unlink(inner, dir_fd=handle)
    return level


def _unlocked(above: int, name: str) -> int:
    """Open a folder that may not be entered; -1 where it is not ours."""
    try:
        place: Any = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=above)
    except OSError:
        return -1
    try:
        Path(f"/proc/self/fd/{place}").chmod(0o700)  # by descriptor: what the name leads to may change
        return os.open(name, _FOLDER, dir_fd=above)
    except OSError:
        return -1
    finally:
        os.close(place)


def _reopened(level: _Level, below: int) -> int | None:
    """Return the descriptor of a level, by `..` from the one below where it was let go; None if that is another folder now."""
    if level.handle is None:
        with contextlib.suppress(OSError):
            handle = os.open("..", _FOLDER, dir_fd=below)
            status = os.fstat(handle)
            if (status.st_dev, status.st_ino) == level.identity:
                level.handle = handle
            else:
                os.close(handle)
    return level.handle


def _let_go(level: _Level) -> None:
    handle, level.handle = level.handle, None
    if handle is not None:
        os.close(handle)
