"""Which metrics are a diagnosis, told by their names alone: a table of results need not import how they are made.

How much a model's answers depend on the wording of the question.

What a benchmark over a taxonomy adds to its summary.
"""

from __future__ import annotations

import numpy as np

from snellen.scoring.scores import Scores
from snellen.scoring.taxonomy.level_drop import POINTS, consistency, drops
from snellen.scoring.taxonomy.per_class import beyond_sampling, class_metrics
from snellen.scoring.taxonomy.relatedness import kinship_shares
from snellen.scoring.taxonomy.slices import Part, parts
from snellen.types import Metric

HEADS = frozenset(
    {"drop", "consistency", "kinship", "stem", "class_worst", "class_best", "class_gap", "class_std", "class_spread"}
    | {"class_perfect", "class_share"}
)
"""What the names of a diagnosis begin with (after the name of a data set, where there is one)."""


def is_diagnosis(name: str) -> bool:
    """Whether a metric's name is that of a diagnosis, of one data set (`birds/drop/...`) or of all."""
    return not HEADS.isdisjoint(name.split("/")[:-1])


def stem_sensitivity(parts: list[Part]) -> list[Metric]:
    """`stem/gap/<part>` and `stem/std/<part>`, in percentage points, where questions were asked in several wordings.

    The gap is that of the best and the worst wording, and grows with the number of wordings and with small n even where
    none matters. The standard deviation is what is left once sampling error is taken off (`beyond_sampling`): 0 means
    that the wordings differ by no more than chance.
    """
    metrics: list[Metric] = []
    for part in parts:
        codes = part.codes("stem")
        if codes is None:
            continue
        known = codes >= 0
        value, group, codes = part.value[known], part.group[known], codes[known]
        counts = np.bincount(codes)
        used = counts > 0
        if int(used.sum()) < 2:
            continue
        accuracy = np.bincount(codes, weights=value)[used] / counts[used]
        beyond = beyond_sampling(value, codes, group)
        gap, spread = 100.0 * float(np.ptp(accuracy)), None if beyond is None else 100.0 * beyond
        metrics.append(Metric(f"stem/gap/{part.name}", gap, len(value), None, POINTS, part.coverage))
        metrics.append(Metric(f"stem/std/{part.name}", spread, len(value), None, POINTS, part.coverage))
    return metrics


def diagnosis(scores: Scores) -> list[Metric]:
    """Metrics that say where a model's sight gives out: drops from level to level, consistency within an image, how
    unequal classes are, how near wrong answers come, and how much the wording matters.

    Each is there where the rows have the meta columns that it needs: `level` for all, `depth` for the order of levels
    that are no Linnaean ranks, `label`, `path`, `stem`, `ask`, and from the scorer `kinship`. Rows should be of one
    taxonomy: call it once for each data set. 1,010,000 rows take a few seconds; beside the columns it holds one
    position a row, and the values of one part at a time.
    """
    slices = parts(scores)
    return [
        *drops(slices),
        *consistency(slices),
        *class_metrics(slices),
        *kinship_shares(slices),
        *stem_sensitivity(slices),
    ]
