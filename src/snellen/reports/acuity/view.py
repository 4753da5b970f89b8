"""What a run of acuity measured, for the card: results by condition, replies by option, reasoning tokens by level."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import Any

import numpy as np
from msgspec import Struct

from snellen.benchmarks.acuity.conditions import AcuityPlan, plan
from snellen.benchmarks.acuity.metrics import ConditionResult, results
from snellen.runs.run import Run
from snellen.runs.scoring import count, profiles_of, scores_of
from snellen.runs.summary_details import details
from snellen.scoring.psychometrics.fit import BIN
from snellen.scoring.scores import ScoreBuilder
from snellen.types import Record, Sample, Score

LETTER_DRAWS = 2_000


class LetterCounts(Struct, frozen=True):
    """Wrong replies by option.

    Attributes:
        wrong: letter to the wrong replies that named it.
        expected: letter to those expected if wrong replies had no preference, given which letters were right.
        p: of counts at least as uneven, by simulation; None without wrong replies.
    """

    wrong: Mapping[str, int]
    expected: Mapping[str, float]
    p: float | None


class TokenPoint(Struct, frozen=True):
    """Mean reasoning tokens of the answers of neighbouring levels (in decades)."""

    level: float
    tokens: float
    answers: int


class MeasuredCondition(Struct, frozen=True):
    """A condition with what the card shows beside its threshold."""

    result: ConditionResult
    label: str
    letters: LetterCounts | None
    tokens: tuple[TokenPoint, ...]


class AcuityView(Struct, frozen=True):
    """What a run of acuity measured, in the order of its plan.

    Attributes:
        plan: what was to be measured.
        seed: of the pictures.
        conditions: those with an answer.
        details: effective pixels and prescription, as snellen.benchmarks.acuity.prescription describes them.
    """

    plan: AcuityPlan
    seed: int
    conditions: tuple[MeasuredCondition, ...]
    details: Mapping[str, Any] = {}

    @property
    def questions(self) -> int:
        """Return the number of questions of all conditions."""
        return sum(each.result.estimate.asked for each in self.conditions)


def is_acuity(run: Run) -> bool:
    """Return True for a run whose metrics are thresholds."""
    return run.benchmark.name.partition("/")[0] == "acuity"


def acuity_view(run: Run) -> AcuityView:
    """Read a run of acuity once, and fit each condition under the first profile."""
    data = run.meta.spec.data
    acuity_plan, builder = plan(data.options), ScoreBuilder()
    scorers, judged = profiles_of(run.benchmark, None), run.verdicts()
    letters: defaultdict[str, list[tuple[str, str, tuple[str, ...]]]] = defaultdict(list)
    tokens: defaultdict[str, list[tuple[float, int]]] = defaultdict(list)
    for sample, record in run.answers():
        (score,) = scores_of(run.benchmark, sample, record, scorers, judged).values()
        builder.add(sample, score, record.repeat)
        _collect(sample, record, score, letters, tokens)
    # the questions of another run have a known number; other designs say themselves when a condition has ended
    expected = count(run.benchmark, data) if acuity_plan.design == "like" else None
    conditions = tuple(
        MeasuredCondition(
            result,
            acuity_plan.label(result.condition),
            letter_counts(letters[result.condition.key]),
            _token_points(tokens[result.condition.key]),
        )
        for result in results(acuity_plan, builder.build(expected))
    )
    return AcuityView(acuity_plan, data.seed, conditions, dict(details(run)))


def _collect(
    sample: Sample,
    record: Record,
    score: Score,
    letters: defaultdict[str, list[tuple[str, str, tuple[str, ...]]]],
    tokens: defaultdict[str, list[tuple[float, int]]],
) -> None:
    key, level = str(sample.meta["condition"]), str(sample.meta["realised"])
    if score.verdict == "wrong" and sample.options and score.extracted in sample.options:
        letters[key].append((str(sample.target), str(score.extracted), tuple(sample.options)))
    if record.response is not None and level != "same":
        tokens[key].append((float(level), record.response.usage.reasoning_tokens))


def letter_counts(replies: list[tuple[str, str, tuple[str, ...]]]) -> LetterCounts | None:
    """Count wrong replies by option, and test whether they prefer one; None with two options, where one is always wrong.

    Each wrong reply is (right letter, letter of the reply, letters of the question). Without a preference it names each
    other option equally often; the chi-square statistic is compared with seeded draws of that.
    """
    options = max((each for _, _, each in replies), key=len, default=())
    if len(options) < 3:
        return None
    place = {letter: number for number, letter in enumerate(options)}
    rights = np.array([place[right] for right, _, _ in replies])
    chosen = np.array([place[letter] for _, letter, _ in replies])
    count = len(options)
    expected = np.array([(rights != letter).sum() / (count - 1) for letter in range(count)])
    generator = np.random.Generator(np.random.Philox(0))
    drawn = (rights + generator.integers(1, count, (LETTER_DRAWS, len(rights)))) % count
    counts = np.stack([(drawn == letter).sum(axis=1) for letter in range(count)], axis=1)
    observed = np.bincount(chosen, minlength=count)

    def statistic(values: np.ndarray) -> np.ndarray:
        return np.asarray(((values - expected) ** 2 / np.maximum(expected, 1e-9)).sum(axis=-1))

    reached = int((statistic(counts) >= statistic(observed) - 1e-9).sum())
    return LetterCounts(
        {letter: int(observed[number]) for letter, number in place.items()},
        {letter: float(expected[number]) for letter, number in place.items()},
        (reached + 1) / (LETTER_DRAWS + 1),
    )


def _token_points(answers: list[tuple[float, int]]) -> tuple[TokenPoint, ...]:
    """Return mean reasoning tokens by level, hardest first; empty where none were recorded."""
    if not any(number for _, number in answers):
        return ()
    bins: defaultdict[int, list[tuple[float, int]]] = defaultdict(list)
    for level, number in answers:
        bins[round(level / BIN)].append((level, number))
    points = []
    for _, members in sorted(bins.items()):
        size = len(members)
        mean_level, mean_tokens = (sum(column) / size for column in zip(*members, strict=True))
        points.append(TokenPoint(mean_level, mean_tokens, size))
    return tuple(points)


def state_counts(view: AcuityView) -> Counter[str]:
    """Count conditions by state."""
    return Counter(each.result.estimate.state for each in view.conditions)
