"""The declaration of an acuity attribute: what is drawn, what is asked, and at which levels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from math import log10
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from snellen.benchmarks.chart.questions import ChartQuestion
from snellen.benchmarks.chart.rng import Stream, uniform
from snellen.scoring.psychometrics.curve import TYPICAL_WIDTH

Form: TypeAlias = Literal["choice", "written", "same-different"]
Pixels: TypeAlias = NDArray[np.uint8]
Images: TypeAlias = tuple[Pixels, ...]
"""One picture, two, or the frames of a clip: [height, width] or [height, width, 3] code values each."""

PAPER, INK, GREY = 255.0, 0.0, 119.0
STEP = 0.05
"""Decades between neighbouring candidate levels."""
SIDE, LEAST_SIDE = 512, 64
"""Sides of a picture in pixels: the usual one, and the smallest."""
DECIMALS = 4
"""Decimals of a level in an id."""


@dataclass(frozen=True)
class Scene:
    """What one picture is drawn from.

    Attributes:
        value: the physical level, in the attribute's unit; of an equal pair 0.
        answer: index of the right option; of a same-or-different question 0 for different, 1 for same.
        stream: draws places, phases, colours and distractors.
        side: of the picture, in pixels.
        variant: what follows @ in the condition's name; empty without.
        scale: a length from another condition, such as the gap of the ring that `spacing` surrounds; 0 without.
    """

    value: float
    answer: int
    stream: Stream
    side: int
    variant: str = ""
    scale: float = 0.0


@dataclass(frozen=True)
class Attribute:
    """One attribute of sight, and how it is asked about.

    Attributes:
        name: as users type it.
        unit: of its levels.
        about: what is varied, for people who have never heard of psychophysics.
        questions: two wordings of the question.
        options: texts of the options; empty where the answer is written.
        form: one right option, a written answer, or whether two pictures differ.
        easy, hard: ends of the range, in the unit.
        draw: draws a scene.
        images: how many pictures or frames it draws.
        realised: the level that the pixels have, where they allow only some; None: the level that was asked.
        written: the right answer of a written question.
        variants: names of its conditions behind @; one empty name where there is one condition.
        values: the levels that can be drawn, where they are not continuous.
        guess: share of right guesses of a written answer.
        clip: the images are frames of a clip.
        scaled_by: the attribute whose threshold is the scale of this one's pictures; empty: none.
        scale: times that threshold, and pixels where it is not known.
        most: factor on the largest number of questions: two options need more of them.
        typical_width: of its curves from 5 to 95 % seen, in decades: the centre of the prior.
        worded: words a question whose text depends on the scene (scene, wording 1 or 2), with its options and right answer;
            `questions` then only describe it.
        alternatives: the names between which the picture decides, the right one first, where they are not the options; for
            readouts of the picture without words.
        exemplar: the number of the picture's exemplar, such as a scan; None: all is drawn anew. Readouts are trained and
            tested on different ones.
        side, least_side: of the picture unless the user names one, and the smallest, in pixels.
        people: what people see, with source; empty: not known.
        confounds: what else changes with the level, and what is done about it.
    """

    name: str
    unit: str
    about: str
    questions: tuple[str, str]
    options: tuple[str, ...]
    easy: float
    hard: float
    draw: Callable[[Scene], Images]
    images: int = 1
    form: Form = "choice"
    variants: tuple[str, ...] = ("",)
    values: tuple[float, ...] = ()
    guess: float = 0.0
    realised: Callable[[Scene], float] | None = None
    written: Callable[[Scene], str] | None = None
    clip: bool = False
    scaled_by: str = ""
    scale: tuple[float, float] = (0.0, 0.0)
    most: float = 1
    typical_width: float = TYPICAL_WIDTH
    worded: Callable[[Scene, int], ChartQuestion] | None = None
    alternatives: Callable[[Scene], tuple[str, ...]] | None = None
    exemplar: Callable[[Scene], int] | None = None
    side: int = SIDE
    least_side: int = LEAST_SIDE
    people: str = ""
    confounds: tuple[str, ...] = ()

    @property
    def sign(self) -> int:
        """1 where a larger level is easier, -1 where a smaller one is."""
        return 1 if self.easy > self.hard else -1

    @property
    def guess_rate(self) -> float:
        """The share of right guesses."""
        return 1 / len(self.options) if self.form == "choice" else self.guess

    def level(self, value: float) -> float:
        """Return log10 of a physical level, turned so that more is easier."""
        return self.sign * log10(value)

    def value(self, level: float) -> float:
        """Return the physical level."""
        return float(10.0 ** (self.sign * level))

    @cached_property
    def levels(self) -> tuple[float, ...]:
        """The candidate levels, rising: every 0.05 decades, or those that can be drawn."""
        if self.values:
            return tuple(sorted(round(self.level(value), DECIMALS) for value in self.values))
        low, high = self.level(self.hard), self.level(self.easy)
        steps = max(2, round((high - low) / STEP))
        return tuple(round(low + (high - low) * step / steps, DECIMALS) for step in range(steps + 1))


DIRECTIONS = ("right", "lower right", "bottom", "lower left", "left", "upper left", "top", "upper right")
"""Eight directions, clockwise from the right: 45 degrees each, y downwards."""
PLACES = ("top left", "top right", "bottom left", "bottom right")


def place_centres(side: int, stream: Stream, radius: float) -> list[tuple[float, float]]:
    """Return the centres of the four places, each moved at random within its quarter so that `radius` stays inside."""
    quarter = side / 2
    room = max(0.0, quarter / 2 - radius - 2.0)
    return [
        (
            quarter * (column + 0.5) + uniform(stream, -room, room),
            quarter * (row + 0.5) + uniform(stream, -room, room),
        )
        for row in (0, 1)
        for column in (0, 1)
    ]


def somewhere(side: int, stream: Stream, radius: float) -> tuple[float, float]:
    """Return a centre at random, at sub-pixel steps, so that a circle around it lies inside the picture."""
    room = max(radius + 2.0, 0.0)
    low, high = min(room, side / 2), max(side - room, side / 2)
    return uniform(stream, low, high), uniform(stream, low, high)
