"""The answer of a reply is the first JSON object that has one, else a short last line, else there is none."""

from __future__ import annotations

import pytest

from snellen.scoring.json_answer import read
from stopwatch import is_done_within


@pytest.mark.parametrize(
    ("reply", "answer"),
    [
        ('{"answer": "Rose"}', "Rose"),
        ('It is red.\n```json\n{"answer": "Rose", "confidence": 0.9}\n```', "Rose"),
        ('{"note": 1} then {"answer": "Rose"} and {"answer": "Tulip"}', "Rose"),
        ('Not {this} or \\boxed{5}: {"answer": "Rose {red}", "x": {"y": 1}}', "Rose {red}"),
        ('{"result": {"answer": "Rose"}}', "Rose"),
        ('<think>{"answer": "Tulip"}</think>{"answer": "Rose"}', "Rose"),
        ('{"answer": ["Rose", "Tulip"]}', "Rose; Tulip"),
        ('{"answer": 911}', "911"),
        ("I see petals.\nAnswer: **Rose**", "Rose"),
        ("看起来很红。\n答案：玫瑰", "玫瑰"),
        ("Rose", "Rose"),
    ],
)
def test_an_answer_is_read(reply, answer):
    assert read(reply).answer == answer


@pytest.mark.parametrize(
    ("reply", "fault"),
    [
        ("", "it is empty"),
        ("```\n```", "it is empty"),
        ("<think>a rose, I think", "within its thoughts"),
        ('{"answer": ""}', "its answer is empty"),
        ('{"answer": null, "reasoning": "Rose"}', "its answer is empty"),
        ('{"answer": "Ro', "no JSON object"),
        ('{\n"name": "Rose"\n}', "no JSON object"),
        ("...", "no JSON object"),
        ("word " * 100, "a last line of 499 characters"),
    ],
)
def test_a_reply_without_an_answer_says_why(reply, fault):
    found = read(reply)
    assert found.answer == "" and found.how == "nowhere" and fault in found.fault


def test_confidence_evidence_and_reasoning_are_read_where_they_are_well_formed():
    found = read(
        '{"answer": "Rose", "confidence": 0.5, "evidence": [{"url": "u", "note": "n"}, "v"], "reasoning": "r"}'
    )
    assert (found.confidence, found.evidence, found.reasoning) == (0.5, (("u", "n"), ("v", "")), "r")
    assert read('{"answer": "Rose", "confidence": 7, "evidence": "u"}').confidence is None


def test_hostile_replies_are_read_in_bounded_time():
    replies = ("{" * 1_000_000, '{"a":' * 200_000, "[" * 500_000, '{"answer": "\\ud83d"}', "\x00" * 1000)
    assert is_done_within(20, lambda: [read(reply).answer.encode() for reply in replies])
