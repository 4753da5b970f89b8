"""Conditions of acuity that an encoder can be measured on: those that were named, those of a run, or the usual ones."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from snellen.benchmarks.acuity.conditions import AcuityPlan, Condition, plan
from snellen.errors import UsageError
from snellen.features.acuity.drawings import refusal

FAMILIES = ("default", "all", "chart", "chart/*")
EMBEDDED = "embedded"


class EncoderConditions(Struct, frozen=True):
    """What is measured.

    Attributes:
        conditions: in order.
        labels: name of each, with its side where several sides are measured.
        omitted: one line for each condition of a family that no encoder can be measured on.
    """

    conditions: tuple[Condition, ...]
    labels: tuple[str, ...]
    omitted: tuple[str, ...]


def select_conditions(
    encoder: str, attributes: str | None, sides: str | None, run: AcuityPlan | None = None
) -> EncoderConditions:
    """Choose the conditions.

    Args:
        encoder: as typed; the embedded one has the family `chart` as its usual conditions.
        attributes, sides: as in `snellen acuity`; None: those of the run, else the usual ones.
        run: what the run measured whose answers are compared; only its conditions are measured then.

    Raises:
        UsageError: there is no such condition, the run has none of them, or a named one needs more than one picture's
            features.
    """
    options = {} if sides is None else {"sides": sides}
    usual = "chart" if encoder == EMBEDDED else "default"
    candidates: Sequence[Condition] = plan(
        {**options, "attributes": usual if attributes is None else attributes}
    ).conditions
    if run is not None:
        measured = {each.key: each for each in run.conditions}
        if attributes is None:
            candidates = [each for each in run.conditions if sides is None or str(each.side) in _words(sides)]
        elif sides is None:
            names = {each.name for each in candidates}
            candidates = [each for each in run.conditions if each.name in names]
        else:
            candidates = [each for each in candidates if each.key in measured]
        if not candidates:
            raise UsageError("the run has none of these conditions", f"It has: {', '.join(measured)}.")
    explicit = set(_words(attributes or "")) - set(FAMILIES)
    conditions, omitted = [], []
    for condition in candidates:
        reason = refusal(condition.attribute)
        if reason is None:
            conditions.append(condition)
        elif explicit & {condition.name, condition.attribute.name}:
            raise UsageError(
                f"{condition.name} cannot be measured on features: {reason}",
                "Name conditions of one picture with options, such as --attributes gap,contrast.",
            )
        else:
            omitted.append(f"{condition.name} is not measured: {reason}")
    if not conditions:
        raise UsageError("none of these conditions can be measured on features", "Add --attributes gap, for example.")
    several = len({condition.side for condition in conditions}) > 1 and len(conditions) > len(
        {condition.name for condition in conditions}
    )
    labels = tuple(condition.key if several else condition.name for condition in conditions)
    return EncoderConditions(tuple(conditions), labels, tuple(dict.fromkeys(omitted)))


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",")]
