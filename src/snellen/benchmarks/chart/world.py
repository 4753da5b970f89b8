"""The creatures' world: an invented taxonomy, attributes, and how a creature, a scene and a clip are drawn.

Every level of the taxonomy shows as the colour of one part, and the parts shrink with depth: the class is the large
crest, the genus (within its class) the belt, the species (within its genus) the small eye. So the finer the question,
the sharper the eye that it takes. Colour, shape, size, texture and the number of legs vary freely.
"""

from __future__ import annotations

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from snellen.benchmarks.chart.drawing import Canvas, Colour, Pixels, disc, square, triangle
from snellen.benchmarks.chart.rng import Stream

CLASSES = ("velid", "morid", "sarid")
GENERA = (("tarsa", "quillo", "brenta"), ("ostra", "fennix", "galora"), ("pindra", "lussa", "corvex"))
EPITHETS = ("maris", "silva", "montana")
LEVELS = ("class", "genus", "species")

COLOURS: dict[str, Colour] = {
    "red": (210, 40, 45),
    "orange": (240, 135, 25),
    "yellow": (235, 215, 55),
    "green": (45, 155, 60),
    "blue": (50, 90, 215),
    "purple": (140, 60, 180),
    "pink": (245, 150, 190),
    "brown": (125, 80, 45),
}
SHAPES = ("round", "square", "triangular")
SIZES = ("small", "medium", "large")
TEXTURES = ("plain", "striped", "spotted")
LEGS = (2, 3, 4)
ATTRIBUTES: dict[str, tuple[str, ...]] = {
    "colour": tuple(COLOURS),
    "shape": SHAPES,
    "size": SIZES,
    "texture": TEXTURES,
}
BACKGROUNDS: tuple[Colour, ...] = ((224, 205, 160), (128, 132, 126), (70, 80, 104))
MARKS: tuple[Colour, ...] = ((250, 250, 250), (14, 14, 14), (60, 225, 235))
MARK_NAMES = ("white", "black", "cyan")
LEG_COLOUR: Colour = (48, 36, 30)
_RADII = (170, 225, 280)
_GREY: Colour = (128, 128, 128)

BODY, CREST, BELT, EYE, LEG = 1, 2, 3, 4, 5


class Dials(Struct, frozen=True):
    """The size of each difference, in thousandths: 0 is the plain chart, 1000 leaves no difference at all.

    `taxa` is the contrast of the marks that tell class, genus and species; `colour` that of the bodies; `shape` bends
    every body towards a disc; `size` draws the sizes together; `texture` fades it; `count` lets the bodies' sizes
    vary; `place` brings two creatures closer; `depth` does so for near and far; `motion` shortens the way.
    """

    taxa: int = 0
    colour: int = 0
    shape: int = 0
    size: int = 0
    texture: int = 0
    count: int = 0
    place: int = 0
    depth: int = 0
    motion: int = 0


class Creature(Struct, frozen=True):
    """A creature, as indices into the tables above."""

    klass: int
    genus: int
    species: int
    colour: int
    shape: int
    size: int
    texture: int
    legs: int
    background: int

    def name(self, level: str) -> str:
        """Return the creature's name at a level, or its attribute of that name."""
        genus = GENERA[self.klass][self.genus]
        return {
            "class": CLASSES[self.klass],
            "genus": genus,
            "species": f"{genus} {EPITHETS[self.species]}",
            "colour": tuple(COLOURS)[self.colour],
            "shape": SHAPES[self.shape],
            "size": SIZES[self.size],
            "texture": TEXTURES[self.texture],
        }[level]


def creature(stream: Stream, taxon: int | None = None) -> Creature:
    """Return a creature at random; `taxon` (0 to 26) fixes class, genus and species."""
    taxon = stream.below(27) if taxon is None else taxon
    return Creature(
        klass=taxon // 9,
        genus=taxon // 3 % 3,
        species=taxon % 3,
        colour=stream.below(len(COLOURS)),
        shape=stream.below(3),
        size=stream.below(3),
        texture=stream.below(3),
        legs=stream.below(3),
        background=stream.below(3),
    )


