"""Scored rows, and the means that several benchmarks take over them.

Rows without a value are left out of every mean; a mean over nothing is not in the result, instead of a made-up figure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct, field


class ScoredRow(Struct, frozen=True):
    """A scored sample, as far as figures need it.

    Attributes:
        value: its score, 0 to 1; None where it was not scored.
        groups: what it belongs to, by the name of the grouping: question type, category, source.
        options: how many options the question had; 0 where that is not known.
        qid: the name by which rotated and flipped forms of one question are told to belong together.
    """

    value: float | None
    groups: Mapping[str, str] = field(default_factory=dict)
    options: int = 0
    qid: str = ""


def mean(values: Sequence[float]) -> float:
    """Return the plain mean of at least one value."""
    return sum(values) / len(values)


def micro(rows: Sequence[ScoredRow]) -> float | None:
    """Return the mean over scored rows; None where there is none."""
    values = [row.value for row in rows if row.value is not None]
    return mean(values) if values else None


def means(rows: Sequence[ScoredRow], grouping: str) -> dict[str, float]:
    """Return the mean of the scored rows of each group, in order of the groups' first rows; rows without a group are left out."""
    values: dict[str, list[float]] = {}
    for row in rows:
        if row.value is not None and grouping in row.groups:
            values.setdefault(row.groups[grouping], []).append(row.value)
    return {name: mean(group) for name, group in values.items()}


def macro(rows: Sequence[ScoredRow], grouping: str) -> float | None:
    """Return the plain mean of the groups' means, each group weighing the same (BLINK in lmms-eval, SPAR-Bench)."""
    by_group = means(rows, grouping)
    return mean(list(by_group.values())) if by_group else None
