"""Metrics that a benchmark over a taxonomy adds to its summary, and the effect of a question's wording."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from snellen.scoring.scores import Scores
from snellen.scoring.statistics import interval
from snellen.scoring.taxonomy.per_class import beyond_sampling, class_metrics
from snellen.scoring.taxonomy.slices import HIERARCHY, POINTS, ScoreSlice, consistency, drops, taxonomy_slices
from snellen.types import Metric


def stem_sensitivity(parts: list[ScoreSlice]) -> list[Metric]:
    """Return `stem/gap/<part>` and `stem/std/<part>`, in percentage points, for questions with several wordings.

    The gap is that of the best and the worst wording. It grows with the number of wordings and with small n even if
    wordings have no effect. The standard deviation is corrected for sampling error (`beyond_sampling`): 0 means that
    the wordings differ by no more than chance.
    """
    metrics: list[Metric] = []
    for part in parts:
        wordings = part.by_category("stem")
        if wordings is None:
            continue
        beyond, rows = beyond_sampling(*wordings.rows), len(wordings.rows[0])
        gap, spread = 100.0 * float(np.ptp(wordings.accuracy)), None if beyond is None else 100.0 * beyond
        metrics.append(Metric(f"stem/gap/{part.name}", gap, rows, None, POINTS, part.coverage, lower_is_better=True))
        metrics.append(Metric(f"stem/std/{part.name}", spread, rows, None, POINTS, part.coverage, lower_is_better=True))
    return metrics


def diagnosis(scores: Scores) -> list[Metric]:
    """Return the metrics of a diagnosis: drops between levels, consistency within an image, inequality of classes,
    relatedness of wrong answers, and the effect of wording.

    Each needs certain meta columns: `level` for all, `depth` for the order of levels that are no Linnaean ranks,
    `label`, `path`, `stem`, `ask`, and from the scorer `kinship`. Rows should be of one taxonomy: call it once for each
    data set. 1,010,000 rows take a few seconds; beside the columns it holds one position per row, and the values of one
    part at a time.
    """
    slices = taxonomy_slices(scores)
    return [
        *drops(slices),
        *consistency(slices),
        *class_metrics(slices),
        *kinship_shares(slices),
        *stem_sensitivity(slices),
    ]


SEPARATOR = " > "
"""Separator of the names of a path, coarse to fine: `animalia > chordata > aves`."""


def kinship(truth_path: str, answer_path: str) -> str:
    """Return the relation of two classes of one level.

    Only a named parent makes siblings and only a named grandparent cousins: two kingdoms share no named parent, and are
    `other`. So are two classes of different levels.

    Args:
        truth_path: ancestors and class, coarse to fine, joined by " > ".
        answer_path: the same for the answered class.

    Returns:
        `same`, `sibling` (same parent), `cousin` (same grandparent, another parent) or `other`.
    """
    if truth_path == answer_path:
        return "same"
    truth, answer = truth_path.split(SEPARATOR), answer_path.split(SEPARATOR)
    if len(truth) != len(answer):
        return "other"
    if len(truth) > 1 and truth[:-1] == answer[:-1]:
        return "sibling"
    if len(truth) > 2 and truth[:-2] == answer[:-2]:
        return "cousin"
    return "other"


RELATIONS = ("sibling", "cousin", "other", "unplaced")
"""Relations of a wrong answer to the truth; `unplaced` is unparseable or names no class of the taxonomy."""

_OFFERED = ("siblings", "cousins", "others")
"""Meta columns with the number of distractors of each relation."""


def kinship_shares(parts: list[ScoreSlice]) -> list[Metric]:
    """Return `kinship/<level>/<kind>/<relation>`: the share of each of RELATIONS among answers that are not right.

    A model that takes a herring gull for another gull sees more than one that takes it for a fir. Chance is the share
    when one of the same questions' distractors is picked at random, if the questions count their distractors by
    relation. Failed answers are excluded, and so are levels whose classes have no parent, and yes/no questions, which
    name no class.
    """
    metrics: list[Metric] = []
    for part in parts:
        if part.ask == HIERARCHY and part.kind != "truth":
            metrics += _of_part(part)
    return metrics


def _of_part(part: ScoreSlice) -> list[Metric]:
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


def _by_lot(part: ScoreSlice, wrong: NDArray[np.bool_]) -> list[float] | None:
    """Return the mean share of siblings, cousins and others among the distractors of these questions."""
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
