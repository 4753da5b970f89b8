"""What a run of acuity measured, for the card: results by condition, replies by option, reasoning tokens by level.

Levels, intervals, thresholds and states of acuity as text: `3.2 px`, `8.2 % longer`, `[2.7, 3.7]`, `> 32 px`.

Numbers have the digits that `snellen score` prints; shares are percentages.

What people see, and what was published about models: facts with sources, from people.toml.

Draw of an acuity run's answers for the gallery: a few of every condition, those nearest to its threshold.

Pictures of acuity are drawn when they are read, up to 8,192 pixels a side. A gallery of all answers would take minutes.
"""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Generic, TypeVar

import msgspec
import numpy as np
from msgspec import Struct

from snellen.benchmarks.acuity.attribute import Attribute
from snellen.benchmarks.acuity.conditions import AcuityPlan, plan
from snellen.benchmarks.acuity.details import number as number_text
from snellen.benchmarks.acuity.metrics import ConditionResult, results
from snellen.benchmarks.acuity.questions import SAME
from snellen.benchmarks.acuity.steering import is_catch
from snellen.runs.answer_view import AnswerView
from snellen.runs.run import Run
from snellen.runs.score_rows import details
from snellen.runs.scoring import count, profiles_of, scores_of
from snellen.scoring.psychometrics.curve import EQUAL_PAIR, MASS, RIGHT, Array, Posterior
from snellen.scoring.psychometrics.estimate import BIN, pool, rising_shares
from snellen.scoring.scores import ScoreBuilder
from snellen.toml_text import packaged_toml
from snellen.types import Record, Sample, Score

SHARE = "share"
STATE_WORDS = {
    "open": "not finished",
    "settled": "",
    "budget": "interval wider than requested",
    "floor": "",
    "ceiling": "seen at every level",
    "task not understood": "",
}
"""What a reader must know of a state that is no fault."""


def level_number(value: float, unit: str) -> str:
    """Format a level without its unit; shares are percentages."""
    return f"{number_text(100 * value)} %" if is_share(unit) else number_text(value)


def is_share(unit: str) -> bool:
    """Return True for units such as `share of the side`."""
    return unit == SHARE or unit.startswith(f"{SHARE} ")


def unit_text(unit: str) -> str:
    """Return what stands behind the number: `px`, or `of the side` behind a percentage."""
    return unit.removeprefix(SHARE).strip() if is_share(unit) else unit


def axis_text(unit: str) -> str:
    """Return the unit of an axis whose numbers have no unit: `px`, `percent of the side`."""
    return f"percent {unit_text(unit)}".strip() if is_share(unit) else unit


def level_text(value: float, unit: str) -> str:
    """Format a level with its unit.

    >>> level_text(3.21, "px"), level_text(0.0821, "share longer")
    ('3.2 px', '8.2 % longer')
    """
    return f"{level_number(value, unit)} {unit_text(unit)}".strip()


def interval_text(low: float, high: float, unit: str) -> str:
    """Format both ends of an interval: `[2.7, 3.7]`."""
    if is_share(unit):
        return f"[{number_text(100 * low)}, {number_text(100 * high)}]"
    return f"[{number_text(low)}, {number_text(high)}]"


def threshold_text(result: ConditionResult) -> str:
    """Return the threshold with its unit, or a bound of it; a dash where there is neither."""
    attribute, state = result.condition.attribute, result.estimate.state
    if result.value is not None:
        return level_text(result.value, attribute.unit)
    return bound_text(attribute, state) or "–"


def bound_text(attribute: Attribute, state: str) -> str:
    """Return what is known of a threshold outside the range: `< 0.5 px`, `> 32 px`; empty for other states."""
    if state not in ("floor", "ceiling"):
        return ""
    end = attribute.easy if state == "floor" else attribute.hard
    less = (state == "ceiling") == (attribute.sign > 0)
    return f"{'<' if less else '>'} {level_text(end, attribute.unit)}"


def fault_text(result: ConditionResult) -> str:
    """Return what failed, in a few words; empty where nothing did."""
    state, attribute = result.estimate.state, result.condition.attribute
    if state == "floor":
        return "not seen at any level"
    if state == "task not understood":
        return "task not understood"
    fault = curve_fault(result)
    if fault is None:
        return ""
    level = level_text(attribute.value(fault.level), attribute.unit)
    return f"fit fails: a dip at {level}" if fault.kind == "dip" else f"fit fails near {level}"


