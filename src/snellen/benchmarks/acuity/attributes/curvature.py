"""Curvature: one of four strokes is bent."""

from __future__ import annotations

from math import asin, cos, pi, sin

from snellen.benchmarks.acuity.attribute import INK, PAPER, PLACES, Attribute, Images, Scene, place_centres
from snellen.benchmarks.acuity.drawing import Raster, arc, around, segment
from snellen.benchmarks.chart.rng import uniform

CHORD, THICKNESS = 0.25, 4.0
"""Chord as a share of the side, thickness in pixels."""


def realised(scene: Scene) -> float:
    """Return the sagitta of a scene in pixels: less than a half circle, where the level asks for more."""
    return min(scene.value, 0.45 * CHORD * scene.side)


def draw(scene: Scene) -> Images:
    """Draw four strokes of one random direction, one bent by the sagitta that is asked, to either side."""
    side, stream = scene.side, scene.stream
    chord = CHORD * side
    sagitta = realised(scene)
    turn, hand = uniform(stream, 0.0, pi), 1 if stream.below(2) else -1
    raster = Raster(side, side, PAPER)
    radius = (chord * chord / 4 + sagitta * sagitta) / (2 * sagitta)
    half = asin(min(1.0, chord / 2 / radius))
    for place, (cx, cy) in enumerate(place_centres(side, stream, chord / 2 + 4)):
        if place == scene.answer:
            across = turn + hand * pi / 2
            ox, oy = cx - (radius - sagitta / 2) * cos(across), cy - (radius - sagitta / 2) * sin(across)
            shape = arc(ox, oy, radius, across - half, across + half, THICKNESS)
        else:
            dx, dy = chord / 2 * cos(turn), chord / 2 * sin(turn)
            shape = segment(cx - dx, cy - dy, cx + dx, cy + dy, THICKNESS)
        raster.fill(shape, around(cx, cy, chord / 2 + 6), INK)
    return (raster.pixels(),)


CURVATURE = Attribute(
    name="curvature",
    unit="px",
    about="how far the middle of one of four strokes lies beside the line of its ends, in pixels",
    questions=("Which stroke is bent?", "Three strokes are straight. Which one is not?"),
    options=PLACES,
    easy=30.0,
    hard=0.2,
    draw=draw,
    realised=realised,
    confounds=("the common direction is random; the bend is to either side",),
)
