"""Taxonomies of two data sets: iNat's from its folders' names, CUB's from its names' last words.

CUB's "genus" is not taxonomic: it is the last word of the English name (`warbler`), and "will" and "widow" are genera.
"""

from __future__ import annotations

from collections.abc import Iterable

SEPARATOR = " > "
CUB, INAT = "cub", "inat2021"
RANKS = ("kingdom", "phylum", "class", "order", "family", "genus", "species")


def by_name(name: str, depth: int) -> str:
    """CUB's path to a class from its name alone: `aves > crow > american crow` for a species, depth 2.

    A class other than aves stands beside it; a name at depth 0 is its own path.
    """
    name = name.lower()
    if depth == 0:
        return name
    ancestors = ("aves", name.rpartition(" ")[2]) if depth == 2 else ("aves",)
    return SEPARATOR.join((*ancestors, name))


def by_folder(image: str, depth: int) -> str:
    """iNat's path to a class, from the folder `IIIII_Kingdom_Phylum_..._epithet` of an image, down to a depth.

    Empty where the folder is not of that form.
    """
    ranks = _ranks(image)
    return SEPARATOR.join(ranks[: depth + 1]) if ranks else ""


def _ranks(image: str) -> tuple[str, ...]:
    folder = image.rpartition("/")[0].rpartition("/")[2]
    number, _, rest = folder.partition("_")
    ranks = rest.lower().split("_")
    return tuple(ranks[: len(RANKS)]) if number.isdigit() and len(ranks) >= len(RANKS) else ()


def label(dataset: str, image: str, level: str) -> str:
    """Return the true class of an image at a level, as its path tells; empty where it does not.

    Verified on the released files: equal to the ground truth of every choice question of cub and iNat.
    """
    if dataset == CUB:
        parts = image.split("/")
        species = parts[1].partition(".")[2].replace("_", " ").lower() if len(parts) == 3 else ""
        if not species:
            return ""
        return {"class": "aves", "genus": species.rpartition(" ")[2]}.get(level, species)
    if dataset == INAT and level in RANKS[:-1]:
        ranks = _ranks(image)
        return ranks[RANKS.index(level)] if ranks else ""
    return ""


def path(dataset: str, image: str, name: str, depth: int) -> str:
    """Return the ancestors and class from coarse to fine, joined by ` > `; empty where the data set has no taxonomy.

    Args:
        dataset: as in its benchmarks' names.
        name: its true class at that depth, lower case.
        depth: how many levels are coarser.
    """
    if dataset == CUB:
        return by_name(name, depth) if name else ""
    if dataset != INAT:
        return ""
    above = by_folder(image, depth - 1) if depth else ""
    if not name:
        return by_folder(image, depth)
    return f"{above}{SEPARATOR}{name}" if above else name if not depth else ""


def paths(images: Iterable[str], depth: int) -> dict[str, str]:
    """Class to path at a depth of iNat, from all images of a file: at most one entry a class."""
    by_class: dict[str, str] = {}
    folders: set[str] = set()
    for image in images:
        folder = image.rpartition("/")[0]
        if folder not in folders:
            folders.add(folder)
            full_path = by_folder(image, depth)
            by_class.setdefault(full_path.rpartition(SEPARATOR)[2], full_path)
    by_class.pop("", None)
    return by_class
