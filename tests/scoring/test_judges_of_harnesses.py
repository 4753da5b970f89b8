"""Replies of judges with what the harnesses' own code reads in them, beside what a rubric of the same form reads here.

Source: VLMEvalKit at e8e78f0, lmms-eval 0.7.3, and the scripts of MM-Vet, BabyVision and WorldVQA. None stands for a reply that is asked
for again, left out or, in SimpleVQA, in none of the three classes.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from snellen.scoring.rubric import Schema, built_in, score_verdict

HELD = json.loads((Path(__file__).parent / "data" / "judge_verdicts.json").read_text("utf-8"))
FORMS: dict[str, Any] = HELD["forms"]
SEEN_THROUGH = ("<think>", "```", "\t", '{"verdict"', '{"score"')
"""Marks of a reply that is read here and is no verdict for a harness, or another one: thoughts, a fence, a reason, and an object."""


def schema_of(form: str) -> Schema:
    verdict = FORMS[form]["verdict"]
    return built_in(verdict).verdict if isinstance(verdict, str) else msgspec.convert(verdict, Schema)


def reading(reply: str, schema: Schema) -> float | str | None:
    """Return the value of a verdict, of three classes the label; None for a reply that is left unread."""
    score = score_verdict(reply, schema)
    return score.extracted if len(schema.labels) == 3 else score.value


@pytest.mark.parametrize("form", FORMS)
def test_a_rubric_in_the_form_of_a_harness_reads_these_replies_and_no_others(form: str) -> None:
    schema = schema_of(form)
    assert [reading(reply, schema) for reply, _ in FORMS[form]["replies"]] == [
        read for _, read in FORMS[form]["replies"]
    ]


@pytest.mark.parametrize("judge", HELD["judges"], ids=lambda judge: judge["name"])
def test_a_verdict_that_is_read_is_the_one_that_the_harness_reads(judge: dict[str, Any]) -> None:
    pairs = FORMS[judge["replies"]]["replies"]
    plain = [
        (reply, read, value)
        for (reply, read), value in zip(pairs, judge["values"], strict=True)
        if read is not None and not any(mark in reply for mark in SEEN_THROUGH) and reply == reply.strip(" ")
    ]
    assert [(reply, read) for reply, read, _ in plain] == [(reply, value) for reply, _, value in plain]
    assert len(pairs) >= 40 and (plain or judge["replies"] in ("label", "points"))  # both are asked for an object here