def blended(colour: Colour, other: Colour, thousandths: int) -> Colour:
    """Return the colour, moved towards the other by so many thousandths of the way."""
    red, green, blue = (a + (b - a) * thousandths // 1000 for a, b in zip(colour, other, strict=True))
    return red, green, blue


def _outline(shape: int, radius: int, bend: int) -> NDArray[np.int64]:
    round_, own = disc(radius), (disc, square, triangle)[shape](radius)
    return (own * (1000 - bend) + round_ * bend) // 1000


def _body(canvas: Canvas, who: Creature, cx: int, cy: int, radius: int, dials: Dials, part: int) -> None:
    colour = blended(tuple(COLOURS.values())[who.colour], _GREY, dials.colour)
    mask = canvas.spans(cx, cy, _outline(who.shape, canvas.scaled(radius), dials.shape), colour, part)
    if who.texture == 0:
        return
    rows, columns = np.nonzero(mask)
    x, y = columns - canvas.scaled(cx) + canvas.size, rows - canvas.scaled(cy) + canvas.size
    if who.texture == 1:
        dark = x * 1000 // (canvas.size * 46) % 2 == 1
    else:
        pitch, dot = max(canvas.scaled(104), 2), canvas.scaled(31)
        dark = (x % pitch - pitch // 2) ** 2 + (y % pitch - pitch // 2) ** 2 <= dot * dot
    canvas.pixels[rows[dark], columns[dark]] = blended(blended(colour, (0, 0, 0), 500), colour, dials.texture)


def portrait(
    who: Creature, stream: Stream, size: int, dials: Dials, *, marks: tuple[int, int, int] | None = None
) -> Canvas:
    """Return one creature, large, with all its parts, drawn on a canvas [size, size].

    `marks` fades crest, belt and eye by so many thousandths each, in place of the dial `taxa`.
    """
    canvas = Canvas(size, BACKGROUNDS[who.background])
    middle = _RADII[1]
    radius = (middle + (_RADII[who.size] - middle) * (1000 - dials.size) // 1000) * stream.between(960, 1040) // 1000
    cx, cy = stream.between(430, 570), stream.between(505, 570)
    crest, belt, eye = (
        blended(MARKS[value], _GREY, fade)
        for value, fade in zip((who.klass, who.genus, who.species), marks or (dials.taxa,) * 3, strict=True)
    )
    canvas.block(cx - radius * 62 // 100, cy - radius * 3 // 2, cx + radius * 62 // 100, cy, crest, CREST)
    count = LEGS[who.legs]
    for leg in range(count):
        x = cx + (2 * leg - count + 1) * 46
        canvas.block(x - 28, cy + radius * 9 // 10, x + 28, cy + radius + 95, LEG_COLOUR, LEG)
    _body(canvas, who, cx, cy, radius, dials, BODY)
    box = (cx - radius * 7 // 10, cy + radius * 32 // 100, cx + radius * 7 // 10, cy + radius * 74 // 100)
    canvas.block(*box, belt, BELT)
    canvas.spans(cx, cy - radius * 18 // 100, disc(canvas.scaled(radius * 10 // 100)), eye, EYE)
    return canvas


class Placed(Struct, frozen=True):
    """A creature's body in a scene; cx, cy and radius in thousandths of the side."""

    who: Creature
    cx: int
    cy: int
    radius: int


def crowd(stream: Stream, count: int, dials: Dials) -> list[Placed]:
    """`count` (1 to 9) bodies that do not touch: each keeps to its own cell of a 3 x 3 grid."""
    out = []
    for cell in stream.sample(range(9), count):
        radius = 100 - stream.below(51) * dials.count // 1000
        cx, cy = (333 * step + 167 + stream.between(-50, 50) for step in (cell % 3, cell // 3))
        out.append(Placed(creature(stream), cx, cy, radius))
    return out


def couple(stream: Stream, right: bool, below: bool, nearer: bool, dials: Dials) -> list[Placed]:
    """Two bodies of different colours. The flags say where the first is, seen from the second.

    They differ along both axes by at least 270 thousandths of the side (less with the dial `place`), and the nearer
    one is drawn larger, as all creatures are equally tall.
    """
    first, second = creature(stream), creature(stream)
    while second.colour == first.colour:
        second = creature(stream)
    near_radius, far_radius = 115 + 30 * (1000 - dials.depth) // 1000, 115 - 30 * (1000 - dials.depth) // 1000
    gaps = [stream.between(270, 420) * (1000 - dials.place) // 1000 for _ in range(2)]
    middle = [stream.between(400, 600) for _ in range(2)]
    signs = (1 if right else -1, 1 if below else -1)
    return [
        Placed(
            who,
            min(max(middle[0] + side * signs[0] * gaps[0] // 2, 160), 840),
            min(max(middle[1] + side * signs[1] * gaps[1] // 2, 160), 840),
            near_radius if nearer == (side == 1) else far_radius,
        )
        for who, side in ((first, 1), (second, -1))
    ]


DIRECTIONS = {"left": (-1, 0), "right": (1, 0), "up": (0, -1), "down": (0, 1)}


def walk(stream: Stream, direction: str, frames: int, dials: Dials) -> list[Placed]:
    """Return one body in so many frames, moving on by a sixth of the side a frame (less with the dial `motion`)."""
    who, across = creature(stream), stream.between(250, 750)
    step = 170 * (1000 - dials.motion) // 1000
    start = 500 - step * (frames - 1) // 2 + stream.between(-60, 60)
    dx, dy = DIRECTIONS[direction]
    out = []
    for frame in range(frames):
        along = start + step * frame
        along = along if dx + dy > 0 else 1000 - along
        out.append(Placed(who, along if dx else across, along if dy else across, 120))
    return out


def scene(placed: list[Placed], background: int, size: int, dials: Dials) -> Canvas:
    """Bodies on a background, drawn on a canvas [size, size]; `parts` is 16 x (1 + index) + BODY."""
    canvas = Canvas(size, BACKGROUNDS[background])
    for index, body in enumerate(placed):
        _body(canvas, body.who, body.cx, body.cy, body.radius, dials, 16 * (index + 1) + BODY)
    return canvas


def finished(canvas: Canvas, stream: Stream) -> Pixels:
    """Return the image as it is shown, with a brightness of 86 to 110 per cent and grain: [size, size, 3]."""
    return canvas.finished(stream, stream.between(86, 110))
