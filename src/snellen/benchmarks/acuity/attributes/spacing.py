"""Spacing: a ring among four others, as print stands among print (crowding)."""

from __future__ import annotations

from math import cos, pi, sin

from snellen.benchmarks.acuity.attribute import DIRECTIONS, PAPER, Attribute, Images, Scene, somewhere
from snellen.benchmarks.acuity.attributes.gap import draw_ring
from snellen.benchmarks.acuity.drawing import Raster
from snellen.benchmarks.chart.rng import uniform

GAP = 6.0
"""Gap in pixels where the own threshold is not known."""


def _lengths(scene: Scene) -> tuple[float, float]:
    """Return gap and distance in pixels: as far apart as the picture allows, where the level asks for more."""
    gap = min(scene.scale or GAP, scene.side / 14.0)
    return gap, min(scene.value * gap, scene.side / 2.0 - 2.5 * gap - 3.0)


def realised(scene: Scene) -> float:
    """Return the distance of a scene's rings in gaps."""
    gap, distance = _lengths(scene)
    return distance / gap


def draw(scene: Scene) -> Images:
    """Draw one ring and four around it, which are open at random; the level is the distance of centres in gaps."""
    side, stream = scene.side, scene.stream
    gap, distance = _lengths(scene)
    raster = Raster(side, side, PAPER)
    cx, cy = somewhere(side, stream, distance + 2.5 * gap)
    draw_ring(raster, cx, cy, gap, scene.answer)
    turn = uniform(stream, 0.0, pi / 2)
    for number in range(4):
        angle = turn + number * pi / 2
        draw_ring(raster, cx + distance * cos(angle), cy + distance * sin(angle), gap, stream.below(8))
    return (raster.pixels(),)


SPACING = Attribute(
    name="spacing",
    unit="gaps",
    about="the distance of four rings around the one that is asked about, in gaps",
    questions=(
        "Five rings are drawn. Where is the opening of the ring in their middle?",
        "On which side is the middle one of the five rings open?",
    ),
    options=DIRECTIONS,
    easy=30.0,
    hard=5.2,
    draw=draw,
    realised=realised,
    scaled_by="gap",
    scale=(2.0, GAP),
    people="Bouma: .24 to .35 times the distance from the point of gaze (2023)",
    confounds=("the rings have twice the gap that is seen alone, so that only the neighbours make it hard",),
)
