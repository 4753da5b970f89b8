"""Questions of acuity: an id says everything, and a question is drawn from it and the seed alone.

An id is `gap@512/r003/q5/x+0.6021`: condition, round, slot, level in decades. An equal pair has `same` in place of the
level. A picture that is scaled by another threshold has that length behind it: `.../x+1.2000/s6.40`.
"""

from __future__ import annotations

import re
from functools import lru_cache, partial

from msgspec import Struct

from snellen.benchmarks.acuity.attribute import DECIMALS, Scene
from snellen.benchmarks.acuity.conditions import AcuityPlan, Condition, plan
from snellen.benchmarks.acuity.drawing import png
from snellen.benchmarks.base import Data
from snellen.benchmarks.chart.rng import Stream
from snellen.scoring.psychometrics.estimate import BATCH
from snellen.scoring.psychometrics.same_different import EQUAL_PAIR
from snellen.sources.blobs import Drawn
from snellen.types import Image, Kind, Part, Prompt, Sample, Text, Video

VERSION = "1"
LETTERS = "ABCDEFGHIJ"
SAME = "same"
_ID = re.compile(r"([^/]+)@(\d+)/r(\d{3})/q(\d)/(same|x[+-]\d+\.\d{4})(?:/s(\d+\.\d\d))?")


class QuestionPlace(Struct, frozen=True):
    """Where a question stands: its condition's key, round, slot, level in decades, and scale (0 without)."""

    key: str
    round: int
    slot: int
    level: float
    scale: float = 0.0

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
        raise ValueError(f"{sample_id!r} is no question of acuity")
    name, side, number, slot, level, scale = match.groups()
    value = EQUAL_PAIR if level == SAME else float(level[1:])
    return QuestionPlace(f"{name}@{side}", int(number), int(slot), value, float(scale or 0))


def _balanced(stream: Stream, values: int) -> list[int]:
    """[8] integers below `values`, each as often as the others to within one, in random order."""
    order = stream.shuffled(range(values))
    return stream.shuffled([order[slot % values] for slot in range(BATCH)])


class _DrawnQuestion(Struct, frozen=True):
    """What is drawn for one question; both parts are drawn from the id, so that a picture is never repeated."""

    condition: Condition
    place: QuestionPlace
    seed: int

    def stream(self, *what: str) -> Stream:
        return Stream("acuity", self.seed, *what)

    def balanced(self, what: str, values: int) -> int:
        """Return this slot's value: balanced within the condition and the round."""
        return _balanced(self.stream(self.place.key, str(self.place.round), what), values)[self.place.slot]

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
    wanted, place = plan(data.options), place_of(sample_id)
    condition = next((each for each in wanted.conditions if each.key == place.key), None)
    if condition is None:
        raise ValueError(f"{place.key} is no condition of this run")
    drawn = _DrawnQuestion(condition, place, data.seed)
    text, options, target = _worded(wanted, drawn)
    meta = {
        "condition": place.key,
        "attribute": condition.name,
        "round": f"{place.round:03}",
        "slot": str(place.slot),
        "level": SAME if place.level == EQUAL_PAIR else f"{place.level:.{DECIMALS}f}",
        "settings": "\n".join(f"{name}={text}" for name, text in sorted(data.options.items())),
        "realised": SAME if place.level == EQUAL_PAIR else f"{drawn.level():.6f}",
    }
    kind: Kind = "choice" if options else "count" if condition.attribute.name == "count" else "short"
    return Sample(
        sample_id, Prompt((*_images(drawn), Text(text))), target, kind, options, place.key, meta
    )  # fmt: skip


def _images(drawn: _DrawnQuestion) -> list[Part]:
    attribute = drawn.condition.attribute
    blobs = [
        Drawn(f"acuity@{VERSION}/{drawn.seed}/{drawn.place.id}/{index}", partial(_png, drawn, index))
        for index in range(attribute.images)
    ]
    images = tuple(Image(blob) for blob in blobs)
    return [Video(frames=images)] if attribute.clip else list(images)


def _worded(wanted: AcuityPlan, drawn: _DrawnQuestion) -> tuple[str, dict[str, str], str]:
    """Return text, options and target: options as lettered lines, the right one's letter balanced within the round."""
    attribute = drawn.condition.attribute
    question_text = attribute.questions[wanted.wording - 1]
    if not attribute.options:
        return question_text, {}, attribute.written(drawn.scene()) if attribute.written is not None else ""
    others = [index for index in range(len(attribute.options)) if index != drawn.answer]
    order = drawn.stream(drawn.place.id, "order").shuffled(others)
    order.insert(drawn.balanced("letters", len(attribute.options)), drawn.answer)
    options = {letter: attribute.options[index] for letter, index in zip(LETTERS, order, strict=False)}
    lines = "\n".join(f"{letter}. {text}" for letter, text in options.items())
    target = next(letter for letter, index in zip(LETTERS, order, strict=False) if index == drawn.answer)
    return f"{question_text}\n{lines}\nAnswer with the letter of the option.", options, target
