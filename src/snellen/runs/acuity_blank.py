"""Control of acuity by blank pictures: what is right without sight, and what pictures of each side cost in tokens.

A run with `--blank-images --through` asks the usual questions about grey pictures of the same sizes. Its share of right answers is the guess
rate that the curves assume, if nothing but the picture tells the answer. Its input tokens by side show where pictures are shrunk.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from math import hypot

from msgspec import Struct

from snellen.benchmarks.acuity.questions import place_of
from snellen.errors import UsageError
from snellen.runs.acuity_results import MeasuredRun, measured_run
from snellen.runs.run import Run
from snellen.runs.scoring import Scored
from snellen.scoring.psychometrics.curve import RIGHT
from snellen.scoring.statistics import wilson

SEEN = 0.5
"""Widths of the curve below the threshold at which 5 % are seen."""
SAME_TOKENS = 0.01
"""Relative difference up to which two sides cost the same."""


class CountedAnswers(Struct, frozen=True):
    """Right answers of some, with a 95 % Wilson interval; None without answers."""

    right: int
    answers: int
    ci95: tuple[float, float] | None


class BlankCondition(Struct, frozen=True):
    """One condition.

    Attributes:
        name: with its side.
        guess: share of right guesses that the curve assumes.
        blank: answers about blank pictures.
        unseen: answers of the other run at levels of which its curve says that under 5 % are seen; None
            without such a run, or without a threshold.
        difference_ci95: 95 % interval of the share with unseen levels minus that with blank pictures.
        remarks: what differs.
    """

    name: str
    guess: float
    blank: CountedAnswers
    unseen: CountedAnswers | None
    difference_ci95: tuple[float, float] | None
    remarks: tuple[str, ...]


class SideTokens(Struct, frozen=True):
    """Mean input tokens of a question at one side of the picture, text included, and of how many answers."""

    side: int
    tokens: float
    answers: int


class BlankControl(Struct, frozen=True):
    """Conditions, tokens by side (smallest first), and in words from which side on they stay equal (empty: unknown)."""

    conditions: tuple[BlankCondition, ...]
    tokens: tuple[SideTokens, ...]
    usage: str


def blank_control(blank: Run, seeing: MeasuredRun | None = None) -> BlankControl:
    """Count the answers about blank pictures, and compare them with the lowest levels of a run that showed pictures.

    Raises:
        UsageError: a run is not of acuity, or `blank` was not asked with blank pictures, or `seeing` was.
    """
    if not blank.meta.spec.options.media.blank:
        raise UsageError(
            f"{blank.path} was not asked about blank pictures", "Run snellen acuity with --blank-images --through."
        )
    if seeing is not None and seeing.run.meta.spec.options.media.blank:
        raise UsageError(f"{seeing.run.path} was asked about blank pictures", "Name a run without --blank-images.")
    measured = measured_run(blank)
    tokens: defaultdict[int, list[int]] = defaultdict(list)
    sides_of = {each.key: each.side for each in measured.plan.conditions}

    def add(scored: Scored) -> None:
        response = scored.record.response
        if response is not None and response.usage.input_tokens:
            tokens[sides_of[place_of(scored.sample.id).key]].append(response.usage.input_tokens)

    blank.summarize(next(iter(blank.benchmark.score)), each=add, save=False)
    others = (
        {} if seeing is None else {(each.condition.name, each.condition.side): each for each in seeing.results}
    )  # names of keys differ: the blank run's say so
    conditions = []
    for each in measured.results:
        condition = each.condition
        if condition.attribute.form == "same-different":
            continue
        counted = _counted([outcome for _, outcome in each.answers])
        unseen = None
        other = others.get((condition.name, condition.side))
        if seeing is not None and other is not None and other.estimate.value is not None and other.width is not None:
            below = other.estimate.value - SEEN * other.width.value
            unseen = _counted([outcome for level, outcome in other.answers if level <= below])
        conditions.append(_compared(condition.key, condition.attribute.guess_rate, counted, unseen))
    sides = tuple(SideTokens(side, sum(each) / len(each), len(each)) for side, each in sorted(tokens.items()))
    return BlankControl(tuple(conditions), sides, usage_words(sides))


def _counted(outcomes: Sequence[int]) -> CountedAnswers:
    right = sum(outcome == RIGHT for outcome in outcomes)
    ends = wilson(right / len(outcomes), len(outcomes)) if outcomes else None
    return CountedAnswers(right, len(outcomes), None if ends is None else (ends[0], ends[1]))


def _compared(name: str, guess: float, blank: CountedAnswers, unseen: CountedAnswers | None) -> BlankCondition:
    remarks = []
    if blank.ci95 is not None and not blank.ci95[0] <= guess <= blank.ci95[1]:
        remarks.append(
            f"{100 * blank.right / blank.answers:.0f} % are right without a picture, and the curve assumes {100 * guess:.0f} %"
        )
    interval = None
    if unseen is not None and unseen.ci95 is not None and blank.ci95 is not None:
        interval = difference_interval(unseen, blank)
        if not interval[0] <= 0.0 <= interval[1]:
            more = "more" if interval[0] > 0 else "fewer"
            remarks.append(f"{more} answers are right at the lowest levels than with blank pictures")
    return BlankCondition(name, guess, blank, unseen, interval, tuple(remarks))


def difference_interval(first: CountedAnswers, second: CountedAnswers) -> tuple[float, float]:
    """Return the 95 % interval of the difference of two independent shares.

    Source: Newcombe 1998, Statistics in Medicine 17:873, method 10: both ends from Wilson's intervals.
    """
    shares = [each.right / each.answers for each in (first, second)]
    (low1, high1), (low2, high2) = (each.ci95 or (0.0, 1.0) for each in (first, second))
    middle = shares[0] - shares[1]
    return middle - hypot(shares[0] - low1, high2 - shares[1]), middle + hypot(high1 - shares[0], shares[1] - low2)


def usage_words(sides: Sequence[SideTokens]) -> str:
    """Return from which side on pictures cost the same number of tokens; empty for fewer than two sides."""
    if len(sides) < 2:
        return ""
    last = sides[-1].tokens
    flat = [each for each in sides if abs(each.tokens - last) <= SAME_TOKENS * last]
    start = next(
        each for place, each in enumerate(sides) if all(later in flat for later in sides[place:])
    )  # fmt: skip
    if start is sides[-1]:
        return f"a question costs more tokens up to the largest side, {start.side} px: nothing shows that it is shrunk"
    return f"from {start.side} px on a question costs the same: larger pictures are shrunk, or billed alike"