class PeopleValue(Struct, frozen=True, forbid_unknown_fields=True):
    """What people see of some attributes.

    Attributes:
        attributes: their names.
        text: the value in words.
        source: who measured it.
        basis: `cited`, or `textbook` for a value that is repeated without one source.
        comparable: the value is in the attribute's own unit.
        low, high: ends of the value in that unit; None where it is not comparable.
    """

    attributes: tuple[str, ...]
    text: str
    source: str
    basis: str
    comparable: bool
    low: float | None = None
    high: float | None = None


class PublishedFinding(Struct, frozen=True, forbid_unknown_fields=True):
    """What a published work reports of models on some attributes; its method differs, so it is never a tick on the card."""

    attributes: tuple[str, ...]
    text: str
    source: str


class AcuityFacts(Struct, frozen=True, forbid_unknown_fields=True):
    """All facts of people.toml."""

    people: tuple[PeopleValue, ...]
    models: tuple[PublishedFinding, ...]


@cache
def acuity_facts() -> AcuityFacts:
    """Read people.toml."""
    return msgspec.convert(packaged_toml("snellen.reports.acuity", "people.toml"), AcuityFacts)


def people_value(attribute: str) -> PeopleValue | None:
    """Return what people see of an attribute; None where nothing is known."""
    return next((value for value in acuity_facts().people if attribute in value.attributes), None)


def published_findings(attribute: str) -> list[PublishedFinding]:
    """Return what was published about models on an attribute."""
    return [finding for finding in acuity_facts().models if attribute in finding.attributes]


SHARES = {"wrong": 4, "right": 3, "catch": 2, "unusable": 2}
"""Answers of a condition at most, by group: wrong and right near the threshold, easiest levels, abstained or failed."""
SHARES_IN_WORDS = (
    "of each condition at most 4 wrong and 3 right answers near the threshold, 2 answers at the easiest level, wrong ones "
    "first, and 2 that abstained or failed"
)
_GROUPS = tuple(SHARES)

Drawn = TypeVar("Drawn")


class ThresholdSample(Generic[Drawn]):
    """Draws some answers of every condition of a run, the same ones whatever the order in which they are offered.

    Levels are compared in bins of 0.1 decades. Within a bin the lowest key is drawn; keys follow from the sample and a seed.

    Args:
        view: what the run measured.
        limit: answers at most. With little room every condition gets its first wrong answer before any gets a second one.
    """

    def __init__(self, view: AcuityView, limit: int) -> None:
        self._view, self._limit = view, max(0, limit)
        self._measured = {each.result.condition.key: each.result for each in view.conditions}
        self._heaps: dict[tuple[str, str], list[tuple[tuple[int, int, int], int, Drawn]]] = {}

    def offer(self, answer: AnswerView, key: int, order: int, build: Callable[[], Drawn]) -> None:
        """Take part in the draw; `make` is called only for an answer that may stay."""
        place = self._group(answer)
        heap = self._heaps.setdefault((str(answer.meta.get("condition", "")), place[0]), [])
        rank = (-place[1], -place[2], -key)
        if len(heap) < min(SHARES[place[0]], self._limit):
            heapq.heappush(heap, (rank, order, build()))
        elif heap and rank > heap[0][0]:
            heapq.heapreplace(heap, (rank, order, build()))

    def _group(self, answer: AnswerView) -> tuple[str, int, int]:
        """Return the group of an answer, whether it comes later in it, and its distance from the threshold in bins."""
        score = next(iter(answer.scores.values()), None)
        verdict = "error" if score is None or answer.status != "ok" else score.verdict
        level, result = str(answer.meta.get("level", SAME)), self._measured.get(str(answer.meta.get("condition", "")))
        distance = 0
        if result is not None and level != SAME:
            low, high = result.estimate.interval
            distance = round(abs(float(level) - (low + high) / 2) / BIN)
        if verdict not in ("correct", "wrong"):
            return "unusable", 0, distance
        slot = int(answer.meta.get("slot", 0))
        if result is not None and is_catch(self._view.plan, result.condition.attribute, slot, level):
            return "catch", int(verdict == "correct"), 0
        return ("right" if verdict == "correct" else "wrong"), 0, distance

    def drawn(self) -> list[Drawn]:
        """Return the answers that were drawn, in the order in which they were offered."""
        ranked = [
            ((place, _GROUPS.index(group), condition), order, item)
            for (condition, group), heap in self._heaps.items()
            for place, (_, order, item) in enumerate(sorted(heap, key=lambda entry: entry[0], reverse=True))
        ]
        chosen = heapq.nsmallest(self._limit, ranked, key=lambda entry: entry[0])
        return [item for _, _, item in sorted(chosen, key=lambda entry: entry[1])]


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


