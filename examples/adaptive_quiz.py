"""An adaptive quiz: sums get longer after right answers and shorter after wrong ones, so that few questions find the limit.

PYTHONPATH=examples snellen run adaptive_quiz:QUIZ --model MODEL
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from snellen import Benchmark, Data, Metric, Prompt, Sample, Score, Scores, Text
from snellen.benchmarks.base import ScoredAnswer
from snellen.benchmarks.chart.rng import Stream

ROUNDS, SLOTS, START = 8, 4, 2
ID = re.compile(r"round(\d\d)/q(\d)/digits(\d\d?)")


def question(data: Data, sample_id: str) -> Sample:
    """Make a question from its id, which holds round, slot and number of digits; the seed does the rest."""
    if (match := ID.fullmatch(sample_id)) is None:
        raise ValueError(f"{sample_id!r} is no question of this quiz")
    round_number, _, digits = match.groups()
    stream = Stream("quiz", data.seed, sample_id)
    first, second = (stream.between(10 ** (int(digits) - 1), 10 ** int(digits) - 1) for _ in range(2))
    prompt = Prompt((Text(f"{first} + {second} = ? Reply with the number."),))
    meta = {"digits": digits, "round": round_number}
    return Sample(sample_id, prompt, first + second, "number", group="sums", meta=meta)


def first_round(data: Data) -> Iterator[Sample]:
    return (question(data, f"round00/q{slot}/digits{START}") for slot in range(SLOTS))


def grow(data: Data, answers: Mapping[str, ScoredAnswer]) -> Sequence[Sample]:
    """Return what is missing of the first incomplete round; its digits follow from the rounds before it."""
    rounds: dict[int, dict[int, str]] = defaultdict(dict)
    for name in answers:
        number, slot, _ = ID.fullmatch(name).groups()  # type: ignore[union-attr]
        rounds[int(number)][int(slot)] = name
    digits = START
    for number in range(ROUNDS):
        if missing := [slot for slot in range(SLOTS) if slot not in rounds[number]]:
            return [question(data, f"round{number:02}/q{slot}/digits{digits}") for slot in missing]
        right = sum(answers[name].verdict == "correct" for name in rounds[number].values())
        digits = max(1, digits + (1 if right >= SLOTS - 1 else -1))
    return []


def score(sample: Sample, reply: str) -> Score:
    numbers = re.findall(r"-?\d+", reply.replace(",", ""))
    if not numbers:
        return Score(0.0, None, "invalid", "no number")
    right = int(numbers[-1]) == sample.target
    return Score(float(right), numbers[-1], "correct" if right else "wrong")


def summarize(scores: Scores, profile: str) -> list[Metric]:
    """Return the mean number of digits of the later half of the rounds."""
    late = [rows.meta["digits"].numbers() for number, rows in scores.by("round") if int(number) >= ROUNDS // 2]
    digits = [float(value) for column in late if column is not None for value in column]
    mean = sum(digits) / len(digits) if digits else None
    return [Metric("digits", mean, len(digits), coverage=len(scores) / scores.expected, unit="digits")]


QUIZ = Benchmark(
    name="adaptive-quiz",
    version="1",
    samples=first_round,
    score={"strict": score},
    summarize=summarize,
    profiles={"strict": "the last number of the reply is the sum"},
    grow=grow,
    sample=question,
)
