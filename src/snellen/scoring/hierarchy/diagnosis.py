"""What a benchmark over a taxonomy adds to its summary."""

from __future__ import annotations

from snellen.scoring.hierarchy.classes import class_metrics
from snellen.scoring.hierarchy.collapse import consistency, drops
from snellen.scoring.hierarchy.confusion import kinship_shares
from snellen.scoring.hierarchy.parts import parts
from snellen.scoring.hierarchy.stems import stem_sensitivity
from snellen.scoring.table import Scores
from snellen.types import Metric


def diagnosis(scores: Scores) -> list[Metric]:
    """Metrics that say where a model's sight gives out: drops from level to level, consistency within an image, how
    unequal classes are, how near wrong answers come, and how much the wording matters.

    Each is there where the rows have the meta columns that it needs: `level` for all, `depth` for the order of levels
    that are no Linnaean ranks, `label`, `path`, `stem`, `ask`, and from the scorer `kinship`. Rows should be of one
    taxonomy: call it once for each data set. 1,010,000 rows take a few seconds; beside the columns it holds one
    position a row, and the values of one part at a time.
    """
    found = parts(scores)
    return [
        *drops(found),
        *consistency(found),
        *class_metrics(found),
        *kinship_shares(found),
        *stem_sensitivity(found),
    ]
