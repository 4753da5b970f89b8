"""Attributes of images (colour of the wing, shape of the bill): what is asked of them, from a table of values."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from snellen.errors import DataError
from snellen.questions.distractors import pool
from snellen.questions.image_rows import Images
from snellen.questions.rng import words
from snellen.questions.sampling import Asked
from snellen.questions.taxonomy import Line, from_lines, key, spelled
from snellen.sources import numbered

HEADINGS = ("image", "attribute", "value")


class Values(NamedTuple):
    """Values of one attribute: which image (index) has which of them, and where that is said."""

    name: str
    values: dict[int, list[str]]
    where: str


def read_attributes(path: Path, images: Images) -> list[Values]:
    """Attributes by name, from a CSV or TSV with columns image, attribute, value.

    An image may have more than one value of an attribute: one of them is asked for, and none of them is a wrong answer.

    Raises:
        DataError: a column is missing, a cell empty, an image unknown, an attribute with one value; with file and line.
    """
    index = {name: at for at, name in enumerate(images.names)}
    found: dict[str, Values] = {}
    for line, row in numbered(path, columns=HEADINGS):
        where = f"{path}, line {line:,}"
        name, value = spelled(row["attribute"]), spelled(row["value"])
        if not name or not value:
            raise DataError(f"{where}: image, attribute and value were expected; a cell is empty")
        at = index.get(row["image"])
        if at is None:
            raise DataError(f"{where}: the image {row['image']!r} is not among the {len(index):,} of {images.source}")
        own = found.setdefault(key(name), Values(name, {}, where)).values.setdefault(at, [])
        if key(value) not in map(key, own):
            own.append(value)
    if not found:
        raise DataError(f"{path}: there are no rows")
    for one in found.values():
        every = {key(value) for values in one.values.values() for value in values}
        if len(every) < 2:
            raise DataError(
                f"{one.where}: the attribute {one.name!r} has one value, {next(iter(every))!r}; two are needed to ask",
                "Add images with another value, or take its rows out.",
            )
    return [found[name] for name in sorted(found)]


def asked(attributes: list[Values], order: dict[int, int], seed: int) -> Iterator[Asked]:
    """What is asked of each attribute; images that have every value of one are not asked about it.

    Args:
        attributes: see `read_attributes`.
        order: image to its number in the set.
        seed: seeds which of several values is asked for.
    """
    for depth, one in enumerate(attributes):
        lines = [Line(one.where, (value,)) for values in one.values.values() for value in values]
        taxonomy = from_lines((one.name,), lines, one.where)
        rows = sorted(
            (order[at], [taxonomy.find(value) for value in values])
            for at, values in one.values.items()
            if len(values) < len(taxonomy.names[0])
        )
        image = np.array([at for at, _ in rows], dtype=np.int32)
        draws = words(image, seed, "attribute", one.name).tolist() if rows else []
        label = [values[number % len(values)] for number, (_, values) in zip(draws, rows, strict=True)]
        yield Asked(
            ask="attribute",
            level=one.name,
            depth=depth,
            folder=f"attributes/{one.name.replace(' ', '_').replace('/', '_')}",
            paths=(),
            aliases={},
            image=image,
            label=np.array(label, dtype=np.int32),
            pool=pool(taxonomy, 0, "random"),
            seed=seed,
            others={
                row: frozenset(value for value in values if value is not None) - {label[row]}
                for row, (_, values) in enumerate(rows)
                if len(values) > 1
            },
        )
