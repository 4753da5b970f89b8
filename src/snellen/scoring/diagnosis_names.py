"""Which metrics are a diagnosis, told by their names alone: a table of results need not import how they are made."""

from __future__ import annotations

HEADS = frozenset(
    {"drop", "consistency", "kinship", "stem", "class_worst", "class_best", "class_gap", "class_std", "class_spread"}
    | {"class_perfect", "class_share"}
)
"""What the names of a diagnosis begin with (after the name of a data set, where there is one)."""


def is_diagnosis(name: str) -> bool:
    """Whether a metric's name is that of a diagnosis, of one data set (`birds/drop/...`) or of all."""
    return not HEADS.isdisjoint(name.split("/")[:-1])
