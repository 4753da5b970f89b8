"""Landolt rings, the standard figure of sight tests (ISO 8596): small ones, in noise, among others, and in large pictures."""

from __future__ import annotations

from math import cos, pi, sin

import numpy as np

from snellen.benchmarks.acuity.attribute import DIRECTIONS, INK, PAPER, Attribute, Images, Scene, somewhere
from snellen.benchmarks.acuity.drawing import Raster, fill_ring
from snellen.benchmarks.chart.rng import normals, uniform

OUTER = 2.5
"""Radius of the ring in gaps."""


def draw_ring(raster: Raster, cx: float, cy: float, gap: float, answer: int, ink: float = INK) -> None:
    """Draw a Landolt ring whose opening points into one of eight directions."""
    fill_ring(raster, cx, cy, gap, answer * pi / 4, ink)


def draw_gap(scene: Scene) -> Images:
    """Draw one ring on white paper, somewhere in the picture."""
    raster = Raster(scene.side, scene.side, PAPER)
    cx, cy = somewhere(scene.side, scene.stream, OUTER * scene.value)
    draw_ring(raster, cx, cy, scene.value, scene.answer)
    return (raster.pixels(),)


GAP = Attribute(
    name="gap",
    unit="px",
    about="the opening of a ring, in pixels of the picture that is sent",
    questions=("Where is the opening of the ring?", "On which side is the ring open?"),
    options=DIRECTIONS,
    easy=32.0,
    hard=0.5,
    draw=draw_gap,
    people="1 arc minute; 18 trials do (Bach 1996, FrACT, 8 directions)",
    confounds=(
        "grey rims of anti-aliasing tell of an opening under one pixel; people use them too",
        "the place is drawn at sub-pixel steps, so that borders of patches average out",
    ),
)


NOISE_GAP = 12.0
DARK, LIGHT = 97.5, 157.5
"""Code values of ring and ground: 60 apart, so that strong noise seldom leaves the range."""


def draw_noise(scene: Scene) -> Images:
    """Draw a ring and add noise of the standard deviation that is asked, in code values."""
    side = scene.side
    gap = min(scene.scale or NOISE_GAP, side / 8.0)
    raster = Raster(side, side, LIGHT)
    cx, cy = somewhere(side, scene.stream, 2.5 * gap)
    draw_ring(raster, cx, cy, gap, scene.answer, DARK)
    raster.values += scene.value * normals(scene.stream, side, side)
    np.clip(raster.values, 0.0, 255.0, out=raster.values)
    return (raster.pixels(),)


NOISE = Attribute(
    name="noise",
    unit="code values",
    about="the standard deviation of noise over a ring, in code values of 0 to 255",
    questions=("Where is the opening of the ring in the noise?", "On which side is the ring open?"),
    options=DIRECTIONS,
    easy=5.0,
    hard=120.0,
    draw=draw_noise,
    scaled_by="gap",
    scale=(4.0, NOISE_GAP),
    confounds=("noise beyond 0 and 255 is cut, so that its deviation is smaller there than asked",),
)


SPACING_GAP = 6.0
"""Gap in pixels where the own threshold is not known."""


def _lengths(scene: Scene) -> tuple[float, float]:
    """Return gap and distance in pixels: as far apart as the picture allows, where the level asks for more."""
    gap = min(scene.scale or SPACING_GAP, scene.side / 14.0)
    return gap, min(scene.value * gap, scene.side / 2.0 - 2.5 * gap - 3.0)


def realised_distance(scene: Scene) -> float:
    """Return the distance of a scene's rings in gaps."""
    gap, distance = _lengths(scene)
    return distance / gap


def draw_spacing(scene: Scene) -> Images:
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
    draw=draw_spacing,
    realised=realised_distance,
    scaled_by="gap",
    scale=(2.0, SPACING_GAP),
    people="Bouma: .24 to .35 times the distance from the point of gaze (2023)",
    confounds=("the rings have twice the gap that is seen alone, so that only the neighbours make it hard",),
)


NEEDLE_GAP = 4.0
"""Gap in pixels where the own threshold is not known."""
DIAMETER = 5.0
LARGEST = 8192


def side_of(share: float, gap: float) -> int:
    """Return the side of the picture in which a ring of this gap takes this share, at most 8,192 pixels."""
    return max(16, min(LARGEST, round(DIAMETER * gap / share)))


def realised_share(scene: Scene) -> float:
    """Return the share of the side that a scene's ring takes."""
    gap = scene.scale or NEEDLE_GAP
    return DIAMETER * gap / side_of(scene.value, gap)


def draw_needle(scene: Scene) -> Images:
    """Draw one ring of constant size in a picture that is larger the harder the level is."""
    gap = scene.scale or NEEDLE_GAP
    side = side_of(scene.value, gap)
    cx, cy = somewhere(side, scene.stream, DIAMETER / 2 * gap)
    reach = DIAMETER / 2 * gap + 2.0
    left, top = max(0, int(cx - reach)), max(0, int(cy - reach))
    patch = min(side, int(2 * reach) + 2)
    raster = Raster(min(patch, side - left), min(patch, side - top), PAPER)  # a whole one of 8,192 px takes 512 MB
    draw_ring(raster, cx - left, cy - top, gap, scene.answer)
    pixels = np.full((side, side), int(PAPER), dtype=np.uint8)
    pixels[top : top + patch, left : left + patch] = raster.pixels()
    return (pixels,)


NEEDLE = Attribute(
    name="needle",
    unit="share of the side",
    about="the share of the picture's side that a single ring takes",
    questions=("Where is the opening of the ring?", "On which side is the only ring open?"),
    options=DIRECTIONS,
    easy=1 / 4,
    hard=1 / 512,
    draw=draw_needle,
    realised=realised_share,
    scaled_by="gap",
    scale=(2.0, NEEDLE_GAP),
    confounds=("the ring's own size stays; a service that shrinks large pictures makes it smaller",),
)
