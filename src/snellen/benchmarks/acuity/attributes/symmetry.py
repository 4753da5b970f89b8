"""Symmetry: one of four dot patterns is mirrored, a share of its pairs broken."""

from __future__ import annotations

from snellen.benchmarks.acuity.attribute import INK, PAPER, PLACES, Attribute, Images, Scene
from snellen.benchmarks.acuity.drawing import Raster, fill_disc
from snellen.benchmarks.chart.rng import uniform

PAIRS, DOT = 20, 0.008
BROKEN = tuple(count / PAIRS for count in range(1, 19))
"""Levels: the share of pairs that are broken; less is easier."""


def draw(scene: Scene) -> Images:
    """Draw four patches of 40 dots; in one, pairs mirror each other about its middle except for the broken ones."""
    side, stream = scene.side, scene.stream
    half, radius = side / 4, DOT * side
    reach = half - 2 * radius - 6
    broken = round(scene.value * PAIRS)
    raster = Raster(side, side, PAPER)
    for place in range(4):
        cx, cy = (place % 2 + 0.5) * side / 2, (place // 2 + 0.5) * side / 2
        for number in range(PAIRS):
            x, y = uniform(stream, radius, reach), uniform(stream, -reach, reach)
            mirrored = (-x, y)
            if place != scene.answer or number < broken:
                mirrored = (-uniform(stream, radius, reach), uniform(stream, -reach, reach))
            for dx, dy in ((x, y), mirrored):
                fill_disc(raster, cx + dx, cy + dy, radius, INK)
    return (raster.pixels(),)


SYMMETRY = Attribute(
    name="symmetry",
    unit="share broken",
    about="the share of pairs of dots that do not mirror each other, in the one pattern of four that is symmetric",
    questions=(
        "Which pattern is symmetric about its vertical middle?",
        "One pattern is mirrored left to right. Which one?",
    ),
    options=PLACES,
    easy=BROKEN[0],
    hard=BROKEN[-1],
    draw=draw,
    values=BROKEN,
    confounds=("all patterns have as many dots on both sides",),
)
