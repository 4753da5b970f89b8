"""Scanned digits, blurred or in noise, asked in the words that the embedded model knows.

The scans are those of `chart/digits` that the model was not trained on.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from snellen.benchmarks.acuity.attribute import Attribute, Images, Scene
from snellen.benchmarks.acuity.attributes.chart_taxa import LEAST_SIDE, SIDE, TYPICAL_WIDTH
from snellen.benchmarks.acuity.drawing import Array
from snellen.benchmarks.chart import questions as ask
from snellen.benchmarks.chart.digits import enlarged, split
from snellen.benchmarks.chart.rng import Stream, normals

LETTERS = ("A", "B", "C", "D")


def _scan(stream: Stream, side: int) -> tuple[Array, int]:
    """Return a scan at random, [side, side] grey levels, and its digit."""
    scans, labels = _test_scans()
    index = _scan_number(stream)
    return enlarged(scans[index], side).astype(np.float64), int(labels[index])


def _scan_number(stream: Stream) -> int:
    return stream.below(len(_test_scans()[0]))


def exemplar(scene: Scene) -> int:
    """Return the number of the scan."""
    return _scan_number(scene.stream)


@lru_cache(maxsize=1)
def _test_scans() -> tuple[np.ndarray, np.ndarray]:
    return split("test")


@lru_cache(maxsize=64)
def _blur_matrix(side: int, sigma: float) -> Array:
    """Return [side, side]: a Gaussian of this standard deviation along one axis, edges repeated."""
    reach = int(4 * sigma + 0.5) + 1
    weights = np.exp(-0.5 * (np.arange(-reach, reach + 1) / sigma) ** 2)
    columns = np.clip(np.arange(side)[:, None] + np.arange(-reach, reach + 1)[None, :], 0, side - 1)
    cells = (np.arange(side)[:, None] * side + columns).reshape(-1)
    counts = np.bincount(cells, np.tile(weights / weights.sum(), side), side * side)
    return counts.astype(np.float64).reshape(side, side)


def blurred_digit(scene: Scene) -> Images:
    """Draw a scan under a Gaussian blur."""
    values, _ = _scan(scene.stream, scene.side)
    matrix = _blur_matrix(scene.side, scene.value)
    return (np.clip(np.rint(matrix @ values @ matrix.T), 0, 255).astype(np.uint8),)


def noisy_digit(scene: Scene) -> Images:
    """Draw a scan in white noise; values below 0 and above 255 are cut off."""
    values, _ = _scan(scene.stream, scene.side)
    noise = scene.value * normals(scene.stream, scene.side, scene.side)
    return (np.clip(np.rint(values + noise), 0, 255).astype(np.uint8),)


def worded(scene: Scene, wording: int) -> ask.ChartQuestion:
    """Ask which of four digits it is; the answer is the place of the right one."""
    right, *options = alternatives(scene)
    options.insert(scene.answer, right)
    return ask.digit_choice(options, right)


def alternatives(scene: Scene) -> tuple[str, ...]:
    """Return the digit of the scan and three others."""
    _, digit = _scan(scene.stream, scene.side)
    others = scene.stream.sample([each for each in range(10) if each != digit], 3)
    return str(digit), *map(str, others)


DIGIT_BLUR = Attribute(
    name="chart/digit-blur",
    unit="px",
    about="the blur of a scanned digit, as the standard deviation in pixels",
    questions=("Which digit is this?",) * 2,
    options=LETTERS,
    easy=0.5,
    hard=160.0,
    draw=blurred_digit,
    worded=worded,
    alternatives=alternatives,
    exemplar=exemplar,
    side=SIDE,
    least_side=LEAST_SIDE,
    confounds=("the blur is in pixels of the picture that is sent: measure several sides to see what resizing does",),
)
DIGIT_NOISE = Attribute(
    name="chart/digit-noise",
    unit="code values",
    about="the noise over a scanned digit, as the standard deviation in code values",
    questions=("Which digit is this?",) * 2,
    options=LETTERS,
    easy=8.0,
    hard=800.0,
    draw=noisy_digit,
    worded=worded,
    alternatives=alternatives,
    exemplar=exemplar,
    typical_width=TYPICAL_WIDTH,
    side=SIDE,
    least_side=LEAST_SIDE,
    confounds=("values are cut off at 0 and 255, so that strong noise is less strong in the picture",),
)
