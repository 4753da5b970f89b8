"""Scorers of FIKA-Bench: a strict judge alone decides, and only `correct` counts.

Verdict classes and wording of the rubric are ours (snellen/scoring/rubrics/fika.toml).
"""

from __future__ import annotations

from functools import cache

from snellen.benchmarks.base import Judged
from snellen.benchmarks.fika.samples import FikaQuestion
from snellen.scoring import json_answer
from snellen.scoring.rubric import Rubric, built_in, gold_forms, plain_letters
from snellen.types import Sample, Score, Text


@cache
def fika_rubric() -> Rubric:
    return built_in("fika")


def rubric(sample: Sample) -> Rubric:
    """Return the rubric of every sample: those that cannot be read stay in the denominator too."""
    return fika_rubric()


def judged_text(sample: Sample, reply: str) -> Judged | None:
    """Return the data set's question and the answer as it was read; None where the reply has no answer.

    Neither the reasoning nor the evidence goes to the judge, nor what we asked around the question.
    """
    parsed = json_answer.read(reply)
    if not parsed.answer:
        return None
    question = next((part.question for part in sample.prompt.parts if isinstance(part, FikaQuestion)), None)
    return Judged(question if question is not None else _all_text(sample), parsed.answer)


def unjudged(sample: Sample, reply: str) -> Score:
    """Score a reply without an answer 0, as invalid.

    One with an answer is unscored until a judge has read it.
    """
    parsed = json_answer.read(reply)
    if not parsed.answer:
        return Score(0.0, None, "invalid", parsed.fault)
    return Score(None, parsed.answer, "unscored", "not judged yet: snellen judge RUN")


def ruled_correct(sample: Sample, answer: str) -> bool:
    """Return True if the answer is the gold answer or an alias: the same letters and digits in order."""
    plain = plain_letters(answer)
    return bool(plain) and plain in map(plain_letters, gold_forms(sample))


def _all_text(sample: Sample) -> str:
    return "\n".join(part.text for part in sample.prompt.parts if isinstance(part, Text))
