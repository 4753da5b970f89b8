"""Run folders below a root: nested ones too, without following links, and what else lies there by name."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from snellen.engine.folder_checks import FOLDERS, kind_of
from snellen.viewer.index.database import FOLDER
from snellen.viewer.index.entries import Skipped

META, RESULTS = "run_meta.json", "results.jsonl"
DEPTH = 32
"""Folders below the root that are searched."""
MOST_FOLDERS = 200_000
MOST_SKIPPED = 1_000
REST = "…"
NO_RUN = "no run: a run is a folder with run_meta.json"
_PASSED = frozenset({*FOLDERS, FOLDER, ".git", "__pycache__", "node_modules", ".venv"})
_OWN = frozenset({".gitignore", ".DS_Store", "index.html", "README.md"})


@dataclass
class Discovery:
    """What lies below a root: run folders by key, and the rest with reasons."""

    runs: dict[str, Path] = field(default_factory=dict)
    skipped: list[Skipped] = field(default_factory=list)
    folders: int = 0

    def skip(self, path: str, reason: str) -> None:
        """Note a path that is not read; beyond MOST_SKIPPED it is only counted."""
        if len(self.skipped) < MOST_SKIPPED:
            self.skipped.append(Skipped(path, reason))
        elif len(self.skipped) == MOST_SKIPPED:  # one more says so
            self.skipped.append(Skipped(REST, f"more than {MOST_SKIPPED:,} files and folders are no runs"))


def discover(root: Path) -> Discovery:
    """Find every run folder below the root, the root itself included, in the order of their keys."""
    result = Discovery()
    _enter(root, "", 0, result)
    result.runs = dict(sorted(result.runs.items()))
    return result


def _enter(folder: Path, key: str, depth: int, result: Discovery) -> int:
    """Search a folder; return how many files of it and below are no run's."""
    before, runs = len(result.skipped), len(result.runs)
    files = _search(folder, key, depth, result)
    if (
        key
        and len(result.runs) == runs
        and files > 1
        and all(each.reason.endswith(NO_RUN) or each.path == REST for each in result.skipped[before:])
    ):
        # A folder of data or pictures: one line says it.
        del result.skipped[before:]
        result.skip(key, f"{files:,} files, {NO_RUN}")
    return files


def _search(folder: Path, key: str, depth: int, result: Discovery) -> int:
    """Search one folder; return how many files of it and below are no run's."""
    result.folders += 1
    files = 0
    if result.folders > MOST_FOLDERS:
        if result.folders == MOST_FOLDERS + 1:
            result.skip(key or ".", f"the root has more than {MOST_FOLDERS:,} folders; the rest is not searched")
        return 0
    entries = dict(_entries(folder, key, result))
    names = set(entries)
    is_run = _is_file(entries.get(META))
    if is_run:
        result.runs[key or "."] = folder
    elif RESULTS in names:
        if _is_file(entries[RESULTS]):
            result.runs[key or "."] = folder
        else:
            result.skip(_join(key, RESULTS), f"{kind_of(entries[RESULTS])}; expected a file")
    elif META in names:
        result.skip(_join(key, META), f"{kind_of(entries[META])}; expected a file")
    for name in sorted(names):
        mode, path = entries[name], folder / name
        if stat.S_ISLNK(mode):
            if not is_run or name not in (META, RESULTS):
                result.skip(_join(key, name), _link(path))
        elif stat.S_ISDIR(mode):
            if name in _PASSED and (is_run or name not in FOLDERS):
                continue
            if depth >= DEPTH:
                result.skip(_join(key, name), f"deeper than {DEPTH} folders below the root; not searched")
            else:
                files += _enter(path, _join(key, name), depth + 1, result)
        elif not is_run and RESULTS not in names and name not in _OWN:
            files += 1
            result.skip(_join(key, name), NO_RUN)
    return files


def _entries(folder: Path, key: str, result: Discovery) -> Iterator[tuple[str, int]]:
    try:
        with os.scandir(folder) as scan:
            for entry in scan:
                try:
                    yield entry.name, entry.stat(follow_symlinks=False).st_mode
                except OSError as error:
                    result.skip(_join(key, entry.name), f"cannot be read: {error.strerror or error}")
    except OSError as error:
        result.skip(key or ".", f"cannot be read: {error.strerror or error}")


def _is_file(mode: int | None) -> bool:
    return mode is not None and stat.S_ISREG(mode)


def _join(key: str, name: str) -> str:
    plain = os.fsencode(name).decode("utf-8", "replace")
    return f"{key}/{plain}" if key else plain


def _link(path: Path) -> str:
    return "a symbolic link; links are not followed, so that nothing outside of the root is shown"
