"""Conditions: an attribute, its variant and a side of the picture; and what a user may ask for."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from functools import lru_cache

from msgspec import Struct

from snellen.benchmarks.acuity.attribute import Attribute
from snellen.benchmarks.acuity.attributes import ATTRIBUTES, DEFAULT
from snellen.errors import UsageError
from snellen.scoring.psychometrics.curve import AnswerModel, Shape, forced_choice
from snellen.scoring.psychometrics.estimate import BATCH, MOST, WIDTH
from snellen.scoring.psychometrics.same_different import same_different

SIDE, SMALLEST_SIDE, LARGEST_SIDE = 512, 64, 4096
MOST_CONDITIONS = 400
SURVEY_LEVELS, SURVEY_EACH = 12, 16


class Condition(Struct, frozen=True):
    """One threshold to measure.

    Attributes:
        name: `gap`, `contrast@8`, `colour@a+`.
        attribute: its declaration.
        variant: what follows @; empty without.
        side: of the picture, in pixels.
    """

    name: str
    attribute: Attribute
    variant: str
    side: int

    @property
    def key(self) -> str:
        """Name and side, as ids have them."""
        return f"{self.name}@{self.side}"

    def model(self, shape: Shape, *, abstentions: bool = False) -> AnswerModel:
        """Return how probable each outcome is at each level."""
        attribute = self.attribute
        if attribute.form == "same-different":
            return same_different(attribute.levels)
        return forced_choice(attribute.levels, attribute.guess_rate, shape, abstentions=abstentions)


class AcuityPlan(Struct, frozen=True):
    """What a run measures, and how precisely.

    Attributes:
        conditions: in the order in which they were asked for.
        width: decades of the interval at which a condition stops.
        most: questions of a condition at most; attributes with two options get twice as many.
        shape: of the curve.
        wording: 1 or 2.
        survey: every level equally often instead of the most informative ones.
        sides: how many sides are measured: names have the side behind @ if there are several.
    """

    conditions: tuple[Condition, ...]
    width: float
    most: int
    shape: Shape
    wording: int
    survey: bool
    sides: int

    def limit(self, condition: Condition) -> int:
        """Return the largest number of questions of a condition."""
        if self.survey:
            return SURVEY_LEVELS * SURVEY_EACH
        return self.most * condition.attribute.most

    def label(self, condition: Condition) -> str:
        """Return the condition's name in metrics: with its side where several are measured."""
        return condition.key if self.sides > 1 else condition.name


OPTIONS = {
    "attributes": "conditions by comma: gap, contrast@8, colour@a+; a name alone means all its variants; `all`; `default`",
    "sides": f"sides of the picture in pixels, by comma (default {SIDE})",
    "width": f"decades between the ends of the interval at which a condition stops (default {WIDTH})",
    "most": f"questions of a condition at most (default {MOST}; twice as many with two options)",
    "wording": "wording of the questions, 1 or 2 (default 1)",
    "shape": "shape of the curve: logistic (default), normal, weibull",
    "design": "adaptive (default), or constant: 12 levels, 16 questions each",
}


def names() -> list[str]:
    """Return all names of conditions."""
    return [
        f"{attribute.name}@{variant}" if variant else attribute.name
        for attribute in ATTRIBUTES.values()
        for variant in attribute.variants
    ]


@lru_cache(maxsize=32)
def _plan(options: tuple[tuple[str, str], ...]) -> AcuityPlan:
    texts = dict(options)
    sides = [_whole("sides", text, SMALLEST_SIDE, LARGEST_SIDE) for text in texts.get("sides", str(SIDE)).split(",")]
    if len(set(sides)) != len(sides):
        raise UsageError(f"-o sides={texts['sides']}: one side stands there twice", "Name each side once.")
    chosen = _chosen(texts.get("attributes", "default"))
    if len(chosen) * len(sides) > MOST_CONDITIONS:
        raise UsageError(
            f"{len(chosen)} conditions at {len(sides)} sides are more than {MOST_CONDITIONS}", "Name fewer attributes."
        )
    conditions = tuple(
        Condition(name, ATTRIBUTES[name.partition("@")[0]], name.partition("@")[2], side)
        for side in sides
        for name in chosen
    )
    shape = texts.get("shape", "logistic")
    if shape not in ("logistic", "normal", "weibull"):
        raise UsageError(f"-o shape={shape}: there is no such curve", "Shapes: logistic, normal, weibull.")
    design = texts.get("design", "adaptive")
    if design not in ("adaptive", "constant"):
        raise UsageError(f"-o design={design}: there is no such design", "Designs: adaptive, constant.")
    return AcuityPlan(
        conditions,
        _number("width", texts.get("width", str(WIDTH)), 0.02, 2.0),
        -(-_whole("most", texts.get("most", str(MOST)), BATCH, 10_000) // BATCH) * BATCH,
        shape,  # type: ignore[arg-type]
        _whole("wording", texts.get("wording", "1"), 1, 2),
        design == "constant",
        len(sides),
    )


def plan(options: Mapping[str, str]) -> AcuityPlan:
    """Return what the options of a run ask for.

    Raises:
        UsageError: an option has a value that it cannot have.
    """
    return _plan(tuple(sorted(options.items())))


def _chosen(text: str) -> list[str]:
    known = names()
    chosen: dict[str, None] = {}
    for word in (part.strip() for part in text.split(",")):
        if word == "default":
            matching = list(DEFAULT)
        elif word == "all":
            matching = known
        else:
            matching = [name for name in known if name == word or name.partition("@")[0] == word]
        if not matching:
            near = difflib.get_close_matches(word, [*known, *ATTRIBUTES], n=1)
            meant = f" Did you mean {near[0]}?" if near else ""
            raise UsageError(
                f"there is no attribute {word!r}", f"Attributes: {', '.join(ATTRIBUTES)}; or all, default.{meant}"
            )
        chosen |= dict.fromkeys(matching)
    return list(chosen)


def _whole(name: str, text: str, low: int, high: int) -> int:
    text = text.strip()
    if not re.fullmatch(r"[0-9]{1,6}", text) or not low <= int(text) <= high:
        raise UsageError(f"-o {name}: found {text!r}; expected a whole number of {low} to {high}")
    return int(text)


def _number(name: str, text: str, low: float, high: float) -> float:
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not low <= value <= high:
        raise UsageError(f"-o {name}: found {text!r}; expected a number of {low:g} to {high:g}")
    return value
