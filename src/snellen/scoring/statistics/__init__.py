"""Statistics of scores: every number with its interval, every comparison with what it could have shown.

docs/statistics.md says which formula is used when, and why.
"""

from __future__ import annotations

from snellen.scoring.statistics.intervals import interval, macro_mean, mean, scored, wilson

__all__ = ["interval", "macro_mean", "mean", "scored", "wilson"]
