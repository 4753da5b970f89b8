"""Conditions: an attribute, its variant and a side of the picture; and what a user may ask for."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from functools import lru_cache
from math import ceil
from typing import Literal, TypeAlias

from msgspec import Struct

from snellen.benchmarks.acuity.attribute import SIDE, Attribute
from snellen.benchmarks.acuity.attributes import ATTRIBUTES, CHART_ATTRIBUTES, DEFAULT, EVERY_ATTRIBUTE
from snellen.errors import UsageError
from snellen.scoring.psychometrics.curve import AnswerModel, Shape, forced_choice, same_different
from snellen.scoring.psychometrics.estimate import BATCH, LEAST, MOST, WIDTH

SMALLEST_SIDE, LARGEST_SIDE = 48, 4096
CHART = "chart"
MOST_CONDITIONS = 400
SURVEY_LEVELS, SURVEY_EACH = 12, 16
Design: TypeAlias = Literal["adaptive", "constant", "like"]
DESIGNS: tuple[Design, ...] = ("adaptive", "constant", "like")


class Condition(Struct, frozen=True):
    """One threshold to measure.

    Attributes:
        name: `gap`, `contrast@8`, `colour@a+`.
        attribute: its declaration.
        variant: what follows @; empty without.
        side: of the picture, in pixels.
        through: what is done to its pictures on their way to the model; empty: nothing.
    """

    name: str
    attribute: Attribute
    variant: str
    side: int
    through: str = ""

    @property
    def key(self) -> str:
        """Name and side, as ids have them."""
        return self.key_of(self.name)

    def key_of(self, name: str) -> str:
        """Return the key of another condition whose pictures have the same side and go the same way."""
        return f"{name}@{self.side}{self._suffix}"

    @property
    def title(self) -> str:
        """The name in metrics of a run with one side."""
        return f"{self.name}{self._suffix}"

    @property
    def _suffix(self) -> str:
        return f"+{self.through}" if self.through else ""

    def model(self, shape: Shape, *, abstentions: bool = False) -> AnswerModel:
        """Return how probable each outcome is at each level."""
        attribute = self.attribute
        if attribute.form == "same-different":
            return same_different(attribute.levels)
        return forced_choice(
            attribute.levels,
            attribute.guess_rate,
            shape,
            abstentions=abstentions,
            typical_width=attribute.typical_width,
        )


class AcuityPlan(Struct, frozen=True):
    """What a run measures, and how precisely.

    Attributes:
        conditions: in the order in which they were asked for.
        width: decades of the interval at which a condition stops.
        most: questions of a condition at most; attributes with two options get twice as many. In a constant design: all.
        shape: of the curve.
        wording: 1 or 2.
        design: adaptive; constant: every level equally often; like: the very questions of another run.
        sides: how many sides are measured: names have the side behind @ if there are several.
    """

    conditions: tuple[Condition, ...]
    width: float
    most: int
    shape: Shape
    wording: int
    design: Design
    sides: int

    @property
    def survey(self) -> bool:
        """True if every level is asked equally often."""
        return self.design == "constant"

    @property
    def fixed(self) -> bool:
        """True if a condition asks all its questions, whatever the answers."""
        return self.design != "adaptive"

    def limit(self, condition: Condition) -> int:
        """Return the largest number of questions of a condition."""
        if self.survey:
            return self.most
        return ceil(self.most * condition.attribute.most / BATCH) * BATCH

    def label(self, condition: Condition) -> str:
        """Return the condition's name in metrics: with its side where several are measured."""
        return condition.key if self.sides > 1 else condition.title


USUAL_QUESTIONS = {2: 128, 4: 73}
"""Questions for an interval of 0.2 decades by number of options, in the mean of simulated observers; else 56."""


def expected_questions(acuity_plan: AcuityPlan, condition: Condition) -> int:
    """Return how many questions a condition is expected to ask: as many times more as the interval squared is smaller."""
    if acuity_plan.fixed:
        return acuity_plan.limit(condition)
    usual = USUAL_QUESTIONS.get(len(condition.attribute.options), 56) * (WIDTH / acuity_plan.width) ** 2
    return min(acuity_plan.limit(condition), max(LEAST, ceil(usual / BATCH) * BATCH))


OPTIONS = {
    "attributes": "conditions by comma: gap, contrast@8, colour@a+; a name alone means all its variants; `default`, "
    "`all`, `chart`",
    "sides": f"sides of the picture in pixels, by comma (default {SIDE}; 96 for chart)",
    "width": f"decades between the ends of the interval at which a condition stops (default {WIDTH})",
    "most": f"questions of a condition at most (default {MOST}; twice as many with two options)",
    "wording": "wording of the questions, 1 or 2 (default 1)",
    "shape": "shape of the curve: logistic (default), normal, weibull",
    "through": "yes: measure through --image-format, --corrupt, --max-long-side, --max-pixels or --blank-images, which are "
    "else refused",
    "design": "adaptive (default); constant: 12 levels, 16 questions each; like: the questions of the run --data",
}


