"""Counting by levels against counting by hand, where scores are equal, crowded on one level, or outside the grid."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from snellen.features.ranking import ranks as radix
from snellen.features.ranking.ranks import between_by_levels, between_by_values, limits_around


@st.composite
def problems(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Scores, relevant pairs (row, item), and how far each limit lies from its score."""
    b, n = draw(st.integers(1, 6)), draw(st.integers(1, 40))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    kind = draw(st.sampled_from(["whole", "normal", "far", "equal", "tiny", "huge"]))
    scores = {
        "whole": rng.integers(-3, 4, (b, n)),
        "normal": rng.standard_normal((b, n)),
        "far": np.where(rng.random((b, n)) < 0.1, 1e12, 1.0) * rng.standard_normal((b, n)),
        "equal": np.full((b, n), 0.25),
        "tiny": 1e-38 * rng.standard_normal((b, n)),
        "huge": 3e38 * rng.uniform(-1, 1, (b, n)),
    }[kind].astype(np.float32)
    row, item = np.nonzero(rng.random((b, n)) < draw(st.sampled_from([0.05, 0.3, 1.0])))
    mine = scores[row, item]
    width = np.abs(mine) * draw(st.sampled_from([0.0, 1e-6, 0.1]))
    return scores, row, item, width


@pytest.mark.parametrize("rows", [1, 2, 16])
def test_counts_and_pairs_are_those_of_comparing_every_score_with_every_limit(rows, monkeypatch):
    monkeypatch.setattr(radix, "_LIMITS", 4.0)
    monkeypatch.setattr(radix, "_ROWS", rows)

    @settings(max_examples=200, deadline=None)
    @given(problems(), st.booleans())
    def holds(problem, with_selves):
        scores, row, item, width = problem
        limits = limits_around(scores[row, item].astype(np.float64), width, scores.dtype)
        out = np.zeros(scores.shape, dtype=bool)
        out[row, item] = True
        if with_selves:
            out[:, 0] = True
        over = [int((scores[r][~out[r]] > top).sum()) for r, (_, top) in zip(row, limits, strict=True)]
        inside = [
            [i for i in range(scores.shape[1]) if not out[r, i] and bottom <= scores[r, i] <= top]
            for r, (bottom, top) in zip(row, limits, strict=True)
        ]
        for found in (
            between_by_levels(scores, row, limits, np.nonzero(out), 10**9),
            between_by_values(scores, row, limits, np.nonzero(out), 10**9),
        ):
            assert found.over.tolist() == over
            assert [sorted(found.item[found.pair == k].tolist()) for k in range(len(row))] == inside
            assert (np.diff(found.pair) >= 0).all()

    holds()


def test_scores_that_crowd_on_the_level_of_a_limit_are_left_to_the_sort_of_floats():
    scores = np.linspace(0.0, 1e-6, 400, dtype=np.float32)[None]
    scores[0, :2] = 0.0, 1e6
    row, item = np.array([0, 0]), np.array([0, 1])
    limits = limits_around(scores[row, item].astype(np.float64), np.zeros(2), scores.dtype)
    assert between_by_levels(scores, row, limits, (row, item), 300) is None
    found = between_by_levels(scores, row, limits, (row, item), 400)
    assert found.over.tolist() == [398, 0]


def test_rows_with_limits_for_most_of_their_scores_are_left_to_the_sort_of_floats():
    scores = np.arange(64, dtype=np.float32)[None]
    row, item = np.zeros(5, dtype=np.int64), np.arange(5)
    limits = limits_around(scores[row, item].astype(np.float64), np.zeros(5), scores.dtype)
    assert between_by_levels(scores, row, limits, (row, item), 10**9) is None
    assert between_by_levels(scores, row[:4], limits[:4], (row, item), 10**9) is not None
