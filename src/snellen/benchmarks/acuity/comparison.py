"""Two models' thresholds of the same condition: their ratio with an interval, and the smallest ratio that could show.

The ratio is 10 ** (m1 - m2) with m the threshold in decades, turned so that more is easier. Above 1 the second model sees
smaller or fainter differences. Its interval comes from both posteriors, which are independent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from hashlib import blake2b
from math import hypot
from pathlib import Path
from typing import Literal, TypeAlias

import msgspec
import numpy as np
from msgspec import Struct

from snellen.benchmarks.acuity.conditions import AcuityPlan, plan
from snellen.benchmarks.acuity.details import words
from snellen.benchmarks.acuity.metrics import ConditionResult
from snellen.benchmarks.acuity.questions import check_drawable, place_of
from snellen.benchmarks.base import Data
from snellen.errors import DataError, UsageError
from snellen.scoring.psychometrics.curve import MASS, Posterior
from snellen.scoring.statistics.paired import Comparison, compare

Better: TypeAlias = Literal["first", "second"]


class ThresholdComparison(Struct, frozen=True):
    """One condition of two runs.

    Attributes:
        name: of the condition, with its side.
        first, second: threshold and state in words.
        ratio: how many times finer the second model sees; None where one of them has no threshold.
        ci95: its 95 % interval.
        better: whose threshold is better; None where the interval includes 1.
        smallest_ratio: the smallest one that intervals of these widths could show.
        paired: exact McNemar test over the same questions; None where the questions differ.
    """

    name: str
    first: str
    second: str
    ratio: float | None
    ci95: tuple[float, float] | None
    better: Better | None
    smallest_ratio: float | None
    paired: Comparison | None = None


def difference_quantiles(first: Posterior, second: Posterior) -> tuple[float, ...]:
    """Return low end, median and high end of m1 - m2 in decades: the sum over all pairs of grid thresholds.

    Raises:
        ValueError: the grids have other steps.
    """
    grids = first.model.thresholds, second.model.thresholds
    step = float(grids[0][1] - grids[0][0])
    if not np.isclose(step, float(grids[1][1] - grids[1][0]), rtol=1e-6):
        raise ValueError("the grids of the two thresholds have other steps")
    mass = np.convolve(first.weights.sum(axis=1), second.weights.sum(axis=1)[::-1])
    start = float(grids[0][0] - grids[1][-1])
    edges = start + step * (np.arange(len(mass) + 1) - 0.5)
    total = np.concatenate([[0.0], mass.cumsum()])
    shares = ((1 - MASS) / 2, 0.5, (1 + MASS) / 2)
    return tuple(float(np.interp(share, total / total[-1], edges)) for share in shares)


def plan_notes(first: AcuityPlan, second: AcuityPlan) -> list[str]:
    """Return in what two runs differ that moves thresholds, one clause each."""
    notes = []
    if first.wording != second.wording:
        notes.append("the questions are worded in two ways, which moves thresholds")
    if first.shape != second.shape:
        notes.append(f"the curves have other shapes: {first.shape} and {second.shape}")
    return notes


def compare_conditions(
    first: Sequence[ConditionResult],
    second: Sequence[ConditionResult],
    scores: tuple[Mapping[str, float], Mapping[str, float]] | None = None,
) -> list[ThresholdComparison]:
    """Return the comparison of each condition that both runs have, in the order of the first.

    Args:
        scores: sample id to score (0 or 1) of both runs, where they have the same questions; for the paired test.
    """
    others = {result.condition.key: result for result in second}
    return [
        _compared(result, others[result.condition.key], scores) for result in first if result.condition.key in others
    ]


def _compared(
    first: ConditionResult,
    second: ConditionResult,
    scores: tuple[Mapping[str, float], Mapping[str, float]] | None,
) -> ThresholdComparison:
    condition = first.condition
    names = condition.key, words(first), words(second)
    paired = None if scores is None else _paired(condition.key, *scores)
    if first.value is None or second.value is None:
        return ThresholdComparison(*names, None, None, None, None, paired)
    low, middle, high = difference_quantiles(first.posterior, second.posterior)
    widths = [result.estimate.interval[1] - result.estimate.interval[0] for result in (first, second)]
    better: Better | None = "second" if low > 0 else "first" if high < 0 else None
    return ThresholdComparison(
        *names,
        float(10.0**middle),
        (float(10.0**low), float(10.0**high)),
        better,
        float(10.0 ** (hypot(*widths) / 2)),
        paired,
    )


def _paired(key: str, first: Mapping[str, float], second: Mapping[str, float]) -> Comparison | None:
    """Return the paired test of a condition; None unless both runs have the same questions, all of them answered."""
    ids = [{name for name in scores if name.startswith(f"{key}/")} for scores in (first, second)]
    if ids[0] != ids[1] or not ids[0]:
        return None
    order = sorted(ids[0])
    groups = np.arange(len(order))
    return compare(np.array([first[name] for name in order]), np.array([second[name] for name in order]), groups)


JOURNAL = "results.jsonl"


class _RecordId(Struct):
    sample_id: str


def digest(data: Data) -> str:
    """Return the digest of the questions of the other run; empty for a run that chooses its own.

    Raises:
        UsageError: the design and the data do not fit together.
        DataError: the other run cannot be read, or has no question.
    """
    if not is_like(data):
        return ""
    return blake2b("\n".join(questions_of(data)).encode(), digest_size=16).hexdigest()


def is_like(data: Data) -> bool:
    """Return True if the questions of another run are asked.

    Raises:
        UsageError: a run is named and another design, or the design and no run.
    """
    like = plan(data.options).design == "like"
    if like and data.path is None:
        raise UsageError("--design like asks another run's questions, and no run is named", "Add --like RUN.")
    if not like and data.path is not None:
        raise UsageError(
            f"--data {data.path} has no effect: acuity draws its own samples and reads no data",
            "Omit --data. To ask the questions of another run: snellen acuity --like RUN",
        )
    return like


def questions_of(data: Data) -> tuple[str, ...]:
    """Return the ids of the other run's questions, in the order of conditions, rounds and slots.

    Raises:
        DataError: the other run cannot be read, has no question, or is no run of acuity.
    """
    assert data.path is not None  # noqa: S101 - checked by is_like
    journal = Path(data.path) / JOURNAL
    try:
        changed = journal.stat().st_mtime_ns, journal.stat().st_size
        names = _names(journal, changed)
    except OSError as error:
        raise DataError(
            f"the run {data.path}, whose questions are to be asked, cannot be read: {error.strerror}",
            "Name a run of acuity: --like RUN, or its new place: --data RUN.",
        ) from error
    conditions = {condition.key: condition for condition in plan(data.options).conditions}
    try:
        places = sorted((place_of(name) for name in names), key=lambda place: (place.key, place.round, place.slot))
        for place in places:
            if place.key in conditions:
                check_drawable(conditions[place.key], place)
    except ValueError as error:
        raise DataError(f"{data.path} is no run of acuity: {error}", "Name a run of acuity.") from error
    ids = [place.id for key in conditions for place in places if place.key == key]
    if not ids:
        raise DataError(f"{data.path} has no question of these conditions", "Run it first, or name another run.")
    return tuple(ids)


@lru_cache(maxsize=8)
def _names(journal: Path, changed: tuple[int, int]) -> tuple[str, ...]:
    names: dict[str, None] = {}
    for line in journal.read_bytes().splitlines():
        try:
            names[msgspec.json.decode(line, type=_RecordId).sample_id] = None
        except (msgspec.DecodeError, UnicodeDecodeError):
            continue  # a torn or damaged line: the other run's own commands say so
    return tuple(names)


def open_ids(data: Data, answers: Mapping[str, object]) -> list[str]:
    """Return the questions without an answer; none if the other run is gone, since a recorded run can be scored without it."""
    if data.path is None or not (Path(data.path) / JOURNAL).exists():
        return []
    return [name for name in questions_of(data) if name not in answers]
