"""Discs, rings and polygons by scan lines: the same shares as by sampling, and the areas of their definitions."""

from __future__ import annotations

import numpy as np
import pytest

from snellen.benchmarks.acuity.drawing import Raster, around, disc, fill_disc, fill_polygon, fill_ring, landolt, polygon


@pytest.mark.parametrize("gap", [0.5, 0.9, 3.2, 11.3])
@pytest.mark.parametrize("direction", range(8))
def test_a_ring_has_the_ink_of_its_definition_in_each_direction(gap, direction):
    raster = Raster(80, 80, 0.0)
    fill_ring(raster, 40.37, 39.81, gap, direction * np.pi / 4, 1.0)
    assert raster.values.sum() == pytest.approx(11.5549 * gap**2, rel=0.0015)
    sampled = Raster(80, 80, 0.0)
    sampled.fill(landolt(40.37, 39.81, gap, direction * np.pi / 4), around(40.37, 39.81, 2.5 * gap), 1.0)
    assert np.abs(raster.values - sampled.values).max() < 0.05


def test_discs_have_their_area_and_end_at_the_border_of_the_picture():
    raster = Raster(60, 60, 0.0)
    fill_disc(raster, 30.2, 29.7, 7.3, 1.0)
    assert raster.values.sum() == pytest.approx(np.pi * 7.3**2, rel=1e-3)
    for cx, cy in ((59.0, -1.0), (-3.0, 30.0), (30.0, 64.0), (200.0, 200.0)):
        raster, sampled = (Raster(60, 60, (1.0, 2.0, 3.0)) for _ in range(2))
        fill_disc(raster, cx, cy, 7.7, (40.0, 5.0, 6.0))
        sampled.fill(disc(cx, cy, 7.7), around(cx, cy, 7.7), (40.0, 5.0, 6.0))
        assert np.abs(raster.values - sampled.values).max() < 39 * 0.03


def test_polygons_are_filled_by_the_even_odd_rule():
    generator = np.random.default_rng(2)
    for count in (3, 5, 12):
        corners = generator.uniform(-10, 90, (count, 2))
        raster, sampled = (Raster(80, 80, 0.0) for _ in range(2))
        fill_polygon(raster, corners, 1.0)
        sampled.fill(polygon(corners), (-11, -11, 91, 91), 1.0)
        assert np.abs(raster.values - sampled.values).max() < 0.06
    raster = Raster(100, 100, 0.0)
    fill_polygon(raster, np.array([(10.5, 10.25), (80.5, 10.25), (80.5, 60.75)]), 1.0)
    assert raster.values.sum() == pytest.approx(70 * 50.5 / 2, rel=1e-3)
