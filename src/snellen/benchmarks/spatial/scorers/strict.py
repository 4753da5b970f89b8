"""The strict profile of all spatial benchmarks: careful extractors, and no answer is filled in."""

from __future__ import annotations

from snellen.benchmarks.spatial.question import UNKNOWN_OPTIONS
from snellen.benchmarks.spatial.scorers import spar, vsi
from snellen.scoring.extract import read
from snellen.types import Sample, Score, Text


def strict(sample: Sample, reply: str) -> Score:
    """Score a letter against the gold one, a number by its mean relative accuracy, a view change along its five axes.

    A reply without exactly one answer is `invalid` and worth 0, with the reason; a sample without a gold answer that can be
    compared is unscored. Extractors know the options and the question where those are at hand.
    """
    if sample.kind == "number":
        reading = read("number", reply, question=question_text(sample))
        score = vsi.score_number(None if reading.value is None else float(reading.value), str(sample.meta["gold"]))
        return Score(score.value, score.extracted, score.verdict, reading.reason or score.reason)
    if sample.kind == "choice":
        if not isinstance(sample.target, str) or len(sample.target) != 1:
            return Score(None, None, "unscored", f"the gold answer {sample.meta['gold']!r} is no letter")
        reading = read("choice", reply, question=question_text(sample), options=sample.options or UNKNOWN_OPTIONS)
        if reading.value is None:
            return Score(0.0, None, "invalid", reading.reason)
        right = reading.value == sample.target
        return Score(float(right), reading.value, "correct" if right else "wrong")
    return spar.strict_view_change(reply, str(sample.meta["gold"]))


def question_text(sample: Sample) -> str:
    """Return the texts of the prompt, one a line."""
    return "\n".join(part.text for part in sample.prompt.parts if isinstance(part, Text))
