"""Questions of acuity: an id says everything, and a question is drawn from it and the seed alone.

An id is `gap@512/r003/q5/x+0.6021`: condition, round, slot, level in decades. An equal pair has `same` in place of the
level. A picture that is scaled by another threshold has that length behind it: `.../x+1.2000/s6.40`. Pictures that are
changed on their way to the model have that in the condition: `gap@512+jpeg-90/...` (snellen.benchmarks.acuity.through).
"""

from __future__ import annotations

import re
from functools import lru_cache, partial

from msgspec import Struct

from snellen.benchmarks.acuity.attribute import DECIMALS, Attribute, Scene
from snellen.benchmarks.acuity.attributes import EVERY_ATTRIBUTE
from snellen.benchmarks.acuity.conditions import AcuityPlan, Condition, plan
from snellen.benchmarks.acuity.drawing import png
from snellen.benchmarks.base import Data
from snellen.benchmarks.chart.questions import ChartQuestion
from snellen.benchmarks.chart.rng import Stream
from snellen.media import FRAMES
from snellen.scoring.psychometrics.curve import EQUAL_PAIR
from snellen.scoring.psychometrics.estimate import BATCH
from snellen.sources.blobs import Drawn
from snellen.text import shorten
from snellen.types import Image, Kind, Part, Pick, Prompt, Sample, Text, Video

VERSION = "1"
LONGEST_ID = 200
"""Characters of an unknown id in a message."""
ROUNDING = 10**-DECIMALS
"""Decades by which the level in an id may differ from a level that can be drawn."""
LETTERS = "ABCDEFGHIJ"
SAME = "same"
QUESTIONS = 4096
"""Questions that are kept: those that are open are asked for again whenever a round opens. They hold no pictures."""
_ID = re.compile(
    r"([^@/]+(?:/[^@/]+)?(?:@[^@/]+)?)@([0-9]{1,6})((?:\+[a-z0-9.+-]+)?)/r([0-9]{3,4})/q([0-7])"
    r"/(same|x[+-][0-9]{1,3}\.[0-9]{4})(?:/s([0-9]{1,5}\.[0-9]{2}))?"
)


class QuestionPlace(Struct, frozen=True):
    """Where a question stands: its condition's key, round, slot, level in decades, and scale (0 without)."""

    key: str
    round: int
    slot: int
    level: float
    scale: float = 0.0

    @property
    def level_text(self) -> str:
        """The level as the samples' meta has it; `same` of an equal pair."""
        return SAME if self.level == EQUAL_PAIR else f"{self.level:.{DECIMALS}f}"

    @property
    def id(self) -> str:
        """The question's id."""
        level = SAME if self.level == EQUAL_PAIR else f"x{self.level:+.{DECIMALS}f}"
        scale = f"/s{self.scale:.2f}" if self.scale else ""
        return f"{self.key}/r{self.round:03}/q{self.slot}/{level}{scale}"


@lru_cache(maxsize=1 << 16)
def place_of(sample_id: str) -> QuestionPlace:
    """Read an id.

    Raises:
        ValueError: it is none.
    """
    match = _ID.fullmatch(sample_id)
    if match is None:
        raise ValueError(f"{shorten(repr(sample_id), LONGEST_ID)} is no question of acuity")
    name, side, through, number, slot, level, scale = match.groups()
    value = EQUAL_PAIR if level == SAME else float(level[1:])
    place = QuestionPlace(f"{name}@{side}{through}", int(number), int(slot), value, float(scale or 0))
    if place.id != sample_id:  # two ids of one question would count it twice
        raise ValueError(f"{sample_id!r} is no question of acuity; {place.id!r} is one")
    return place


@lru_cache(maxsize=QUESTIONS)
def _balanced(seed: int, key: str, number: int, quantity: str, values: int) -> list[int]:
    """[8] integers below `values` for a round, each as often as the others to within one, in random order."""
    stream = Stream("acuity", seed, key, str(number), quantity)
    order = stream.shuffled(range(values))
    return stream.shuffled([order[slot % values] for slot in range(BATCH)])


class _DrawnQuestion(Struct, frozen=True):
    """What is drawn for one question; both parts are drawn from the id, so that a picture is never repeated."""

    condition: Condition
    place: QuestionPlace
    seed: int

    def stream(self, *purpose: str) -> Stream:
        return Stream("acuity", self.seed, *purpose)

    def balanced(self, quantity: str, values: int) -> int:
        """Return this slot's value: balanced within the condition and the round."""
        return _balanced(self.seed, self.place.key, self.place.round, quantity, values)[self.place.slot]

    @property
    def answer(self) -> int:
        attribute = self.condition.attribute
        if attribute.form == "same-different":
            return 1 if self.place.level == EQUAL_PAIR else 0
        return self.balanced("answers", len(attribute.options)) if attribute.options else 0

    def scene(self) -> Scene:
        """Return the scene with a stream at its beginning."""
        condition, place = self.condition, self.place
        value = 0.0 if place.level == EQUAL_PAIR else condition.attribute.value(place.level)
        return Scene(value, self.answer, self.stream(place.id), condition.side, condition.variant, place.scale)

    def level(self) -> float:
        """Return the level in decades that the pixels have."""
        attribute = self.condition.attribute
        if attribute.realised is None or self.place.level == EQUAL_PAIR:
            return self.place.level
        return attribute.level(attribute.realised(self.scene()))


