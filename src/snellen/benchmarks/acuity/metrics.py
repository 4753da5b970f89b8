"""What a run of acuity reports: one threshold a condition, with interval, state and checks.

Scorers of acuity: right, wrong, or an abstention, which is neither.
"""

from __future__ import annotations

import re
from collections import Counter

import numpy as np
from msgspec import Struct

from snellen.benchmarks.acuity.attribute import Attribute
from snellen.benchmarks.acuity.conditions import AcuityPlan, Condition
from snellen.benchmarks.acuity.steering import Answers, condition_posterior, is_catch, outcome_of
from snellen.scoring.extract import correct, read
from snellen.scoring.psychometrics.curve import ABSTAINED, EQUAL_PAIR, Posterior
from snellen.scoring.psychometrics.estimate import CatchTrials, ThresholdEstimate, estimate, fit_p, monotone_p
from snellen.scoring.scores import Scores
from snellen.scoring.statistics.guessing import uniform_fit
from snellen.types import VERDICTS, IntervalMethod, Metric, Sample, Score, Text


def strict(sample: Sample, reply: str) -> Score:
    """Return the option, number or word that the reply names; a reply that names none, or two, is an abstention."""
    question = sample.prompt.parts[-1]
    assert isinstance(question, Text)  # noqa: S101 - every question of acuity ends with its text
    if sample.kind == "short":
        return _letters(sample, reply)
    form = str(sample.meta["form"]) if sample.kind == "truth" else None
    reading = read(sample.kind, reply, question=question.text, options=sample.options, form=form)
    if reading.value is None:
        return Score(0.0, None, "invalid", reading.reason)
    target = int(sample.target) if sample.kind == "count" else sample.target
    right = correct(sample.kind, reading.value, target)
    detail = {"option": _option(reading.value)} if sample.kind in ("choice", "choice_text", "truth") else {}
    return Score(float(right), reading.value, "correct" if right else "wrong", reading.reason, detail)


def _option(value: object) -> str:
    """Return the letter or word of the option that was chosen."""
    return ("yes" if value else "no") if isinstance(value, bool) else str(value)


def _letters(sample: Sample, reply: str) -> Score:
    """Return the last run of five capitals of a reply, with or without spaces between them."""
    runs = re.findall(r"\b[A-Z](?:[ ,-]{0,2}[A-Z]){4}\b", reply.upper() if reply.strip().isalpha() else reply)
    if not runs:
        return Score(0.0, None, "invalid", "no five letters in the reply")
    word = re.sub("[^A-Z]", "", runs[-1])
    right = word == sample.target
    return Score(float(right), word, "correct" if right else "wrong")


METHOD = IntervalMethod("posterior of the threshold, equal tails")


class Quantiles(Struct, frozen=True):
    """The median of a quantity's posterior, and the ends of its 95 % interval."""

    value: float
    low: float
    high: float

    @classmethod
    def of(cls, posterior: Posterior, name: str) -> Quantiles:
        """Return those of a nuisance parameter; each is one of its grid values."""
        low, middle, high = posterior.nuisance(name)
        return cls(middle, low, high)


class OptionBias(Struct, frozen=True):
    """How wrong replies are spread over the options.

    Attributes:
        wrong: wrong replies that name an option.
        option: the commonest one, a letter or a word.
        share: of the wrong replies.
        p: of evenly spread wrong replies (Pearson's chi-square): small where one option is preferred.
    """

    wrong: int
    option: str
    share: float
    p: float


class ConditionResult(Struct, frozen=True):
    """What is known of one condition.

    Attributes:
        condition: which.
        estimate: threshold and state, in decades.
        value, low, high: the same in the attribute's unit; `low` is the smaller number. `value` is None where the state
            allows no threshold.
        posterior: over the grid.
        answers: realised level and outcome, in the order of the ids.
        abstained: share of answers that are abstentions.
        catch: catch trials.
        fit_p, monotone_p: small where the curve does not fit, or does not rise; None for same-or-different questions.
        width: of the curve from 5 to 95 % seen, in decades; None for same-or-different questions.
        lapse: share of slips.
        false_alarms: share of equal pairs that are called different; None but for same-or-different questions.
        options: how wrong replies are spread over the options; None without options or wrong replies.
    """

    condition: Condition
    estimate: ThresholdEstimate
    value: float | None
    low: float
    high: float
    posterior: Posterior
    answers: Answers
    abstained: float
    catch: CatchTrials
    fit_p: float | None
    monotone_p: float | None
    width: Quantiles | None
    lapse: Quantiles
    false_alarms: Quantiles | None
    options: OptionBias | None


