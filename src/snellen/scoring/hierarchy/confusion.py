"""How far from the truth wrong answers are, on the tree and not in words."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from snellen.scoring.hierarchy.kin import SEPARATOR
from snellen.scoring.hierarchy.parts import HIERARCHY, Part
from snellen.scoring.statistics import interval
from snellen.types import Metric

RELATIONS = ("sibling", "cousin", "other", "unplaced")
"""How a wrong answer is related to the truth; `unplaced` could not be read or names no class of the taxonomy."""

_OFFERED = ("siblings", "cousins", "others")
"""Meta columns that say how many of the wrong options are so related."""


def kinship_shares(found: list[Part]) -> list[Metric]:
    """`kinship/<level>/<kind>/<relation>`: of the answers that are not right, the share with each of RELATIONS.

    A model that takes a herring gull for another gull sees more than one that takes it for a fir. Chance is what
    picking one of the wrong options of the same questions by lot would give, where the questions say how many of each
    relation they offer. Failed answers are none. Levels whose classes have no parent are left out, and yes/no
    questions, which name no class.
    """
    metrics: list[Metric] = []
    for part in found:
        if part.ask == HIERARCHY and part.kind != "truth":
            metrics += _of_part(part)
    return metrics


def _of_part(part: Part) -> list[Metric]:
    column, paths = part.scores.meta.get("kinship"), part.codes("path")
    if paths is None:
        return []
    names = part.scores.meta["path"].names
    if not any(SEPARATOR in names[code] for code in np.unique(paths[paths >= 0])):
        return []
    scores = part.scores
    wrong = ~(scores.has("correct") | scores.has("error") | scores.has("unscored"))[part.rows] & (paths >= 0)
    n = int(wrong.sum())
    if not n:
        return []
    lookup = np.full((0 if column is None else len(column.names)) + 1, RELATIONS.index("unplaced"))
    for code, name in enumerate(() if column is None else column.names):
        if name in RELATIONS:
            lookup[code] = RELATIONS.index(name)
    relation = lookup[np.full(n, -1) if column is None else column.codes[part.rows[wrong]]]
    by_lot = _by_lot(part, wrong)
    return [
        Metric(
            name=f"kinship/{part.name}/{name}",
            value=float((relation == code).mean()),
            n=n,
            ci95=interval((relation == code).astype(np.float64), part.group[wrong]),
            coverage=part.coverage,
            chance=None if by_lot is None or code >= len(_OFFERED) else by_lot[code],
        )
        for code, name in enumerate(RELATIONS)
    ]


def _by_lot(part: Part, wrong: NDArray[np.bool_]) -> list[float] | None:
    """The mean share of siblings, cousins and others among the wrong options of these questions."""
    counts = []
    for name in _OFFERED:
        column, codes = part.scores.meta.get(name), part.codes(name)
        if column is None or codes is None or bool((codes[wrong] < 0).any()):
            return None
        if not all(text.isdigit() for text in column.names):
            return None
        counts.append(np.array([float(text) for text in column.names])[codes[wrong]])
    total = np.sum(counts, axis=0)
    return [float((count / total).mean()) for count in counts] if bool((total > 0).all()) else None
