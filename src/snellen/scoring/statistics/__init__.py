"""Statistics of scores: every number with its interval, every comparison with its smallest detectable difference.

docs/statistics.md lists the formulas, when each is used, and why.
"""

from __future__ import annotations

from snellen.scoring.statistics.bootstrap import composite, of_scores, of_sums
from snellen.scoring.statistics.drop import DropTest, drop_test
from snellen.scoring.statistics.intervals import (
    interval,
    jeffreys,
    macro_mean,
    mean,
    mean_of,
    scored,
    wilson,
    with_cluster,
)
from snellen.scoring.statistics.multiple import holm, letters
from snellen.scoring.statistics.paired import Comparison, compare, smallest_detectable
from snellen.scoring.statistics.prediction_powered import (
    FurtherReviews,
    PredictionPowered,
    further_reviews,
    prediction_powered,
    reviewed_share,
)
from snellen.scoring.statistics.variance import Spread, spread, spread_metrics

__all__ = [
    "Comparison",
    "DropTest",
    "FurtherReviews",
    "PredictionPowered",
    "Spread",
    "compare",
    "composite",
    "drop_test",
    "further_reviews",
    "holm",
    "interval",
    "jeffreys",
    "letters",
    "macro_mean",
    "mean",
    "mean_of",
    "of_scores",
    "of_sums",
    "prediction_powered",
    "reviewed_share",
    "scored",
    "smallest_detectable",
    "spread",
    "spread_metrics",
    "wilson",
    "with_cluster",
]
