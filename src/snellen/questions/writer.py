"""Set writer: data card, question files, table and manifest, written beside their place and moved there when whole."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass
from hashlib import file_digest, sha256
from io import StringIO
from multiprocessing import get_context
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow.parquet as pq

from snellen import __version__
from snellen.atomic_write import part_folder
from snellen.benchmarks.generated.manifest import (
    CARD,
    COLUMNS,
    PICTURES,
    QUESTIONS,
    TAXONOMY,
    Manifest,
    PartInfo,
)
from snellen.benchmarks.registry import MANIFEST
from snellen.errors import StorageError
from snellen.questions.render import SCHEMA, Rendered, blocks, render
from snellen.questions.sampling import QuestionArrays
from snellen.questions.taxonomy import Taxonomy
from snellen.questions.templates import Templates
from snellen.text import pretty_json

_NEGATIVES = {
    "sibling": "siblings (same parent) first, then one ancestor further up at a time",
    "cousin": "cousins (same grandparent) first, then further up, siblings last",
    "random": "any class of the level",
    "visual": "the nearest classes of a feature space, then siblings and further up",
}


def data_card(manifest: Manifest, taxonomy: Taxonomy) -> str:
    """Build the README.md of a set: its questions, its construction, its files."""
    lines = [
        f"# {manifest.name}",
        "",
        f"{manifest.questions:,} questions about {manifest.images:,} images, built by Snellen "
        f"{manifest.snellen} with seed {manifest.seed}. Version {manifest.version}.",
        "",
        "```",
        f"snellen run {manifest.name}/{'' if manifest.copied else ' --images IMAGES'} --model MODEL",
        f"snellen build check {manifest.name}/",
        "```",
        "",
        "| file | asks for | about | questions |",
        "|---|---|---|---|",
        *(f"| `{part.file}` | {part.ask} | {part.level} | {part.questions:,} |" for part in manifest.parts),
        "",
        "| level | classes |",
        "|---|---|",
        *(f"| {level} | {len(names):,} |" for level, names in zip(taxonomy.levels, taxonomy.names, strict=True)),
        "",
        "## How it was made",
        "",
        f"- Wrong answers: {_NEGATIVES[str(manifest.settings['negatives'])]}. No option holds another's name"
        + (", but for attributes, whose options are all values." if "attribute_options" in manifest.settings else "."),
        "- Yes and no, and the places of the right option, are equally many to one question, at each level and for "
        "each class.",
        "- Images are referred to by numbers in random order; what they were called never reaches a prompt.",
        *(f"- {note}" for note in manifest.notes),
        "",
        "## Files",
        "",
        f"The `.jsonl` files have the record format of FG-BMK: question_id, image, text, class, category. `{TAXONOMY}` "
        f"is the taxonomy. `{QUESTIONS}` has all questions in one table:",
        "",
        "| column | |",
        "|---|---|",
        *(f"| `{name}` | {text} |" for name, text in COLUMNS.items()),
        "",
        "Images keep the licence that they came with; name it here before you pass the set on.",
    ]
    return "\n".join(lines) + "\n"


ImageCopier: TypeAlias = Callable[[Path], None]
"""Copies the images into a folder that it makes."""


@dataclass(frozen=True)
class SetContents:
    """Everything that goes into the folder. `images` and `sources` are in the order of the neutral names."""

    out: Path
    name: str
    version: str
    taxonomy: Taxonomy
    parts: Sequence[QuestionArrays]
    images: Sequence[str]
    sources: Sequence[str]
    noun: str
    templates: Templates
    seed: int
    kinds: tuple[str, ...]
    settings: Mapping[str, Any]
    inputs: Mapping[str, str]
    notes: tuple[str, ...]
    workers: int
    copy: ImageCopier | None


def write_set(contents: SetContents) -> Manifest:
    """Write the whole set and return its manifest.

    Raises:
        StorageError: the folder cannot be written. Whatever is raised, nothing half-written stays.
    """
    try:
        contents.out.parent.mkdir(parents=True, exist_ok=True)
        with part_folder(contents.out.parent, f".{contents.out.name}.part-") as folder:
            part = folder / contents.out.name
            part.mkdir()
            manifest = _fill(part, contents)
            if contents.out.exists():
                contents.out.rmdir()
            part.rename(contents.out)
    except OSError as error:
        raise StorageError(f"cannot write {contents.out}: {error.strerror or error}", "Name another --out.") from error
    return manifest


def _fill(folder: Path, contents: SetContents) -> Manifest:
    files: dict[str, str] = {}
    if contents.copy is not None:
        contents.copy(folder / PICTURES)
    files |= _questions(folder, contents)
    files[TAXONOMY] = _put(folder / TAXONOMY, taxonomy_csv(contents.taxonomy))
    manifest = Manifest(
        name=contents.name,
        version=contents.version,
        levels=contents.taxonomy.levels,
        kinds=contents.kinds,
        questions=sum(map(len, contents.parts)),
        images=len(contents.images),
        parts=tuple(PartInfo(part.file, part.ask, part.level, part.kind, len(part)) for part in contents.parts),
        seed=contents.seed,
        settings=contents.settings,
        inputs=contents.inputs,
        files=files,
        copied=contents.copy is not None,
        notes=contents.notes,
        snellen=__version__,
    )
    _put(folder / CARD, data_card(manifest, contents.taxonomy).encode())
    _put(folder / MANIFEST, pretty_json(manifest))
    return manifest


def _questions(folder: Path, contents: SetContents) -> dict[str, str]:
    """Write the question files and the table; return SHA-256 by file name."""
    files: dict[str, str] = {}
    table = folder / QUESTIONS
    rendered = _rendered(contents)
    with pq.ParquetWriter(table, SCHEMA, compression="zstd", write_statistics=False, store_schema=False) as writer:
        for part in contents.parts:
            path = folder / part.file
            path.parent.mkdir(parents=True, exist_ok=True)
            total, remaining = sha256(), len(part)
            with path.open("wb") as lines:
                while remaining:
                    block = next(rendered)
                    lines.write(block.lines)
                    total.update(block.lines)
                    writer.write_table(block.table)
                    remaining -= block.table.num_rows
            files[part.file] = total.hexdigest()
    with table.open("rb") as written:
        files[QUESTIONS] = file_digest(written, "sha256").hexdigest()
    return files


def _rendered(contents: SetContents) -> Iterator[Rendered]:
    """Yield every rendered block in order, using as many processes as there are workers."""
    work = (
        block
        for part in contents.parts
        for block in blocks(part, contents.images, contents.sources, contents.noun, contents.templates)
    )
    if contents.workers == 1:
        yield from map(render, work)
        return
    with ProcessPoolExecutor(contents.workers, mp_context=get_context("spawn")) as processes:
        waiting: list[Future[Rendered]] = []
        for block in work:
            waiting.append(processes.submit(render, block))
            if len(waiting) > contents.workers + 1:
                yield waiting.pop(0).result()
        for future in waiting:
            yield future.result()


def taxonomy_csv(taxonomy: Taxonomy) -> bytes:
    """Return the taxonomy as CSV: a column for each level, and `aliases` joined by `|`."""
    text = StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow([*taxonomy.levels, "aliases"])
    for depth, names in enumerate(taxonomy.names):
        above = [taxonomy.ancestors(depth, at) for at in range(depth + 1)]
        parents = set(taxonomy.parents[depth + 1].tolist()) if depth + 1 < len(taxonomy.levels) else set()
        for index in range(len(names)):
            also = taxonomy.aliases.get((depth, index), ())
            if index in parents and not also:
                continue
            path = [taxonomy.names[at][above[at][index]] for at in range(depth + 1)]
            table.writerow([*path, *[""] * (len(taxonomy.levels) - depth - 1), "|".join(also)])
    return text.getvalue().encode()


def _put(path: Path, data: bytes) -> str:
    path.write_bytes(data)
    return sha256(data).hexdigest()
