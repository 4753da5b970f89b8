"""Published results on EASI-8: the whole table, the column of one benchmark, and means over benchmarks.

The mean is over the benchmarks that have a score, and always names them.

Source: the leaderboard of EASI: the mean of the scores that are not null among the columns shown. EASI's own script has no
mean over benchmarks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import NamedTuple

from msgspec import Struct, structs

from snellen.benchmarks.base import Published
from snellen.benchmarks.published import column, load
from snellen.benchmarks.spatial.tasks import EIGHT, TASKS


@cache
def tables() -> tuple[Published, ...]:
    """Return the tables, that of models on the eight first.

    Source: the README of SenseNova-SI; its models and others, evaluated with EASI.
    """
    return load(__package__)


def table() -> Published:
    """Return the eight benchmarks, each under `<benchmark>/overall`."""
    return tables()[0]


def published_column(name: str) -> tuple[Published, ...]:
    """Return the columns of one benchmark; most have none, nor has half of SITE."""
    questions = min(TASKS[name].rows, default=None) if name in EIGHT else None
    return tuple(
        structs.replace(column(whole, name), whole=whole, questions=questions)
        for whole in tables()
        if f"{name}/overall" in whole.metrics
    )


DECIMALS = 4


class Figures(NamedTuple):
    """The figures of one benchmark as fractions; None where it was not evaluated."""

    overall: float | None
    parts: Mapping[str, float | None] = {}


class Average(Struct, frozen=True):
    """A mean in points over the columns that have a score.

    Attributes:
        value: None where no column has one.
        known: the columns that it is over.
        missing: those that it is not over.
    """

    value: float | None
    known: tuple[str, ...]
    missing: tuple[str, ...]

    @property
    def coverage(self) -> str:
        """`3 of 8`."""
        return f"{len(self.known)} of {len(self.known) + len(self.missing)}"

    def comparable(self, other: Average) -> bool:
        """Return True if both are over the same columns; means over different ones cannot be compared."""
        return set(self.known) == set(other.known) and bool(self.known)


def mean_over(fractions: Mapping[str, float | None], columns: Sequence[str]) -> Average:
    """Return the mean of the columns that have a score.

    Args:
        fractions: score by column; None and absent are no score, 0 is one.
        columns: those that count, in order: the eight of EASI, or what a table shows.
    """
    known = tuple(name for name in columns if fractions.get(name) is not None)
    value, _ = average({name: Figures(fractions[name]) for name in known}, known)
    return Average(value, known, tuple(name for name in columns if name not in known))


def points(fraction: float | None) -> float | None:
    """Return a fraction in points, to four decimals."""
    return None if fraction is None else round(fraction * 100, DECIMALS) + 0.0  # + 0.0: no negative zero


def average(scores: Mapping[str, Figures], ids: Sequence[str]) -> tuple[float | None, int]:
    """Return the mean in points over those of `ids` that were evaluated, and how many these are."""
    values = [points(scores[name].overall) for name in ids if name in scores]
    known = [value for value in values if value is not None]
    return (sum(known) / len(known) if known else None), len(known)
