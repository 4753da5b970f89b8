"""Render sampled questions: lines of the released record format, and batches of the Parquet table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
from msgspec import Struct

from snellen.questions.distractors import KINSHIP, NONE
from snellen.questions.sampling import RIGHT, QuestionArrays
from snellen.questions.templates import Templates, fill, listed
from snellen.sources.arrow import schema_of

ROWS = 1 << 15
_QUOTED, _LISTED, _VALUES = "\x01", "\x02", "\x03"
SCHEMA = schema_of(
    "id VARCHAR, ask VARCHAR, level VARCHAR, depth TINYINT, kind VARCHAR, image VARCHAR, source VARCHAR, "
    "text VARCHAR, target VARCHAR, options VARCHAR[], right TINYINT, label VARCHAR, asked VARCHAR, path VARCHAR, "
    "kinship VARCHAR[], siblings TINYINT, cousins TINYINT, others TINYINT, stem TINYINT, chance DOUBLE, "
    "aliases VARCHAR[]"
)


class QuestionRecord(Struct, frozen=True, rename={"klass": "class"}):
    """One line of a file of questions, in the record format of the released FG-BMK files."""

    question_id: int
    image: str
    text: str
    klass: str
    category: str


class Block(NamedTuple):
    """Consecutive rows of one file with everything needed to render them; `first` is the number of the first, from 1."""

    part: QuestionArrays
    first: int
    images: list[str]
    sources: list[str]
    noun: str
    templates: Templates


@dataclass(frozen=True)
class Rendered:
    """A block as bytes: lines of the question file, and an Arrow table of the same rows."""

    lines: bytes
    table: pa.Table


def blocks(
    part: QuestionArrays, images: Sequence[str], sources: Sequence[str], noun: str, templates: Templates
) -> Iterator[Block]:
    """Split a file into blocks of 32,768 questions.

    Args:
        images, sources: neutral name and path of every image, by the index that the part uses.
        noun: what the thing in the image is called.
    """
    for start in range(0, len(part), ROWS):
        rows = slice(start, start + ROWS)
        arrays = ("image", "label", "asked", "options", "kinship", "stem")
        piece = replace(part, **{name: getattr(part, name)[rows] for name in arrays})
        at = piece.image.tolist()
        yield Block(piece, start + 1, [images[i] for i in at], [sources[i] for i in at], noun, templates)


def render(block: Block) -> Rendered:
    """Render a block to lines and a table. The result depends on the block only."""
    part = block.part
    texts, targets = _texts(block), _targets(part)
    names = part.names
    labels = [names[at] for at in part.label.tolist()]
    numbers = range(block.first, block.first + len(part))
    records = [
        QuestionRecord(number, image, text, target, label)
        for number, image, text, target, label in zip(numbers, block.images, texts, targets, labels, strict=True)
    ]
    return Rendered(msgspec.json.Encoder().encode_lines(records), _table(block, texts, targets, labels))


def _targets(part: QuestionArrays) -> list[str]:
    if part.kind == "truth":
        return ["yes" if right else "no" for right in (part.asked == part.label).tolist()]
    return [part.names[at] for at in part.label.tolist()]


def _texts(block: Block) -> list[str]:
    part, names = block.part, block.part.names
    level = part.level.replace("_", " ")
    templates = block.templates.wording(part.template).texts()
    fixed: dict[str, Any] = {"level": level, "noun": block.noun, "templates": block.templates}
    stems = part.stem.tolist()
    if part.kind == "short":
        by_stem = [fill(text, **fixed) for text in templates]
        return [by_stem[stem] for stem in stems]
    if part.kind == "truth":
        made: dict[tuple[int, int], str] = {}
        texts = []
        for pair in zip(stems, part.asked.tolist(), strict=True):
            text = made.get(pair)
            if text is None:
                text = made[pair] = fill(templates[pair[0]], **fixed, name=names[pair[1]])
            texts.append(text)
        return texts
    marks = (("{quoted}", _QUOTED), ("{listed}", _LISTED), ("{values}", _VALUES))
    for field, mark in marks:
        templates = tuple(text.replace(field, mark) for text in templates)
    frames = [fill(text, **fixed) for text in templates]
    in_quotes = [f'"{name}"' for name in names]
    texts = []
    for stem, row in zip(stems, part.options.tolist(), strict=True):
        text = frames[stem]
        options = row if row[-1] != NONE else [option for option in row if option != NONE]
        if _QUOTED in text:
            text = text.replace(_QUOTED, ", ".join([in_quotes[option] for option in options]))
        if _LISTED in text:
            text = text.replace(_LISTED, listed([names[option] for option in options]))
        if _VALUES in text:
            text = text.replace(_VALUES, ", ".join([names[option] for option in options]))
        texts.append(text)
    return texts


def _table(block: Block, texts: list[str], targets: list[str], labels: list[str]) -> pa.Table:
    part, n = block.part, len(block.part)
    is_option = part.options != NONE
    counts = is_option.sum(axis=1)
    names = pa.array(part.names, pa.string())
    related = pa.array([*KINSHIP, ""], pa.string())
    kinship = np.where(part.kinship == RIGHT, len(KINSHIP), part.kinship)
    is_choice = part.kind == "choice"
    if is_choice:
        kinship_used = is_option
        right = np.argmax(part.options == part.label[:, None], axis=1)
    else:
        kinship_used = np.ones(kinship.shape, dtype=bool)
        right = np.full(n, -1)
    chance = {"truth": np.full(n, 0.5), "short": np.full(n, 1 / len(part.names))}.get(part.kind)
    if chance is None:
        chance = 1.0 / counts
    aliases = [list(part.aliases.get(at, ())) for at in part.label.tolist()] if part.kind == "short" else [[]] * n
    prefix = f"{part.folder}/{part.kind}/"
    columns: dict[str, Any] = {
        "id": [f"{prefix}{number}" for number in range(block.first, block.first + n)],
        "ask": _constant(part.ask, n),
        "level": _constant(part.level, n),
        "depth": np.full(n, part.depth, dtype=np.int8),
        "kind": _constant(part.kind, n),
        "image": block.images,
        "source": block.sources,
        "text": texts,
        "target": targets,
        "options": _lists(names, part.options, is_option),
        "right": right.astype(np.int8),
        "label": labels,
        "asked": names.take(pa.array(part.asked)) if part.kind == "truth" else _constant("", n),
        "path": pa.array(part.paths, pa.string()).take(pa.array(part.label)) if part.paths else _constant("", n),
        "kinship": _lists(related, kinship, kinship_used),
        "stem": (part.stem + 1).astype(np.int8),
        "chance": chance.astype(np.float64),
        "aliases": pa.array(aliases, pa.list_(pa.string())),
    }
    for code, name in enumerate(("siblings", "cousins", "others")):
        columns[name] = ((kinship == code) & kinship_used).sum(axis=1).astype(np.int8)
    return pa.table([pa.array(columns[field.name], field.type) for field in SCHEMA], schema=SCHEMA)


def _constant(text: str, n: int) -> pa.Array:
    return pa.array([text], pa.string()).take(pa.array(np.zeros(n, dtype=np.int32)))


def _lists(values: pa.Array, index: Any, used: Any) -> pa.ListArray:
    """Build [n] lists of values: those of each row's used indices."""
    offsets = np.concatenate([[0], np.cumsum(used.sum(axis=1))]).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), values.take(pa.array(index[used].astype(np.int32))))
