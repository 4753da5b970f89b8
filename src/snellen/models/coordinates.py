"""Families of models by the coordinates that they write; the rows and their sources are in coordinates.toml."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files

import msgspec
from msgspec import Struct

from snellen.scoring.coordinates import Coordinates, SmartResize, parse_coordinates


class CoordinateFamily(Struct, frozen=True, forbid_unknown_fields=True):
    """A family of models: parts of their names, how they write coordinates, how their processor resizes, and the source."""

    names: tuple[str, ...]
    coordinates: str
    source: str
    resize: SmartResize | None = None

    @property
    def form(self) -> Coordinates:
        """Return space and order."""
        return parse_coordinates(self.coordinates)


@cache
def families() -> Mapping[str, CoordinateFamily]:
    """Return every family by its name."""
    text = files(__package__).joinpath("coordinates.toml").read_text("utf-8")
    return msgspec.convert(tomllib.loads(text), dict[str, CoordinateFamily])


def family_of(model: str) -> tuple[str, CoordinateFamily] | None:
    """Return name and row of a model's family; None for a model of no known one.

    >>> family_of("api:Qwen/Qwen2.5-VL-7B-Instruct")[0], family_of("api:gpt-5")
    ('qwen2_5-vl', None)
    """
    name = _plain(model)
    lengths = {
        family: max((len(_plain(part)) for part in row.names if _plain(part) in name), default=0)
        for family, row in families().items()
    }
    best = max(lengths, key=lambda family: lengths[family])
    return (best, families()[best]) if lengths[best] else None


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())