def names() -> list[str]:
    """Return the names of all conditions but those of the chart."""
    return [
        f"{attribute.name}@{variant}" if variant else attribute.name
        for attribute in ATTRIBUTES.values()
        for variant in attribute.variants
    ]


@lru_cache(maxsize=32)
def _plan(options: tuple[tuple[str, str], ...]) -> AcuityPlan:
    texts = dict(options)
    sides = (
        [_whole("sides", text, SMALLEST_SIDE, LARGEST_SIDE) for text in texts["sides"].split(",")]
        if "sides" in texts
        else []
    )
    if len(set(sides)) != len(sides):
        raise UsageError(f"--sides {texts['sides']}: one side stands there twice", "Name each side once.")
    chosen = _chosen(texts.get("attributes", "default"))
    if len(chosen) * max(1, len(sides)) > MOST_CONDITIONS:
        raise UsageError(
            f"{len(chosen)} conditions at {len(sides)} sides are more than {MOST_CONDITIONS}", "Name fewer attributes."
        )
    through = "" if texts.get("through") == "yes" else texts.get("through", "")
    if not re.fullmatch(r"([a-z0-9.+-]{1,200})?", through):
        raise UsageError(f"through={through}: expected yes")
    conditions = tuple(_condition(name, side, through) for side in (sides or (None,)) for name in chosen)
    shape = texts.get("shape", "logistic")
    if shape not in ("logistic", "normal", "weibull"):
        raise UsageError(f"--shape {shape}: there is no such curve", "Shapes: logistic, normal, weibull.")
    design = texts.get("design", "adaptive")
    if design not in DESIGNS:
        raise UsageError(f"--design {design}: there is no such design", "Designs: adaptive, constant.")
    usual = SURVEY_LEVELS * SURVEY_EACH if design == "constant" else MOST
    return AcuityPlan(
        conditions,
        _number("width", texts.get("width", str(WIDTH)), 0.02, 2.0),
        -(-_whole("most", texts.get("most", str(usual)), BATCH, 10_000) // BATCH) * BATCH,
        shape,  # type: ignore[arg-type]
        _whole("wording", texts.get("wording", "1"), 1, 2),
        design,
        max(1, len(sides)),
    )


def _condition(name: str, side: int | None, through: str) -> Condition:
    attribute = EVERY_ATTRIBUTE[name.partition("@")[0]]
    side = attribute.side if side is None else side
    if side < attribute.least_side:
        raise UsageError(
            f"--sides {side}: {attribute.name} needs at least {attribute.least_side} pixels", "Name a larger side."
        )
    return Condition(name, attribute, name.partition("@")[2], side, through)


def plan(options: Mapping[str, str]) -> AcuityPlan:
    """Return what the options of a run ask for.

    Raises:
        UsageError: an option has a value that it cannot have.
    """
    return _plan(tuple(sorted(options.items())))


def _chosen(text: str) -> list[str]:
    known_names = names()
    chosen: dict[str, None] = {}
    for word in (part.strip() for part in text.split(",")):
        if word == "default":
            matching = list(DEFAULT)
        elif word == "all":
            matching = known_names
        elif word in (CHART, f"{CHART}/*"):
            matching = list(CHART_ATTRIBUTES)
        else:
            matching = [name for name in (*known_names, *CHART_ATTRIBUTES) if word in (name, name.partition("@")[0])]
        if not matching:
            near = difflib.get_close_matches(word, [*known_names, *EVERY_ATTRIBUTE], n=1)
            meant = f" Did you mean {near[0]}?" if near else ""
            raise UsageError(
                f"there is no attribute {word!r}",
                f"Attributes: {', '.join(ATTRIBUTES)}; or default, all, or chart for the embedded model.{meant}",
            )
        chosen |= dict.fromkeys(matching)
    return list(chosen)


def _whole(name: str, text: str, low: int, high: int) -> int:
    text = text.strip()
    if not re.fullmatch(r"[0-9]{1,6}", text) or not low <= int(text) <= high:
        raise UsageError(f"--{name}: found {text!r}; expected a whole number of {low} to {high}")
    return int(text)


def _number(name: str, text: str, low: float, high: float) -> float:
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not low <= value <= high:
        raise UsageError(f"--{name}: found {text!r}; expected a number of {low:g} to {high:g}")
    return value
