"""Checks of a run folder's files before they are read or written: regular files, no links, no values out of range.

A run folder may come from another user. A link in it would lead a read or a write to any file of the user.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING

from snellen.errors import RunError

if TYPE_CHECKING:
    from snellen.engine.run_folder import RunMeta

META_BYTES = 64 << 20
INT64 = 1 << 63
MOST_REPEATS = 1_000_000
FILES = (
    "run_meta.json",
    "results.jsonl",
    "results.damaged",
    "summary.json",
    "predictions.jsonl",
    "report.html",
    "verdicts.jsonl",
    "failures.jsonl",
    "reviews.jsonl",
    "audit_sample.json",
    "batches.jsonl",
    "uploads.jsonl",
)
FOLDERS = ("traces", "exports", "sessions", "raw_judge_inputs", "raw_judge_outputs", "batches")
LISTED = ("traces", "raw_judge_inputs", "raw_judge_outputs", "batches")
"""Folders whose entries are checked too."""


def check_files(folder: Path) -> None:
    """Check the entries of a run folder; a folder that is not there has nothing to check.

    Raises:
        RunError: an entry is a symbolic link, or a file of a run is a folder, a pipe or a device.
    """
    for place in (folder, *(folder / name for name in LISTED)):
        try:
            with os.scandir(place) as entries:
                for entry in entries:
                    _check_entry(folder, place, entry)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            raise RunError(f"{place} cannot be read: {error.strerror or error}", "Check its permissions.") from error


def check_below(folder: Path) -> None:
    """Check a folder that a run's files are written to, and all folders in it.

    Raises:
        RunError: it is a symbolic link, or holds one.
    """
    if folder.is_symlink():
        _refuse_link(folder)
    for place, folders, files in os.walk(folder):
        for name in (*folders, *files):
            if (path := Path(place, name)).is_symlink():
                _refuse_link(path)


def _refuse_link(path: Path) -> None:
    raise RunError(
        f"{path} is a symbolic link; a run's files are read and written only in the run's own folder",
        f"Replace the link by the file it leads to, if you made it: cp --remove-destination \"$(readlink -f '{path}')\" '{path}'",
    )


def _check_entry(folder: Path, place: Path, entry: os.DirEntry[str]) -> None:
    mode = entry.stat(follow_symlinks=False).st_mode
    path = place / entry.name
    if stat.S_ISLNK(mode):
        _refuse_link(path)
    top = place == folder
    known_file = (top and (entry.name in FILES or entry.name.endswith(".part"))) or (not top)
    if known_file and not stat.S_ISREG(mode) and not (not top and stat.S_ISDIR(mode)):
        raise RunError(f"{path} is {kind_of(mode)}; expected a regular file", "Move it away, or restore the file.")
    if top and entry.name in FOLDERS and not stat.S_ISDIR(mode):
        raise RunError(f"{path} is {kind_of(mode)}; expected a folder", "Move it away, or restore the folder.")


def kind_of(mode: int) -> str:
    """Describe the kind of file that a mode stands for."""
    kinds = {
        stat.S_IFDIR: "a folder",
        stat.S_IFIFO: "a pipe",
        stat.S_IFSOCK: "a socket",
        stat.S_IFCHR: "a device",
        stat.S_IFBLK: "a device",
        stat.S_IFREG: "a file",
    }
    return kinds.get(stat.S_IFMT(mode), "no regular file")


def check_values(meta: RunMeta, path: Path) -> RunMeta:
    """Return the meta itself if its numbers can be those of a run.

    Raises:
        RunError: a count is negative, or larger than any run's.
    """
    spec, coverage, totals = meta.spec, meta.coverage, meta.totals
    counts = {
        "spec.limit": spec.limit,
        "spec.repeats": spec.repeats,
        "coverage.limit": coverage.limit,
        "coverage.of": coverage.of,
        "totals.ok": totals.ok,
        "totals.error": totals.error,
        "totals.timeout": totals.timeout,
        "totals.refused": totals.refused,
        "totals.input_tokens": totals.input_tokens,
        "totals.output_tokens": totals.output_tokens,
        "totals.cached": totals.cached,
        "totals.oversized_images": totals.oversized_images,
        "records": meta.records,
    }
    wrong = [name for name, value in counts.items() if value is not None and not 0 <= value < INT64]
    if not 1 <= spec.repeats <= MOST_REPEATS:
        wrong.append("spec.repeats")
    if not -INT64 <= spec.data.seed < INT64:
        wrong.append("spec.data.seed")
    if wrong:
        raise RunError(
            f"{path}: {wrong[0]} is out of range",
            "The file was edited by hand; restore it, or start a new run with --out.",
        )
    return meta
