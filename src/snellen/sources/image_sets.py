"""Published sets of images: which one a path or an archive belongs to. The names are in image_sets.toml."""

from __future__ import annotations

import re
import tomllib
from functools import cache
from importlib.resources import files

import msgspec
from msgspec import Struct

from snellen.sources.tree import NOT_IN_PLACE, TARS

ENDINGS = (".zip", *TARS, *NOT_IN_PLACE)
_PLAIN = re.compile(r"[^a-z0-9]+")


class ImageSet(Struct, frozen=True):
    """A set: the form of its paths, the names of its folders and archives, and further names of a path's first folder."""

    name: str
    title: str
    path: str
    names: tuple[str, ...]
    heads: dict[str, tuple[str, ...]] = {}


class _ImageSets(Struct, frozen=True):
    set: tuple[ImageSet, ...]


@cache
def image_sets() -> dict[str, ImageSet]:
    """Return name to set."""
    text = files(__package__).joinpath("image_sets.toml").read_text("utf-8")
    return {entry.name: entry for entry in msgspec.convert(tomllib.loads(text), _ImageSets).set}


def plain_name(name: str) -> str:
    """Return a name without ending, in lower case, letters and digits only.

    >>> plain_name("CUB_200_2011.tgz")
    'cub2002011'
    """
    lower = name.lower()
    ending = next((suffix for suffix in ENDINGS if lower.endswith(suffix)), "")
    return _PLAIN.sub("", lower.removesuffix(ending))


def sets_of_path(path: str) -> list[str]:
    """Return the sets that an image's path may belong to.

    >>> sets_of_path("car_ims/000001.jpg")
    ['stanfordcar']
    """
    return [name for name, form in _forms() if form.search(path)]


@cache
def _forms() -> tuple[tuple[str, re.Pattern[str]], ...]:
    return tuple((entry.name, re.compile(entry.path)) for entry in image_sets().values())


def set_of_name(name: str) -> ImageSet | None:
    """Return the set that a folder or archive is named after."""
    plain = plain_name(name)
    return next((entry for entry in image_sets().values() if plain in entry.names), None)


def image_set_of(name: str) -> str:
    """Return the title of the set whose images an archive holds, by its name; empty for other archives."""
    known = set_of_name(name)
    return known.title if known is not None else "a set" if "image" in plain_name(name) else ""
