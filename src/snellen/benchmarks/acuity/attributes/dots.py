"""Dots: which of two clouds has more, and how many there are, to be written down."""

from __future__ import annotations

from math import sqrt

from snellen.benchmarks.acuity.attribute import INK, PAPER, Attribute, Images, Scene
from snellen.benchmarks.acuity.drawing import Raster, fill_disc
from snellen.benchmarks.chart.rng import Stream, uniform

TRIES = 4000


def counts_of(ratio: float, stream: Stream) -> tuple[int, int]:
    """Return the smaller and the larger number, 20 to 60 together, whose ratio is next to 1 + `ratio`."""
    pairs = [
        (abs((more / fewer - 1.0) / ratio - 1.0), fewer, more)
        for fewer in range(5, 30)
        for more in range(fewer + 1, 56)
        if 20 <= fewer + more <= 60
    ]
    best = min(pair[0] for pair in pairs)
    near = sorted(pair[1:] for pair in pairs if pair[0] <= best + 0.02)
    return stream.pick(near)


def scatter(
    number: int, radius: float, box: tuple[float, float, float, float], stream: Stream
) -> list[tuple[float, float]]:
    """Return centres of dots that do not touch, at random in a box (left, top, right, bottom).

    Raises:
        ValueError: they do not fit.
    """
    centres: list[tuple[float, float]] = []
    for _ in range(TRIES):
        if len(centres) == number:
            return centres
        x, y = uniform(stream, box[0] + radius, box[2] - radius), uniform(stream, box[1] + radius, box[3] - radius)
        if all((x - ox) ** 2 + (y - oy) ** 2 > (2.0 * radius + 2.0) ** 2 for ox, oy in centres):
            centres.append((x, y))
    raise ValueError(f"{number} dots of radius {radius:g} do not fit")


def realised(scene: Scene) -> float:
    """Return the share by which the larger number of a scene is larger."""
    fewer, more = counts_of(scene.value, scene.stream)
    return more / fewer - 1.0


def draw_number(scene: Scene) -> Images:
    """Draw two clouds side by side; half of the pictures have dots of one size, half have one area in sum."""
    side, stream = scene.side, scene.stream
    fewer, more = counts_of(scene.value, stream)
    numbers = (fewer, more) if scene.answer == 1 else (more, fewer)
    equal_area, base = stream.below(2), 0.016 * side
    raster = Raster(side, side, PAPER)
    for half, number in enumerate(numbers):
        radius = base * sqrt(fewer / number) if equal_area else base
        left = half * side / 2
        for cx, cy in scatter(number, radius, (left + 4, 4, left + side / 2 - 4, side - 4), stream):
            fill_disc(raster, cx, cy, radius, INK)
    raster.bar(side / 2 - 0.5, 0, side / 2 + 0.5, side, 190.0)
    return (raster.pixels(),)


NUMBER = Attribute(
    name="number",
    unit="share more",
    about="the share by which one cloud of dots has more than the other",
    questions=("Which half has more dots?", "On which side are there more dots?"),
    options=("left", "right"),
    easy=2.0,
    hard=0.03,
    draw=draw_number,
    realised=realised,
    most=2,
    people="Weber fraction .1 to .6, depending on the generator (Guillaume & Van Rinsveld 2018)",
    confounds=("half of the pictures have equal dots, half an equal area in sum, so that ink alone does not tell",),
)


NUMBERS = tuple(float(number) for number in range(2, 41))
"""Levels: less is easier. One dot is left out, because its answer tells of no counting."""


def draw_count(scene: Scene) -> Images:
    """Draw dots that do not touch, of one random size."""
    side, number = scene.side, round(scene.value)
    radius = uniform(scene.stream, 0.012, 0.022) * side
    raster = Raster(side, side, PAPER)
    for cx, cy in scatter(number, radius, (4, 4, side - 4, side - 4), scene.stream):
        fill_disc(raster, cx, cy, radius, INK)
    return (raster.pixels(),)


COUNT = Attribute(
    name="count",
    unit="dots",
    about="the number of dots, to be counted exactly",
    questions=(
        "How many dots does the picture show? Answer with the number.",
        "Count the dots. Answer with one number.",
    ),
    options=(),
    form="written",
    easy=2.0,
    hard=40.0,
    draw=draw_count,
    written=lambda scene: str(round(scene.value)),
    values=NUMBERS,
    people="up to 4 at a glance (subitizing)",
    confounds=("dots do not touch, and their size is random",),
)
