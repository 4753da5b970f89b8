"""Summaries of runs whose replies a judge scores."""

from __future__ import annotations

from dataclasses import replace

from engine.stubs import ARITHMETIC
from snellen.runs.scoring import SummaryBuilder
from snellen.scoring.rubric import load_rubric
from snellen.types import Prompt, Record, Response, Sample, Score, Text


def test_what_a_judge_says_of_replies_is_no_answer_that_is_voted_for():
    sample = Sample("q", Prompt((Text("?"),)), "A", "judged")
    other = Sample("r", Prompt((Text("?"),)), "A", "judged")
    for judged in (True, False):
        rubric = load_rubric("match") if judged else None
        builder = SummaryBuilder(replace(ARITHMETIC, rubric=lambda _, it=rubric: it), dict(ARITHMETIC.score))
        for asked in (sample, other):
            for repeat in range(2):
                record = Record(asked.id, "ok", response=Response("x"), repeat=repeat)
                builder.add(asked, record, {"strict": Score(0.5 * repeat, "yes", "partial")})
        names = [metric.name for metric in builder.build(None).metrics["strict"]]
        assert "avg@2" in names and ("majority@2" in names) != judged
