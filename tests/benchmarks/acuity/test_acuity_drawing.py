"""What the acuity pictures are made of: areas, contrasts, colours and offsets, measured from their pixels."""

from __future__ import annotations

import numpy as np
import pytest

from pixel_observers import READERS, decoded
from snellen.benchmarks.acuity.attribute import Scene
from snellen.benchmarks.acuity.attributes import ATTRIBUTES
from snellen.benchmarks.acuity.attributes.dots import scatter
from snellen.benchmarks.acuity.attributes.one_of_four import blurred
from snellen.benchmarks.acuity.drawing import Raster, around, difference, disc, lab_of, landolt, polygon, rgb_of
from snellen.benchmarks.acuity.questions import question
from snellen.benchmarks.base import Data
from snellen.benchmarks.chart.rng import Stream

SHARMA = """
50 2.6772 -79.7751 50 0 -82.7485 2.0425
50 3.1571 -77.2803 50 0 -82.7485 2.8615
50 2.8361 -74.0200 50 0 -82.7485 3.4412
50 -1.3802 -84.2814 50 0 -82.7485 1.0000
50 -1.1848 -84.8006 50 0 -82.7485 1.0000
50 -0.9009 -85.5211 50 0 -82.7485 1.0000
50 0 0 50 -1 2 2.3669
50 -1 2 50 0 0 2.3669
50 2.4900 -0.0010 50 -2.4900 0.0009 7.1792
50 2.4900 -0.0010 50 -2.4900 0.0010 7.1792
50 2.4900 -0.0010 50 -2.4900 0.0011 7.2195
50 2.4900 -0.0010 50 -2.4900 0.0012 7.2195
50 -0.0010 2.4900 50 0.0009 -2.4900 4.8045
50 -0.0010 2.4900 50 0.0010 -2.4900 4.8045
50 -0.0010 2.4900 50 0.0011 -2.4900 4.7461
50 2.5 0 50 0 -2.5 4.3065
50 2.5 0 73 25 -18 27.1492
50 2.5 0 61 -5 29 22.8977
50 2.5 0 56 -27 -3 31.9030
50 2.5 0 58 24 15 19.4535
50 2.5 0 50 3.1736 0.5854 1.0000
50 2.5 0 50 3.2972 0 1.0000
50 2.5 0 50 1.8634 0.5757 1.0000
50 2.5 0 50 3.2592 0.3350 1.0000
60.2574 -34.0099 36.2677 60.4626 -34.1751 39.4387 1.2644
63.0109 -31.0961 -5.8663 62.8187 -29.7946 -4.0864 1.2630
61.2901 3.7196 -5.3901 61.4292 2.2480 -4.9620 1.8731
35.0831 -44.1164 3.7933 35.0232 -40.0716 1.5901 1.8645
22.7233 20.0904 -46.6940 23.0331 14.9730 -42.5619 2.0373
36.4612 47.8580 18.3852 36.2715 50.5065 21.2231 1.4146
90.8027 -2.0831 1.4410 91.1528 -1.6435 0.0447 1.4441
90.9257 -0.5406 -0.9208 88.6381 -0.8985 -0.7239 1.5381
6.7747 -0.2908 -2.4247 5.8714 -0.0985 -2.2286 0.6377
2.0776 0.0795 -1.1350 0.9033 -0.0636 -0.5514 0.9082
"""
"""Test data of Sharma, Wu & Dalal 2005, table 1."""


@pytest.mark.parametrize("line", SHARMA.strip().splitlines())
def test_the_colour_difference_agrees_with_the_published_pairs(line):
    l1, a1, b1, l2, a2, b2, expected = map(float, line.split())
    assert difference((l1, a1, b1), (l2, a2, b2)) == pytest.approx(expected, abs=1e-4)
    assert difference((l2, a2, b2), (l1, a1, b1)) == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("rgb", [(0, 0, 0), (255, 255, 255), (12, 200, 77), (119, 119, 119)])
def test_colours_come_back_from_lab(rgb):
    assert rgb_of(lab_of(rgb)) == pytest.approx(rgb, abs=1e-3)
    if rgb == (255, 255, 255):
        assert lab_of(rgb) == pytest.approx((100.0, 0.0, 0.0), abs=0.02)


@pytest.mark.parametrize("gap", [0.5, 0.9, 1.7, 3.2, 11.3, 32.0])
def test_a_ring_has_the_ink_of_its_definition(gap):
    raster = Raster(400, 400, 0.0)
    raster.fill(landolt(200.37, 199.81, gap, 0.7854), around(200.37, 199.81, 2.5 * gap), 1.0)
    assert raster.values.sum() == pytest.approx(11.5549 * gap**2, rel=0.004)


def test_a_disc_and_a_polygon_have_their_areas():
    raster = Raster(100, 100, 0.0)
    raster.fill(disc(50.2, 49.7, 20.0), around(50.2, 49.7, 20.0), 1.0)
    assert raster.values.sum() == pytest.approx(np.pi * 400, rel=1e-3)
    raster = Raster(100, 100, 0.0)
    raster.fill(polygon(np.array([(10.5, 10.25), (80.5, 10.25), (80.5, 60.75)])), (10, 10, 81, 61), 1.0)
    assert raster.values.sum() == pytest.approx(70 * 50.5 / 2, rel=1e-3)


