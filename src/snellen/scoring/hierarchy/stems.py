"""How much a model's answers depend on the wording of the question."""

from __future__ import annotations

import numpy as np

from snellen.scoring.hierarchy.classes import beyond_sampling
from snellen.scoring.hierarchy.collapse import POINTS
from snellen.scoring.hierarchy.parts import Part
from snellen.types import Metric


def stem_sensitivity(found: list[Part]) -> list[Metric]:
    """`stem/gap/<part>` and `stem/std/<part>`, in percentage points, where questions were asked in several wordings.

    The gap is that of the best and the worst wording, and grows with the number of wordings and with small n even where
    none matters. The standard deviation is what is left once sampling error is taken off (`beyond_sampling`): 0 means
    that the wordings differ by no more than chance.
    """
    metrics: list[Metric] = []
    for part in found:
        codes = part.codes("stem")
        if codes is None:
            continue
        known = codes >= 0
        value, group, codes = part.value[known], part.group[known], codes[known]
        counts = np.bincount(codes)
        shown = counts > 0
        if int(shown.sum()) < 2:
            continue
        accuracy = np.bincount(codes, weights=value)[shown] / counts[shown]
        beyond = beyond_sampling(value, codes, group)
        gap, left = 100.0 * float(np.ptp(accuracy)), None if beyond is None else 100.0 * beyond
        metrics.append(Metric(f"stem/gap/{part.name}", gap, len(value), None, POINTS, part.coverage))
        metrics.append(Metric(f"stem/std/{part.name}", left, len(value), None, POINTS, part.coverage))
    return metrics
