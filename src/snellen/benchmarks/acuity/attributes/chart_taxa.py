"""Crest, belt and eye of the chart's creatures: how faint may the mark be that tells class, genus or species?

The questions are those of the embedded model, which knows no others. A name is true, or that of a sibling from which the
creature differs in this mark alone. The other marks keep their full contrast.
"""

from __future__ import annotations

from functools import partial

from snellen.benchmarks.acuity.attribute import Attribute, Images, Scene
from snellen.benchmarks.chart import questions as ask
from snellen.benchmarks.chart import world
from snellen.benchmarks.chart.creatures import wrong
from snellen.benchmarks.chart.world import Dials

SIDE, LEAST_SIDE = 96, 48
"""Pixels: what the embedded model is usually sent, and what it is shown after resizing."""
TYPICAL_WIDTH = 0.8
"""Decades from 5 to 95 % seen: most curves of the embedded model rise slowly. Surveys of 768 answers gave 0.4 to 1.1."""
MARKS = {"crest": "class", "belt": "genus", "eye": "species"}


def faded(value: float) -> int:
    """Return the thousandths by which a mark is moved towards grey for this share of its full contrast."""
    return 1000 - max(1, round(1000 * value))


def draw(mark: str, scene: Scene) -> Images:
    """Draw a creature of which one mark is faded."""
    creature = world.creature(scene.stream)
    fades = [faded(scene.value) if mark == each else 0 for each in MARKS]
    canvas = world.portrait(creature, scene.stream, scene.side, Dials(), marks=(fades[0], fades[1], fades[2]))
    return (world.finished(canvas, scene.stream),)


def worded(mark: str, scene: Scene, wording: int) -> ask.ChartQuestion:
    """Ask whether a name is true: that of the creature, or that of a sibling."""
    creature, level, true = world.creature(scene.stream), MARKS[mark], scene.answer == 0
    name = creature.name(level) if true else wrong(creature, level, scene.stream)
    return ask.truth(level, name, ask.TRUTH_FORMS[wording - 1], true)


def alternatives(mark: str, scene: Scene) -> tuple[str, ...]:
    """Return the creature's name at the mark's level, and that of a sibling from which it differs in this mark alone."""
    creature, level = world.creature(scene.stream), MARKS[mark]
    return creature.name(level), wrong(creature, level, scene.stream)


def _attribute(mark: str, description: str) -> Attribute:
    return Attribute(
        name=f"chart/{mark}",
        unit="contrast",
        about=f"the contrast of a creature's {mark}, {description}, as a share of the full one",
        questions=(f"Is the {MARKS[mark]} of this creature …?", f"The {MARKS[mark]} of this creature is …."),
        options=("yes", "no"),
        easy=1.0,
        hard=0.02,
        draw=partial(draw, mark),
        worded=partial(worded, mark),
        alternatives=partial(alternatives, mark),
        realised=lambda scene: (1000 - faded(scene.value)) / 1000,
        most=4 / 3,
        typical_width=TYPICAL_WIDTH,
        side=SIDE,
        least_side=LEAST_SIDE,
        confounds=("a false name is that of a sibling: the other marks tell nothing, and keep their contrast",),
    )


CREST = _attribute("crest", "which tells the class")
BELT = _attribute("belt", "which tells the genus")
EYE = _attribute("eye", "which tells the species")
