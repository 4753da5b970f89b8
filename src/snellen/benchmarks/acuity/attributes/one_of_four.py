"""Attributes in which one of four figures differs: area, length, direction, curvature, symmetry, density, regularity, blur."""

from __future__ import annotations

from math import asin, cos, pi, radians, sin, sqrt

import numpy as np

from snellen.benchmarks.acuity.attribute import INK, PAPER, PLACES, Attribute, Images, Scene, place_centres
from snellen.benchmarks.acuity.attributes.letters import SLOAN, outline
from snellen.benchmarks.acuity.drawing import Array, Raster, arc, around, box, fill_disc, segment
from snellen.benchmarks.chart.rng import Stream, uniform


def draw_area(scene: Scene) -> Images:
    """Draw four discs of one random size, one larger by the share of area that is asked."""
    side, stream = scene.side, scene.stream
    base = uniform(stream, 0.05, 0.1) * side
    larger = base * sqrt(1.0 + scene.value)
    raster = Raster(side, side, PAPER)
    for place, (cx, cy) in enumerate(place_centres(side, stream, larger)):
        radius = larger if place == scene.answer else base
        fill_disc(raster, cx, cy, radius, INK)
    return (raster.pixels(),)


AREA = Attribute(
    name="area",
    unit="share larger",
    about="the share by which one of four discs has a larger area than the others",
    questions=("Which disc is larger than the others?", "One disc is larger. Which one?"),
    options=PLACES,
    easy=2.0,
    hard=0.01,
    draw=draw_area,
    people="about 6 % (textbook value)",
    confounds=("width grows with area; the common size is random",),
)


LENGTH_THICKNESS = 0.012


def draw_length(scene: Scene) -> Images:
    """Draw four level lines whose ends are shifted at random, one longer by the share that is asked."""
    side, stream = scene.side, scene.stream
    longest = 0.46 * side
    base = uniform(stream, 0.1, 0.25) * side
    base = min(base, longest / (1.0 + scene.value))
    thickness = max(3.0, LENGTH_THICKNESS * side)
    raster = Raster(side, side, PAPER)
    for place in range(4):
        length = base * (1.0 + scene.value) if place == scene.answer else base
        column, row = place % 2, place // 2
        left = column * side / 2 + uniform(stream, 2.0, max(2.5, side / 2 - length - 2.0))
        top = row * side / 2 + uniform(stream, 0.1, 0.4) * side
        raster.bar(left, top, left + length, top + thickness, INK)
    return (raster.pixels(),)


LENGTH = Attribute(
    name="length",
    unit="share longer",
    about="the share by which one of four lines is longer than the others",
    questions=("Which line is longer than the others?", "One line is longer. Which one?"),
    options=PLACES,
    easy=1.0,
    hard=0.005,
    draw=draw_length,
    people="2 to 3 % (textbook value)",
    confounds=("area grows with length; ends are shifted and lengths are random, so that places of ends do not tell",),
)


LINE, LINE_THICKNESS = 0.2, 0.012
"""Of a line, as shares of the side."""


def draw_orientation(scene: Scene) -> Images:
    """Draw four lines of one random direction, one of them turned to either side."""
    side, stream = scene.side, scene.stream
    base, turn = uniform(stream, 0.0, 180.0), scene.value * (1 if stream.below(2) else -1)
    raster = Raster(side, side, PAPER)
    thickness = max(3.0, LINE_THICKNESS * side)
    for place, (cx, cy) in enumerate(place_centres(side, stream, LINE * side / 2)):
        angle = radians(base + (turn if place == scene.answer else 0.0))
        raster.fill(box(cx, cy, LINE * side, thickness, angle), around(cx, cy, LINE * side / 2 + thickness), INK)
    return (raster.pixels(),)


ORIENTATION = Attribute(
    name="orientation",
    unit="degrees",
    about="the angle by which one of four lines is turned",
    questions=("Which line has another direction than the others?", "One line is turned. Which one?"),
    options=PLACES,
    easy=45.0,
    hard=0.2,
    draw=draw_orientation,
    people="0.35 to 0.57 degrees (Regan 1995)",
    confounds=(
        "the common direction is random, so that upright lines are not special",
        "an edge near an axis has steps; people use them too",
    ),
)


CHORD, STROKE = 0.25, 4.0
"""Chord as a share of the side, thickness in pixels."""


def realised_sagitta(scene: Scene) -> float:
    """Return the sagitta of a scene in pixels: less than a half circle, where the level asks for more."""
    return min(scene.value, 0.45 * CHORD * scene.side)


def draw_curvature(scene: Scene) -> Images:
    """Draw four strokes of one random direction, one bent by the sagitta that is asked, to either side."""
    side, stream = scene.side, scene.stream
    chord = CHORD * side
    sagitta = realised_sagitta(scene)
    turn, hand = uniform(stream, 0.0, pi), 1 if stream.below(2) else -1
    raster = Raster(side, side, PAPER)
    radius = (chord * chord / 4 + sagitta * sagitta) / (2 * sagitta)
    half = asin(min(1.0, chord / 2 / radius))
    for place, (cx, cy) in enumerate(place_centres(side, stream, chord / 2 + 4)):
        if place == scene.answer:
            across = turn + hand * pi / 2
            ox, oy = cx - (radius - sagitta / 2) * cos(across), cy - (radius - sagitta / 2) * sin(across)
            shape = arc(ox, oy, radius, across - half, across + half, STROKE)
        else:
            dx, dy = chord / 2 * cos(turn), chord / 2 * sin(turn)
            shape = segment(cx - dx, cy - dy, cx + dx, cy + dy, STROKE)
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
    draw=draw_curvature,
    realised=realised_sagitta,
    confounds=("the common direction is random; the bend is to either side",),
)


