"""Link: whether two pictures show the same meaningless figure, one corner of which may be moved."""

from __future__ import annotations

from math import cos, pi, sin

import numpy as np

from snellen.benchmarks.acuity.attribute import INK, PAPER, Attribute, Images, Pixels, Scene, somewhere
from snellen.benchmarks.acuity.drawing import Array, Raster, fill_polygon
from snellen.benchmarks.chart.rng import Stream, uniform

CORNERS = 12
SMALLEST, LARGEST = 0.2, 0.3
"""Radius of the figure as a share of the side."""


def figure(stream: Stream) -> Array:
    """Return a random star-shaped polygon [12, 2] of radius 1 at most."""
    angles = [2 * pi * (number + uniform(stream, -0.3, 0.3)) / CORNERS for number in range(CORNERS)]
    return np.array(
        [(radius * cos(angle), radius * sin(angle)) for angle in angles for radius in [uniform(stream, 0.45, 1.0)]]
    )


def _drawn(corners: Array, side: int, stream: Stream) -> Pixels:
    radius, turn = uniform(stream, SMALLEST, LARGEST) * side, uniform(stream, 0.0, 2 * pi)
    cx, cy = somewhere(side, stream, 2.0 * radius)
    rotation = np.array([[cos(turn), sin(turn)], [-sin(turn), cos(turn)]])
    placed = radius * corners @ rotation + (cx, cy)
    raster = Raster(side, side, PAPER)
    fill_polygon(raster, placed, INK)
    return raster.pixels()


def draw(scene: Scene) -> Images:
    """Draw the figure twice, at other places, sizes and turns; a corner of the second moves by a share of its radius."""
    corners = figure(scene.stream)
    other = corners.copy()
    if scene.value:
        corner, angle = scene.stream.below(CORNERS), uniform(scene.stream, 0.0, 2 * pi)
        other[corner] += scene.value * np.array([cos(angle), sin(angle)])
    return _drawn(corners, scene.side, scene.stream), _drawn(other, scene.side, scene.stream)


LINK = Attribute(
    name="link",
    unit="share of the radius",
    about="how far one of twelve corners of a figure is moved between two pictures, as a share of its radius",
    questions=(
        "Do both pictures show the same figure? Place, size and turn do not count.",
        "Is the figure of the second picture another one than that of the first, apart from place, size and turn?",
    ),
    options=("different", "same"),
    form="same-different",
    easy=1.0,
    hard=0.01,
    draw=draw,
    images=2,
    most=2,
    confounds=("area changes with the corner; sizes are random, so that area alone does not tell",),
)
