"""What acuity asks next: a function of the answers alone, condition by condition and round by round.

A round of a condition opens when all eight slots of the one before it are settled. Its levels follow from the answers of
the earlier rounds, folded in the order of their ids. Slots that are recorded stay, whatever would be chosen today.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import lru_cache

from snellen.benchmarks.acuity.attribute import DECIMALS, Attribute
from snellen.benchmarks.acuity.conditions import SURVEY_EACH, SURVEY_LEVELS, AcuityPlan, Condition, plan
from snellen.benchmarks.acuity.questions import QuestionPlace, place_of, question
from snellen.benchmarks.base import Data, ScoredAnswer
from snellen.scoring.psychometrics.curve import (
    ABSTAINED,
    DIFFERENT,
    EQUAL_PAIR,
    EQUAL_SLOTS,
    RIGHT,
    SAME,
    WRONG,
    AnswerModel,
    Posterior,
    choose_levels,
)
from snellen.scoring.psychometrics.estimate import BATCH, CatchTrials, ThresholdEstimate, catch_slots, estimate
from snellen.types import Sample

Answers = tuple[tuple[float, int], ...]
"""Realised level and outcome of each answered question, in the order of the ids."""


@lru_cache(maxsize=128)
def posterior_of(model: AnswerModel, answers: Answers) -> Posterior:
    """Return the posterior after these answers; that of a round before is kept and folded further."""
    if len(answers) <= BATCH:
        return Posterior.start(model).fold(answers)
    whole = (len(answers) - 1) // BATCH * BATCH
    return posterior_of(model, answers[:whole]).fold(answers[whole:])


def outcome_of(condition: Condition, verdict: str, right_is_same: bool) -> int | None:
    """Return the outcome of a verdict; None for a failed question, which is missing for the posterior."""
    if verdict not in ("correct", "wrong", "invalid"):
        return None
    if condition.attribute.form == "same-different":
        if verdict == "invalid":
            return None
        return SAME if (verdict == "correct") == right_is_same else DIFFERENT
    return {"correct": RIGHT, "wrong": WRONG, "invalid": ABSTAINED}[verdict]


def is_catch(acuity_plan: AcuityPlan, attribute: Attribute, slot: int, level: str) -> bool:
    """Return True for a catch trial: the last slot of an adaptive round, else any question at the easiest level."""
    if not acuity_plan.fixed:
        return slot in catch_slots()
    return level == f"{attribute.levels[-1]:.{DECIMALS}f}"


def condition_posterior(acuity_plan: AcuityPlan, condition: Condition, answers: Answers) -> Posterior:
    """Return a condition's posterior: with abstentions as a third outcome from its first one on."""
    abstained = condition.attribute.form != "same-different" and any(outcome == ABSTAINED for _, outcome in answers)
    return posterior_of(condition.model(acuity_plan.shape, abstentions=abstained), answers)


class _Round:
    """The recorded slots of one round: slot to (place, verdict)."""

    def __init__(self) -> None:
        self.slots: dict[int, tuple[QuestionPlace, str]] = {}


class ConditionState:
    """The course of one condition as far as the answers tell: rounds, posterior, estimate.

    An object stands for these very answers, so that what follows from them is computed once.
    """

    def __init__(self, data: Data, acuity_plan: AcuityPlan, condition: Condition, rounds: Mapping[int, _Round]) -> None:
        self.condition, self.rounds = condition, rounds
        self._data, self._plan = data, acuity_plan
        self._open: dict[float, tuple[QuestionPlace, ...]] = {}
        self._questions: dict[float, list[Sample]] = {}

    def answers(self, before: int | None = None) -> Answers:
        """Return the answers of the rounds before this one; None: of all."""
        folded = []
        for number in sorted(self.rounds):
            if before is not None and number >= before:
                break
            for slot in sorted(self.rounds[number].slots):
                place, verdict = self.rounds[number].slots[slot]
                outcome = outcome_of(self.condition, verdict, place.level == EQUAL_PAIR)
                if outcome is not None:
                    folded.append((_realised(self._data, place), outcome))
        return tuple(folded)

    def estimate(self, before: int | None = None) -> ThresholdEstimate:
        """Return the estimate from the rounds before this one; None: from all."""
        answers = self.answers(before)
        question_count = sum(
            len(each.slots) for number, each in self.rounds.items() if before is None or number < before
        )
        return estimate(
            condition_posterior(self._plan, self.condition, answers),
            answered=len(answers),
            asked=question_count,
            catch=self.catch(before),
            width=self._plan.width,
            most=self._plan.limit(self.condition),
            fixed=self._plan.fixed,
        )

    def catch(self, before: int | None = None) -> CatchTrials:
        """Return the catch trials of the rounds before this one."""
        verdicts = [
            verdict
            for number, each in self.rounds.items()
            for slot, (place, verdict) in each.slots.items()
            if (before is None or number < before)
            and verdict != "error"
            and is_catch(self._plan, self.condition.attribute, slot, place.level_text)
        ]
        return CatchTrials(verdicts.count("correct"), len(verdicts))

    def open(self, scale: float) -> tuple[QuestionPlace, ...]:
        """Return the places that are open now: what is missing of the first round that is not complete."""
        if scale not in self._open:
            self._open[scale] = tuple(self._open_places(scale))
        return self._open[scale]

    def questions(self, scale: float) -> list[Sample]:
        """Return the questions at the open places."""
        if scale not in self._questions:
            self._questions[scale] = [question(self._data, place.id) for place in self.open(scale)]
        return self._questions[scale]

    def _open_places(self, scale: float) -> list[QuestionPlace]:
        number = 0
        while number in self.rounds and len(self.rounds[number].slots) == BATCH:
            number += 1
        recorded_slots = self.rounds[number].slots if number in self.rounds else {}
        if not recorded_slots and number and self.estimate(number).state != "open":
            return []
        levels = self._levels(number, {slot: place.level for slot, (place, _) in recorded_slots.items()})
        return [
            QuestionPlace(self.condition.key, number, slot, level, scale)
            for slot, level in enumerate(levels)
            if slot not in recorded_slots
        ]

    def _levels(self, number: int, recorded_slots: dict[int, float]) -> list[float]:
        attribute = self.condition.attribute
        if self._plan.survey:
            return _survey_levels(attribute.levels, number)
        fixed = dict.fromkeys(catch_slots(), attribute.levels[-1])
        if attribute.form == "same-different":
            fixed = {**dict.fromkeys(EQUAL_SLOTS, EQUAL_PAIR), **fixed}
        answers = self.answers(number)
        levels = _chosen_levels(self._plan, self.condition, answers, tuple(sorted(fixed.items())))
        if all(levels[slot] == level for slot, level in recorded_slots.items()):
            return list(levels)
        posterior = condition_posterior(self._plan, self.condition, answers)
        return choose_levels(posterior, BATCH, fixed={**fixed, **recorded_slots})


