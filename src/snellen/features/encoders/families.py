"""Encoder families (families.toml): training paradigm and scale, and accuracy tables by each."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Literal

import msgspec
import numpy as np
from msgspec import Struct

from snellen.errors import DataError
from snellen.scoring.bounded_patterns import OutOfTimeError, search

Paradigm = Literal["Con", "Gen", "Mat", "Rec", "Dis"]
DataScale = Literal["<0.1B", "0.1-1B", ">1B"]

PARADIGMS: tuple[Paradigm, ...] = ("Con", "Gen", "Mat", "Rec", "Dis")
SCALES: tuple[DataScale, ...] = ("<0.1B", "0.1-1B", ">1B")


class Tower(Struct, frozen=True, forbid_unknown_fields=True):
    """One tower of families.toml; the file says what its fields mean."""

    name: str
    match: tuple[str, ...]
    paradigms: tuple[Paradigm, ...]
    data: DataScale | None = None
    parameters: float | None = None


class Accuracy(Struct, frozen=True):
    """The accuracy of one encoder on one data set; `parameters` in millions where they are known better."""

    encoder: str
    dataset: str
    value: float
    parameters: float | None = None


class FamilyRow(Struct, frozen=True):
    """One row of a table.

    Attributes:
        group: the paradigm, scale, or encoder.
        encoders: those in it, in the order given.
        datasets: those that every one of them has.
        mean: over these data sets and encoders, each encoder weighing the same; None where there are none.
        without: the same over the encoders that are not in the group, on the data sets that all share; None where
            the table has no such column, or no such encoder.
        parameters: of the encoder, in millions; in the table by encoder scale alone.
        others: the encoders that `without` is over.
    """

    group: str
    encoders: tuple[str, ...]
    datasets: tuple[str, ...]
    mean: float | None
    without: float | None = None
    parameters: float | None = None
    others: tuple[str, ...] = ()


def read_towers(own: Path | None = None) -> tuple[Tower, ...]:
    """Read the towers of the user's file, then those of the package.

    Raises:
        DataError: the file cannot be read, or is not of the form of families.toml.
    """
    texts = [(str(own), _text(own))] if own is not None else []
    texts.append(
        ("families.toml", files("snellen.features.encoders").joinpath("families.toml").read_text(encoding="utf-8"))
    )
    towers: list[Tower] = []
    for where, text in texts:
        try:
            towers += msgspec.convert(tomllib.loads(text).get("tower", []), list[Tower])
            for tower in towers:
                for pattern in tower.match:
                    re.compile(pattern)
        except (ValueError, re.error, RecursionError) as error:
            raise DataError(
                f"{where}: {error}",
                'A tower is [[tower]] with name, match = ["…"], paradigms = ["Con", …], data, parameters.',
            ) from error
    return tuple(towers)


def _fits(pattern: str, encoder: str) -> bool:
    try:
        return search(pattern, encoder, re.IGNORECASE) is not None
    except OutOfTimeError as error:
        raise DataError(f"{error} on the encoder {encoder[:80]!r}", "Correct it in the file of families.") from None


def find_tower(encoder: str, towers: Sequence[Tower]) -> Tower | None:
    """Return the first tower with an expression that matches the encoder's name, else None."""
    return next((tower for tower in towers if any(_fits(part, encoder) for part in tower.match)), None)


def by_paradigm(accuracies: Sequence[Accuracy], towers: Sequence[Tower]) -> list[FamilyRow]:
    """Compute the mean accuracy of the encoders trained with each paradigm, and of the other known ones."""
    return _by_group(accuracies, towers, PARADIGMS, lambda tower: tower.paradigms)


def by_data_scale(accuracies: Sequence[Accuracy], towers: Sequence[Tower]) -> list[FamilyRow]:
    """Compute the mean accuracy of the encoders of each data scale, and of the other known ones."""
    return _by_group(accuracies, towers, SCALES, lambda tower: (tower.data,) if tower.data is not None else None)


def by_encoder_scale(accuracies: Sequence[Accuracy], towers: Sequence[Tower]) -> list[FamilyRow]:
    """Compute each encoder's mean over the shared data sets, smallest tower first, unknown sizes last."""
    shared = _shared(accuracies, {accuracy.encoder for accuracy in accuracies})
    sized: list[FamilyRow] = []
    for name in dict.fromkeys(accuracy.encoder for accuracy in accuracies):
        tower = find_tower(name, towers)
        stated = next(
            (
                accuracy.parameters
                for accuracy in accuracies
                if accuracy.encoder == name and accuracy.parameters is not None
            ),
            None,
        )
        size = stated if stated is not None else tower.parameters if tower is not None else None
        sized.append(FamilyRow(name, (name,), shared, _mean(accuracies, {name}, shared), None, size))
    return sorted(sized, key=lambda row: (row.parameters is None, row.parameters or 0.0))


def untagged(accuracies: Sequence[Accuracy], towers: Sequence[Tower]) -> list[str]:
    """Return the encoders that match no tower; only the table by encoder scale includes them."""
    names = dict.fromkeys(accuracy.encoder for accuracy in accuracies)
    return [name for name in names if find_tower(name, towers) is None]


def _by_group(
    accuracies: Sequence[Accuracy],
    towers: Sequence[Tower],
    groups: Sequence[str],
    groups_of: Callable[[Tower], Sequence[str] | None],
) -> list[FamilyRow]:
    """Compute the rows of the groups that have an encoder; towers without groups (None) are left out of all."""
    tower_of = {accuracy.encoder: find_tower(accuracy.encoder, towers) for accuracy in accuracies}
    groups_by_encoder = {
        name: of for name, tower in tower_of.items() if tower is not None and (of := groups_of(tower)) is not None
    }
    tagged = [accuracy for accuracy in accuracies if accuracy.encoder in groups_by_encoder]
    members = {group: {name for name, of in groups_by_encoder.items() if group in of} for group in groups}
    return [_row(group, tagged, inside) for group, inside in members.items() if inside]


def _row(group: str, accuracies: Sequence[Accuracy], inside: set[str]) -> FamilyRow:
    names = tuple(dict.fromkeys(accuracy.encoder for accuracy in accuracies))
    outside = {name for name in names if name not in inside}
    shared = _shared(accuracies, set(names))
    return FamilyRow(
        group,
        tuple(name for name in names if name in inside),
        shared,
        _mean(accuracies, inside, shared),
        _mean(accuracies, outside, shared) if outside else None,
        others=tuple(name for name in names if name in outside),
    )


def _shared(accuracies: Sequence[Accuracy], encoders: set[str]) -> tuple[str, ...]:
    """Return the data sets that every encoder has, in the order given."""
    measured = {(accuracy.encoder, accuracy.dataset) for accuracy in accuracies}
    sets = dict.fromkeys(accuracy.dataset for accuracy in accuracies)
    return tuple(name for name in sets if all((encoder, name) in measured for encoder in encoders))


def _mean(accuracies: Sequence[Accuracy], encoders: set[str], datasets: Sequence[str]) -> float | None:
    values = [
        accuracy.value for accuracy in accuracies if accuracy.encoder in encoders and accuracy.dataset in datasets
    ]
    return float(np.mean(values)) if values else None


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"cannot read {path}: {error}", "Check --towers.") from error
