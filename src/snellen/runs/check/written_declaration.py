"""The declaration of a table as it was read, written as TOML: `snellen check FILE --write my.toml`."""

from __future__ import annotations

import glob
import os
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from msgspec import structs

from snellen.atomic_write import replacing
from snellen.benchmarks.base import Benchmark, Data
from snellen.benchmarks.table.answers import WORDS
from snellen.benchmarks.table.benchmark import TRUE, Table
from snellen.benchmarks.table.column_names import plain_name, role_names
from snellen.benchmarks.table.columns import parse_map
from snellen.benchmarks.table.declaration import OWN_NAMES, Cell, CellSpec, Declaration, Source, declaration
from snellen.benchmarks.table.declaration_text import declaration_text
from snellen.benchmarks.table.locate import locate_table
from snellen.benchmarks.table.rows import CLASSES
from snellen.benchmarks.table.survey import Survey
from snellen.errors import DataError, StorageError, UsageError
from snellen.sources.hub import HUB
from snellen.sources.remote import is_address

_NO_PLACE: dict[str, Any] = {
    **dict.fromkeys(("tsv", "csv", "json", "folder", "md5", "sha256", "table"), ""),
    **{"mirrors": (), "rows": None},
}
"""Keys of a source that describe its official place and content, without their values."""


def write_declaration(path: Path, benchmark: Benchmark, data: Data, name: str) -> None:
    """Write how a table was read as a declaration that gives the same samples.

    Args:
        path: the file to write; relative paths in it begin at its folder.
        data: the user's settings of the data, which become part of the declaration.
        name: what the user named, for the comment at its head.

    Raises:
        UsageError: the benchmark is no table.
        DataError: the table cannot be read, or a name in it cannot stand in a TOML.
        StorageError: the file cannot be written.
    """
    if benchmark.table is None:
        raise UsageError(
            f"--write {path}: {benchmark.name} is no table, so that no declaration describes it",
            "Omit --write, or name a file of questions.",
        )
    surveyed = benchmark.table.survey(data)
    declared = structs.replace(
        surveyed.rules.declaration,
        name=_name(benchmark.table.declaration),
        source=moved_source(benchmark.table, data, path.absolute().parent),
    )
    text = declaration_text(declared, dict(_comments(path, benchmark.table, data, surveyed, name)))
    if declaration(tomllib.loads(text), str(path)) != declared:
        raise DataError(
            f"{name}: its declaration would be read in another way than it was written",
            "Rename the column whose name is that of a key: without_image.",
        )
    try:
        with replacing(path) as part:
            part.write_text(text, encoding="utf-8")
    except OSError as error:
        raise StorageError(f"cannot write {path}: {error.strerror}", "Name another file with --write.") from error


def _name(declared: Declaration) -> str:
    """Return a name without the ending of a file and without the hub's prefix."""
    name = declared.name.removeprefix(HUB).rpartition("/")[2]
    stem = name.partition(".")[0] if declared.source.kind == "file" else name
    return stem or name


def moved_source(table: Table, data: Data, folder: Path) -> Source:
    """Return the source of a table for a declaration in another folder, with the settings that choose its rows."""
    source = table.declaration.source
    if data.path is not None:
        place = str(data.path)
        hub, _, revision = place.removeprefix(HUB).partition("@") if place.startswith(HUB) else ("", "", "")
        file = "" if hub else _relative(data.path.expanduser(), folder)
        source = structs.replace(source, **_NO_PLACE, file=file, hub=hub, revision=revision)
    elif source.kind != "hub":
        written = str(getattr(source, source.kind))
        if not is_address(written):
            source = structs.replace(source, **{source.kind: _relative(table.base / written, folder)})
    options = data.options
    chosen = {key: options[key] for key in ("config", "split", "each", "sheet", "encoding") if key in options}
    if "file" in options:
        located = locate_table(table.declaration.source, data, table.base)
        source = structs.replace(source, files=tuple(map(glob.escape, located.files)))
    if "as_kit" in options:
        source = structs.replace(source, as_kit_reads=options["as_kit"].lower() in TRUE)
    images: str | tuple[str, ...] = source.images
    if data.images is not None:
        images = _relative(data.images.expanduser(), folder)
    elif images:
        several: tuple[str, ...] = (images,) if isinstance(images, str) else images
        beside = data.path if isinstance(data.path, Path) else Path(str(data.path or ""))
        beside = beside.expanduser() if beside.is_dir() else beside.parent
        if data.path is not None and table.declaration.source.hub:  # its archives may be named by patterns
            several = (
                tuple(str(found.relative_to(beside)) for one in several for found in sorted(beside.glob(one)))
                or several
            )
        places = [
            beside / one if data.path is not None and (beside / one).exists() else table.base / one for one in several
        ]
        moved = [
            written if is_address(written) else _relative(place, folder)
            for written, place in zip(several, places, strict=True)
        ]
        images = moved[0] if isinstance(images, str) and len(moved) == 1 else tuple(moved)
    return structs.replace(source, images=images, **chosen)


def _relative(path: Path, folder: Path) -> str:
    """Return a path as it is named from a folder; links on the way are followed, as `..` does."""
    absolute = Path(os.path.realpath(path.absolute().parent)) / path.name
    return os.path.relpath(absolute, os.path.realpath(folder))


def _comments(path: Path, table: Table, data: Data, surveyed: Survey, name: str) -> Iterator[tuple[str, str]]:
    """Yield the comments by key: how each column was recognised, and what is a guess."""
    declared = surveyed.rules.declaration
    settings = [f"-o {key}" for key in ("circular", "prompt-language") if data.options.get(key)]
    more = f"\nIt was read with {' and '.join(settings)}, a setting of the run." if settings else ""
    yield "", f"How `snellen check {name}` read this table. Correct it, then run it: snellen run {path.name}{more}"
    if table.declaration.rows:
        return
    lines = [*surveyed.notes]
    if surveyed.unused:
        lines.append(f"not used: {', '.join(surveyed.unused)}")
    yield "rows", "\n".join(lines)
    mapped = parse_map(data.options.get("map", ""))
    for role, spec in declared.rows.items():
        yield f"rows.{role}", _reason(role, spec, surveyed, mapped=role in mapped)


def _reason(role: str, spec: CellSpec, surveyed: Survey, *, mapped: bool) -> str:
    """Return how the column of a role was recognised, for people."""
    form = WORDS.get(spec.as_, "") if isinstance(spec, Cell) else ""
    meaning = f"; its answers are {form}" if form else ""
    if isinstance(spec, Cell) and spec.text is not None:
        return "the same text in every row"
    if surveyed.form == CLASSES:
        return f"one folder of images per class{meaning}"
    if mapped:
        return f"named by --map{meaning}"
    if role == "options" and surveyed.rules.in_question:
        return "a guess: the options stand in the question"
    if role == "options" and isinstance(spec, tuple):
        return "by their names, one column for each option"
    if role not in OWN_NAMES:
        return "a slice, by its name: few values that repeat"
    columns = (spec,) if isinstance(spec, str) else spec if isinstance(spec, tuple) else (spec.column,)
    names = role_names()[role]
    plain = {plain_name(column) for column in columns}
    if plain <= set(names.strong):
        return f"by its name{meaning}" if role != "id" else "by its name; rows that repeat an id are left out"
    if plain <= set(names.weak):
        return f"a guess, by its name: no column has a better one{meaning}"
    return f"a guess, by {'their names' if len(columns) > 1 else 'its name'} and content{meaning}"
