"""The cases of checks: thresholds, comparisons with a baseline, and answers that a run must have."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

if TYPE_CHECKING:
    from snellen.runs.drop_check import DropCheck
    from snellen.runs.threshold_check import ThresholdCheck

UNANSWERED = "unanswered"
"""Kind of the failed case of a run in which samples have no answer."""


class CheckCase(Struct, frozen=True):
    """One check: `failed` if it did not hold, `error` if it could not be made; `kind` is a word for the reason."""

    name: str
    outcome: Literal["passed", "failed", "error"]
    text: str
    kind: str = ""


class CheckSuite(Struct, frozen=True):
    """The checks of one run, or of one command; `properties` are facts about it, such as metrics with intervals."""

    name: str
    cases: Sequence[CheckCase]
    properties: Mapping[str, str] = {}
    seconds: float = 0.0


def threshold_cases(checks: Iterable[ThresholdCheck]) -> list[CheckCase]:
    """Return thresholds as cases."""
    return [
        CheckCase(
            f"{check.metric} is at least {check.least:g}", "passed" if check.passed else "failed", check.text, "below"
        )
        for check in checks
    ]


def drop_cases(checks: Iterable[DropCheck]) -> list[CheckCase]:
    """Return checks against the baseline as cases."""
    return [
        CheckCase(
            f"{check.run} is not worse than {check.baseline}"
            + (f" by more than {check.margin:g}" * bool(check.margin)),
            "passed" if check.passed else "failed",
            check.text,
            check.status,
        )
        for check in checks
    ]


def answers_case(answered: int, expected: int, *, least: float = 1.0, kind: str = "incomplete") -> CheckCase:
    """Return the case of a run's answers: failed, under this kind, if a smaller share than `least` was answered."""
    text = f"{answered:,} of {expected:,} samples have an answer"
    if expected and answered / expected >= least:
        return CheckCase("samples are answered", "passed", f"{text}.")
    needed = "all are needed" if least == 1.0 else f"less than {least:.0%}" if answered else "so there is no score"
    hint = " `snellen rerun` runs the others." if kind == UNANSWERED else ""
    return CheckCase("samples are answered", "failed", f"{text}, {needed}.{hint}", kind)
