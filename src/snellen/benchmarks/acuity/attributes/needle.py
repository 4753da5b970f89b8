"""Needle: one small ring in a picture of rising size."""

from __future__ import annotations

import numpy as np

from snellen.benchmarks.acuity.attribute import DIRECTIONS, PAPER, Attribute, Images, Scene, somewhere
from snellen.benchmarks.acuity.attributes.gap import draw_ring
from snellen.benchmarks.acuity.drawing import Raster

GAP = 4.0
"""Gap in pixels where the own threshold is not known."""
OUTER = 5.0
LARGEST = 8192


def side_of(share: float, gap: float) -> int:
    """Return the side of the picture in which a ring of this gap takes this share, at most 8,192 pixels."""
    return max(16, min(LARGEST, round(OUTER * gap / share)))


def realised(scene: Scene) -> float:
    """Return the share of the side that a scene's ring takes."""
    gap = scene.scale or GAP
    return OUTER * gap / side_of(scene.value, gap)


def draw(scene: Scene) -> Images:
    """Draw one ring of constant size in a picture that is larger the harder the level is."""
    gap = scene.scale or GAP
    side = side_of(scene.value, gap)
    cx, cy = somewhere(side, scene.stream, OUTER / 2 * gap)
    reach = OUTER / 2 * gap + 2.0
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
    draw=draw,
    realised=realised,
    scaled_by="gap",
    scale=(2.0, GAP),
    confounds=("the ring's own size stays; a service that shrinks large pictures makes it smaller",),
)
