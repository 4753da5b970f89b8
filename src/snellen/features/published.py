"""Published figures of FG-BMK's machine-oriented track (published.toml), found for a store's data set.

The data set of a store is known by the folder of its csv files, or by the store's own name.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Literal

from msgspec import Struct

from snellen.benchmarks.base import Published
from snellen.benchmarks.published import load
from snellen.features.encoder_identity import encoder_name
from snellen.features.encoders.families import find_tower, read_towers
from snellen.features.store import Features

PublishedMeasure = Literal["probe", "retrieval", "alignment", "attack"]

# Names of each data set, in lower case without other signs than letters and digits.
DATASETS = {
    "cub": ("cub", "cub200", "cub2002011", "cub200201l", "caltechbirds"),
    "flowers102": ("flowers102", "flowers", "oxfordflowers", "oxford102", "oxfordflowers102", "flower102"),
    "stanforddog": ("stanforddog", "stanforddogs", "dogs", "dog"),
    "stanfordcar": ("stanfordcar", "stanfordcars", "cars", "cars196", "car"),
    "aircraft": ("aircraft", "fgvcaircraft", "fgvcaircraft2013b"),
    "products10k": ("products10k", "product10k", "products"),
    "food101": ("food101", "food"),
    "deepfashion": ("deepfashion", "clothes"),
    "vegfru": ("vegfru",),
    "skincon": ("skincon",),
    "wine": ("wine", "baijiu"),
    "mtarsi": ("mtarsi", "mtarsi2"),
    "inat2021": ("inat2021", "inat", "inaturalist2021", "inaturalist"),
    "cifar100": ("cifar100", "cifar"),
}


class PublishedFigure(Struct, frozen=True):
    """One cell of a published table.

    Attributes:
        table, source: title of the table, and where it was published.
        row, column: the cell.
        value: a fraction.
        figure: what it is, as `accuracy` or `map`.
        same: whether the row is the tower of the store's encoder.
    """

    table: str
    source: str
    row: str
    column: str
    value: float
    figure: str
    same: bool = False


@cache
def published_tables() -> tuple[Published, ...]:
    """Return the machine-oriented tables of FG-BMK."""
    return load(__package__)


@cache
def published_more() -> tuple[Published, ...]:
    """Return FG-BMK's further tables, of training and of SkinCon's questions, which stand beside no measure."""
    return load(__package__, "published_more.toml")


def find_dataset(features: Features) -> str | None:
    """Return FG-BMK's name of the data set that a store is of, None if it is none of these."""
    origin = features.meta.origin if features.meta is not None else {}
    splits = origin.get("splits") or []
    names = [split_folder(str(split)) for split in splits[:1]]
    if features.path is not None:
        names.append(features.path.absolute().name)
    return name_dataset(names)


def split_folder(split: str) -> str:
    """Return the name of the folder that a split's csv file lies in; `NAME=` in front is left out."""
    return Path(split.rpartition("=")[2]).absolute().parent.name


def name_dataset(names: Sequence[str]) -> str | None:
    """Return FG-BMK's name of the first data set that one of these names, in order, means; None if none does."""
    for name in names:
        words = [word for word in re.split(r"[^a-z0-9]+", name.lower()) if word]
        for known, aliases in DATASETS.items():
            if "".join(words) in aliases or any(word in aliases for word in words):
                return known
    return None


def published_figures(features: Features, measure: PublishedMeasure) -> tuple[list[PublishedFigure], list[str]]:
    """Return the published cells of a measure on the store's data set, and what their reader must know."""
    return figures_of(find_dataset(features), measure, encoder_name(features))


def figures_of(
    dataset: str | None, measure: PublishedMeasure, encoder: str = ""
) -> tuple[list[PublishedFigure], list[str]]:
    """Return the published cells of a measure on a data set, and their notes; `encoder` marks its own row."""
    figures: list[PublishedFigure] = []
    notes: list[str] = []
    tower = find_tower(encoder, read_towers()) if encoder else None
    for table in published_tables():
        places = [at for at, metric in enumerate(table.metrics) if metric.startswith(f"{measure}/{dataset}/")]
        for row in table.rows:
            for at in places:
                value = row.values[at]
                if value is not None:
                    same = tower is not None and tower.name == row.name
                    figure = table.metrics[at].rpartition("/")[2]
                    figures.append(
                        PublishedFigure(table.title, table.source, row.name, table.columns[at], value, figure, same)
                    )
        if places:
            notes += [f"{table.title}: {note}" for note in _notes_of(table, places)]
    return figures, notes


def _notes_of(table: Published, places: Sequence[int]) -> list[str]:
    """Return a table's notes that are about these columns, or about all."""
    chosen = {table.columns[at] for at in places}
    notes = []
    for note in table.notes:
        head, colon, _ = note.partition(": ")
        named = set(head.split(", ")) if colon else set()
        if not named or not named <= set(table.columns) or named & chosen:
            notes.append(note)
    return notes