@pytest.mark.parametrize(
    ("key", "values", "tolerance"),
    [
        ("gap@512", (0.5, 1.3, 5.0, 32.0), 0.003),
        ("contrast@8@512", (0.01, 0.1, 0.9), 0.05),
        ("colour@a+@256", (0.5, 1.0, 5.0), 0.001),
        ("colour@L-@256", (1.0, 5.0), 0.001),
        ("vernier@512", (0.1, 1.0, 8.0), 0.03),
        ("length@512", (0.02, 0.3), 0.03),
        ("orientation@512", (0.5, 4.0, 40.0), 0.01),
        ("number@256", (0.1, 0.5), 1e-6),
    ],
)
def test_the_level_measured_from_the_pixels_is_the_one_that_is_recorded(key, values, tolerance):
    name, _, side = key.rpartition("@")
    attribute = ATTRIBUTES[name.partition("@")[0]]
    data = Data(options={"attributes": name, "sides": side})
    for value in values:
        measured = []
        for slot in range(4):
            sample = question(data, f"{key}/r000/q{slot}/x{attribute.level(value):+.4f}")
            level, word = READERS[attribute.name](decoded(sample.prompt.parts[0].blob.read()))
            if attribute.name != "gap" or value > 0.6:  # below, the rim alone tells
                assert word == sample.options[sample.target]
            measured.append(level / attribute.value(float(sample.meta["realised"])))
        assert np.mean(measured) == pytest.approx(1.0, abs=tolerance)


def test_faint_stripes_keep_their_contrast_by_noisy_rounding():
    """Rounded to the nearest value, a contrast of .003 about 127.5 would be gone or .0039."""
    data = Data(options={"attributes": "contrast@8"})
    level = ATTRIBUTES["contrast"].level(0.003)
    pictures = [
        decoded(question(data, f"contrast@8@512/r000/q{slot}/x{level:+.4f}").prompt.parts[0].blob.read())
        for slot in range(8)
    ]
    values = [READERS["contrast"](pixels)[0] for pixels in pictures]
    assert np.mean(values) == pytest.approx(0.003, rel=0.15)
    assert all(abs(pixels.mean() - 127.5) < 0.2 for pixels in pictures)


def test_letters_stay_in_their_box_of_five_strokes():
    draw = ATTRIBUTES["letter"].draw
    for answer in range(10):
        (pixels,) = draw(Scene(12.0, answer, Stream("letters", answer), 128))
        rows, columns = np.nonzero(pixels < 128)
        assert 57 <= rows.max() - rows.min() + 1 <= 63
        assert 57 <= columns.max() - columns.min() + 1 <= 63


def test_dots_do_not_touch_and_too_many_are_refused():
    centres = scatter(40, 5.0, (0, 0, 200, 200), Stream("dots"))
    for index, (x, y) in enumerate(centres):
        assert all((x - ox) ** 2 + (y - oy) ** 2 > 100 for ox, oy in centres[:index])
    with pytest.raises(ValueError, match="do not fit"):
        scatter(200, 20.0, (0, 0, 100, 100), Stream("dots"))


def test_the_blur_has_its_standard_deviation_and_keeps_the_mean():
    spot = np.zeros((65, 65))
    spot[32, 32] = 1.0
    spread = blurred(spot, 4.0)
    y, _ = np.mgrid[:65, :65]
    assert spread.sum() == pytest.approx(1.0)
    assert float((spread * (y - 32) ** 2).sum()) == pytest.approx(16.0, rel=0.02)


def test_a_symmetric_pattern_mirrors_its_pairs():
    (pixels,) = ATTRIBUTES["symmetry"].draw(Scene(0.05, 0, Stream("mirror"), 512))
    quarter = (pixels[:256, :256] < 128).astype(int)
    mirrored = quarter[:, ::-1]
    same = (quarter & mirrored).sum() / quarter.sum()
    other = (pixels[:256, 256:] < 128).astype(int)
    assert same > 0.6 > (other & other[:, ::-1]).sum() / other.sum() + 0.2


def test_motion_steps_from_frame_to_frame():
    frames = ATTRIBUTES["motion"].draw(Scene(3.5, 1, Stream("motion"), 256))
    centres = [((255.0 - frame) @ np.arange(256)).sum() / (255.0 - frame).sum() for frame in frames]
    assert np.diff(centres) == pytest.approx([3.5] * 4, abs=0.02)


def test_an_equal_pair_shows_one_figure_and_another_level_shows_two():
    link = ATTRIBUTES["link"]
    for value in (0.0, 0.9):
        first, second = link.draw(Scene(value, int(not value), Stream("pair", str(value)), 256))
        assert not np.array_equal(first, second)
        assert (first < 128).any()
        assert (second < 128).any()