def results(acuity_plan: AcuityPlan, scores: Scores) -> list[ConditionResult]:
    """Return the result of each condition that has an answer."""
    by_key = dict(scores.by("condition"))
    complete = len(scores) >= scores.expected
    return [
        _result(acuity_plan, condition, by_key[condition.key], complete=complete)
        for condition in acuity_plan.conditions
        if condition.key in by_key
    ]


def _result(acuity_plan: AcuityPlan, condition: Condition, rows: Scores, *, complete: bool) -> ConditionResult:
    attribute = condition.attribute
    names = {
        name: np.array([*column.names, ""])[column.codes]
        for name, column in rows.meta.items()
        if name in ("round", "slot", "level", "realised", "option")
    }
    order = sorted(range(len(rows)), key=lambda row: (int(names["round"][row]), int(names["slot"][row])))
    folded: list[tuple[float, int]] = []
    hits: Counter[bool] = Counter()
    wrong: Counter[str] = Counter()
    for row in order:
        verdict = VERDICTS[rows.verdict[row]]
        equal = names["level"][row] == "same"
        level = EQUAL_PAIR if equal else float(names["realised"][row])
        outcome = outcome_of(condition, verdict, equal)
        if outcome is not None:
            folded.append((level, outcome))
        if verdict != "error" and is_catch(acuity_plan, attribute, int(names["slot"][row]), str(names["level"][row])):
            hits[verdict == "correct"] += 1
        if verdict == "wrong" and "option" in names and names["option"][row]:
            wrong[str(names["option"][row])] += 1
    answers, catch = tuple(folded), CatchTrials(hits[True], hits[True] + hits[False])
    posterior = condition_posterior(acuity_plan, condition, answers)
    threshold_estimate = estimate(
        posterior,
        answered=len(answers),
        asked=len(rows),
        catch=catch,
        width=acuity_plan.width,
        most=len(rows) + (not complete) if acuity_plan.design == "like" else acuity_plan.limit(condition),
        fixed=acuity_plan.fixed,
    )
    ends = sorted(attribute.value(end) for end in threshold_estimate.interval)
    graded = attribute.form != "same-different"
    return ConditionResult(
        condition,
        threshold_estimate,
        None if threshold_estimate.value is None else attribute.value(threshold_estimate.value),
        ends[0],
        ends[1],
        posterior,
        answers,
        sum(outcome == ABSTAINED for _, outcome in answers) / max(1, len(answers)) if graded else 0.0,
        catch,
        fit_p(posterior, answers) if graded else None,
        monotone_p(answers) if graded else None,
        Quantiles.of(posterior, "width") if graded else None,
        Quantiles.of(posterior, "lapse"),
        None if graded else Quantiles.of(posterior, "false_alarms"),
        _option_bias(attribute, wrong) if graded else None,
    )


def _option_bias(attribute: Attribute, wrong: Counter[str]) -> OptionBias | None:
    """Return how wrong replies are spread; right options are balanced, so that guesses are wrong equally often at each."""
    if not wrong or not attribute.options:
        return None
    counts = [wrong[option] for option in sorted(wrong)]
    counts += [0] * (len(attribute.options) - len(counts))
    option = min(wrong, key=lambda each: (-wrong[each], each))
    total = sum(counts)
    return OptionBias(total, option, wrong[option] / total, uniform_fit([counts]).p_value)


def threshold_metrics(acuity_plan: AcuityPlan, measured: list[ConditionResult]) -> list[Metric]:
    """Return one metric a condition: `threshold/gap`, in the attribute's unit; `n` is the number of questions."""
    metrics = []
    for result in measured:
        threshold_estimate = result.estimate
        stopped = threshold_estimate.state != "open"
        metrics.append(
            Metric(
                f"threshold/{acuity_plan.label(result.condition)}",
                result.value,
                threshold_estimate.asked,
                (result.low, result.high) if result.value is not None else None,
                result.condition.attribute.unit,
                1.0
                if stopped
                else threshold_estimate.asked / max(threshold_estimate.asked + 1, acuity_plan.limit(result.condition)),
                None,
                METHOD if result.value is not None else None,
                lower_is_better=result.condition.attribute.sign > 0,
            )
        )
    return metrics


def snellen_fraction(gap: float) -> str:
    """Return 20/x for a gap in pixels: a gap of one pixel is 20/20."""
    return f"20/{20 * gap:.0f}" if gap >= 0.5 else f"20/{20 * gap:.1f}"
