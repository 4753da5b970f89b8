"""Levels measured from the pixels of the attributes that no observer reads: areas, counts, blur, noise, spacing, steps."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from skimage.measure import label, regionprops

from snellen.benchmarks.acuity.attribute import Scene
from snellen.benchmarks.acuity.attributes import ATTRIBUTES
from snellen.benchmarks.acuity.attributes.one_of_four import PITCH
from snellen.benchmarks.chart.rng import Stream

SIDE = 256
Picture = np.ndarray


def drawn(
    name: str, value: float, answer: int = 2, seed: int = 0, side: int = SIDE, scale: float = 0.0
) -> list[Picture]:
    frames = ATTRIBUTES[name].draw(Scene(value, answer, Stream("measured", name, seed, str(value)), side, "", scale))
    return [frame.astype(float) for frame in frames]


def quarters(picture: Picture) -> list[Picture]:
    half = picture.shape[0] // 2
    return [255.0 - picture[r * half : (r + 1) * half, c * half : (c + 1) * half] for r in (0, 1) for c in (0, 1)]


def apart(values: list[float], answer: int = 2) -> tuple[float, float]:
    """The value of the odd place, and the mean of the others."""
    return values[answer], float(np.mean([value for place, value in enumerate(values) if place != answer]))


def mean_of(measure: Callable[[int], float], seeds: int = 4) -> float:
    return float(np.mean([measure(seed) for seed in range(seeds)]))


@pytest.mark.parametrize("value", [0.05, 0.3, 2.0])
def test_area(value):
    def larger(seed: int) -> float:
        odd, others = apart([part.sum() for part in quarters(drawn("area", value, seed=seed)[0])])
        return odd / others - 1

    assert mean_of(larger) == pytest.approx(value, rel=0.03)


@pytest.mark.parametrize("value", [2, 17, 40])
def test_count(value):
    (picture,) = drawn("count", value)
    assert int(label(picture < 128).max()) == value


@pytest.mark.parametrize("value", [1.0, 4.0])
def test_blur_is_the_variance_that_is_added(value):
    def added(seed: int) -> float:
        variances = []
        for part in quarters(drawn("blur", value, seed=seed)[0]):
            rows = np.arange(part.shape[0])
            share = part.sum(axis=1) / part.sum()
            variances.append(float(share @ rows**2 - (share @ rows) ** 2))
        odd, others = apart(variances)
        return odd - others

    assert np.sqrt(mean_of(added)) == pytest.approx(value, rel=0.08)


@pytest.mark.parametrize("value", [5.0, 20.0])
def test_noise_has_its_standard_deviation(value):
    def deviation(seed: int) -> float:
        (picture,) = drawn("noise", value, seed=seed)
        blocks = [picture[r : r + 48, c : c + 48] for r in (0, -48) for c in (0, -49)]
        return float(min(block[:48, :48].std() for block in blocks if block.shape[0] >= 48))

    assert mean_of(deviation) == pytest.approx(value, rel=0.03)


@pytest.mark.parametrize("value", [7.0, 12.0])
def test_spacing_is_the_distance_of_the_rings_in_gaps(value):
    def distance(seed: int) -> float:
        (picture,) = drawn("spacing", value, seed=seed, scale=6.0)
        centres = np.array([np.add(each.bbox[:2], each.bbox[2:]) / 2 for each in regionprops(label(picture < 128))])
        assert len(centres) == 5
        middle = centres.mean(axis=0)
        inner = int(((centres - middle) ** 2).sum(axis=1).argmin())
        outer = [np.hypot(*(each - centres[inner])) for index, each in enumerate(centres) if index != inner]
        return float(np.mean(outer)) / 6.0

    assert mean_of(distance) == pytest.approx(value, rel=0.02)


@pytest.mark.parametrize("value", [3.0, 12.0])
def test_curvature_is_the_sagitta(value):
    def sagitta(seed: int) -> float:
        bends = []
        for part in quarters(drawn("curvature", value, seed=seed)[0]):
            y, x = np.mgrid[: part.shape[0], : part.shape[1]]
            points = np.stack([x.ravel(), y.ravel()], axis=1).astype(float)
            ink = part.ravel() / part.sum()
            points -= ink @ points
            axes = np.linalg.eigh((points * ink[:, None]).T @ points)[1]
            across, along = points @ axes[:, 0], points @ axes[:, 1]
            used = ink > 0.5 * ink.max()
            coefficients = np.polyfit(along[used], across[used], 2)
            bends.append(abs(coefficients[0]) * (0.25 * SIDE / 2) ** 2)
        return apart(bends)[0]

    assert mean_of(sagitta) == pytest.approx(value, rel=0.1)


@pytest.mark.parametrize("value", [1, 4, 8])
def test_order_is_the_number_of_frames_between_two_appearances(value):
    frames = drawn("order", value, answer=1)
    first = [next(k for k, frame in enumerate(frames) if (half(frame) < 128).any()) for half in (_left, _right)]
    assert first[0] - first[1] == value


def _left(frame: Picture) -> Picture:
    return frame[:, : SIDE // 2]


def _right(frame: Picture) -> Picture:
    return frame[:, SIDE // 2 :]


@pytest.mark.parametrize("value", [0.1, 1.0])
def test_density_is_the_number_of_dots_in_patches_of_one_size(value):
    def denser(seed: int) -> float:
        odd, others = apart([part.sum() for part in quarters(drawn("density", value, seed=seed, side=512)[0])])
        return odd / others

    assert mean_of(denser, 24) == pytest.approx(1 + value, rel=0.05)


@pytest.mark.parametrize("value", [0.05, 0.2])
def test_regularity_is_the_spread_of_the_dots_in_pitches(value):
    def spread(seed: int) -> float:
        (picture,) = drawn("regularity", value, seed=seed, side=512)
        part = quarters(picture)[2]
        pitch, centres = PITCH * 512, [each.centroid for each in regionprops(label(part > 128)) if each.area > 20]
        turns = np.exp(2j * np.pi * np.array(centres) / pitch)
        away = np.angle(turns / turns.mean(axis=0)) / (2 * np.pi)
        return float(away.std())

    assert mean_of(spread) * np.sqrt(3) == pytest.approx(value, rel=0.12)


@pytest.mark.parametrize("value", [0.1, 0.5])
def test_symmetry_is_broken_in_so_many_pairs(value):
    (picture,) = drawn("symmetry", value, seed=3, side=512)
    dots = (quarters(picture)[2] > 128).astype(int)
    both = (dots & dots[:, ::-1]).sum() / dots.sum()
    assert both == pytest.approx(1 - value, abs=0.2)


@pytest.mark.parametrize("value", [0.25, 0.02])
def test_needle_is_the_share_of_the_side(value):
    (picture,) = drawn("needle", value, scale=8.0)
    assert 40.0 / picture.shape[0] == pytest.approx(value, rel=0.01)
    gap = np.sqrt((255.0 - picture).sum() / 255.0 / 11.5549)
    assert gap == pytest.approx(8.0, rel=0.003)


@pytest.mark.parametrize("value", [10.0, 30.0])
def test_text_is_as_high_as_asked(value):
    (picture,) = drawn("text", value, answer=0)
    rows, columns = np.nonzero(picture < 128)
    assert rows.max() - rows.min() + 1 == pytest.approx(value, abs=1.5)
    assert columns.max() - columns.min() + 1 == pytest.approx(value * 29 / 5, abs=3)