PAIRS, SYMMETRY_DOT = 20, 0.008
BROKEN = tuple(count / PAIRS for count in range(1, 19))
"""Levels: the share of pairs that are broken; less is easier."""


def draw_symmetry(scene: Scene) -> Images:
    """Draw four patches of 40 dots; in one, pairs mirror each other about its middle except for the broken ones."""
    side, stream = scene.side, scene.stream
    half, radius = side / 4, SYMMETRY_DOT * side
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
    draw=draw_symmetry,
    values=BROKEN,
    confounds=("all patterns have as many dots on both sides",),
)


PATCH, PITCH, DOT, JITTER = 0.36, 0.045, 0.008, 0.2
"""Sides of a patch and of a cell, radius of a dot as shares of the side; jitter as a share of the cell."""


def _patch(raster: Raster, place: int, pitch: float, jitter: float, stream: Stream) -> None:
    """Draw the dots of a lattice that lie inside a patch: its size is the same at every pitch, and its phase is random."""
    side = raster.values.shape[0]
    left, top = (place % 2) * side / 2 + 0.07 * side, (place // 2) * side / 2 + 0.07 * side
    size, radius = PATCH * side, DOT * side
    ox, oy = (uniform(stream, 0.0, pitch) for _ in "xy")
    cells = int(size / pitch) + 1
    for row in range(cells):
        for column in range(cells):
            x = ox + (column + uniform(stream, -jitter, jitter)) * pitch
            y = oy + (row + uniform(stream, -jitter, jitter)) * pitch
            if 0.0 <= x <= size and 0.0 <= y <= size:
                fill_disc(raster, left + x, top + y, radius, INK)


def draw_density(scene: Scene) -> Images:
    """Draw four jittered lattices, one denser by the share that is asked."""
    raster, pitch = Raster(scene.side, scene.side, PAPER), PITCH * scene.side
    for place in range(4):
        dense = pitch / sqrt(1.0 + scene.value) if place == scene.answer else pitch
        _patch(raster, place, dense, JITTER, scene.stream)
    return (raster.pixels(),)


def draw_regularity(scene: Scene) -> Images:
    """Draw four lattices, one of them jittered by a share of its cell, the others regular."""
    raster, pitch = Raster(scene.side, scene.side, PAPER), PITCH * scene.side
    for place in range(4):
        _patch(raster, place, pitch, scene.value if place == scene.answer else 0.0, scene.stream)
    return (raster.pixels(),)


DENSITY = Attribute(
    name="density",
    unit="share denser",
    about="the share by which one of four patches of dots is denser",
    questions=("Which patch of dots is denser than the others?", "One patch has its dots closer together. Which one?"),
    options=PLACES,
    easy=1.0,
    hard=0.03,
    draw=draw_density,
    people="worse than number (textbook value)",
    confounds=("the number of dots grows with density: patches have one size",),
)
REGULARITY = Attribute(
    name="regularity",
    unit="share of the pitch",
    about="how far the dots of one of four lattices are moved from their places",
    questions=("Which patch of dots is less regular than the others?", "One patch is irregular. Which one?"),
    options=PLACES,
    easy=0.5,
    hard=0.02,
    draw=draw_regularity,
    confounds=("jittered dots may touch at the easiest levels",),
)


BASE_BLUR = 1.0
"""Standard deviation of the blur of all patches, in pixels."""
LETTER_SIZE = 0.16


def blurred(values: Array, sigma: float) -> Array:
    """Return values under a Gaussian of this standard deviation, edges repeated."""
    radius = max(1, int(4 * sigma + 0.5))
    weights = np.exp(-0.5 * (np.arange(-radius, radius + 1) / sigma) ** 2)
    weights /= weights.sum()
    for axis in (0, 1):
        padded = np.pad(values, [(radius, radius) if axis == each else (0, 0) for each in (0, 1)], mode="edge")
        values = np.apply_along_axis(np.convolve, axis, padded, weights, mode="valid")
    return values


def draw_blur(scene: Scene) -> Images:
    """Draw four letters at one blur, one of them blurred further; variances add."""
    side, stream = scene.side, scene.stream
    size = LETTER_SIZE * side
    raster = Raster(side, side, PAPER)
    reach = size * 0.75 + 12.0
    letter = stream.pick(SLOAN)
    for place, (cx, cy) in enumerate(place_centres(side, stream, reach)):
        sigma = float(np.hypot(BASE_BLUR, scene.value)) if place == scene.answer else BASE_BLUR
        left, top = int(cx - reach), int(cy - reach)
        patch = Raster(int(2 * reach), int(2 * reach), PAPER)
        x, y = cx - left - size / 2, cy - top - size / 2
        patch.fill(outline(letter, x, y, size / 5), (x, y, x + size, y + size), INK)
        window = raster.values[top : top + int(2 * reach), left : left + int(2 * reach)]
        window[:] = blurred(patch.values, sigma)[: window.shape[0], : window.shape[1]]
    return (raster.pixels(),)


BLUR = Attribute(
    name="blur",
    unit="px",
    about="the blur of one of four letters, as the standard deviation in pixels over a blur of 1 pixel",
    questions=("Which letter is less sharp than the others?", "One letter is blurred. Which one?"),
    options=PLACES,
    easy=8.0,
    hard=0.1,
    draw=draw_blur,
    confounds=("all letters are blurred by one pixel, so that the raster does not tell",),
)