@lru_cache(maxsize=32)
def _images_of(drawn: _DrawnQuestion) -> tuple[bytes, ...]:
    return tuple(png(pixels) for pixels in drawn.condition.attribute.draw(drawn.scene()))


def _png(drawn: _DrawnQuestion, number: int) -> bytes:
    return _images_of(drawn)[number]


def question(data: Data, sample_id: str) -> Sample:
    """Make a question from its id; pictures are drawn when they are read.

    Raises:
        ValueError: the id is no question of this run.
    """
    return _question(tuple(sorted(data.options.items())), data.seed, sample_id)


@lru_cache(maxsize=QUESTIONS)
def _question(options: tuple[tuple[str, str], ...], seed: int, sample_id: str) -> Sample:
    settings = dict(options)
    acuity_plan, place = plan(settings), place_of(sample_id)
    condition = next((each for each in acuity_plan.conditions if each.key == place.key), None)
    if condition is None:
        raise ValueError(f"{place.key} is no condition of this run")
    check_drawable(condition, place)
    drawn = _DrawnQuestion(condition, place, seed)
    words = _worded(acuity_plan, drawn)
    meta = {
        "condition": place.key,
        "attribute": condition.name,
        "round": f"{place.round:03}",
        "slot": str(place.slot),
        "form": words.form,
        "level": place.level_text,
        "settings": "\n".join(f"{name}={text}" for name, text in options),
        "realised": SAME if place.level == EQUAL_PAIR else f"{drawn.level():.6f}",
    }
    return Sample(
        sample_id, Prompt((*_images(drawn), Text(words.text))), words.target, words.kind, words.options, place.key, meta
    )  # fmt: skip


def check_drawable(condition: Condition, place: QuestionPlace) -> None:
    """Refuse levels and scales outside the attribute's range: an id may come from anybody's journal.

    Raises:
        ValueError: no question of the attribute has this level or scale.
    """
    attribute = condition.attribute
    if place.level == EQUAL_PAIR:
        if attribute.form != "same-different":
            raise ValueError(f"{place.id!r} is no question of acuity: {attribute.name} has no equal pairs")
    elif not attribute.levels[0] - ROUNDING <= place.level <= attribute.levels[-1] + ROUNDING:
        low, high = attribute.levels[0], attribute.levels[-1]
        raise ValueError(
            f"{place.id!r} is no question of acuity: levels of {attribute.name} are {low:+.4f} to {high:+.4f}"
        )
    if place.scale > _largest_scale(attribute):
        raise ValueError(
            f"{place.id!r} is no question of acuity: scales of {attribute.name} end at {_largest_scale(attribute):.2f}"
        )


def _largest_scale(attribute: Attribute) -> float:
    """Return the largest length by which pictures are scaled; 0 where nothing scales them."""
    if not attribute.scaled_by:
        return 0.0
    factor, otherwise = attribute.scale
    other = EVERY_ATTRIBUTE[attribute.scaled_by]
    return max(otherwise, round(factor * max(other.easy, other.hard), 2))


def _images(drawn: _DrawnQuestion) -> list[Part]:
    attribute = drawn.condition.attribute
    blobs = [
        Drawn(f"acuity@{VERSION}/{drawn.seed}/{drawn.place.id}/{index}", partial(_png, drawn, index))
        for index in range(attribute.images)
    ]
    images = tuple(Image(blob) for blob in blobs)
    if not attribute.clip:
        return list(images)
    # More frames than a run sends unless it is asked for more: a rule of one's own sends all of them.
    pick = Pick("every frame", _every, len(images)) if len(images) > FRAMES else None
    return [Video(frames=images, pick=pick)]


def _every(frames: int) -> range:
    return range(frames)


def _worded(acuity_plan: AcuityPlan, drawn: _DrawnQuestion) -> ChartQuestion:
    """Word a question: options as lettered lines, the right one's letter balanced within the round."""
    attribute = drawn.condition.attribute
    if attribute.worded is not None:
        return attribute.worded(drawn.scene(), acuity_plan.wording)
    question_text = attribute.questions[acuity_plan.wording - 1]
    if not attribute.options:
        assert attribute.written is not None  # noqa: S101 - declared with the form
        kind: Kind = "count" if attribute.name == "count" else "short"
        return ChartQuestion(question_text, attribute.written(drawn.scene()), kind, "text", attribute.guess)
    others = [index for index in range(len(attribute.options)) if index != drawn.answer]
    order = drawn.stream(drawn.place.id, "order").shuffled(others)
    order.insert(drawn.balanced("letters", len(attribute.options)), drawn.answer)
    options = {letter: attribute.options[index] for letter, index in zip(LETTERS, order, strict=False)}
    lines = "\n".join(f"{letter}. {text}" for letter, text in options.items())
    target = next(letter for letter, index in zip(LETTERS, order, strict=False) if index == drawn.answer)
    text = f"{question_text}\n{lines}\nAnswer with the letter of the option."
    return ChartQuestion(text, target, "choice", "letter", 1 / len(options), options)
