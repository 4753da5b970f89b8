"""Scoring: pure functions from replies to scores and from scores to metrics.

For benchmarks, this package exports five scorers (`choice`, `truth`, `count`, `number`, `short`) and the summary
`accuracy`; they are imported on first use. The submodules hold extraction, metrics, statistics, rubrics and taxonomies.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from snellen.scoring.scorers import accuracy, choice, count, number, short, truth

__all__ = ["accuracy", "choice", "count", "number", "short", "truth"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        from snellen.scoring import scorers

        return getattr(scorers, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