POINTS = 81
DRAWS, SEED = 400, 0
LEVELS_AT_ONCE = 8
"""The grid is evaluated at so many levels at once, about 10 MB."""
SIGNIFICANT = 0.01
"""A check fails below this p: 15 conditions have 30 checks, and .05 would fail one of a sound run."""


class CurveBand(Struct, frozen=True):
    """The share of right answers over the range; of same-or-different questions the share of "different".

    Attributes:
        levels: [POINTS] decades, rising.
        mean, low, high: [POINTS] posterior mean, and the ends of 95 % of posterior draws.
    """

    levels: Array
    mean: Array
    low: Array
    high: Array


class PooledAnswers(Struct, frozen=True):
    """Answers of neighbouring levels: mean level in decades, how many, and how many right (or "different")."""

    level: float
    answers: int
    right: int

    @property
    def share(self) -> float:
        """Return the share of right answers."""
        return self.right / self.answers


class CurveFault(Struct, frozen=True):
    """A check that failed: `dip`, or `misfit`; and the level in decades where the answers differ most."""

    kind: str
    level: float


def shares_at(posterior: Posterior, levels: Array) -> Array:
    """Return the posterior mean [n] of the share of right answers at some levels."""
    parts = [np.tensordot(posterior.weights, table, 2) for table in _tables(posterior, levels)]
    return np.concatenate(parts)


def curve_band(result: ConditionResult) -> CurveBand:
    """Evaluate the curve over the range of a condition's levels; draws are seeded, so equal answers give equal bands."""
    posterior, candidates = result.posterior, result.condition.attribute.levels
    levels = np.linspace(candidates[0], candidates[-1], POINTS)
    rows, columns = posterior.draws(DRAWS, np.random.Generator(np.random.Philox(SEED)))
    tail = (1.0 - MASS) / 2
    means, ends = [], []
    for table in _tables(posterior, levels):
        means.append(np.tensordot(posterior.weights, table, 2))
        ends.append(np.quantile(table[rows, columns], (tail, 1.0 - tail), axis=0))
    low, high = np.concatenate(ends, axis=1)
    return CurveBand(levels, np.concatenate(means), low, high)


def _tables(posterior: Posterior, levels: Array) -> list[Array]:
    """Return the share of right answers over the grid, [M, N, n] for each few levels."""
    likelihood = posterior.model.likelihood
    return [
        likelihood(levels[start : start + LEVELS_AT_ONCE])[RIGHT] for start in range(0, len(levels), LEVELS_AT_ONCE)
    ]


def pooled_answers(result: ConditionResult) -> list[PooledAnswers]:
    """Pool answers by level in bins of 0.1 decades; equal pairs have no level."""
    answers = [(level, outcome) for level, outcome in result.answers if level != EQUAL_PAIR]
    if not answers:
        return []
    pooled = pool(answers)
    counts = zip(pooled.level, pooled.answered, pooled.right, strict=True)
    return [PooledAnswers(float(level), int(number), int(right)) for level, number, right in counts]


def false_alarms(result: ConditionResult) -> tuple[int, int] | None:
    """Return how many equal pairs were called different, and how many there were; None where there are none."""
    outcomes = [outcome for level, outcome in result.answers if level == EQUAL_PAIR]
    return (sum(outcome == RIGHT for outcome in outcomes), len(outcomes)) if outcomes else None


def curve_fault(result: ConditionResult) -> CurveFault | None:
    """Return the check of the curve that failed, a dip before a misfit; None if both hold or there was none."""
    points = pooled_answers(result)
    if not points or result.fit_p is None or result.monotone_p is None:
        return None
    right = np.array([point.right for point in points], dtype=np.float64)
    number = np.array([point.answers for point in points], dtype=np.float64)
    if result.monotone_p < SIGNIFICANT:
        surprise = _surprise(right, number, rising_shares(right.astype(int), number.astype(int)))
        return CurveFault("dip", points[int(surprise.argmin())].level)
    if result.fit_p < SIGNIFICANT:
        expected = shares_at(result.posterior, np.array([point.level for point in points]))
        return CurveFault("misfit", points[int(np.abs(_surprise(right, number, expected)).argmax())].level)
    return None


def _surprise(right: Array, number: Array, share: Array) -> Array:
    """Return how many standard deviations the counts lie above the expected ones."""
    spread = np.sqrt(np.maximum(number * share * (1.0 - share), 0.05))
    return np.asarray((right - number * share) / spread)
