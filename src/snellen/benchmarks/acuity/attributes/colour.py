"""Colour: the smallest difference of one disc from three others, along six directions of CIELAB."""

from __future__ import annotations

from itertools import product

import numpy as np

from snellen.benchmarks.acuity.attribute import GREY, PLACES, Attribute, Images, Scene, place_centres
from snellen.benchmarks.acuity.drawing import Lab, Raster, difference, fill_disc, lab_of, rgb_of
from snellen.benchmarks.chart.rng import Stream, uniform

DIRECTIONS: dict[str, Lab] = {
    "a+": (0.0, 1.0, 0.0),
    "a-": (0.0, -1.0, 0.0),
    "b+": (0.0, 0.0, 1.0),
    "b-": (0.0, 0.0, -1.0),
    "L+": (1.0, 0.0, 0.0),
    "L-": (-1.0, 0.0, 0.0),
}
TRIES = 200
RADIUS = 0.09
"""Of a disc, as a share of the side."""
Triple = tuple[int, int, int]


def pair(value: float, direction: Lab, stream: Stream) -> tuple[Triple, Triple, float]:
    """Return two 8-bit colours that differ by about `value` in this direction, and by how much they do.

    The base is drawn at random. It is drawn again where sRGB has no such second colour: nothing is clipped.
    """
    for _ in range(TRIES):
        lightness = uniform(stream, 35.0, 75.0)
        centre = (lightness, uniform(stream, -25.0, 25.0), uniform(stream, -25.0, 25.0))
        shifted = tuple(part - value / 2 * step for part, step in zip(centre, direction, strict=True))
        base = tuple(round(float(code)) for code in rgb_of((shifted[0], shifted[1], shifted[2])))
        if not all(0 <= code <= 255 for code in base):
            continue
        first = (base[0], base[1], base[2])
        start = lab_of(first)
        target = _bisected(start, direction, value)
        if target is None:
            continue
        best = min(
            (
                (abs(difference(start, lab_of(near)) - value), near)
                for near in _neighbours(target)
                if min(near) >= 0 and max(near) <= 255 and near != first
            ),
            default=None,
        )
        if best is not None:
            return first, best[1], difference(start, lab_of(best[1]))
    raise ValueError(f"no pair of colours differs by {value:g}")


def _bisected(start: Lab, direction: Lab, value: float) -> np.ndarray | None:
    """Return the real code values of the colour at this difference; None outside sRGB."""
    low, high = 0.0, 8.0 * value + 1.0
    for _ in range(40):
        middle = (low + high) / 2
        moved = tuple(part + middle * step for part, step in zip(start, direction, strict=True))
        if difference(start, (moved[0], moved[1], moved[2])) < value:
            low = middle
        else:
            high = middle
    moved = tuple(part + high * step for part, step in zip(start, direction, strict=True))
    code = rgb_of((moved[0], moved[1], moved[2]))
    return None if code.min() < 0 or code.max() > 255 else code


def _neighbours(code: np.ndarray) -> list[Triple]:
    middle = np.round(code).astype(int)
    return [tuple(int(part) for part in middle + step) for step in product((-1, 0, 1), repeat=3)]  # type: ignore[misc]


def realised(scene: Scene) -> float:
    """Return the difference of the 8-bit colours of a scene."""
    return pair(scene.value, DIRECTIONS[scene.variant], scene.stream)[2]


def draw(scene: Scene) -> Images:
    """Draw four discs on grey, one of another colour; the realised difference of the 8-bit colours is recorded."""
    first, second, _ = pair(scene.value, DIRECTIONS[scene.variant], scene.stream)
    raster = Raster(scene.side, scene.side, (GREY, GREY, GREY))
    radius = RADIUS * scene.side
    for place, (cx, cy) in enumerate(place_centres(scene.side, scene.stream, radius)):
        fill_disc(raster, cx, cy, radius, second if place == scene.answer else first)
    return (raster.pixels(),)


COLOUR = Attribute(
    name="colour",
    unit="ΔE00",
    about="the difference of one disc's colour from the others' (CIEDE2000), towards red, green, yellow, blue, light or dark",
    questions=("Which disc has another colour than the others?", "One disc differs in colour. Which one?"),
    options=PLACES,
    easy=30.0,
    hard=0.3,
    draw=draw,
    realised=realised,
    variants=tuple(DIRECTIONS),
    people="about 1 (CIE)",
    confounds=(
        "8-bit colours allow only some differences; the realised one is used",
        "the base colour is random, so that no single colour can be learned",
    ),
)
