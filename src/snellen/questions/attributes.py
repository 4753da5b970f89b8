"""Attribute questions (wing colour, bill shape), read from a table of values."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from snellen.errors import DataError
from snellen.questions.distractors import build_pool
from snellen.questions.image_rows import Images
from snellen.questions.rng import words
from snellen.questions.sampling import LevelQuestions
from snellen.questions.taxonomy import TaxonomyLine, from_lines, key, spelled
from snellen.sources import numbered

MOST_VALUES = 127
HEADINGS = ("image", "attribute", "value")


class AttributeValues(NamedTuple):
    """Values of one attribute by image index, and the place in the file that defines it."""

    name: str
    values: dict[int, list[str]]
    where: str


def read_attributes(path: Path, images: Images) -> list[AttributeValues]:
    """Read attributes, sorted by name, from a CSV or TSV with columns image, attribute, value.

    An image may have more than one value of an attribute: one of them is asked for, and none of them is a wrong answer.

    Raises:
        DataError: a column is missing, a cell empty, an image unknown, an attribute with one value; with file and line.
    """
    index = {name: at for at, name in enumerate(images.names)}
    by_name: dict[str, AttributeValues] = {}
    for line, row in numbered(path, columns=HEADINGS):
        where = f"{path}, line {line:,}"
        name, value = spelled(row["attribute"]), spelled(row["value"])
        if not name or not value:
            raise DataError(f"{where}: image, attribute and value were expected; a cell is empty")
        at = index.get(row["image"])
        if at is None:
            raise DataError(f"{where}: the image {row['image']!r} is not among the {len(index):,} of {images.source}")
        own = by_name.setdefault(key(name), AttributeValues(name, {}, where)).values.setdefault(at, [])
        if key(value) not in map(key, own):
            own.append(value)
    if not by_name:
        raise DataError(f"{path}: there are no rows")
    for attribute in by_name.values():
        every = {key(value) for values in attribute.values.values() for value in values}
        if len(every) < 2:
            raise DataError(
                f"{attribute.where}: the attribute {attribute.name!r} has one value, {next(iter(every))!r}; two are needed",
                "Add images with another value, or remove its rows.",
            )
    return [by_name[name] for name in sorted(by_name)]


def level_questions(
    attributes: list[AttributeValues], order: dict[int, int], seed: int, *, every: bool = False
) -> Iterator[LevelQuestions]:
    """Yield the questions of each attribute; images that have every value of it are skipped.

    Args:
        attributes: see `read_attributes`.
        order: image to its number in the set.
        seed: seeds which of several values is asked for.
        every: a choice lists all values, those whose names hold another's too.
    """
    for depth, attribute in enumerate(attributes):
        lines = [TaxonomyLine(attribute.where, (value,)) for values in attribute.values.values() for value in values]
        taxonomy = from_lines((attribute.name,), lines, attribute.where)
        rows = sorted(
            (order[at], [taxonomy.find(value) for value in values])
            for at, values in attribute.values.items()
            if len(values) < len(taxonomy.names[0])
        )
        image = np.array([at for at, _ in rows], dtype=np.int32)
        pool = build_pool(taxonomy, 0, "random")
        if len(pool.names) > MOST_VALUES and every:
            raise DataError(
                f"{attribute.where}: the attribute {attribute.name!r} has {len(pool.names):,} values; a choice lists at "
                f"most {MOST_VALUES}",
                "Omit `all` from --options, or join values.",
            )
        draws = words(image, seed, "attribute", attribute.name).tolist() if rows else []
        label = [values[number % len(values)] for number, (_, values) in zip(draws, rows, strict=True)]
        yield LevelQuestions(
            ask="attribute",
            level=attribute.name,
            depth=depth,
            folder=f"attributes/{attribute.name.replace(' ', '_').replace('/', '_')}",
            paths=(),
            aliases={},
            image=image,
            label=np.array(label, dtype=np.int32),
            pool=replace(pool, conflicts={}) if every else pool,
            seed=seed,
            others={
                row: frozenset(value for value in values if value is not None) - {label[row]}
                for row, (_, values) in enumerate(rows)
                if len(values) > 1
            },
        )
