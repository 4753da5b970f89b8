"""The folder of a built set: names of its files, its manifest, the columns of its table of questions."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from snellen.benchmarks.registry import MANIFEST
from snellen.errors import DataError
from snellen.sources.safe_paths import regular_file

QUESTIONS = "questions.parquet"
TAXONOMY = "taxonomy.csv"
CARD = "README.md"
PICTURES = "images"
FORMAT = 1

COLUMNS: Mapping[str, str] = {
    "id": "unique: the part's folder, the kind, the number within its file",
    "ask": "hierarchy, bias or attribute",
    "level": "the level, or the attribute",
    "depth": "0 for the coarsest level",
    "kind": "truth, choice or short",
    "image": "the neutral name under which questions refer to the image",
    "source": "the image's path under --images, as it was when the set was built",
    "text": "the question, as it is sent",
    "target": "the right answer: yes or no, or a class",
    "options": "the options in the order shown (choice)",
    "right": "which of them is right, from 0; -1 where there are none",
    "label": "the image's class at this level",
    "asked": "the class that is asked for (truth)",
    "path": "the label with its ancestors, coarse to fine, joined by ` > `",
    "kinship": "how each option (truth: the asked class) is related to the label; empty for the label itself",
    "siblings": "how many of the wrong classes have the label's parent",
    "cousins": "how many have its grandparent",
    "others": "how many are further away",
    "stem": "which stem of the templates, from 1",
    "chance": "what guessing reaches",
    "aliases": "further accepted names of the target (short)",
}


class PartInfo(Struct, frozen=True):
    """One file of questions."""

    file: str
    ask: str
    level: str
    kind: str
    questions: int


class Manifest(Struct, frozen=True):
    """benchmark.json.

    Attributes:
        name, version: what the set is called; both go into a run's fingerprint with the digests of its files.
        levels: coarse to fine.
        kinds: what was asked for.
        questions, images: how many.
        parts: the files of questions, in the order of the table.
        seed, settings: what the set was built with.
        inputs: what it was built from: digest by role.
        files: SHA-256 of each file of the set by name; images and this file are not among them.
        copied: whether the images are in the folder.
        notes: what a reader must know.
        format: version of this layout.
        snellen: version of the package that built it.
    """

    name: str
    version: str
    levels: tuple[str, ...]
    kinds: tuple[str, ...]
    questions: int
    images: int
    parts: tuple[PartInfo, ...]
    seed: int
    settings: Mapping[str, Any]
    inputs: Mapping[str, str]
    files: Mapping[str, str]
    copied: bool = False
    notes: tuple[str, ...] = ()
    format: int = FORMAT
    snellen: str = ""


def read_manifest(folder: Path) -> Manifest:
    """Return the manifest of a built set.

    Raises:
        DataError: there is none, it cannot be read, or it is of a later format.
    """
    path = folder / MANIFEST
    regular_file(path)
    try:
        manifest = msgspec.json.decode(path.read_bytes(), type=Manifest)
    except (OSError, msgspec.DecodeError, RecursionError) as error:
        raise DataError(f"{path}: {error}", "Build the set again: snellen build questions.") from error
    if manifest.format != FORMAT:
        raise DataError(
            f"{path}: its layout has version {manifest.format}; this Snellen reads {FORMAT}",
            "Build the set again, or use the Snellen that built it.",
        )
    return manifest