@lru_cache(maxsize=1024)
def _chosen_levels(
    acuity_plan: AcuityPlan, condition: Condition, answers: Answers, fixed: tuple[tuple[int, float], ...]
) -> tuple[float, ...]:
    return tuple(choose_levels(condition_posterior(acuity_plan, condition, answers), BATCH, fixed=dict(fixed)))


def _survey_levels(levels: Sequence[float], number: int) -> list[float]:
    """Return the levels of a round of the constant design: 12 of them in turn, evenly over the range."""
    spread = [levels[round(step * (len(levels) - 1) / (SURVEY_LEVELS - 1))] for step in range(SURVEY_LEVELS)]
    return [spread[(number * BATCH + slot) % SURVEY_LEVELS] for slot in range(BATCH)]


assert SURVEY_EACH * SURVEY_LEVELS % BATCH == 0  # noqa: S101 - whole rounds


@lru_cache(maxsize=1 << 16)
def _realised_level(seed: int, options: tuple[tuple[str, str], ...], place: QuestionPlace) -> float:
    realised = question(Data(options=dict(options), seed=seed), place.id).meta["realised"]
    return EQUAL_PAIR if realised == "same" else float(str(realised))


def _realised(data: Data, place: QuestionPlace) -> float:
    return _realised_level(data.seed, tuple(sorted(data.options.items())), place)


def states(data: Data, answers: Mapping[str, ScoredAnswer]) -> dict[str, ConditionState]:
    """Return the state of each condition, in the order of the plan."""
    recorded_answers: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for name, answer in answers.items():
        recorded_answers[place_of(name).key].append((name, answer.verdict))
    options = tuple(sorted(data.options.items()))
    return {
        each.key: _state(options, data.seed, number, tuple(recorded_answers[each.key]))
        for number, each in enumerate(plan(data.options).conditions)
    }


@lru_cache(maxsize=512)
def _state(
    options: tuple[tuple[str, str], ...], seed: int, number: int, recorded_answers: tuple[tuple[str, str], ...]
) -> ConditionState:
    """Return the state of one condition of a run. Of all conditions, only one has a new answer when a round opens."""
    data = Data(options=dict(options), seed=seed)
    acuity_plan = plan(data.options)
    rounds: dict[int, _Round] = defaultdict(_Round)
    for name, verdict in recorded_answers:
        place = place_of(name)
        rounds[place.round].slots[place.slot] = (place, verdict)
    return ConditionState(data, acuity_plan, acuity_plan.conditions[number], dict(rounds))


def grow(data: Data, answers: Mapping[str, ScoredAnswer]) -> list[Sample]:
    """Return all questions that are open now.

    Conditions that are scaled by another threshold wait until that one has stopped.
    """
    by_key = states(data, answers)
    opened: list[Sample] = []
    for state in by_key.values():
        scale = _scale(state.condition, state, by_key)
        if scale is not None:
            opened += state.questions(scale)
    return opened


def _scale(condition: Condition, state: ConditionState, by_key: Mapping[str, ConditionState]) -> float | None:
    """Return the length by which a condition's pictures are scaled; 0 without; None: it is not known yet."""
    attribute = condition.attribute
    if not attribute.scaled_by:
        return 0.0
    for each in state.rounds.values():  # recorded questions tell
        for place, _ in each.slots.values():
            return place.scale
    factor, otherwise = attribute.scale
    other = by_key.get(condition.key_of(attribute.scaled_by))
    if other is None:
        return otherwise
    if other.open(0.0):
        return None
    threshold = other.estimate().value
    return otherwise if threshold is None else round(factor * other.condition.attribute.value(threshold), 2)
