"""Metrics that a benchmark over a taxonomy adds to its summary, and the effect of a question's wording."""

from __future__ import annotations

import numpy as np

from snellen.scoring.scores import Scores
from snellen.scoring.taxonomy.level_drop import POINTS, consistency, drops
from snellen.scoring.taxonomy.per_class import beyond_sampling, class_metrics
from snellen.scoring.taxonomy.relatedness import kinship_shares
from snellen.scoring.taxonomy.slices import ScoreSlice, taxonomy_slices
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
