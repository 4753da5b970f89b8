"""Statistics of scores: every number with its interval, every comparison with its smallest detectable difference.

docs/statistics.md lists the formulas, when each is used, and why. Comparisons are imported when they are used: a run
needs none.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from snellen.scoring.statistics.bootstrap import composite, each_of_scores, of_scores, of_sums
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
from snellen.scoring.statistics.prediction_powered import (
    FurtherReviews,
    PredictionPowered,
    further_reviews,
    prediction_powered,
    reviewed_share,
)

if TYPE_CHECKING:
    from snellen.scoring.statistics.multiple import holm, letters
    from snellen.scoring.statistics.paired import Comparison, DropTest, compare, drop_test, smallest_detectable
    from snellen.scoring.statistics.repeats import Spread, reduced, repeat_metrics, spread

_LATER = {
    "multiple": ("holm", "letters"),
    "paired": ("Comparison", "DropTest", "compare", "drop_test", "smallest_detectable"),
    "repeats": ("Spread", "reduced", "repeat_metrics", "spread"),
}


def __getattr__(name: str) -> Any:
    for module, names in _LATER.items():
        if name in names:
            found = getattr(import_module(f"{__name__}.{module}"), name)
            globals()[name] = found
            return found
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = [
    "Comparison",
    "DropTest",
    "FurtherReviews",
    "PredictionPowered",
    "Spread",
    "compare",
    "composite",
    "drop_test",
    "each_of_scores",
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
    "reduced",
    "repeat_metrics",
    "reviewed_share",
    "scored",
    "smallest_detectable",
    "spread",
    "wilson",
    "with_cluster",
]
