"""Paths of a run's data now: as typed, at their absolute path, or beside the run.

run_meta.json keeps the paths as they were typed and the absolute ones. The first place with something in it is used; one
that is only a guess must have the digest that the run recorded (snellen.runs.trust checks it).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from msgspec import structs

from snellen.benchmarks.base import Data
from snellen.benchmarks.registry import MANIFEST, TASK_FILE, find, is_table, is_there
from snellen.engine.run_folder import RunFolder, RunMeta, RunSpec
from snellen.errors import SnellenError
from snellen.sources.hub import HUB

OPTION = "option "
FOLDERS_ABOVE = 4
"""How many folders above a run are searched, besides its own, for the set that it was asked from."""


def absolute_places(spec: RunSpec) -> dict[str, str]:
    """Return the absolute path of every local path in the spec's data: `path`, `images`, and `option NAME`."""
    data = spec.data
    named = {"path": data.path, "images": data.images}
    for name, value in data.options.items():
        # A folder that is only called like a value, such as --out bias beside --suite bias, is no place of data.
        if looks_like_path(value) or os.path.isfile(value):  # noqa: PTH113 - any text, never an error
            named[OPTION + name] = Path(value)
    return {
        name: os.path.abspath(path)  # noqa: PTH100 - a working folder that is gone is no error here
        for name, path in named.items()
        if path is not None and not str(path).startswith(HUB)
    }


def looks_like_path(value: str) -> bool:
    """Return True for an option's value that names a place: it has a slash, or begins with a dot or a tilde."""
    return "/" in value or "\\" in value or value.startswith((".", "~"))


def candidates(folder: Path, typed: Path, absolute: str | None) -> Iterator[Path]:
    """Yield the places where a path of the run's data may lie now, the likeliest first."""
    if typed.is_absolute():
        yield typed
    elif absolute is not None:
        yield Path(absolute)
        yield typed
    else:
        yield typed
    if not typed.is_absolute() and ".." not in typed.parts:
        yield folder / typed
        yield folder.parent / typed
    if typed.name not in ("", ".."):
        yield folder / typed.name
        yield folder.parent / typed.name


def located(folder: RunFolder, meta: RunMeta) -> RunMeta:
    """Return the meta with each data path at the first place that exists; others stay as typed."""
    if (moved := _built_set(folder, meta)) is not None:
        meta = structs.replace(meta, spec=structs.replace(meta.spec, benchmark=str(moved)))
    data = meta.spec.data
    path = _first(folder, data.path, meta.places.get("path"))
    images = _first(folder, data.images, meta.places.get("images"))
    options = dict(data.options)
    for name, value in options.items():
        absolute = meta.places.get(OPTION + name)
        if absolute is not None and (looks_like_path(value) or not Path(absolute).is_dir()):
            options[name] = str(_first(folder, Path(value), absolute))
    if (path, images, options) == (data.path, data.images, dict(data.options)):
        return meta
    now = structs.replace(data, path=path, images=images, options=options)
    return structs.replace(meta, spec=structs.replace(meta.spec, data=now))


def holds_built_set(place: str | Path) -> bool:
    """Return True for the folder of a set made with `snellen build`."""
    try:
        return (Path(place) / MANIFEST).is_file()
    except (OSError, ValueError):
        return False


def _built_set(folder: RunFolder, meta: RunMeta) -> Path | None:
    """Find the folder of a built set that was moved with its run: same name, in or above the run, recorded digest.

    None where the benchmark is no built set, where its folder still exists, or where none is found.
    """
    recorded = Path(meta.spec.benchmark)
    if not recorded.is_absolute() or holds_built_set(recorded):
        return None
    if is_table(meta.spec.benchmark):
        return _table(folder, meta, recorded)
    from snellen.benchmarks.generated import open_folder  # pyarrow and its readers; few runs need them

    for place in table_places(folder, recorded):
        if holds_built_set(place):
            try:
                if open_folder(place).digest(meta.spec.data) == meta.identity.get("data"):
                    return place
            except SnellenError:
                continue
    return None


def table_places(folder: RunFolder, recorded: Path) -> list[Path]:
    """Return the places where a run's own table or set may lie now: in its folder, and in the folders above it."""
    top, parts = folder.path.absolute(), recorded.parts
    # The name of a task alone says nothing: its data set's folder goes before it.
    start = max(parts.index(TASK_FILE) - 1, 0) if TASK_FILE in parts[-2:] else -1
    return [place.joinpath(*parts[start:]) for place in (top, *list(top.parents)[:FOLDERS_ABOVE])]


def same_questions(recorded: object, digest: str) -> bool:
    """Return True if two digests of data are of the same questions; a table's images, behind `+`, may differ or be gone."""
    return str(recorded).partition("+")[0] == digest.partition("+")[0]


def _table(folder: RunFolder, meta: RunMeta, recorded: Path) -> Path | None:
    """Find a table that was moved with its run: same name, in or above the run, the recorded digest of its rows."""
    if is_there(str(recorded)):
        return None
    for place in table_places(folder, recorded):
        if is_there(str(place)):
            try:
                digest = find(str(place)).digest(meta.spec.data)
            except SnellenError:
                continue
            if same_questions(meta.identity.get("data"), digest):
                return place
    return None


def is_guess(written: RunMeta, data: Data) -> bool:
    """Return True if a path of `data` is none that the run had: found beside the run, or relative without its folder.

    Args:
        written: the meta as it stands on disk.
        data: what the run's data was located at.
    """
    typed = written.spec.data
    for name, before, now in (("path", typed.path, data.path), ("images", typed.images, data.images)):
        if now is None or str(now).startswith(HUB):
            continue
        same = now == before and now.is_absolute()
        if not same and os.path.abspath(now) != written.places.get(name):  # noqa: PTH100 - see above
            return True
    return False


def _first(folder: RunFolder, typed: Path | None, absolute: str | None) -> Path | None:
    if typed is None or str(typed).startswith(HUB):
        return typed
    for place in candidates(folder.path, typed, absolute):
        try:
            if place.exists():
                return place
        except (OSError, ValueError):
            continue
    return typed
