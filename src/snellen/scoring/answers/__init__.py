"""Types of answers by kind: one file each, and those that plug-ins add under the entry-point group `snellen.answers`."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points

from snellen.errors import DataError
from snellen.scoring.answers.base import AnswerContext, AnswerType, GoldError

__all__ = ["BUILT_IN", "AnswerContext", "AnswerType", "GoldError", "answer_type", "kinds"]

GROUP = "snellen.answers"
BUILT_IN: Mapping[str, str] = {
    "truth": "truth:Truth",
    "choice": "choice:Choice",
    "choice_text": "choice:ChoiceByText",
    "multi-choice": "choice:MultiChoice",
    "count": "number:Count",
    "number": "number:Number",
    "quantity": "quantity:Quantity",
    "date": "moment:Date",
    "time": "moment:Time",
    "text": "text:Text",
    "short": "name:Name",
    "name": "name:Name",
    "list": "listing:Listing",
    "box": "region:Box",
    "boxes": "grounded:Boxes",
    "point": "region:Point",
    "points": "grounded:Points",
    "region": "grounded:Area",
    "moment": "video_moment:VideoMoment",
    "formula": "formula:Formula",
    "json": "structure:JsonValue",
    "judged": "judged:Judged",
}
"""Kind to module and class. `short` is the kind of names that benchmarks of 0.1 declare."""


def kinds() -> tuple[str, ...]:
    """Return every kind, those of plug-ins included."""
    return (*BUILT_IN, *sorted(point.name for point in entry_points(group=GROUP) if point.name not in BUILT_IN))


def answer_type(kind: str, context: AnswerContext = AnswerContext()) -> AnswerType:
    """Return the type of a kind for one question.

    Raises:
        DataError: there is no such kind.
    """
    return _class(kind)(context)


@cache
def _class(kind: str) -> type[AnswerType]:
    if (place := BUILT_IN.get(kind)) is not None:
        module, _, name = place.partition(":")
        found: type[AnswerType] = getattr(import_module(f"{__name__}.{module}"), name)
        return found
    for point in entry_points(group=GROUP):
        if point.name == kind:
            plugin: type[AnswerType] = point.load()
            return plugin
    raise DataError(f"there is no kind of answer {kind!r}.", f"Kinds are {', '.join(kinds())}.").near(kind, kinds())
